from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Prune:
    """Pruning of large tool results (seed 004 section 24.6).

    Walks backward over messages, and over the results of one batch too, so that "newest" is an order among results: the
    newest `keep_recent` results stay, an older one whose text is over `keep_bytes` UTF-8 bytes is replaced by a stub
    with its size and the way to get it back. Calls, other messages and smaller results stay.

    The seed's two caveats. Everything from the first replaced result onward is a cache miss on the next turn, so that
    turn is expensive. And there was no published measurement that selective pruning outperforms a full reset on
    software engineering tasks: the seed calls the benefit unmeasured. Here it is measured.
    """

    keep_bytes: int = 2_000
    keep_recent: int = 3
    name: ClassVar[str] = "prune"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 004 section 24.6"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.keep_bytes < 0 or self.keep_recent < 0:
            raise ValueError("keep_bytes and keep_recent are 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        kept, results, pruned = list(context), 0, 0
        for index in range(len(context) - 1, -1, -1):
            message = context[index]
            if message.role != "tool":
                continue
            results += 1
            size = len(message.text.encode())
            if results > self.keep_recent and size > self.keep_bytes:
                kept[index] = replace(message, text=stub(size), images=0)
                pruned += 1
        if not pruned:
            return Compaction(tuple(context), "noop", f"no older result is over {self.keep_bytes} bytes")
        return Compaction(tuple(kept), "applied", f"{pruned} of {results} results replaced by a stub")


def stub(size: int) -> str:
    """What stands in a pruned result's place; under any sensible `keep_bytes`, so pruning twice changes nothing."""
    return f"[{size} bytes of tool output were pruned here; call the tool again if you need them]"
