"""Runs whose strategy asks a model: what is recorded of it, how its failures end, what it may cost."""

from __future__ import annotations

import json

import pytest

from bench.__main__ import main
from bench.experiment import plan, runner
from bench.experiment.rescore import rescore
from bench.experiment.store import Run
from bench.types import BenchError
from running import DATA, SMALL, config, files, lines, run, summary, write_sessions
from serving import answer, serve, status

TEXT = "The build ids were noted; the limits of parser0 and server1 were raised. " * 5
SCRIPTED = {"name": "scripted", "characters": 4_000}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    return write_sessions(tmp_path_factory.mktemp("sessions"))


@pytest.fixture
def key(monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_TEST_KEY", "k-0123456789")
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "cache"))
    return "BENCH_TEST_KEY"


def remote(server, key, **changes):
    return {
        "name": "litellm", "model": "openai/test", "api_base": server.url, "keys": [key], "retries": 0,
        "prices": {"input": 1.0, "output": 2.0},
    } | changes  # fmt: skip


def overrides(server, key):
    return [
        "model=litellm", "model.model=openai/test", f"model.api_base={server.url}", f"model.keys=[{key}]", "model.retries=0",
        "model.prices={input: 1.0, output: 2.0}",
    ]  # fmt: skip


def test_every_call_is_recorded_with_what_the_model_was_shown(sessions, tmp_path):
    folder = run(sessions, tmp_path, "gemini_cli", model=SCRIPTED)
    done = Run(folder)
    contexts = done.contexts()
    applied = [line for line in done.compactions.values() if line["outcome"] == "applied"]
    assert applied
    for line in applied:
        assert [call["purpose"] for call in line["calls"]] == ["summary", "verification"]
        shown = contexts[line["calls"][0]["request"]]
        answered = contexts[line["calls"][0]["answer"]]
        assert answered[0].text in shown[-1].text + shown[0].text
        assert all(call["usd"] == 0 and call["input"] > 0 and not call["cached"] for call in line["calls"])
    records = [r for r in done.records if r["arm"] == "strategy"]
    assert {r["visible"] for r in records} <= {True, False, None}
    assert summary(folder)["metrics"]["visible"]["value"] > summary(folder)["metrics"]["survival"]["value"]
    assert summary(folder)["model_calls"]["calls"] == sum(len(line["calls"]) for line in done.compactions.values())


def test_a_rescore_reads_what_the_model_was_shown(sessions, tmp_path):
    folder = run(sessions, tmp_path, "claude_code", model=SCRIPTED)
    before = files(folder)
    assert rescore(folder) == []
    assert files(folder) == before


def test_the_number_of_processes_changes_no_byte(sessions, tmp_path):
    one = run(sessions, tmp_path / "one", "gemini_prune", model=SCRIPTED)
    two = run(sessions, tmp_path / "two", "gemini_prune", model=SCRIPTED, executor={"workers": 2})
    assert {name: (one / name).read_bytes() for name in DATA} == {name: (two / name).read_bytes() for name in DATA}


def test_a_model_counts_only_under_a_strategy_that_asks_one(sessions, tmp_path):
    without = plan.make(config(sessions, tmp_path, "prune"))
    unused = plan.make(config(sessions, tmp_path, "prune", model=SCRIPTED))
    used = [plan.make(config(sessions, tmp_path, "kode", model=SCRIPTED | {"characters": n})).run_id for n in (500, 600)]
    assert without.run_id == unused.run_id
    assert used[0] != used[1]


@pytest.mark.parametrize(
    ("strategy", "changes", "label"),
    [
        ("prune", {}, "prune"),
        ("prune", {"keep_recent": 3, "keep_bytes": 500}, "prune (keep_bytes=500)"),
        ("middle", {"faithful": True}, "middle (faithful)"),
        ("trim_tools", {"wrap": ["history_pointer"]}, "trim_tools + history_pointer"),
        ("reset", {"wrap": [{"name": "reinject", "source": "user_messages"}]}, "reset + reinject (source=user_messages) [privileged]"),
        ("kode", {}, "kode / scripted"),
    ],
)  # fmt: skip
def test_a_row_is_called_by_what_sets_it_apart(sessions, tmp_path, strategy, changes, label):
    made = plan.make(config(sessions, tmp_path, {"name": strategy, **changes}, model=SCRIPTED))
    assert made.label == label
    assert runner.header(made, "started")["strategy"]["label"] == label


def test_without_a_model_the_error_says_which_there_are(sessions, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "strategy=claude_code", f"sessions.path={sessions}", *SMALL]) == 2
    said = capsys.readouterr().err
    assert "claude_code asks a model" in said
    assert all(word in said for word in ("model=litellm", "model.api_base", "model=scripted"))
    assert "Traceback" not in said


def test_without_a_key_nothing_starts(sessions, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    arguments = ["strategy=claude_code", "model=litellm", "model.model=anthropic/claude-sonnet-4-5", f"sessions.path={sessions}"]
    assert main(["run", *arguments, *SMALL]) == 2
    assert "ANTHROPIC_API_KEY" in capsys.readouterr().err
    assert not list(tmp_path.rglob("header.json"))


def test_before_the_first_call_run_says_where_how_much_and_at_what_price(sessions, tmp_path, capsys, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    with serve(answer(TEXT)) as server:
        arguments = [
            "strategy=kode", "strategy.instructions='Keep, please: every build id'", "model.tier=free", f"sessions.path={sessions}",
        ]  # fmt: skip
        assert main(["run", *arguments, *overrides(server, key), *SMALL]) == 0
        told = capsys.readouterr()
        assert server.url in told.err
        assert "4 calls" in told.err
        assert "$" in told.err
        assert "train" in told.err
        assert len(server.requests) == 4
        assert all("Keep, please: every build id" in "".join(request.texts) for request in server.requests)
    assert "tokens in" in told.out
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"k-0123456789" not in stored
    assert "k-0123456789" not in told.out + told.err


def test_an_estimate_sends_nothing_and_says_what_the_run_then_sends(sessions, tmp_path, capsys, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    with serve(answer(TEXT)) as server:
        arguments = ["strategy=kode", f"sessions.path={sessions}", *overrides(server, key), *SMALL]
        assert main(["estimate", *arguments]) == 0
        head, row = capsys.readouterr().out.splitlines()[:2]
        assert server.requests == []
        assert head.split()[:1] == ["strategy"]
        assert server.url in row
        made = plan.make(config(sessions, tmp_path, "kode", model=remote(server, key)))
        folder = runner.run(made)
        sent = sum(call["input"] for line in lines(folder / "compactions.jsonl") for call in line["calls"])
    assert sent == 4 * 100  # the server's own count; ours is in the estimate
    assert " 4 " in row


def test_a_key_that_is_refused_while_the_run_goes_on_is_an_outcome(sessions, tmp_path, key):
    with serve(answer(TEXT), status(401, "invalid key")) as server:
        folder = run(sessions, tmp_path, "kode", model=remote(server, key))
    outcomes = [line["outcome"] for line in lines(folder / "compactions.jsonl")]
    assert outcomes == ["applied", "failed", "failed", "failed"]
    failed = lines(folder / "compactions.jsonl")[1]
    assert failed["note"].startswith("HTTP 401")
    assert failed["calls"][0]["error"].startswith("key: ")
    assert failed["context_after"] == failed["context_before"]
    assert summary(folder)["per_protocol"]["recall"]["n"] < summary(folder)["metrics"]["recall"]["n"]


def test_the_response_cache_answers_the_same_run_again(sessions, tmp_path, key):
    with serve(answer(TEXT)) as server:
        first = run(sessions, tmp_path / "one", "kode", model=remote(server, key))
        again = run(sessions, tmp_path / "two", "kode", model=remote(server, key))
        assert len(server.requests) == 4
    assert summary(again)["model_calls"]["cached"] == 4
    assert summary(again)["metrics"] == summary(first)["metrics"]


def test_max_usd_stops_a_run_before_it_is_passed_and_more_goes_on(sessions, tmp_path, key):
    with serve(answer(TEXT, usage=(100_000, 1_000))) as server:  # $0.102 a call
        model = remote(server, key, window=500_000, max_output=2_000)
        with pytest.raises(BenchError, match=r"max_usd.*of 4 cuts are done"):
            run(sessions, tmp_path, "kode", model=model, max_usd=0.15)
        stopped = next(tmp_path.glob("kode-*"))
        assert json.loads((stopped / "header.json").read_bytes())["status"] == "stopped"
        done = len(lines(stopped / "compactions.jsonl"))
        assert 1 <= done < 4
        assert len(server.requests) == done
        folder = run(sessions, tmp_path, "kode", model=model, max_usd=5.0)
        assert folder == stopped
        assert len(server.requests) == 4
    assert summary(folder)["status"] == "success"
    assert summary(folder)["metrics"]["cost_usd"]["value"] == pytest.approx(0.102)


def test_a_limit_that_cannot_be_kept_is_a_set_up_error(sessions, tmp_path, key):
    with (
        serve(answer(TEXT)) as server,
        pytest.raises(BenchError, match="price"),
    ):
        run(sessions, tmp_path, "kode", model=remote(server, key, prices={}), max_usd=1.0)
