"""Simple ratios of a compaction. Reported, never ranked by."""

from __future__ import annotations

from bench.efficiency import message_preservation, seed_efficiency, token_reduction

__all__ = ["compression_ratio", "message_preservation", "seed_efficiency", "token_reduction"]


def compression_ratio(before: int, after: int) -> float | None:
    """before / after: 2 means half the tokens are left. None when nothing is left."""
    return before / after if after else None
