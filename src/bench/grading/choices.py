"""One of a few answers, a quotation, and any word with any file."""

from __future__ import annotations

from rapidfuzz.distance import Levenshtein

from bench.atoms import normal
from bench.grading.values import same
from bench.types import Answer, Probe, Score

QUOTE_SIMILARITY = 0.9


def word_and_file(probe: Probe, answer: Answer) -> Score:
    values = answer.values
    if len(values) != 2:
        return Score(0.0, "shotgun")
    word = f"word:{values[0].lower()}" in probe.gold
    file = any(same(values[1], g[5:], "path") for g in probe.gold if g.startswith("file:"))
    if word and file:
        return Score(1.0, "right")
    return Score(0.0, "word_only" if word else "file_only" if file else "wrong")


def quote(probe: Probe, answer: Answer) -> Score:
    gold, value = probe.gold[0], answer.values[0]
    similarity = Levenshtein.normalized_similarity(normal(value, "quote"), normal(gold, "quote"))
    if similarity == 1.0:
        return Score(1.0, "right", 1.0)
    return Score(float(similarity >= QUOTE_SIMILARITY), "near" if similarity >= QUOTE_SIMILARITY else "wrong", similarity)


def choice(probe: Probe, answer: Answer) -> Score:
    values = answer.values
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
