from __future__ import annotations

import pytest

from bench.grading import RuleGrader
from bench.types import Answer, Probe


def grade(type, gold, values, optional=()):
    gold = (gold,) if isinstance(gold, str) else tuple(gold)
    score = RuleGrader().grade(Probe("p", "facts", "?", type, gold, optional=tuple(optional)), Answer(tuple(values)))
    return score.value, score.outcome


@pytest.mark.parametrize(
    ("type", "gold", "answer", "right"),
    [
        ("number", "48213", "48,213", True), ("number", "48213", "48213.0", False), ("number", "412.7", "412.70", False),
        ("number", "412.7 ms", "412.7", True), ("number", "48213", "48214", False), ("number", "-3", "3", False),
        ("path", "src/app/main.py", "./src/app/main.py", True), ("path", "src/app/main.py", "app/main.py", True),
        ("path", "src/app/main.py", "main.py", False), ("path", "src/app/main.py", "/home/dev/p/src/app/main.py:12", True),
        ("path", "Makefile", "/home/dev/p/Makefile", True), ("path", "src/app/main.py", "src/app/main.pyc", False),
        ("version", "v1.2.3", "1.2.3", True), ("version", "1.2.3", "1.2", False), ("version", "1.2.0", "1.2", True),
        ("hash", "8f3a21c9d4", "8f3a21c", True), ("hash", "8f3a21c9d4", "8f3a2", False), ("hash", "8f3a21c", "8f3a21c9d4", False),
        ("url", "https://Example.com:443/a/", "https://example.com/a", True), ("url", "https://e.com/a?b=1", "https://e.com/a", False),
        ("identifier", "req-8f3a21", "the id is req-8f3a21", True), ("identifier", "req-8f3a21", "req-8f3a21b", False),
        ("identifier", "REQ-1A", "req-1a", False),
        ("error", "ValueError: bad row 7 in data/x.csv:12", "ValueError: bad row 7 in x.csv", True),
        ("error", "ValueError: bad row", "TypeError: bad row", False), ("error", "ValueError: bad row 7", "ValueError: no such column", False),
        ("date", "2026-01-05 08:00", "2026-01-05T08:00", True), ("date", "2026-01-05", "2026-01-06", False),
    ],
)  # fmt: skip
def test_one_value(type, gold, answer, right):
    assert grade(type, gold, [answer]) == ((1.0, "right") if right else (0.0, "wrong"))


def test_a_shotgun_is_wrong_and_silence_is_an_abstention():
    assert grade("number", "7", ["4", "5", "6", "7"]) == (0.0, "shotgun")
    assert grade("number", "7", ["6", "7"]) == (1.0, "right")
    assert grade("number", "7", []) == (0.0, "abstained")
    assert RuleGrader().grade(Probe("p", "facts", "?", "number", ("7",)), Answer(status="error")).value is None


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (["a/x.py", "a/y.py"], (1.0, "right")),
        (["a/x.py", "a/y.py", "a/seen.py"], (1.0, "right")),
        (["a/x.py", "a/y.py", "b/z.py"], (1.0, "right")),
        (["a/x.py"], (0.0, "partial")),
        (["a/x.py", "a/y.py", "b/1.py", "b/2.py"], (0.0, "partial")),
        (["b/z.py"], (0.0, "wrong")),
        (["a/x.py", "a/x.py", "a/x.py", "a/y.py"], (1.0, "right")),
    ],
)
def test_sets_by_f1(answer, outcome):
    assert grade("paths", ["a/x.py", "a/y.py"], answer, optional=["a/seen.py"]) == outcome


@pytest.mark.parametrize(
    ("type", "gold", "answer", "outcome"),
    [
        ("yes_no", "yes", "yes", (1.0, "right")), ("yes_no", "yes", "no", (0.0, "denied")), ("yes_no", "yes", "not sure", (0.0, "unsure")),
        ("yes_no", "no", "yes", (0.0, "fabricated")), ("yes_no", "no", "No", (1.0, "right")),
        ("state", "read", "modified", (0.0, "wrong")),
        ("quote", "please keep the old name", "Please keep the old name", (1.0, "near")),
        ("quote", "please keep the old name", "please keep  the old name", (1.0, "right")),
        ("quote", "please keep the old name", "keep the name", (0.0, "wrong")),
    ],
)  # fmt: skip
def test_choices_and_quotes(type, gold, answer, outcome):
    assert grade(type, gold, [answer]) == outcome


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (["Ledger_Rows", "a/x.py"], (1.0, "right")), (["ledger_rows", "b.py"], (0.0, "word_only")), (["rows", "a/x.py"], (0.0, "file_only")),
        (["ledger_rows", "other", "a/x.py"], (0.0, "shotgun")),
    ],
)  # fmt: skip
def test_one_word_and_one_file(answer, outcome):
    assert grade("word_and_file", ["word:ledger_rows", "file:a/x.py"], answer) == outcome
