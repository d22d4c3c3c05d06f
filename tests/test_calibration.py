"""Needles planted in real sessions: what must come out is known before (measurement specification, section 2.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.agents import make as make_agent
from bench.experiment import calibration
from bench.experiment.calibration import Check, calibrate
from bench.tokens import counter


@pytest.fixture(scope="module")
def checks(cuts):
    return calibrate(cuts[::8], counter(), make_agent("oracle", {}), make_agent("scripted", {}), seed=20260105)


def test_every_law_with_a_known_answer_holds(checks):
    assert [check for check in checks if not check.passed] == []
    assert len(checks) == 5 + len(calibration.NAMED) + 5 + 3
    assert all(check.n >= 300 for check in checks)


@pytest.mark.parametrize(("observed", "passed"), [(0.5, True), (0.53, True), (0.57, False), (0.4, False)])
def test_a_check_can_fail(observed, passed):
    assert Check("law", 0.5, observed, 100, 0.05).passed is passed


def test_a_search_that_finds_too_much_fails_the_calibration(cuts, monkeypatch):
    """The measure that F1 of the specification warns of: looking in the whole context, tail included."""
    monkeypatch.setattr(calibration, "remainder", lambda messages, cut: cut.session.messages)
    checks = calibrate(cuts[::40], counter(), make_agent("oracle", {}), make_agent("scripted", {}))
    failed = {check.name.split(" (")[0] for check in checks if not check.passed}
    assert {"reset keeps none", "masking all results keeps those of users"} <= failed


def test_a_needle_stands_once_and_ends_where_it_says(cuts):
    import random

    cut, needles = calibration.planted(cuts[0], 30, random.Random(1))
    for needle in needles:
        value = needle.probe.gold[0]
        holding = [index for index, message in enumerate(cut.session.messages) if value in message.text]
        assert holding == [needle.index]
        assert cut.session.messages[needle.index].text[: needle.end].endswith(value)
    assert replace(cut, session=cuts[0].session) == cuts[0]
