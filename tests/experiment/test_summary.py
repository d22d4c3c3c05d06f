"""The mathematics of a summary, on records whose figures are known."""

from __future__ import annotations

import math

import pytest

from bench.analysis import table
from bench.experiment.summary import summarise
from bench.measures.future import Units
from bench.measures.structure import PROVIDERS
from bench.probes.bank import Bank
from bench.types import Probe
from running import config, lines, run, summary

T_7 = 2.364624251592785  # 97.5 % quantile of t with 7 degrees of freedom, from a table


def header() -> dict:
    return {
        "schema": 1, "run_id": "r", "status": "success", "strategy": {"name": "made", "label": "made", "version": "1"},
        "agent": {"name": "reader", "label": "reader"}, "model": None, "tokenizer": "o200k_base", "bank_sha256": "0", "versions": {},
        "config": {"seed": 0, "sessions": {"path": "there", "split": "all"}},
    }  # fmt: skip


def compaction(number: int, **fields) -> dict:
    return {
        "cut": f"s{number}#1", "session": f"s{number}", "cluster": f"s{number}", "outcome": "applied", "tokens_before": 1000,
        "tokens_after": 250, "turns_before": 20, "turns_after": 5, "target_tokens": 200, "tail_kept": 1.0,
        "calls": [], "coverage": {"cut": f"s{number}#1", "survived": [], "characters": 0, "lines": 0, "dead_lines": 0}, "violations": {provider: [] for provider in PROVIDERS},
    } | fields  # fmt: skip


def record(number: int, category: str, arm: str, score: float | None, survives: bool | None = None, **fields) -> dict:
    return {
        "cut": f"s{number}#1", "probe": f"s{number}#1/{category}", "arm": arm, "category": category, "form": "forced" if category == "work_done" else "free",
        "survives": survives, "visible": None, "status": "answered", "score": score, "outcome": "right" if score else "wrong",
    } | fields  # fmt: skip


def made(sessions: int, records: list[dict], compactions: dict[int, dict] | None = None) -> dict:
    changed = compactions or {}
    table = {f"s{n}#1": compaction(n, **changed.get(n, {})) for n in range(sessions)}
    probe = Probe("p", "facts", "?", "identifier", ("x",))
    units = {cut: Units(cut, line["session"], line["cluster"], (), (), ()) for cut, line in table.items()}
    return summarise(header(), table, records, Bank(probes={cut: (probe, probe) for cut in table}), units, 1.0)


def standard(sessions: int = 8) -> list[dict]:
    """Facts: the first half of the sessions right, and there; work done: right everywhere, on the floor in the first half."""
    records = []
    for n in range(sessions):
        early = n < sessions / 2
        records += [
            record(n, "facts", "full", 1.0),
            record(n, "facts", "floor", 0.0),
            record(n, "facts", "strategy", float(early), early),
            record(n, "facts", "placebo", 0.0, False),
            record(n, "work_done", "full", 1.0),
            record(n, "work_done", "floor", float(early)),
            record(n, "work_done", "strategy", 1.0, True),
        ]
    return records


def test_means_errors_and_intervals():
    s = made(8, standard())
    recall = s["metrics"]["recall"]
    # residuals of +-1/2 over 8 probes of one of two categories, one a cluster: SE^2 = 8/7 * 8 * (1/32)^2
    se = math.sqrt(8 / 7 * 8 * (1 / 32) ** 2)
    assert recall["value"] == 0.75
    assert recall["se"] == pytest.approx(se)
    assert recall["ci"] == pytest.approx([0.75 - T_7 * se, 0.75 + T_7 * se])
    assert (recall["n"], recall["clusters"]) == (16, 8)
    assert s["metrics"]["survival"] == recall
    assert s["metrics"]["ceiling"]["value"] == 1
    assert s["metrics"]["floor"]["value"] == 0.25
    facts = s["by_category"]["facts"]
    assert (facts["recall"]["value"], facts["recall"]["se"]) == (0.5, pytest.approx(math.sqrt(8 / 7 * 8 * (1 / 16) ** 2)))
    assert (facts["floor"]["value"], facts["ceiling"]["value"], facts["outcomes"]) == (0, 1, {"right": 4, "wrong": 4})
    assert s["by_category"]["work_done"]["floor"]["value"] == 0.5


def test_a_mean_over_categories_does_not_weigh_them_by_their_probes():
    records = [*standard(), *(record(n, "facts", "strategy", 0.0, False, probe=f"more{i}") for n in range(8) for i in range(6))]
    assert made(8, records)["metrics"]["recall"]["value"] == pytest.approx((4 / 56 + 1) / 2)


def test_probes_of_one_project_are_one_cluster():
    s = made(8, standard(), {n: {"cluster": f"c{n // 2}"} for n in range(8)})
    assert (s["clusters"], s["sessions"], s["metrics"]["recall"]["clusters"]) == (4, 8, 4)
    assert s["metrics"]["recall"]["se"] == pytest.approx(math.sqrt(4 / 3 * 4 * (2 / 32) ** 2))
    assert s["metrics"]["recall"]["ci"] is None


def test_retention():
    retention = made(8, standard())["metrics"]["retention"]
    assert retention["value"] == pytest.approx((0.75 - 0.25) / (1 - 0.25))
    assert retention["ci"][0] < retention["value"] < retention["ci"][1]
    assert (retention["n"], retention["clusters"]) == (16, 8)


def test_retention_takes_probes_with_all_three_scores_only():
    records = [*standard(), *(record(n, "facts", "strategy", 1.0, True, probe=f"no floor {n}") for n in range(8))]
    assert made(8, records)["metrics"]["retention"] == made(8, standard())["metrics"]["retention"]


@pytest.mark.parametrize(("right_on_the_floor", "suppressed"), [(7, False), (8, True), (9, True), (10, True)])
def test_retention_is_suppressed_where_the_floor_reaches_the_ceiling(right_on_the_floor, suppressed):
    records = [
        record(n, "facts", arm, score)
        for n in range(10)
        for arm, score in (("full", float(n < 9)), ("floor", float(n < right_on_the_floor)), ("strategy", 1.0))
    ]
    retention = made(10, records)["metrics"]["retention"]
    assert ("suppressed" in retention, retention["value"] is None) == (suppressed, suppressed)
    if not suppressed:
        assert retention["value"] == pytest.approx((1 - 0.7) / (0.9 - 0.7))


@pytest.mark.parametrize(("right", "floor", "leak"), [(0, 0, 0), (2, 0, 0.5), (2, 2, 0.25), (1, 6, 0), (4, 0, 1)])
def test_leak_is_recall_where_nothing_is_left_beyond_the_floor(right, floor, leak):
    records = []
    for n in range(8):
        records.append(record(n, "facts", "full", 1.0))
        records.append(record(n, "facts", "floor", float(n < floor)))
        # survives in sessions 4 to 7; answered right there, and in so many of sessions 0 to 3
        records.append(record(n, "facts", "strategy", float(n >= 4 or n < right), n >= 4))
        records.append(record(n, "work_done", "strategy", 1.0, False))  # forced choice: not in the squares
    s = made(8, records)
    assert s["survival_by_recall"] == {"there": {"right": 4, "wrong": 0}, "gone": {"right": right, "wrong": 4 - right}}
    assert s["controls"]["leak"] == pytest.approx(leak)
    assert any("leak" in reason for reason in s["invalid_because"]) == (leak > 0.05)


def test_use_gap_is_what_the_agent_does_not_find_although_it_is_there():
    records = standard()
    for r in records:
        if r["arm"] == "strategy" and r["cut"] == "s0#1" and r["category"] == "facts":
            r["score"] = 0.0  # one of four that are there
    assert made(8, records)["use_gap"] == pytest.approx(1 - 3 / 4)
    assert made(8, standard())["use_gap"] == 0


@pytest.mark.parametrize(
    ("arm", "field", "number", "invalid"),
    [
        ("full", "score", 9, None),
        ("full", "score", 8, None),  # .8 is enough
        ("full", "score", 7, "ceiling is 0.700, asked for >= 0.8"),
        ("floor", "score", 1, None),  # .1 is little enough
        ("floor", "score", 2, "floor is 0.200, asked for <= 0.1"),
        ("placebo", "survives", 0, None),
        ("placebo", "survives", 1, "placebo is 0.100, asked for <= 0.01"),
    ],
)
def test_what_makes_a_run_invalid(arm, field, number, invalid):
    records = [
        record(n, "facts", a, score, survives)
        for n in range(10)
        for a, score, survives in (("full", 1.0, None), ("floor", 0.0, None), ("strategy", 1.0, True), ("placebo", 0.0, False))
    ]
    # forced choice: neither a ceiling nor a floor is asked of it
    records += [record(n, "work_done", a, s) for n in range(10) for a, s in (("full", 0.0), ("floor", 1.0), ("strategy", 1.0))]
    for r in records:
        if r["arm"] == arm and r["category"] == "facts":
            r[field] = type(r[field])(int(r["cut"][1]) < number)
    s = made(10, records)
    assert s["invalid_because"] == ([invalid] if invalid else [])
    assert s["valid"] == (invalid is None)
    assert ("INVALID" in table.caption(s)) == (invalid is not None)


def test_unscored_is_left_out_and_never_zero():
    records = standard()
    for r in records:
        if r["cut"] == "s7#1":
            r |= {"score": None, "status": "error"}
    s = made(8, records)
    assert (s["metrics"]["recall"]["value"], s["metrics"]["recall"]["n"]) == (pytest.approx((4 / 7 + 1) / 2), 14)
    assert s["metrics"]["recall"]["clusters"] == 7
    assert s["errors"]["infrastructure"] == 7


def test_ratios_and_outcomes():
    changes = {
        0: {"tokens_after": 1000, "turns_after": 20, "outcome": "noop"},
        1: {"tokens_after": 2000, "violations": {"openai": [], "anthropic": ["a"], "gemini": ["a", "b"]}, "tail_kept": 0.5},
        2: {"outcome": "failed"},
        3: {"outcome": "invalid"},
    }
    s = made(4, standard(4), changes)
    metrics = {name: metric["value"] for name, metric in s["metrics"].items()}
    assert metrics["token_reduction"] == pytest.approx((0 - 1 + 0.75 + 0.75) / 4)
    assert metrics["compression_ratio"] == pytest.approx((1 + 0.5 + 4 + 4) / 4)
    assert metrics["message_preservation"] == pytest.approx((1 + 3 * 0.25) / 4)
    assert metrics["over_target"] == pytest.approx((800 + 1800 + 50 + 50) / 4)
    assert metrics["tail_kept"] == pytest.approx(3.5 / 4)
    assert metrics["structure_valid"] == 0.75
    assert {p: value["value"] for p, value in s["structure"].items()} == {"openai": 1, "anthropic": 0.75, "gemini": 0.75}
    assert s["violations"] == {"a": 1, "b": 1}
    assert s["outcomes"] == {"applied": 1, "noop": 1, "fallback": 0, "invalid": 1, "failed": 1}
    assert s["errors"]["strategy"] == 1
    # without the failed and the invalid cut: sessions 0 and 1, both right
    assert s["metrics"]["recall"]["value"] == 0.75
    assert (s["per_protocol"]["recall"]["value"], s["per_protocol"]["recall"]["n"]) == (1, 4)


def test_few_clusters_have_no_interval_and_are_shown_one_by_one():
    few, enough = made(7, standard(7)), made(8, standard(8))
    assert (table.small(few), table.small(enough)) == (True, False)
    assert {metric["ci"] for metric in few["metrics"].values()} == {None}
    assert few["metrics"]["recall"]["se"] > 0
    headings, body = table.session_rows([few])
    assert headings[:6] == ["session", "strategy", "cuts", "probes", "survival", "recall"]
    assert [row[:6] for row in body] == [
        [f"s{n}", "made", "1", "2", *(["1.00"] * 2 if n < 4 else ["0.50"] * 2)] for n in range(7)
    ]
    values = {"survival": 0.5, "recall": 0.5, "ceiling": 1, "floor": 0, "token_reduction": 0.75, "cuts": 1, "probes": 2}
    assert {name: few["by_session"]["s5"][name] for name in values} == values


def test_one_session_and_no_record_at_all():
    s = made(1, [])
    assert {s["metrics"][name]["value"] for name in ("survival", "recall", "ceiling", "floor", "retention")} == {None}
    assert (s["valid"], s["by_category"], s["use_gap"], s["controls"]["leak"]) == (True, {}, None, None)
    assert table.session_rows([s])[1][0][:9] == ["s0", "made", "1", "0", "–", "–", "–", "–", "0.75"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"value": None, "ci": None}, "–"),
        ({"value": 0.5, "ci": None}, "0.50"),
        ({"value": 0.5, "ci": [0.4, 0.6]}, "0.50 [0.40, 0.60]"),
        ({"value": 1.0, "ci": [1.0, 1.0]}, "1.00"),
        ({"value": 0.97, "ci": [0.93, 1.01]}, "0.97 [0.93, 1.00]"),
        ({"value": 0.03, "ci": [-0.01, 0.07]}, "0.03 [0.00, 0.07]"),
        ({"value": -0.5, "ci": [-0.6, -0.4]}, "-0.50 [-0.60, -0.40]"),
        ({"value": 1.1, "ci": [1.02, 1.18]}, "1.10 [1.02, 1.18]"),
    ],
)
def test_how_an_estimate_is_written(value, text):
    assert table.estimate(value) == text


def test_runs_with_different_probes_cannot_be_compared():
    one, other = made(8, standard()), made(8, standard()) | {"bank_sha256": "1"}
    assert table.mismatch([one, one]) == ""
    assert "cannot be compared" in table.mismatch([one, other])


@pytest.mark.parametrize(("strategy", "value"), [("none", 1), ("reset", 0)])
def test_the_two_ends_of_the_scale_on_bundled_sessions(tmp_path, strategy, value):
    folder = run(None, tmp_path, strategy, sessions={"limit": 2}, replay={"number": 1})
    s = summary(folder)
    assert s["sessions"] == 2
    assert s["metrics"]["survival"]["value"] == value
    assert s["metrics"]["retention"]["value"] == value
    assert {r["survives"] for r in lines(folder / "records.jsonl") if r["arm"] == "strategy"} <= {bool(value), None}
    assert config(None, tmp_path).sessions.path is None
