from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.strategies.summariser import percent, smaller
from bench.turns import count_turns
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Recorded:
    """What the recorded product itself left at this compaction, taken from the recording.

    The product decides: the head may be gone (a transcript of Claude Code holds no system prompt), the tail may be
    swallowed, messages may be rewritten. Nothing is computed here but the line that accounts for it; there is nothing to
    take where the product did not compact.
    """

    name: ClassVar[str] = "recorded"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "the recorded product"
    needs_model: ClassVar[bool] = False

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        recorded = request.recorded
        if recorded is None or recorded.left is None:
            return Compaction(tuple(context), "noop", "there is no recorded compaction here")
        counts = f"{count_turns(context)} → {count_turns(recorded.left)} messages"
        return Compaction(
            recorded.left,
            "noop" if recorded.left == tuple(context) else "applied",
            f"{'summary' if recorded.summary else 'recorded'}: {counts} · {percent(smaller(context, recorded.left))}",
            details={
                "trigger": recorded.trigger,
                "tokens_before": recorded.tokens_before,
                "tokens_after": recorded.tokens_after,
            },
        )
