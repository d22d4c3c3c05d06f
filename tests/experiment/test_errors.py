"""Errors are data: whatever a strategy or an agent does, the run goes on and says what happened."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bench.__main__ import main
from bench.experiment import plan, runner
from bench.experiment.store import Run
from bench.types import Answer, Compaction
from running import SMALL, config, lines, run, summary, write_compactors, write_sessions


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    return write_sessions(tmp_path_factory.mktemp("sessions"))


@pytest.fixture
def custom(sessions, tmp_path):
    """Runs a compactor of `running.COMPACTORS`; the run's folder."""
    path = write_compactors(tmp_path)
    return lambda name: run(sessions, tmp_path / "results", {"name": "custom", "target": f"{path}:{name}"})


@pytest.mark.parametrize(("name", "says"), [("raising", "ValueError: too long for me"), ("leaving", "SystemExit: 3")])
def test_a_strategy_that_raises_on_some_cuts(custom, name, says):
    folder = custom(name)
    compactions = lines(folder / "compactions.jsonl")
    assert [line["outcome"] for line in compactions] == ["applied", "failed", "applied", "failed"]
    for line in compactions:
        failed = line["outcome"] == "failed"
        assert (says in line["error"], "Traceback" in line["error"]) == (failed, failed)
        assert (line["context_before"] == line["context_after"]) == failed
    made = summary(folder)
    assert (made["outcomes"]["applied"], made["outcomes"]["failed"], made["errors"]["strategy"]) == (2, 2, 2)
    assert Run(folder).header["status"] == "success"

    # as it came out, where a failed cut keeps its context, and without these cuts
    strategy = [r for r in lines(folder / "records.jsonl") if r["arm"] == "strategy"]
    applied = {line["cut"] for line in compactions if line["outcome"] == "applied"}
    assert {r["cut"] for r in strategy} == {line["cut"] for line in compactions}
    assert all(r["survives"] for r in strategy if r["cut"] not in applied)
    assert made["per_protocol"]["survival"]["n"] == sum(r["cut"] in applied for r in strategy)
    assert made["metrics"]["survival"]["n"] == len(strategy)
    assert made["per_protocol"]["survival"]["value"] < made["metrics"]["survival"]["value"] < 1


@pytest.mark.parametrize(
    ("name", "allowed", "code"),
    [("raising", 0, 1), ("raising", 1, 1), ("raising", 2, 0), ("raising", 100, 0), ("raising", 0.4, 1), ("raising", 0.5, 0), ("newest", 0, 0)],
)  # fmt: skip
def test_the_exit_code_counts_failed_cuts(sessions, tmp_path, capsys, monkeypatch, name, allowed, code):
    monkeypatch.chdir(tmp_path)
    target = f"strategy.target={write_compactors(tmp_path)}:{name}"
    arguments = ["strategy=custom", target, f"sessions.path={sessions}", f"fail_on_error={allowed}", *SMALL]
    assert main(["run", *arguments]) == code
    out = capsys.readouterr().out
    assert bool(re.search(r"custom \(target=.*\): 2 failed compactions", out)) == (name == "raising")
    assert bool(re.search(r"custom \(target=.*\) without cuts that failed or fell back: survival ", out)) == (name == "raising")


@pytest.mark.parametrize("name", ["none", "custom"])
def test_an_unchanged_context_is_a_noop_never_applied(custom, sessions, tmp_path, name):
    folder = custom("same") if name == "custom" else run(sessions, tmp_path, "none")
    assert {line["outcome"] for line in lines(folder / "compactions.jsonl")} == {"noop"}
    assert summary(folder)["outcomes"] == {"applied": 0, "noop": 4, "fallback": 0, "invalid": 0, "failed": 0}
    assert summary(folder)["per_protocol"] is None


@pytest.mark.parametrize("name", ["text", "nothing", "no_roles"])
def test_garbage_is_invalid(custom, name):
    folder = custom(name)
    compactions = lines(folder / "compactions.jsonl")
    assert {line["outcome"] for line in compactions} == {"invalid"}
    assert all("did not return a list of chat messages" in line["note"] for line in compactions)
    assert summary(folder)["per_protocol"]["survival"]["value"] is None


def test_a_larger_context_is_a_violation_for_every_provider(custom):
    folder = custom("larger")
    for line in lines(folder / "compactions.jsonl"):
        assert line["outcome"] == "applied"
        assert line["tokens_after"] > line["tokens_before"] + 2000
        assert {p for p, found in line["violations"].items() if "larger_than_before" in found} == {
            "openai",
            "anthropic",
            "gemini",
        }
    made = summary(folder)
    assert made["violations"]["larger_than_before"] == 4
    assert made["metrics"]["structure_valid"]["value"] == 0
    assert made["metrics"]["token_reduction"]["value"] < 0


class Returns:
    """A strategy of somebody's package, which returns what it was made with."""

    name, version, needs_model = "returns", "1", False

    def __init__(self, made):
        self.made = made

    def compact(self, context, request):
        return self.made(context)


@pytest.mark.parametrize(
    ("made", "outcome", "says", "contexts"),
    [
        (lambda context: Compaction(list(context)), "noop", "unchanged", 4),
        (lambda context: Compaction(list(context[-18:])), "applied", "", 8),
        (lambda context: None, "invalid", "NoneType", 4),
        (lambda context: list(context), "invalid", "list", 4),
        (lambda context: Compaction(("text",)), "invalid", "no Message", 4),
        (lambda context: Compaction(()), "applied", "", 5),  # one empty context for all
        (lambda context: Compaction(context, "fallback", "no model"), "fallback", "no model", 4),
    ],
)
def test_what_any_strategy_may_return(sessions, tmp_path, made, outcome, says, contexts):
    folder = runner.run(replace(plan.make(config(sessions, tmp_path)), strategy=Returns(made)))
    compactions = lines(folder / "compactions.jsonl")
    assert {line["outcome"] for line in compactions} == {outcome}
    assert all(says in line["note"] for line in compactions)
    assert len(Run(folder).contexts()) == contexts


class Broken:
    """An agent that fails where it sees little, or returns no answer at all."""

    name = label = "broken"
    version = "1"

    def __init__(self, made):
        self.made = made

    def answer(self, context, question):
        return self.made() if len(context) < 18 else Answer(status="abstained")


def overloaded():
    raise TimeoutError("429 for the last time")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (overloaded, "TimeoutError: 429 for the last time"),
        (lambda: None, "TypeError: the agent returned None"),
        (lambda: Answer((5,)), "TypeError: the agent returned Answer"),
    ],
)
def test_an_agent_that_fails_is_left_out_of_the_means_and_counted(sessions, tmp_path, made, says):
    runner._answers.clear()
    for strategy in ("none", "reset"):  # the second finds answers of the first, but none of its errors
        folder = runner.run(replace(plan.make(config(sessions, tmp_path, strategy)), agent=Broken(made)))
        records = lines(folder / "records.jsonl")
        failed = [r for r in records if r["status"] == "error"]
        assert {r["arm"] for r in failed} == ({"floor"} if strategy == "none" else {"floor", "strategy", "placebo"})
        assert all(r["score"] is None and says in r["error"] for r in failed)
        assert not any("error" in r for r in records if r["status"] != "error")
        made_summary = summary(folder)
        assert made_summary["errors"] == {"infrastructure": len(failed), "strategy": 0}
        assert (made_summary["metrics"]["floor"]["value"], made_summary["metrics"]["floor"]["n"]) == (None, 0)
        assert made_summary["metrics"]["ceiling"]["value"] == 0
