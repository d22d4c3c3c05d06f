from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.turns import units
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class TrimTools:
    """Tool-round trimming (seed 000 section 3): the newest `keep` rounds stay, older ones go.

    A round is an assistant message with calls and all results of them; parallel calls are one round. Every message that
    is not part of an older round stays, and so does what the assistant said beside its calls (`keep_text`); a message
    left without text goes. A round at the end whose results are still missing always stays.
    """

    keep: int = 3
    keep_text: bool = True
    name: ClassVar[str] = "trim_tools"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 000 section 3"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.keep < 0:
            raise ValueError("keep is 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        rounds = [unit for unit in units(context) if context[unit[0]].calls]
        old = rounds[: len(rounds) - self.keep] if self.keep < len(rounds) else []
        if old and _unfinished(context, old[-1]) and old[-1][-1] == len(context) - 1:
            old = old[:-1]
        if not old:
            return Compaction(tuple(context), "noop", f"{len(rounds)} tool rounds, {self.keep} are kept")
        stripped = {unit[0] for unit in old}
        gone = {index for unit in old for index in unit[1:]}
        kept = []
        for index, message in enumerate(context):
            if index in stripped:
                if self.keep_text and message.text.strip():
                    kept.append(replace(message, calls=()))
            elif index not in gone:
                kept.append(message)
        return Compaction(tuple(kept), "applied", f"{len(old)} of {len(rounds)} tool rounds dropped")


def _unfinished(context: Sequence[Message], unit: Sequence[int]) -> bool:
    answered = {context[index].call_id for index in unit[1:]}
    return any(call.id not in answered for call in context[unit[0]].calls)
