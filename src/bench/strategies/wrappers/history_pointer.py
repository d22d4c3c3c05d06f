from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.prompts import render
from bench.strategies.summariser import written
from bench.strategies.wrappers import compacted, noted
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class HistoryPointer:
    """A message that names a file with the history as it was before, to be searched for details (seed 000 section 3).

    After Cursor; deepagents names its file the same way. The message stands where the dropped part stood: behind the
    head, and behind the summary that the strategy put there, with its acknowledgement if it has one. No file is written:
    an agent without a tool to search it knows no more than before.
    """

    name: ClassVar[str] = "history_pointer"
    version: ClassVar[str] = "1"
    privileged: ClassVar[bool] = False
    prompts: ClassVar[tuple[str, ...]] = ("history_pointer",)

    def wrap(self, context: Sequence[Message], made: Compaction, request: CompactionRequest) -> Compaction:
        if not compacted(context, made):
            return made
        path = f"history/{re.sub(r'[^A-Za-z0-9_.-]', '-', request.session) or 'session'}.md"
        pointer = written(render("history_pointer", path=path), "pointer")
        if any(message.id == pointer.id for message in made.messages):
            return noted(made, self, "it is already there", history_file=path)
        place = _place(context, made.messages, request.head)
        return noted(made, self, path, (*made.messages[:place], pointer, *made.messages[place:]), history_file=path)


def _place(context: Sequence[Message], left: Sequence[Message], head: int) -> int:
    place = 0
    while place < min(head, len(left)) and left[place].id == context[place].id:
        place += 1
    own = {message.id for message in context}
    if place < len(left) and left[place].id not in own:  # a summary
        place += 1
        while place < len(left) and left[place].role == "assistant" and left[place].id not in own:
            place += 1
    return place
