"""The embedded default agent: a deterministic extractive reader without a model.

It finds the lines of its context that best match the question (BM25 over lines together with the header of the call
they belong to), takes the span of the asked type from them, or abstains. It never sees a gold answer, and shares no
code with the makers of the probes: its patterns and its reading of tool calls are its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from bench.agents.trail import Trail
from bench.content import argument_values
from bench.types import Answer, Message, Question

_TOKEN = re.compile(r"[A-Za-z]+|\d+")
_STOP = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "did", "do", "does", "file", "follows", "for", "from", "give",
    "given", "has", "have", "in", "is", "it", "of", "on", "or", "output", "result", "results", "search", "session",
    "stands", "that", "the", "their", "this", "to", "user", "was", "were", "what", "which", "who", "with", "wrote",
    "you", "your", "identifier", "number", "path", "version", "hash", "url", "date", "time", "error", "value",
})  # fmt: skip
_SPANS = {
    "url": r"https?://[^\s\"'`<>)\]}|\\]+[^\s\"'`<>)\]}|\\.,;:!?]",
    "error": r"[A-Z]\w*(?:Error|Exception|Failure|Fault): .+",
    "date": r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
    "path": r"(?:~?/|\.{1,2}/)?(?:[\w.@+-]+/)+[\w.@+-]*\w|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{1,4}\b",
    "hash": r"(?<![\w.-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?![\w-])",
    "version": r"(?<![\w.:-])v?\d+\.\d+\.\d+(?:[-.]?[a-z]+\.?\d+)?(?![\w:]|\.\d)",
    "identifier": r"(?<![\w./:-])[A-Za-z0-9]\w*(?:[-:._]\w+)*(?![\w/])",
    "number": r"(?<![\w.:/#-])-?\d[\d,]*(?:\.\d+)?(?!\.\d|[:/]|-\d)",
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_INSTRUCTION_FILE = re.compile(r"^#? ?\S+\.md\b")
LINES_READ = 40  # best lines whose spans are compared
MIN_COVERAGE = 0.6  # share of the question's informative words that line and header must hold
FREE_COVERAGE = 0.15  # the same for a question that quotes nothing; set with the hand-worded questions in view
HEADER_WORDS = 40


@dataclass
class Reader:
    """Answers every question type that the probes ask. `min_coverage` is the point below which it abstains."""

    min_coverage: float = MIN_COVERAGE
    name: ClassVar[str] = "reader"
    version: ClassVar[str] = "1"
    label: ClassVar[str] = "reader (extractive, no model)"
    _pages: list[tuple[Sequence[Message], _Page]] = field(default_factory=list, repr=False)

    def answer(self, context: Sequence[Message], question: Question) -> Answer:
        page = self._page(context)
        match question.answer_type:
            case "paths":
                values = page.trail.files(question.text)
            case "yes_no" | "state":
                values = page.trail.judge(question.text, question.answer_type, page.text)
            case "quote":
                values = page.quote(question.text)
            case "word_and_file":
                values = page.name_word_and_file(question.text)
            case _:
                return page.value(question, self.min_coverage)
        return Answer(tuple(values)) if values else Answer(status="abstained")

    def _page(self, context: Sequence[Message]) -> _Page:
        for known, page in self._pages:
            if known is context:
                return page
        self._pages = [*self._pages[-2:], (context, _Page(context))]
        return self._pages[-1][1]


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    tokens: tuple[str, ...]
    header: frozenset[str]
    shown: bool  # it stands in a message or a result, not in the arguments of a call


class _Page:
    """One context, indexed for reading."""

    def __init__(self, context: Sequence[Message]) -> None:
        self.context = context

    @cached_property
    def trail(self) -> Trail:
        return Trail(self.context)

    @cached_property
    def text(self) -> str:
        return "\n".join(_everything(message) for message in self.context)

    @cached_property
    def _lines(self) -> list[_Line]:
        lines: list[_Line] = []
        headers: dict[str, frozenset[str]] = {}
        for message in self.context:
            for call in message.calls:
                values = list(argument_values(call.arguments))
                header = _header(call.name, values)
                headers[call.id] = header
                lines += (_Line(line, tuple(_tokens(line)), header, False) for value in values for line in _split(value))
            header = headers.get(message.call_id or "", frozenset({"user", "wrote"} if message.role == "user" else ()))
            lines += (_Line(line, tuple(_tokens(line)), header, True) for line in _split(message.text))
        return lines

    @cached_property
    def _index(self):
        import bm25s

        index = bm25s.BM25()
        index.index([[*line.tokens, *sorted(line.header)] or ["-"] for line in self._lines], show_progress=False)
        return index

    @cached_property
    def _frequency(self) -> Counter[str]:
        return Counter(token for line in self._lines for token in {*line.tokens, *line.header})

    def _weight(self, token: str) -> float:
        return math.log(1 + len(self._lines) / (1 + self._frequency[token]))

    def value(self, question: Question, min_coverage: float) -> Answer:
        asked = [token for token in _tokens(question.text) if token not in _STOP]
        pattern = _SPANS.get(question.answer_type)
        if not asked or pattern is None or not self._lines:
            return Answer(status="abstained")
        known = [token for token in dict.fromkeys(asked) if self._frequency[token]]
        if not known:
            return Answer(status="abstained")
        scores = self._index.get_scores(known)
        quoted = re.search(r"“(.*?)”", question.text)  # what stands beside the value, not where it is looked for
        phrase = _tokens(quoted[1] if quoted else question.text)
        total = sum(self._weight(token) for token in set(asked))
        # A question that quotes the text beside a value points at a line that must be there; one in free wording does not.
        enough = min_coverage if "“" in question.text else min(min_coverage, FREE_COVERAGE)
        asks_for_output = re.search(r"\b(output|results?)\b", question.text) is not None
        best: tuple[float, str, str] | None = None
        for number in np.argsort(-scores, kind="stable")[: LINES_READ * 4]:
            line = self._lines[number]
            if asks_for_output and not line.shown:
                continue
            covered = sum(self._weight(token) for token in set(asked) if token in line.tokens or token in line.header) / total
            if covered < enough:
                continue
            for span in re.finditer(pattern, line.text):
                if question.answer_type == "identifier" and not _is_identifier(span[0]):
                    continue
                run = _run(_tokens(line.text[: span.start()]), phrase)
                score = covered + 0.25 * run + 0.001 * float(scores[number])
                if best is None or score > best[0]:
                    best = (score, span[0], line.text)
        if best is None:
            return Answer(status="abstained")
        return Answer((best[1],), evidence=best[2][:200])

    def quote(self, question: str) -> list[str]:
        number = next((n for n, word in enumerate(_ORDINALS) if re.search(rf"\b{word}\b", question)), None)
        typed = [m.text for m in self.context if m.role == "user" and m.text.strip() and m.text.lstrip()[0] not in "<["]
        typed = typed[1:] if typed and _INSTRUCTION_FILE.match(typed[0]) else typed
        return [typed[number]] if number is not None and number < len(typed) else []

    def name_word_and_file(self, question: str) -> list[str]:
        quoted = re.search(r"“(.*?)”", question)
        marker = " ".join(quoted[1].split()) if quoted else ""
        texts = [_everything(message) for message in self.context]
        at = next(
            (
                n
                for n in range(len(texts) - 1, -1, -1)
                if marker and " ".join(texts[n].split()).replace("“", '"').replace("”", '"').startswith(marker)
            ),
            None,
        )
        if at is None:
            return []
        first = next((n for n, m in enumerate(self.context) if m.role != "system" and not _INSTRUCTION_FILE.match(m.text)), at)
        rest = "\n".join(texts[:first] + texts[at:])
        shown = set(re.findall(r"\w+", rest.lower()))
        before = "\n".join(texts[first:at])
        words = Counter(w for w in re.findall(r"(?<![\w/.-])[A-Za-z][A-Za-z_]{7,39}(?![\w/.])", before) if w.lower() not in shown)
        files = Counter(
            f
            for f in re.findall(r"(?<![\w/.-])(?:[\w.-]+/)*[\w-]+\.[a-z]{1,5}(?![\w/])", before)
            if f.rsplit("/", 1)[-1] not in rest
        )
        if not words or not files:
            return []
        word = max(words, key=lambda w: (w.strip("_").count("_"), any(c.isupper() for c in w[1:]), len(w), w))
        return [word, max(files, key=lambda f: (f.count("/"), files[f], f))]


def _tokens(text: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(text)]


def _split(text: str) -> list[str]:
    return [line[:2000] for line in text.split("\n") if line.strip()]


def _header(name: str, values: Sequence[str]) -> frozenset[str]:
    words = [token for value in values[:2] for token in _tokens(value[:600])[:HEADER_WORDS]]
    return frozenset([*_tokens(name), *words])


def _everything(message: Message) -> str:
    return "\n".join([message.text, *(value for call in message.calls for value in argument_values(call.arguments))]).strip("\n")


def _is_identifier(span: str) -> bool:
    if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?", span):
        return True
    shaped = re.search(r"[-:._]", span) and re.search(r"[A-Za-z_]", span) and re.search(r"\d", span)
    return bool(shaped) or bool(re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", span))


def _run(left: Sequence[str], phrase: Sequence[str]) -> int:
    """How many tokens directly left of a span stand in the question in the same order, one after the other (8 at most)."""
    text = f" {' '.join(phrase)} "
    for size in range(min(8, len(left)), 0, -1):
        if f" {' '.join(left[-size:])} " in text:
            return size
    return 0
