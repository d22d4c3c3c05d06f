"""E4, artifact trail: the set of files created, modified, read, deleted and renamed, one question each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bench.probes.files import states
from bench.probes.view import Candidate, CutView
from bench.types import Probe

_QUESTIONS = {
    "created": "List every file that you created in this session and that still exists (not those you only modified).",
    "modified": "List every file that existed before this session and that you modified in it (not those you created).",
    "read": "List every file that you read in this session but neither created nor changed.",
    "deleted": "List every file that you deleted in this session.",
    "renamed": "List every file that you renamed or moved in this session, by its old name.",
}


class Artifacts:
    name = "artifacts"
    version = "1"
    form = "free"
    stratified = False
    per_cut = 5
    exempt = frozenset({"P4", "P8"})  # file names are judged as a set: one common name gives no set away

    def propose(self, view: CutView) -> Iterator[Candidate]:
        events = [event for event in view.of.files if event.index < view.cut.at]
        members: dict[str, list[str]] = defaultdict(list)
        for path, state in states(events).items():
            members[state].append(path)
        for state, question in _QUESTIONS.items():
            gold, evidence = [], []
            optional = members["unclear"] + members["moved"]  # nobody can say from the calls alone
            for path in members[state]:
                touching = [event for event in events if path in (event.path, event.new_path)]
                if all(view.in_span(e.index) for e in touching) and not view.kept.gives_away(path, "path"):
                    gold.append(path)
                    evidence += [view.id(event.index) for event in touching]
                else:
                    optional.append(path)  # head or tail show it too: knowing it proves nothing, naming it is no fault
            if gold:
                evidence = list(dict.fromkeys(evidence))
                probe = Probe(
                    id="", category=self.name, question=question, answer_type="paths", gold=tuple(gold),
                    evidence=tuple(evidence), atoms=tuple(gold), optional=tuple(optional),
                )  # fmt: skip
                yield Candidate(probe, tuple((path, "path") for path in gold), 1, tuple(evidence))
