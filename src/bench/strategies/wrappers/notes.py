from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.strategies.notes import add_notes
from bench.strategies.wrappers import compacted, noted
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Notes:
    """Notes in the kept assistant messages that name the calls that are gone (seed 003, prune mode)."""

    name: ClassVar[str] = "notes"
    version: ClassVar[str] = "1"
    privileged: ClassVar[bool] = False
    prompts: ClassVar[tuple[str, ...]] = ("gemini_note",)

    def wrap(self, context: Sequence[Message], made: Compaction, request: CompactionRequest) -> Compaction:
        if not compacted(context, made):
            return made
        messages = add_notes(context, made.messages)
        changed = sum(before != after for before, after in zip(made.messages, messages, strict=True))
        return noted(made, self, f"{changed} messages" if changed else "nothing to note", messages, notes=changed)
