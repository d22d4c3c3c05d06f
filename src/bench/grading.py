"""Rule graders: is an answer right? One rule for each type of answer; measurement specification, section 1.4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from bench.atoms import found, normal, words
from bench.types import Answer, Probe, Score

VERSION = "1"
MAX_CANDIDATES = 3  # an answer that lists more is a shotgun, and wrong
SET_F1 = 0.8
QUOTE_SIMILARITY = 0.9
ERROR_F1 = 0.8


class RuleGrader:
    """Grades by type; never asks a model. A score's `detail` is F1 of a set, similarity of a quote."""

    version = VERSION

    def grade(self, probe: Probe, answer: Answer) -> Score:
        if answer.status == "error":
            return Score(None, "error")
        if answer.status == "abstained" or not answer.values:
            return Score(0.0, "abstained")
        if probe.answer_type == "paths":
            return _set(probe, answer.values)
        if probe.answer_type == "word_and_file":
            return _word_and_file(probe, answer.values)
        if probe.answer_type == "quote":
            return _quote(probe.gold[0], answer.values[0])
        if probe.answer_type in ("yes_no", "state"):
            return _choice(probe, answer.values)
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


def _set(probe: Probe, values: Sequence[str]) -> Score:
    gold = [normal(g, "path") for g in probe.gold]
    optional = [normal(o, "path") for o in probe.optional]
    matched: set[str] = set()
    wrong = 0
    for value in dict.fromkeys(normal(v, "path") for v in values):
        hit = next((g for g in gold if g not in matched and same(value, g, "path")), None)
        if hit is not None:
            matched.add(hit)
        elif not any(same(value, o, "path") for o in optional):
            wrong += 1
    score = 2 * len(matched) / (len(matched) + wrong + len(gold)) if gold else 0.0
    if score >= SET_F1:
        return Score(1.0, "right", score)
    return Score(0.0, "partial" if matched else "wrong", score)


def _word_and_file(probe: Probe, values: Sequence[str]) -> Score:
    if len(values) != 2:
        return Score(0.0, "shotgun")
    word = f"word:{values[0].lower()}" in probe.gold
    file = any(same(values[1], g[5:], "path") for g in probe.gold if g.startswith("file:"))
    if word and file:
        return Score(1.0, "right")
    return Score(0.0, "word_only" if word else "file_only" if file else "wrong")


def _quote(gold: str, value: str) -> Score:
    similarity = Levenshtein.normalized_similarity(normal(value, "quote"), normal(gold, "quote"))
    if similarity == 1.0:
        return Score(1.0, "right", 1.0)
    return Score(float(similarity >= QUOTE_SIMILARITY), "near" if similarity >= QUOTE_SIMILARITY else "wrong", similarity)


def _choice(probe: Probe, values: Sequence[str]) -> Score:
    if len(values) > 1:
        return Score(0.0, "shotgun")
    value, gold = values[0].strip().lower(), probe.gold[0]
    if value == gold:
        return Score(1.0, "right")
    if probe.answer_type == "state":
        return Score(0.0, "wrong")
    if gold == "yes":
        return Score(0.0, "denied" if value == "no" else "unsure")
    return Score(0.0, "fabricated" if value == "yes" else "unsure")
