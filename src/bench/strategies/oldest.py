from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.strategies.removal import checked, drop_oldest_first
from bench.turns import turns
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Oldest:
    """Oldest removal (seed 000 section 4; Cipher's oldest-removal, commit 095337e, from its facts only).

    Drops the oldest messages until the context meets its target or only `min_turns` turns are left. By default, what
    makes sense: a call and its results go together, and the experiment's head and tail stay. `faithful=True` is what
    was published: turns go one by one in the order of their times (in list order when a message has none), nothing but
    the system role is protected, so that the first user message, a pinned instruction file and the tail can go and a
    result can lose its call; a result with fewer than `min_turns` turns, or not smaller, is refused (no-op).
    """

    min_turns: int = 4
    faithful: bool = False
    name: ClassVar[str] = "oldest"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 000 section 4; Cipher 095337e"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.min_turns < 0:
            raise ValueError("min_turns is 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        if self.faithful:
            return self._published(context, request)
        pinned = {*range(request.head), *range(len(context) - request.tail, len(context))}
        return drop_oldest_first(context, request, pinned, self.min_turns)

    def _published(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        tokens = request.count(context)
        if tokens <= request.target_tokens:
            return Compaction(tuple(context), "noop", f"{tokens} tokens are within the target of {request.target_tokens}")
        found = turns(context)
        left, dropped = len(found), set[int]()
        times = [message.at for message in context]
        if None not in times:
            found.sort(key=lambda turn: times[turn.start])  # stable: equal times stay in list order
        for turn in found:
            if tokens <= request.target_tokens or left <= self.min_turns:
                break
            if context[turn.start].role != "system":
                tokens -= request.count(context[turn.start : turn.stop])
                left -= 1
                dropped.update(turn)
        kept = [message for index, message in enumerate(context) if index not in dropped]
        return checked(context, kept, request, self.min_turns)
