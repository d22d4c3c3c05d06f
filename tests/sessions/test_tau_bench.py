from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.registry import FORMATS
from bench.sessions import load
from bench.sessions.document import open_document
from bench.types import BenchError

RESULTS = Path(__file__).resolve().parents[2] / "../shared/sessions/tau-bench/gpt-4o-airline-longest60.json"


def run(task=3, trial=0, instruction="Change the booking.", words="go", **fields):
    use = {"id": "c1", "type": "function", "function": {"name": "get_booking", "arguments": '{"booking_id": "JG7FMM"}'}}
    chat = [
        {"role": "system", "content": "Policy"},
        {"role": "user", "content": words},
        {"role": "assistant", "content": None, "tool_calls": [use]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_booking", "content": '{"seat": "12A"}'},
    ]
    info = {"task": {"user_id": "u1", "instruction": instruction}}
    return {"task_id": task, "trial": trial, "reward": 1.0, "info": info, "traj": chat} | fields


def read(tmp_path, *runs, name="results.json"):
    path = tmp_path / name
    path.write_text(json.dumps(runs))
    return load(path)


def test_every_run_of_a_file_is_a_session(tmp_path):
    loaded = read(tmp_path, run(words="a"), run(trial=1, words="b"), run(task=4, words="c"))
    assert [s.id for s in loaded.sessions] == ["results:task3-trial0", "results:task3-trial1", "results:task4-trial0"]
    assert {s.source.format for s in loaded.sessions} == {"tau_bench"}
    first = loaded.sessions[0]
    assert [m.role for m in first.messages] == ["system", "user", "assistant", "tool"]
    assert [m.id for m in first.messages] == ["m0", "m1", "m2", "m3"]
    assert first.messages[2].calls[0].arguments == {"booking_id": "JG7FMM"}
    assert (first.messages[3].call_id, first.messages[3].text) == ("c1", '{"seat": "12A"}')
    assert first.problems == ()


def test_runs_of_one_task_are_one_cluster_in_whatever_file(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    read(folder, run(words="a"), run(trial=1, words="b"), name="one.json")
    read(folder, run(words="c"), run(task=4, words="d"), name="two.json")
    read(folder, run(instruction="Return the shoes.", words="e"), name="retail.json")
    clusters = {s.id: s.cluster for s in load(folder).sessions}
    assert clusters["one:task3-trial0"] == clusters["one:task3-trial1"] == clusters["two:task3-trial0"]
    assert len({clusters[name] for name in ("two:task3-trial0", "two:task4-trial0", "retail:task3-trial0")}) == 3


@pytest.mark.parametrize("info", [None, {}, {"task": None}, {"task": {}}, "text", {"task": {"instruction": None}}])
def test_a_run_without_an_instruction_is_named_by_its_task(tmp_path, info):
    assert read(tmp_path, run(info=info)).sessions[0].project == "task3"


@pytest.mark.parametrize("traj", [None, [], {}, "text"])
def test_a_run_without_messages_is_named_and_the_others_are_read(tmp_path, traj):
    loaded = read(tmp_path, run(), run(task=9, trial=2, traj=traj))
    assert [s.id for s in loaded.sessions] == ["results:task3-trial0"]
    assert any("results:task9-trial2 holds no message" in line for line in loaded.left_out)


@pytest.mark.parametrize("runs", [[{"task_id": 1}], [{"traj": []}], [{"messages": [{"role": "user", "content": "a"}]}], [5]])
def test_what_is_no_result_of_tau_bench_is_left_to_the_other_readers(tmp_path, runs):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(runs))
    assert FORMATS.get("tau_bench")().missing(open_document(path))
    with pytest.raises(BenchError, match="cannot be read as tau_bench"):
        load(path, format="tau_bench")


@pytest.mark.skipif(not RESULTS.is_file(), reason="no recorded results beside the checkout")
def test_real_results_against_counts_of_their_raw_json():
    raw = json.loads(RESULTS.read_text())
    loaded = load(RESULTS)
    assert (len(loaded.sessions), loaded.left_out) == (len(raw), [])
    assert len({s.cluster for s in loaded.sessions}) == len({item["task_id"] for item in raw})
    for session, item in zip(loaded.sessions, raw):
        assert [m.role for m in session.messages] == [m["role"] for m in item["traj"]]
        assert [m.text for m in session.messages] == [m["content"] or "" for m in item["traj"]]
        calls = [c["function"]["arguments"] for m in item["traj"] for c in m.get("tool_calls") or []]
        assert [c.arguments for m in session.messages for c in m.calls] == [json.loads(arguments) for arguments in calls]
        assert not [p for p in session.problems if "no result" in p or "no call" in p]
