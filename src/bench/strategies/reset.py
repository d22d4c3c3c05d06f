from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Reset:
    """A full reset without a handoff: head and tail only, the span is gone. The lower bound."""

    name: ClassVar[str] = "reset"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "control: the lower bound"
    needs_model: ClassVar[bool] = False

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        span = len(context) - request.head - request.tail
        if not span:
            return Compaction(tuple(context), "noop", "there is nothing between head and tail")
        kept = tuple(context[: request.head]) + tuple(context[request.head + span :])
        return Compaction(kept, "applied", f"{span} messages dropped")
