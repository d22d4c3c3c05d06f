"""The commands as a user calls them: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import COMMANDS, main
from bench.commands.run import _arranged, with_hydra
from bench.registry import AGENTS, FORMATS, MODELS, PROBES, STRATEGIES, WRAPPERS
from bench.sessions import load
from making import assistant, call, result, session, user, value, work, write_openai
from running import SMALL, lines, run, summary, write_sessions

SOURCES = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    return write_sessions(tmp_path_factory.mktemp("sessions"))


@pytest.fixture(scope="module")
def finished(sessions, tmp_path_factory):
    return run(sessions, tmp_path_factory.mktemp("results"), "reset")


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Calls a command in this process, in a folder of its own: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench"])

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return call


def folders(out: str) -> list[Path]:
    """The run folders that `run` names at the end."""
    return [Path(line) for line in out.splitlines() if line.startswith("results/runs/")]


def process(tail: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command piped into `tail` by a shell that reports the command's own exit code."""
    line = '"$0" -m bench "$@" | ' + tail + "; exit ${PIPESTATUS[0]}"
    return subprocess.run(
        ["bash", "-c", line, sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": str(SOURCES)} | environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


# --- list, help


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("strategies", STRATEGIES.names()),
        ("wrappers", WRAPPERS.names()),
        ("models", ["none", *MODELS.names()]),
        ("formats", FORMATS.names()),
        ("probes", PROBES.names()),
        ("agents", AGENTS.names()),
    ],
)
def test_list(bench, kind, names):
    code, out, error = bench("list", kind)
    head, *rows = out.splitlines()
    assert (code, error) == (0, "")
    assert [row.split()[0] for row in rows] == names
    assert all(len(row.split()) >= len(head.split("  ")) - head.count("  ") for row in rows)
    assert not any("None" in row for row in rows)


def test_list_strategies_says_their_parameters(bench):
    rows = {line.split()[0]: line for line in bench("list", "strategies")[1].splitlines()}
    assert "keep_bytes=2000 keep_recent=3" in rows["prune"]
    assert "tool results" in rows["prune"]


def test_list_sessions(bench, bundled):
    code, out, _ = bench("list", "sessions")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert code == 0
    assert {row[0] for row in rows} == {s.id for s in bundled}
    assert {row[0]: row[1] for row in rows} == {s.id: s.project for s in bundled}
    assert {row[2] for row in rows} == {"tuning", "held_out"}


@pytest.mark.parametrize("arguments", [[], ["things"], ["agents", "formats"]])
def test_list_of_something_else(bench, arguments):
    assert bench("list", *arguments) == (
        2,
        "",
        "error: list takes one of: strategies, wrappers, models, sessions, formats, probes, agents\n",
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(bench, capsys, command):
    try:
        code, out, _ = bench(command, "--help")
    except SystemExit as stopped:
        code, out = stopped.code, capsys.readouterr().out
    assert code == 0
    assert out.startswith(f"usage: python -m bench {command}")


# --- run and estimate


def test_a_multirun_prints_one_table_of_all(bench, tmp_path):
    folder = write_sessions(tmp_path / "s", [f"s{n}" for n in range(8)], 8)
    arguments = ["strategy=none,reset", "-m", f"sessions.path={folder}", "replay.number=1", "probes.categories=[facts]"]
    code, out, _ = bench("run", *arguments)
    assert code == 0
    assert out.count("What each strategy keeps") == 1
    table = out.split("What each strategy keeps\n")[1].split("\n\n")[0].splitlines()
    assert table[0].split()[:3] == ["strategy", "survival", "placebo"]
    assert [(row.split()[0], row.split()[1]) for row in table[1:]] == [("none", "1.00"), ("reset", "0.00")]
    assert out.count("sessions in 8 clusters, 8 cuts") == 1
    assert [summary(f)["strategy"]["name"] for f in folders(out)] == ["none", "reset"]
    assert not list((tmp_path / "results" / "runs").glob("*/multirun.yaml"))


def test_a_multirun_of_few_clusters_prints_each_session(bench, sessions):
    code, out, _ = bench("run", "-m", "strategy=none,reset", f"sessions.path={sessions}", *SMALL)
    assert code == 0
    assert "What each strategy keeps" not in out
    part = out.split("Too few clusters for an average, so each session\n")[1].split("\n\n")[0]
    found = [[row.split()[n] for n in (0, 1, 2, 4)] for row in part.splitlines()[1:]]
    assert found == [[s, name, "2", v] for s in ("one", "two") for name, v in (("none", "1.00"), ("reset", "0.00"))]


def test_a_job_that_cannot_start_lets_the_others_finish(bench, sessions):
    code, out, error = bench("run", "-m", "strategy.name=none,nonsense,reset", f"sessions.path={sessions}", *SMALL)
    assert code == 2
    assert [line for line in error.splitlines() if line.startswith("error: ")] == [
        line for line in error.splitlines() if "unknown strategy 'nonsense'" in line
    ]
    assert [summary(f)["strategy"]["name"] for f in folders(out)] == ["none", "reset"]


def test_estimate_counts_what_the_run_then_does(bench, sessions, tmp_path):
    short = session(user("go"), assistant("done"), id="short")
    write_openai(short, write_sessions(tmp_path / "s") / "short.json")  # which gives no cut
    code, out, _ = bench("estimate", "-m", "strategy=none,reset", f"sessions.path={tmp_path}/s", *SMALL)
    assert code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s"]  # nothing is written
    head, *rows = [line.split() for line in out.splitlines()]
    assert head[:5] == ["strategy", "sessions", "cuts", "probes", "answers"]
    for row in rows:
        code, out, _ = bench("run", f"strategy={row[0]}", f"sessions.path={tmp_path}/s", *SMALL)
        folder = folders(out)[0]
        made, compactions = summary(folder), lines(folder / "compactions.jsonl")
        tokens = [line["tokens_before"] for line in compactions]
        assert row == [
            row[0], str(made["sessions"]), str(made["cuts"]), str(made["probes"]), str(len(lines(folder / "records.jsonl"))),
            f"{sum(tokens):,}", f"{max(tokens):,}", "–", "0", "0", "0", "0.00", folder.name,
        ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "with spaces", "a=b", "a,b", "Gr\u00fc\u00dfe", "\u65e5\u672c", "a (copy)", "it's", 'say "so"', "back\\slash", "end\\",
        "[x]", "{a}", "a#b", "a:b", "2026", "1e5", "true", "'quoted", "$HOME", "50%",
    ],
)  # fmt: skip
def test_any_path_of_sessions(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench"])
    Path(name).mkdir()
    write_openai(work(9), Path(name) / "work.json")
    paths = []
    assert (
        with_hydra(
            "run", [f"sessions.path={name}"], lambda values: values["sessions"]["path"], lambda found: paths.extend(found) or 0
        )
        == 0
    )
    assert paths == [name]
    assert [s.id for s in load(paths[0]).sessions] == ["work"]


@pytest.mark.parametrize(
    "path", ["~/my sessions", "~/my sessions/*.json", "~/my sessions/work.json", "'my sessions'", '"my sessions"']
)
def test_a_path_of_sessions_in_the_home_folder_or_in_quotes(bench, tmp_path, monkeypatch, path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my sessions").mkdir()
    write_openai(work(9), tmp_path / "my sessions" / "work.json")
    code, out, _ = bench("estimate", f"sessions.path={path}", "replay.number=1", "probes.categories=[user_messages]")
    assert (code, out.splitlines()[1].split()[:3]) == (0, ["none", "1", "1"])


def test_free_text_in_other_places(bench, sessions, tmp_path):
    (tmp_path / "my compactor, 2.py").write_text("def compact(messages):\n    return messages[:1] + messages[-18:]\n")
    target = "strategy.target=my compactor, 2.py:compact"
    code, _, _ = bench("run", "strategy=custom", target, f"sessions.path={sessions}", "results_dir=re sults, 1=2", *SMALL)
    (folder,) = (tmp_path / "re sults, 1=2").iterdir()
    assert (code, summary(folder)["outcomes"]["applied"]) == (0, 4)


def test_flags_may_stand_anywhere():
    assert _arranged(["strategy=none", "-m", "--config-dir", "my dir", "seed=1"]) == [
        "-m", "--config-dir", "my dir", "strategy=none", "seed=1",
    ]  # fmt: skip


def test_flags_after_overrides(bench):
    code, out, _ = bench("run", "strategy=prune", "--cfg", "job")
    assert code == 0
    assert "name: prune" in out


def test_configuration_of_ones_own(bench, sessions, tmp_path):
    (tmp_path / "mine" / "strategy").mkdir(parents=True)
    (tmp_path / "mine" / "strategy" / "gentle.yaml").write_text("name: prune\nkeep_bytes: 10\nkeep_recent: 1\n")
    code, out, _ = bench("run", "strategy=gentle", f"sessions.path={sessions}", *SMALL, "--config-dir", "mine")
    assert (code, summary(folders(out)[0])["strategy"]["keep_bytes"]) == (0, 10)


def test_an_experiment_of_ones_own(bench, sessions, tmp_path):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    overlay = "# @package _global_\ndefaults:\n  - override /agent: oracle\n  - override /strategy: reset\nseed: 7\n"
    (tmp_path / "mine" / "experiment" / "mine_alone.yaml").write_text(overlay)
    arguments = [f"sessions.path={sessions}", *SMALL, "--config-dir", "mine"]
    code, out, _ = bench("run", "experiment=mine_alone", *arguments)
    made = summary(folders(out)[0])
    assert (code, made["agent"], made["strategy"]["name"]) == (0, "oracle", "reset")
    header = json.loads((folders(out)[0] / "header.json").read_text(encoding="utf-8"))
    assert header["config"]["seed"] == 7


# --- show


def test_show_a_run(bench, finished):
    code, out, error = bench("show", finished)
    assert (code, error) == (0, "")
    first, second, *rest = out.splitlines()
    line = lines(finished / "compactions.jsonl")[1]
    assert first.startswith("one#2 under reset: applied")
    assert second.startswith(f"{line['tokens_before']:,} -> {line['tokens_after']:,} tokens, ")
    marks = [row.split()[0] for row in rest if row.split() and row.split()[0] in ("kept", "gone", "rewritten", "new")]
    span = line["at"] - line["head"] - line["tail"]
    assert marks == ["kept"] * line["head"] + ["gone"] * span + ["kept"] * line["tail"]
    assert [row for row in rest if row.startswith("---")] == ["--- span", "--- tail"]
    records = [r for r in lines(finished / "records.jsonl") if r["cut"] == "one#2" and r["arm"] == "strategy"]
    assert f"{len(records)} of {len(records)} probes died" in out
    assert "structure: valid for every provider" in out or "first_turn_not_user" in out
    assert value(("one", "parser0", "build")) not in first


def test_show_a_cut_of_a_session(bench, finished):
    assert bench("show", finished, "--session", "two", "--cut", "1")[1].startswith("two#1 under reset: ")
    assert bench("show", finished, "--cut", "1", "--strategy", "reset")[1].startswith("one#1 under reset: ")


def test_show_where_nothing_died(bench, sessions, tmp_path):
    out = bench("show", run(sessions, tmp_path, "none"))[1]
    assert "under none: noop" in out
    assert "gone" not in out
    assert " probes survive and are answered" in out


def test_show_sessions_applies_a_strategy_and_shares_its_run(bench, tmp_path):
    write_openai(work(12, id="mine"), tmp_path / "mine.json")
    code, out, _ = bench("show", "mine.json", "--strategy", "oldest")
    assert (code, out.splitlines()[0].split(":")[0]) == (0, "mine#5 under oldest")
    (folder,) = (tmp_path / "results" / "runs").iterdir()
    assert bench("show", folder)[1] == out
    code, out, _ = bench("run", "strategy=oldest", "sessions.path=mine.json")
    assert folders(out) == [folder.relative_to(tmp_path)]  # the configuration of `show` is that of `run`


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["RUN", "--cut", "9"], "one has no cut 9; it has 1, 2"),
        (["RUN", "--session", "three"], "no session 'three' in RUN; there are: one, two"),
        (["RUN", "--strategy", "prune"], "RUN is a run of reset, not of prune"),
        (["missing"], "missing is no run folder; for recorded sessions add --strategy NAME"),
        (["missing", "--strategy", "prune"], "no file at sessions.path=missing"),
        (["SESSIONS", "--strategy", "prun"], "unknown strategy 'prun' (did you mean 'prune'?); there are: "),
        (["SESSIONS", "--strategy", "custom"], "strategy=custom needs strategy.target="),
    ],
)
def test_show_of_what_is_not_there(bench, finished, sessions, arguments, says):
    names = {"RUN": str(finished), "SESSIONS": str(sessions)}
    code, out, error = bench("show", *(names.get(argument, argument) for argument in arguments))
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("error: " + says.replace("RUN", str(finished)))


def test_text_of_sessions_is_printed_as_it_stands(bench, tmp_path):
    """No markup, no emoji names; control characters, which could colour the terminal or rename its window, as a sign."""
    made = work(12, id="[bold]one[/bold]")
    messages = list(made.messages)
    odd = [
        user("[bold]loud[/bold] [/x] :bug: [link=http://x]y[/link]"),
        assistant("\x1b[31mred\x1b]0;title\x07 \x9b2J", call("odd", "[red]Tool[/red]", a=1)),
        result("odd", "C:\\[done] \\[x] :smile: back\\"),
    ]
    write_openai(session(*messages[:12], *odd, *messages[12:], id=made.id), tmp_path / "odd.json")
    code, out, _ = bench("show", "odd.json", "--strategy", "none")
    assert code == 0
    for text in ("[bold]loud[/bold] [/x] :bug: [link=http://x]y[/link]", "[red]Tool[/red]: ", "C:\\[done] \\[x] :smile: back\\"):
        assert text in out
    assert "\N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}" in out
    assert not [c for c in out if ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160]


def test_a_question_with_markup_in_the_table_of_dead_probes(bench, tmp_path):
    file = write_openai(work(12, id="odd"), tmp_path / "odd.json")
    file.write_text(file.read_text().replace("make -C ", "make [b]:bug:[/x] -C "))
    code, out, _ = bench("show", "odd.json", "--strategy", "reset")
    assert code == 0
    assert "In the output of `make [b]:bug:[/x] -C " in out.split("probes died\n")[1]


# --- as processes


@pytest.mark.parametrize(
    ("arguments", "tail"), [(["list", "strategies"], "true"), (["show", "RUN"], "head -1"), (["--help"], "true")]
)
def test_a_reader_that_leaves_is_no_error(finished, arguments, tail):
    names = {"RUN": str(finished)}
    done = process(tail, *(names.get(argument, argument) for argument in arguments), PYTHONUNBUFFERED="")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_whose_output_nobody_reads(sessions, tmp_path):
    arguments = ["strategy=reset", f"sessions.path={sessions}", f"results_dir={tmp_path}", *SMALL]
    done = process("true", "run", *arguments)
    assert (done.returncode, done.stderr) == (0, "cuts 4/4, errors 0\n")
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "header.json").read_text())["status"] == "success"


def test_a_terminal_without_unicode(tmp_path):
    folder = run(write_sessions(tmp_path / "s", ["Gr\u00fc\u00dfe"]), tmp_path / "r", "none")
    done = process("cat", "show", str(folder), PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Gr\\xfc\\xdfe#2 under none: noop")


# --- checks of the harness itself


def test_calibration_is_a_command(bench, sessions):
    code, out, _ = bench("run", "experiment=calibration", f"sessions.path={sessions}", *SMALL)
    folder = folders(out)[0]
    checks = json.loads((folder / "checks.json").read_text(encoding="utf-8"))["checks"]
    assert code == 0
    assert f"{len(checks)} of {len(checks)} checks passed" in out
    assert all(check["passed"] for check in checks)
    assert json.loads((folder / "header.json").read_text(encoding="utf-8"))["config"]["checks"]["name"] == "calibration"
