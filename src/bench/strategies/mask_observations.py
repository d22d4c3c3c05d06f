from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.turns import turns
from bench.types import Compaction, CompactionRequest, Message

_STUB = re.compile(r"\[\d+ lines(?: and \d+ images)? of older output are left out\]")


@dataclass(frozen=True)
class MaskObservations:
    """Masks all but the newest `n` observations: a line says how long each was (SWE-agent's last_n_observations, 3ea751c).

    With `count` observations, those from the second up to number `count` rounded down to a multiple of `polling`, minus
    `n`, are masked: so between `n` and `n + polling - 1` stay, and the prompt cache breaks every `polling` steps
    only. The first observation is never masked. There it is the task, an observation like any other to the rule; here the
    user message before the first result stands for it, and without one the first result is the first observation.

    SWE-agent has one observation a step, so all results of a turn are one. A recording whose observations are user
    messages has none here, and no recording has the tags by which SWE-agent keeps or masks single outputs. A masked result
    is never masked again. As in the source, a result shorter than its stub is masked too.
    """

    n: int = 5
    polling: int = 1
    name: ClassVar[str] = "mask_observations"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "SWE-agent 3ea751c, last_n_observations"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.n < 1 or self.polling < 1:
            raise ValueError("n and polling are 1 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        observations = [turn for turn in turns(context) if context[turn.start].role == "tool"]
        if observations and any(message.role == "user" for message in context[: observations[0].start]):
            observations.insert(0, range(0))  # the task
        last = max(0, len(observations) // self.polling * self.polling - self.n)
        kept, masked = list(context), 0
        for turn in observations[1:last]:
            for index in turn:
                if not _STUB.fullmatch(context[index].text):
                    kept[index] = replace(context[index], text=stub(context[index]), images=0)
                    masked += 1
        if not masked:
            return Compaction(tuple(context), "noop", f"nothing to mask in {len(observations)} observations")
        return Compaction(tuple(kept), "applied", f"{masked} results masked, of {len(observations)} observations")


def stub(message: Message) -> str:
    """What stands in a masked result's place."""
    images = f" and {message.images} images" if message.images else ""
    return f"[{len(message.text.splitlines())} lines{images} of older output are left out]"
