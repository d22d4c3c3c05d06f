from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Identity:
    """No compaction: the context as it is, labelled no-op. The upper bound that every other strategy is held against."""

    name: ClassVar[str] = "none"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "control: the upper bound"
    needs_model: ClassVar[bool] = False

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        return Compaction(tuple(context), "noop", "no compaction")
