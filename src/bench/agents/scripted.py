from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from bench.types import Answer, Message, Question


@dataclass(frozen=True)
class Scripted:
    """Answers from a table of question id -> answer, else abstains. With an empty table it is the blind agent."""

    answers: Mapping[str, str] = field(default_factory=dict)
    name: ClassVar[str] = "scripted"
    version: ClassVar[str] = "1"
    label: ClassVar[str] = "scripted"

    def answer(self, context: Sequence[Message], question: Question) -> Answer:
        if question.id in self.answers:
            return Answer((self.answers[question.id],))
        return Answer(status="abstained")
