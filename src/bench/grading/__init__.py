"""Rule graders: is an answer right? One rule for each type of answer; measurement specification, section 1.4."""

from __future__ import annotations

from collections.abc import Callable

from bench.grading import choices, values
from bench.types import Answer, Probe, Score

VERSION = "1"

RULES: dict[str, Callable[[Probe, Answer], Score]] = {
    "paths": values.paths,
    "word_and_file": choices.word_and_file,
    "quote": choices.quote,
    "yes_no": choices.choice,
    "state": choices.choice,
}  # by type of answer; every other type is one value


class RuleGrader:
    """Grades by type; never asks a model. A score's `detail` is F1 of a set, similarity of a quote."""

    version = VERSION

    def grade(self, probe: Probe, answer: Answer) -> Score:
        if answer.status == "error":
            return Score(None, "error")
        abstained = answer.status == "abstained" or not answer.values
        if probe.answer_type == "nothing":  # asked for what never was: only silence is right
            return Score(1.0, "abstained") if abstained else Score(0.0, "fabricated")
        if abstained:
            return Score(0.0, "abstained")
        return RULES.get(probe.answer_type, values.value)(probe, answer)
