"""What users hand over by mistake: one clear sentence and exit code 2, or a run that says what was wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.types import BenchError
from making import assistant, session, system, user, work, write_claude_code, write_lines, write_openai

SOURCES = Path(__file__).resolve().parents[1] / "src"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Calls `run` in this process, in a folder of its own: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench"])

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["run", f"results_dir={tmp_path}/results", *arguments])
        return (code, *capsys.readouterr())

    return call


def one_error(code: int, out: str, error: str) -> str:
    """The sentence of the one error that was printed."""
    assert code == 2
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("error: ") == 1
    assert "Traceback" not in error
    return error.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["strategy=prun"], "unknown strategy 'prun'; there are: "),
        (["agent=nobody"], "unknown agent 'nobody'; there are: "),
        (["strategy.name=prun"], "unknown strategy 'prun' (did you mean 'prune'?); there are: "),
        (["nonsense=1"], "unknown key 'nonsense'"),
        (["replay.nonsense=1"], "unknown key 'replay.nonsense'"),
        (["+replay.nonsense=1"], "configuration: replay.nonsense: "),
        (["strategy=prune", "strategy.nonsense=1"], "unknown key 'strategy.nonsense'"),
        (["strategy=prune", "+strategy.nonsense=1"], "nonsense"),
        (["replay.number=many"], "configuration: replay.number: "),
        (["replay.number=0"], "configuration: replay.number: "),
        (["replay.first=0.9", "replay.last=0.4"], "configuration: replay: "),
        (["seed=one"], "configuration: seed: "),
        (["overwrite=sometimes"], "configuration: overwrite: "),
        (["sessions.split=test"], "configuration: sessions.split: "),
        (["sessions.format=word"], "unknown session format 'word'"),
        (["sessions.format=openai"], "sessions.format names the format of sessions.path"),
        (["tokenizer=words"], "token encoding 'words' is not available"),
        (["probes.categories=[feelings]"], "unknown probe category 'feelings'"),
        (["strategy"], ""),
        (["strategy={"], ""),
        (["=5"], ""),
        (["strategy=5"], ""),
        (["agent=1.5"], ""),
        (["strategy=custom"], "strategy.target"),
        (["strategy=custom", "strategy.target=missing.py:compact"], "missing.py"),
    ],
)
def test_a_wrong_configuration(run, arguments, says):
    sentence = one_error(*run(*arguments))
    assert says in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("command", ["", "runn", "--nonsense"])
def test_a_wrong_command(capsys, command):
    assert main([command] if command else []) == 2
    out, error = capsys.readouterr()
    assert ("usage: " in out) if not command else error.startswith(f"error: unknown command {command!r}; there are: run, ")


def test_an_option_that_hydra_does_not_know(run, capsys):
    with pytest.raises(SystemExit) as stopped:
        run("--nonsense")
    assert stopped.value.code == 2
    assert capsys.readouterr().err.endswith("error: unrecognized arguments: --nonsense\n")


def folder_of(path: Path, **files: bytes) -> None:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing", "no file at sessions.path=missing"),
        ("a folder/missing, too.jsonl", "no file at sessions.path=a folder/missing, too.jsonl"),
        ("", "sessions.path is empty"),
        ("empty", "folder empty holds no file"),
        ("foreign", "no session in foreign:\n  foreign/a.csv"),
        ("foreign/a.csv", "foreign/a.csv holds no JSON"),
        ("foreign/b.json", "foreign/b.json is in no format that is known here:\n  canonical: no header line"),
        ("foreign/broken.gz", "cannot read foreign/broken.gz: "),
        ("void.json", "no session of void.json can be cut: one: no cut (1 messages)"),
        ("two.json", "no session of two.json can be cut: two: no cut (2 messages)"),
    ],
)
def test_a_path_that_gives_no_session_to_measure(run, tmp_path, path, says):
    folder_of(tmp_path / "empty")
    folder_of(
        tmp_path / "foreign",
        **{"a.csv": b"a,b\n", "b.json": b'{"a": 1}', "broken.gz": b"\x1f\x8b\x08broken"},
    )
    (tmp_path / "void.json").write_text(json.dumps({"id": "one", "messages": [{"role": "user", "content": "go"}]}))
    write_openai(session(user("go"), assistant("done")), tmp_path / "two.json")
    assert one_error(*run(f"sessions.path={path}")).startswith(says)
    assert not (tmp_path / "results").exists()


def test_a_folder_given_as_the_place_of_results_that_cannot_be_one(run, tmp_path):
    (tmp_path / "file").write_text("")
    write_claude_code(work(9), tmp_path / "work.jsonl")
    sentence = one_error(*run(f"sessions.path={tmp_path}/work.jsonl", f"results_dir={tmp_path}/file/below", *SMALL))
    assert f"cannot write to {tmp_path}/file/below" in sentence


SMALL = ["strategy=oldest", "replay.number=1", "probes.categories=[facts,user_messages]"]


def odd_sessions(folder: Path) -> dict[str, str]:
    """Sessions that can be measured although something is wrong with each; name of the session -> what must be noted."""
    folder.mkdir()

    def bytes_of(name: str) -> bytes:
        path = write_claude_code(work(9, with_system=False, id=name), folder / f"{name}.jsonl")
        return path.read_bytes()

    build = b"compiling parser0"
    for name, put in (("not_utf8", b"\xff\xfe"), ("surrogate", b"\\ud83d"), ("nul", b"\x00"), ("escaped_nul", b"\\u0000")):
        data = bytes_of(name)
        assert data.count(build) == 2  # the result and its second copy
        (folder / f"{name}.jsonl").write_bytes(data.replace(build, build + put))
    cut = bytes_of("cut")
    (folder / "cut.jsonl").write_bytes(cut[: len(cut) // 2 - 200] + b"\n" + cut[len(cut) // 2 :])
    write_openai(work(9, with_system=False, with_user=False, id="no_user"), folder / "no_user.json")
    write_openai(session(system("s")), folder / "one_message.json")
    long = work(9, id="five_megabytes")
    index = next(n for n, m in enumerate(long.messages) if m.role == "tool")
    messages = list(long.messages)
    messages[index] = replace(messages[index], text="a line of a long log\n" * 250_000)
    write_openai(replace(long, messages=tuple(messages)), folder / "five_megabytes.json")
    write_lines(folder / "foreign.jsonl", [{"kind": "event"}])
    return {
        "not_utf8": "pieces that are not UTF-8",
        "surrogate": "1 lone surrogates",
        "cut": "is cut or is not JSON",
        "five_megabytes": "no cut",
        "one_message": "no cut (1 messages)",
        "foreign.jsonl": "is in no format that is known here",
    }


def test_odd_sessions_are_measured_and_what_was_wrong_is_noted(run, tmp_path):
    noted = odd_sessions(tmp_path / "odd")
    code, out, error = run(f"sessions.path={tmp_path}/odd", *SMALL)
    assert (code, "Traceback" in error) == (0, False)
    folder = Path(out.strip().splitlines()[-1])
    header = json.loads((folder / "header.json").read_text(encoding="utf-8"))
    assert header["status"] == "success"
    for name, text in noted.items():
        assert any(name in note and text in note for note in header["notes"]), (name, header["notes"])
    lines = [json.loads(line) for line in (folder / "compactions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["session"] for line in lines} == {"not_utf8", "surrogate", "nul", "escaped_nul", "cut", "no_user"}
    assert {line["outcome"] for line in lines} == {"applied"}
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {record["cut"].partition("#")[0] for record in records if record["arm"] == "full"} == {
        line["session"] for line in lines
    }
    assert not [record for record in records if record["status"] == "error"]


def test_as_a_command_of_its_own(tmp_path):
    """Once for real, as another process: an error, in a locale that knows no Unicode."""
    path = Path(os.fsdecode(os.fsencode(tmp_path / "Gr\u00fc\u00dfe") + b"\xff.json"))
    path.write_text('{"a": 1}')
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "bench", "run", f"sessions.path={path.parent}/*.json", "results_dir=results"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    sentence = one_error(done.returncode, done.stdout, done.stderr)
    assert "is in no format that is known here" in sentence
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("kind", "name", "parameters"),
    [
        ("strategy", "middle", {"faithful": "maybe"}),
        ("strategy", "prune", {"keep_bytes": "abc"}),
        ("strategy", "prune", {"keep_recent": 1.5}),
        ("strategy", "prune", {"keep_recent": True}),
        ("strategy", "custom", {"target": "os:path"}),
        ("agent", "reader", {"min_coverage": "abc"}),
        ("agent", "reader", {"min_coverage": float("nan")}),
        ("agent", "scripted", {"answers": 5}),
    ],
)
def test_a_parameter_of_a_wrong_type_is_a_set_up_error(kind, name, parameters):
    from bench import agents, strategies

    make = {"strategy": strategies.make, "agent": agents.make}[kind]
    with pytest.raises(BenchError):
        make(name, parameters)


def test_a_shell_command_of_many_here_documents_is_read_in_no_time():
    import time

    from bench.agents.trail import Trail
    from bench.shell import parse
    from bench.types import Message, ToolCall

    command = "cat <<A\n" * 20_000
    began = time.process_time()
    parse(command, "", failed=False)
    Trail([Message("assistant", "", (ToolCall("a", "Bash", {"command": command}),)), Message("tool", "", call_id="a")])
    assert time.process_time() - began < 5
