from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.strategies.removal import drop_oldest_first
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Oldest:
    """Oldest removal (seed 000 section 4; Cipher's oldest-removal, commit 095337e, from its facts only).

    Drops the oldest messages until the context meets its target or only `min_turns` turns are left. Two differences
    from the published one: a call and its results go together (it has no pair integrity), and the experiment's head
    and tail stay (it protects system messages only, so it can drop the first user message; so does this one).
    """

    min_turns: int = 4
    name: ClassVar[str] = "oldest"
    version: ClassVar[str] = "1"
    needs_model: ClassVar[bool] = False

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        pinned = {*range(request.head), *range(len(context) - request.tail, len(context))}
        return drop_oldest_first(context, request, pinned, self.min_turns)
