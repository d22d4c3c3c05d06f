"""E13, work done: was this done in the session? Half of the questions name work that was done, half work that was not.

A file that is named but was never treated so is the foil: a reader that says yes to whatever it has seen fails on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.probes.view import Candidate, CutView
from bench.types import Probe

_VERBS = {"create": "create", "modify": "edit", "delete": "delete", "rename": "rename", "read": "open and read"}
_FOILS = {"create": "delete", "modify": "delete", "read": "modify", "delete": "rename", "rename": "delete"}


class WorkDone:
    name = "work_done"
    version = "1"
    form = "forced"
    stratified = True
    per_cut = 5
    exempt = frozenset({"P4", "P6", "P7", "P8"})  # the question names the work; the gold is yes or no

    def propose(self, view: CutView) -> Iterator[Candidate]:
        events = [event for event in view.of.files if event.index < view.cut.at]
        done: dict[str, set[str]] = {}
        for event in events:
            for path in filter(None, (event.path, event.new_path)):
                done.setdefault(path, set()).add(event.operation)
        moved = {event.new_path for event in events}
        for number, (path, operations) in enumerate(sorted(done.items())):
            touching = [e.index for e in events if path in (e.path, e.new_path)]
            if "unclear" in operations or not all(map(view.in_span, touching)):
                continue
            if number % 2:
                if path in moved:
                    continue  # a new name is not what was renamed
                operation = next(e.operation for e in reversed(events) if e.path == path)
                yield self._candidate(view, path, operation, "yes", touching)
            else:
                foil = next((_FOILS[op] for op in sorted(operations) if _FOILS[op] not in operations), None)
                if foil:
                    yield self._candidate(view, path, foil, "no", touching)

    def _candidate(self, view: CutView, path: str, operation: str, gold: str, indices: list[int]) -> Candidate:
        evidence = tuple(dict.fromkeys(view.id(index) for index in indices))
        probe = Probe(
            id="", category=self.name,
            question=f"Did you {_VERBS[operation]} the file `{path}` in this session? Answer yes, no or not sure.",
            answer_type="yes_no", gold=(gold,), evidence=evidence, atoms=(path,) if gold == "yes" else (),
            depth=view.depth(indices[-1]),
        )  # fmt: skip
        return Candidate(probe, ((path, "path"),), 1, evidence)
