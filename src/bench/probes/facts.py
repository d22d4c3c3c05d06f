"""E1, exact facts: a typed value in tool output or user text, asked for by what stands left of it and where."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.atoms import NOUNS, extract, normal, words
from bench.probes.files import path_of
from bench.probes.view import Candidate, CutView, SessionView, is_user_request
from bench.types import Probe

MAX_LINE = 400  # longer lines are data, not something an agent reads a label in
LABEL_WORDS, LABEL_LENGTH = 6, 48


@dataclass(frozen=True, slots=True)
class _Fact:
    """A value at one place. `source` (kind, name) and `label` are how a question describes the place."""

    index: int
    source: tuple[str, str]
    label: str
    type: str
    value: str
    line: str


class Facts:
    name = "facts"
    version = "1"
    form = "free"
    stratified = True
    per_cut = 20
    exempt = frozenset[str]()

    def propose(self, view: CutView) -> Iterator[Candidate]:
        cwd = view.of.session.cwd
        places: Mapping[tuple, list[_Fact]] = defaultdict(list)
        for fact in view.of.once(self.name, lambda: list(_facts(view.of))):
            if fact.index < view.cut.at:
                places[fact.source, fact.label, fact.type].append(fact)
        for (source, label, type), facts in places.items():
            inside = [fact for fact in facts if view.in_span(fact.index)]
            if not inside:
                continue
            values = {normal(fact.value, type, cwd) for fact in facts}
            newest = inside[-1]
            question = _question(source, label, type)
            events = tuple(dict.fromkeys(view.id(fact.index) for fact in inside))
            probe = Probe(
                id="",
                category=self.name,
                question=question,
                answer_type=type,
                gold=(newest.value,),
                evidence=events,
                atoms=(newest.value,),
                depth=view.depth(newest.index),
                overlap=_overlap(question, newest.line),
            )
            everywhere = tuple(dict.fromkeys(view.id(fact.index) for fact in facts))
            yield Candidate(probe, ((newest.value, type),), len(values), everywhere, newest.line)


def _question(source: tuple[str, str], label: str, type: str) -> str:
    kind, name = source
    where = {
        "command": f"In the output of `{name}`",
        "file": f"In the file `{name}`",
        "search": f"In the search results for `{name}`",
        "tool": f"In the result of {name}",
        "user": "In what the user wrote",
    }[kind]
    return f"{where}, which {NOUNS[type]} follows “{label}”?"


def _facts(of: SessionView) -> Iterator[_Fact]:
    for index, source, text in _texts(of):
        for line in text.split("\n"):
            if not 8 <= len(line) <= MAX_LINE:
                continue
            line = re.sub(r"^\s*\d+(?:\t|→)|^[\w./-]+:\d+:", "", line)
            for atom in extract(line):
                label = _label(line[: atom.start])
                if label:
                    yield _Fact(index, source, label, atom.type, atom.text, line)


def _texts(of: SessionView) -> Iterator[tuple[int, tuple[str, str], str]]:
    """(message number, source, text) of tool results, of what calls wrote into files, and of what the user typed."""
    for index, message in enumerate(of.session.messages):
        if is_user_request(message):
            yield index, ("user", ""), message.text
        elif message.role == "tool" and message.call_id in of.calls:
            call = of.calls[message.call_id]
            yield index, _source(call.name, call.arguments), message.text
        for call in message.calls:
            path = path_of(call.arguments)
            if path and isinstance(call.arguments, Mapping):
                for key in ("content", "new_string", "file_text", "new_str"):
                    if isinstance(call.arguments.get(key), str):
                        yield index, ("file", path), str(call.arguments[key])


def _source(name: str, arguments: Mapping | str) -> tuple[str, str]:
    if isinstance(arguments, Mapping):
        for key, kind in (("command", "command"), ("cmd", "command"), ("pattern", "search"), ("query", "search")):
            if isinstance(arguments.get(key), str) and arguments[key].strip():
                return kind, _short(arguments[key])
        path = path_of(arguments)
        if path:
            return "file", path
    return "tool", name


def _short(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return line if len(line) <= 80 else line[:80].rsplit(" ", 1)[0]


def _label(left: str) -> str:
    """The last words left of a value, without quotes and separators; empty when they say nothing."""
    left = " ".join(left.split()).rstrip(" :=|\"'([{<,`-*#>")
    kept: list[str] = []
    for word in reversed(left.split(" ")):
        if len(kept) == LABEL_WORDS or len(" ".join([word, *kept])) > LABEL_LENGTH:
            break
        kept.insert(0, word)
    label = " ".join(kept).strip("\"'`{[(,").replace("“", '"').replace("”", '"')
    return label if re.search(r"[A-Za-z]{3,}", label) else ""


def _overlap(question: str, line: str) -> float:
    """Share of the question's words that stand in the evidence line: lexical overlap makes recall easy."""
    asked = set(words(question))
    return round(len(asked & set(words(line))) / len(asked), 3) if asked else 0.0
