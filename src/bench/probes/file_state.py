"""E4, the state of one file: created, modified, read, deleted, renamed, or untouched (a file only seen in a listing)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench.atoms import extract, normal
from bench.content import call_text, message_text
from bench.probes.files import STATES, states
from bench.probes.view import Candidate, CutView
from bench.shell import shell_calls
from bench.types import Probe

_LISTING = re.compile(r"(ls|find|tree|git ls-files|grep|glob|rg)\b")


class FileState:
    name = "file_state"
    version = "1"
    form = "forced"
    stratified = True
    per_cut = 5
    exempt = frozenset({"P4", "P6", "P7", "P8"})  # the question names the file; the gold is one of six words

    def propose(self, view: CutView) -> Iterator[Candidate]:
        events = [event for event in view.of.files if event.index < view.cut.at]
        touched = {path for event in events for path in (event.path, event.new_path)}
        for path, state in states(events).items():
            touching = [event.index for event in events if path in (event.path, event.new_path)]
            if state in STATES and all(map(view.in_span, touching)):
                yield self._candidate(view, path, state, touching)
        for path, index in view.of.once("listed_only", lambda: _listed_only(view)).items():
            if path not in touched and view.in_span(index):
                yield self._candidate(view, path, "untouched", [index])

    def _candidate(self, view: CutView, path: str, state: str, indices: list[int]) -> Candidate:
        evidence = tuple(dict.fromkeys(view.id(index) for index in indices))
        probe = Probe(
            id="", category=self.name,
            question=f"What did you do with the file `{path}` in this session? Answer one of: {', '.join(STATES)}.",
            answer_type="state", gold=(state,), evidence=evidence, atoms=(path,), depth=view.depth(indices[-1]),
        )  # fmt: skip
        return Candidate(probe, ((path, "path"),), 1, evidence)


def _listed_only(view: CutView) -> dict[str, int]:
    """Paths that only listings and searches ever showed, each with the message that showed it last.

    Any other mention could mean that a command changed the file out of sight, so such files are no foils.
    """
    listed: dict[str, int] = {}
    others: list[str] = []
    for index, message in enumerate(view.of.session.messages):
        call = view.of.calls.get(message.call_id or "")
        if call is not None and _LISTING.match(call_text(call) if call.name.lower() == "bash" else call.name.lower()):
            for line in message.text.split("\n"):
                if len(line) <= 200:
                    paths = (
                        a.text
                        for a in extract(line)
                        if a.type == "path" and re.match(r"\w[\w./@+-]*/[\w.@+-]+\.\w{1,5}$", a.text)
                    )
                    listed.update((normal(path, "path"), index) for path in paths)
        else:
            others.append(message_text(message))
    said = "\n".join(others)
    shells = [shell for _, _, shell in shell_calls(view.of.session)]
    return {
        path: index
        for path, index in listed.items()
        if path.rsplit("/", 1)[-1] not in said and not any(shell.touches(path) for shell in shells)
    }
