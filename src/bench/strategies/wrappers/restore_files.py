from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.strategies.restore import BUDGETS, PROMPTS, restored
from bench.strategies.wrappers import compacted, noted
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class RestoreFiles:
    """The files last read and the todo list, brought back behind what the strategy left (Claude Code, spec A2c).

    `restore` says by whose budgets: `v1` is 1.0.33, `v2` is 2.1.88. Files are as the session knew them.
    """

    restore: str = "v2"
    name: ClassVar[str] = "restore_files"
    version: ClassVar[str] = "1"
    privileged: ClassVar[bool] = False
    prompts: ClassVar[tuple[str, ...]] = PROMPTS

    def __post_init__(self) -> None:
        if self.restore not in BUDGETS:
            raise ValueError(f"restore is {' or '.join(BUDGETS)}")

    def wrap(self, context: Sequence[Message], made: Compaction, request: CompactionRequest) -> Compaction:
        if not compacted(context, made):
            return made
        brought = restored(context, made.messages, request, self.restore)
        said = f"{len(brought)} messages" if brought else "nothing to bring back"
        return noted(made, self, said, (*made.messages, *brought), restored=len(brought))
