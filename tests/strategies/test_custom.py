"""Anybody's compactor, in this process and in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import orjson
import pytest

from asking import request
from bench.strategies import make
from bench.strategies.isolated import PATIENCE
from bench.types import BenchError
from making import work

CONTEXT = work(4).messages
COMPACTORS = """
import ctypes, os, signal, sys, time
from pathlib import Path

print("a word at import")
calls = 0

def newest(messages):
    print("noise")
    os.system("echo more noise")
    print("input:", sys.stdin.read(1) if sys.argv[0].endswith("isolated.py") else "")
    return messages[:1] + messages[-3:]

def summary(messages):
    return [messages[0], {"role": "user", "content": "é"}, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}]}]

def counting(messages):
    global calls
    calls += 1
    return [{"role": "user", "content": f"call {calls}"}]

def same(messages):
    return list(messages)

def changing(messages):
    messages[1]["content"] = "changed in place"
    return messages

def text(messages):
    return "a summary"

def no_roles(messages):
    return [{"content": "a summary"}]

def tuples(messages):
    return [{"role": "user", "content": ({"type": "text", "text": "in a tuple"},)}]

def pid(messages):
    return [{"role": "user", "content": str(os.getpid())}]

def leaving(messages):
    print("so long", file=sys.stderr)
    sys.exit(3)

def crashing(messages):
    print("going down", file=sys.stderr)
    ctypes.string_at(0)

def killed(messages):
    os.kill(os.getpid(), signal.SIGKILL)

def raising(messages):
    raise ValueError("too long for me")

def unserialisable(messages):
    return [{"role": "user", "content": object()}]

def once(messages):
    died = Path(__file__).with_name("died")
    if not died.exists():
        died.touch()
        os._exit(7)
    return messages[:1]

def hanging(messages):
    print("hanging", os.getpid(), file=sys.stderr, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "compactors.py").write_text(COMPACTORS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def compact(strategy):
    return strategy.compact(CONTEXT, request(CONTEXT))


@pytest.mark.parametrize("name", ["newest", "summary", "same", "changing", "text", "no_roles", "tuples"])
@pytest.mark.parametrize("place", ["{}/compactors.py", "compactors"])
def test_isolated_or_not_the_result_is_the_same(folder, name, place):
    target = f"{place.format(folder)}:{name}"
    alone, here = make("custom", {"target": target, "isolate": True}), make("custom", {"target": target})
    assert alone.version == here.version != "unknown"
    assert compact(alone) == compact(here) == compact(alone)


def test_what_it_leaves_is_what_it_returned(folder):
    made = {
        name: compact(make("custom", {"target": f"{folder}/compactors.py:{name}"}))
        for name in ("newest", "same", "text", "changing")
    }
    assert {name: compaction.outcome for name, compaction in made.items()} == {
        "newest": "applied", "same": "noop", "text": "invalid", "changing": "applied",
    }  # fmt: skip
    assert made["newest"].messages == (CONTEXT[0], *CONTEXT[-3:])
    assert made["changing"].messages[1].text == "changed in place"


def test_its_process_lives_between_compactions_and_is_not_ours(folder):
    strategy = make("custom", {"target": f"{folder}/compactors.py:counting", "isolate": True})
    assert [compact(strategy).messages[0].text for _ in range(3)] == ["call 1", "call 2", "call 3"]
    strategy = make("custom", {"target": f"{folder}/compactors.py:pid", "isolate": True})
    first, second = (int(compact(strategy).messages[0].text) for _ in range(2))
    assert first == second != os.getpid()


@pytest.mark.parametrize(
    ("name", "says", "last"),
    [
        ("leaving", "ended with exit code 3", "so long"),
        ("crashing", "was killed by SIGSEGV", "going down"),
        ("killed", "was killed by SIGKILL", "a word at import"),
        ("raising", "raised ValueError: too long for me", "in raising"),
        ("unserialisable", "raised TypeError", "not JSON serializable"),
    ],
)
def test_a_compactor_that_dies_has_failed_and_the_next_compaction_goes_on(folder, name, says, last):
    strategy = make("custom", {"target": f"{folder}/compactors.py:{name}", "isolate": True})
    for _ in range(2):
        made = compact(strategy)
        assert (made.outcome, made.messages) == ("failed", CONTEXT)
        assert says in made.note
        assert last in made.error


def test_after_a_death_another_process_is_started(folder):
    strategy = make("custom", {"target": f"{folder}/compactors.py:once", "isolate": True})
    assert [compact(strategy).outcome for _ in range(3)] == ["failed", "applied", "applied"]


def test_one_that_was_killed_between_compactions_is_started_again(folder):
    strategy = make("custom", {"target": f"{folder}/compactors.py:pid", "isolate": True})
    first = int(compact(strategy).messages[0].text)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not alive(first) or strategy._call._process.ended)
    assert int(compact(strategy).messages[0].text) != first


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("target", ["", "nofile.py:f", "bench.nothing:f", "bench.types:nothing", "os:path", "compactors.py"])
def test_without_a_function_it_is_a_set_up_error(target, isolate):
    with pytest.raises(BenchError):
        make("custom", {"target": target, "isolate": isolate})


def test_one_whose_import_ends_the_process_is_a_set_up_error(tmp_path):
    (tmp_path / "bad.py").write_text("import os, sys\nprint('not today', file=sys.stderr, flush=True)\nos._exit(4)\n")
    with pytest.raises(BenchError, match="exit code 4: not today"):
        make("custom", {"target": f"{tmp_path}/bad.py:compact", "isolate": True})


def test_it_ends_with_its_strategy(folder):
    strategy = make("custom", {"target": f"{folder}/compactors.py:pid", "isolate": True})
    process = strategy._call._process._process
    assert process.poll() is None
    del strategy
    assert process.poll() == 0


def test_it_ends_with_the_process_that_asks_even_when_that_is_killed(folder):
    code = (
        "import os; from bench.strategies import make\n"
        f"from asking import request; from making import work\n"
        f"made = make('custom', {{'target': '{folder}/compactors.py:hanging', 'isolate': True}})\n"
        "print(made._call._process._process.pid, flush=True)\n"
        "context = work(4).messages; made.compact(context, request(context))"
    )
    path = os.pathsep.join(folder for folder in sys.path if folder)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as parent:
        worker = int(parent.stdout.readline())
        time.sleep(1)
        assert alive(worker)
        parent.kill()
    wait_for(lambda: not alive(worker))


def test_its_protocol_is_json_lines(folder):
    lines = [orjson.dumps(sys.path), orjson.dumps([{"role": "user", "content": "hello"}])]
    command = [sys.executable, "-m", "bench.strategies.isolated", f"{folder}/compactors.py:same"]
    done = subprocess.run(command, input=b"\n".join(lines), capture_output=True, check=True)
    said = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert list(said[0]) == ["version"]
    assert said[1:] == [{"returned": [{"role": "user", "content": "hello"}]}]


def alive(process: int) -> bool:
    """Whether it runs; a zombie does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")


def wait_for(condition) -> None:
    until = time.monotonic() + 2 * PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
