"""The reader and the oracle over whole small contexts."""

from __future__ import annotations

import pytest

from bench.agents import make
from bench.grading import RuleGrader
from bench.measures.survival import Remains
from bench.probes import bank as banks
from bench.registry import PROBES
from bench.tokens import counter
from bench.types import Question
from making import assistant, call, result, work


def test_what_stands_beside_the_value_counts_more_than_where_it_is_looked_for():
    context = [
        assistant("", call("1", "Write", file_path="src/new.py", content="limit = 99120")),
        result("1", "Created new file src/new.py (3 lines)"),
    ]
    question = Question("q", "In the file `src/new.py`, which number follows “limit”?", "number")
    assert make("reader", {}).answer(context, question).values == ("99120",)


@pytest.mark.parametrize(("gone", "answer"), [("none of it", ("7001",)), ("port: 7001", ())])
def test_the_reader_abstains_when_the_line_is_gone(gone, answer):
    shown = "starting the relay\nport: 7001\nworkers ready".replace(gone, "")
    context = [assistant("", call("1", command="make serve")), result("1", shown)]
    question = Question("q", "In the output of `make serve`, which number follows “port”?", "number")
    assert make("reader", {}).answer(context, question).values == answer


@pytest.fixture(scope="module")
def small():
    from bench.replay import Cuts

    cut = Cuts().of(work(rounds=14), counter())[0][2]
    return cut, banks.build([cut], [], counter(), PROBES.names(), seed=0).probes[cut.id]


def test_the_oracle_is_right_exactly_when_the_evidence_survives_in_the_whole_context(small):
    cut, probes = small
    oracle = make("oracle", {})
    oracle.open_book({probe.id: probe for probe in probes})
    seen = set()
    for context in (cut.context, (*cut.head, *cut.tail), cut.context[: cut.at // 2]):
        for probe in probes:
            score = RuleGrader().grade(probe, oracle.answer(context, probe.ask())).value
            survives = Remains(context).survives(probe)
            assert score == (1.0 if survives is None else float(survives)), probe
            seen.add(survives)
    assert {True, False} <= seen


def test_scripted_without_answers_is_right_nowhere(small):
    cut, probes = small
    assert {make("scripted", {}).answer(cut.context, probe.ask()).status for probe in probes} == {"abstained"}


def test_the_reader_has_the_facts_from_the_whole_context_and_not_from_head_and_tail(small):
    cut, probes = small
    reader, facts = make("reader", {}), [probe for probe in probes if probe.category in ("facts", "artifacts")]
    right = [
        sum(RuleGrader().grade(probe, reader.answer(context, probe.ask())).value for probe in facts) / len(facts)
        for context in (cut.context, (*cut.head, *cut.tail))
    ]
    assert right[0] >= 0.8
    assert right[1] <= 0.1
