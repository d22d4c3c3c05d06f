from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.strategies.removal import checked, drop_oldest_first
from bench.turns import turns
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Middle:
    """Middle removal (seed 000 section 4; Cipher's middle-removal, commit 095337e, from its facts only).

    The first `preserve_start` and the last `preserve_end` turns that are not system messages stay. By default, what the
    description intends: the middle is dropped oldest first, a call and its results together, until the target is met;
    the experiment's tail stays whole. `faithful=True` is what was published: its list of kept messages holds the two
    ends only, so the whole middle goes whatever the target is; calls and results can be torn apart at both edges, the
    tail beyond `preserve_end` goes too, and a result with fewer than `min_turns` turns is refused (no-op).
    """

    preserve_start: int = 4
    preserve_end: int = 5
    min_turns: int = 4
    faithful: bool = False
    name: ClassVar[str] = "middle"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 000 section 4; Cipher 095337e"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if min(self.preserve_start, self.preserve_end, self.min_turns) < 0:
            raise ValueError("preserve_start, preserve_end and min_turns are 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        if self.faithful:
            return self._published(context, request)
        ends = self._ends(context, start=request.head)
        pinned = {*range(request.head), *range(len(context) - request.tail, len(context))}
        return drop_oldest_first(context, request, pinned | ends, self.min_turns)

    def _ends(self, context: Sequence[Message], start: int) -> set[int]:
        removable = [[start + i for i in turn] for turn in turns(context[start:]) if context[start + turn.start].role != "system"]
        last = removable[len(removable) - self.preserve_end :] if self.preserve_end < len(removable) else removable
        return {index for turn in removable[: self.preserve_start] + last for index in turn}

    def _published(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        tokens = request.count(context)
        if tokens <= request.target_tokens:
            return Compaction(tuple(context), "noop", f"{tokens} tokens are within the target of {request.target_tokens}")
        ends = self._ends(context, start=0)
        kept = tuple(m for index, m in enumerate(context) if m.role == "system" or index in ends)
        return checked(context, kept, request, self.min_turns)
