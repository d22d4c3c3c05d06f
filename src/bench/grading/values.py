"""Values: does an answer state the gold, both in normal form? And sets of paths, by F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.atoms import found, normal, words
from bench.types import Answer, Probe, Score

MAX_CANDIDATES = 3  # an answer that lists more is a shotgun, and wrong
SET_F1 = 0.8
ERROR_F1 = 0.8


def value(probe: Probe, answer: Answer) -> Score:
    if len(answer.values) > MAX_CANDIDATES:
        return Score(0.0, "shotgun")
    right = any(same(value, gold, probe.answer_type) for value in answer.values for gold in probe.gold)
    return Score(1.0, "right") if right else Score(0.0, "wrong")


def same(value: str, gold: str, type: str) -> bool:
    """Whether `value` states `gold`, both in normal form."""
    a, b = normal(value, type), normal(gold, type)
    if type == "error":
        (class_a, _, text_a), (class_b, _, text_b) = a.partition(": "), b.partition(": ")
        return class_a == class_b and f1(list(words(text_a)), list(words(text_b))) >= ERROR_F1
    if type == "hash":
        return a == b or (len(a) >= 7 and b.startswith(a))
    if type == "identifier":
        return found(b, a)
    if type == "path":
        # a bare file name states a path only when the path is no more than that
        return a == b or ("/" in a and b.endswith("/" + a)) or (("/" in b or a[:1] == "/") and a.endswith("/" + b))
    return a == b


def f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over two multisets; 0 when either is empty."""
    common = sum((Counter(predicted) & Counter(gold)).values())
    return 2 * common / (len(predicted) + len(gold)) if common else 0.0


def paths(probe: Probe, answer: Answer) -> Score:
    gold = [normal(g, "path") for g in probe.gold]
    optional = [normal(o, "path") for o in probe.optional]
    matched: set[str] = set()
    wrong = 0
    for value in dict.fromkeys(normal(v, "path") for v in answer.values):
        hit = next((g for g in gold if g not in matched and same(value, g, "path")), None)
        if hit is not None:
            matched.add(hit)
        elif not any(same(value, o, "path") for o in optional):
            wrong += 1
    score = 2 * len(matched) / (len(matched) + wrong + len(gold)) if gold else 0.0
    if score >= SET_F1:
        return Score(1.0, "right", score)
    return Score(0.0, "partial" if matched else "wrong", score)
