from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from bench.measures.survival import Remains
from bench.types import Answer, Message, Probe, Question


@dataclass
class Oracle:
    """Answers with the gold exactly when the evidence is in its context. For calibration only: it sees the gold.

    With it recall equals survival in the whole context, so what differs between the two in a run with another agent
    is that agent's doing. The runner opens the book to it; no other agent is shown one.
    """

    name: ClassVar[str] = "oracle"
    version: ClassVar[str] = "1"
    label: ClassVar[str] = "oracle (sees the gold: calibration only)"
    _book: Mapping[str, Probe] = field(default_factory=dict)
    _last: tuple[Sequence[Message], Remains] | None = None

    def open_book(self, probes: Mapping[str, Probe]) -> None:
        self._book = probes

    def answer(self, context: Sequence[Message], question: Question) -> Answer:
        if self._last is None or self._last[0] is not context:
            self._last = (context, Remains(context))
        probe = self._book[question.id]
        if probe.answer_type == "yes_no" and probe.gold == ("no",):
            return Answer(probe.gold)  # nothing of it can stand anywhere
        if not self._last[1].survives(probe):
            return Answer(status="abstained")
        if probe.answer_type == "word_and_file":
            return self._name(probe)
        return Answer(probe.gold)

    def _name(self, probe: Probe) -> Answer:
        remains = self._last[1]
        named = []
        for kind in ("word:", "file:"):
            named.append(next(a[5:] for a in probe.atoms if a.startswith(kind) and remains.holds(a[5:], kind[:-1])))
        return Answer(tuple(named))
