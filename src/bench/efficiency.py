"""Seed 000's efficiency, one formula for both that use it: the strategy `hybrid` chooses by it, a measure reports it."""

from __future__ import annotations

TOKEN_WEIGHT, MESSAGE_WEIGHT = 0.6, 0.4  # seed 000, section 4.4


def token_reduction(before: int, after: int) -> float:
    """(before - after) / before; negative when the context grew."""
    return (before - after) / before if before else 0.0


def message_preservation(before: int, after: int) -> float:
    """Turns after / turns before."""
    return after / before if before else 0.0


def seed_efficiency(
    tokens_before: int, tokens_after: int, turns_before: int, turns_after: int, rounding: int | None = None
) -> float:
    """Seed 000's efficiency: .6 x token reduction + .4 x message preservation.

    With `rounding=3` both components are rounded first, which gives the two figures the seed prints (.5066, .4804).
    Deleting everything scores .60 and keeping everything .40, so nothing is ranked by it.
    """
    reduction = token_reduction(tokens_before, tokens_after)
    preservation = message_preservation(turns_before, turns_after)
    if rounding is not None:
        reduction, preservation = round(reduction, rounding), round(preservation, rounding)
    return TOKEN_WEIGHT * reduction + MESSAGE_WEIGHT * preservation
