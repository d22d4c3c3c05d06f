"""Making a conversation fit a number of characters: the longest outputs lose their middle (A4 of the specification)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.strategies.transcript import transcript
from bench.types import Message, ModelError

OVERHEAD = 40  # characters that the rule allows for an omission note


def fitted(messages: Sequence[Message], limit: int, labels: Mapping[str, str] | None = None) -> str:
    """The transcript of `messages` in at most `limit` characters: whole, or with the longest outputs cut to one cap.

    ModelError when it does not fit even with every output cut to nothing.
    """
    whole = transcript(messages, labels=labels)
    if len(whole) <= limit:
        return whole
    outputs = {index: message.text for index, message in enumerate(messages) if message.role == "tool"}
    sizes = [len(text) for text in outputs.values()]
    cap = common_cap(sizes, limit - (len(whole) - sum(sizes)))
    if cap is None:
        raise ModelError("window", f"the conversation is over {limit:,} characters even without its outputs")
    return transcript(messages, outputs={index: shortened(text, cap) for index, text in outputs.items()}, labels=labels)


def common_cap(sizes: Sequence[int], room: int) -> int | None:
    """The largest cap with which all outputs fit into `room`, by bisection; None when no cap does.

    An output over the cap counts as the cap and an omission note, or as itself when that is less.
    """
    fits, over = -1, max(sizes, default=0) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if sum(min(size, middle + OVERHEAD) for size in sizes) <= room:
            fits = middle
        else:
            over = middle
    return None if fits < 0 else fits


def shortened(text: str, cap: int) -> str:
    """Half a cap of the head and of the tail around an omission note; never longer than `cap + OVERHEAD`."""
    half = cap // 2
    if len(text) <= cap + OVERHEAD:
        return text
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"
