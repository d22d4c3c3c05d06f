"""Small runs over made sessions: their configuration, their files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.config import RunConfig, validate
from bench.experiment import plan, runner
from making import work, write_openai

CATEGORIES = ["facts", "file_state", "user_messages"]
SMALL = ("replay.number=2", f"probes.categories=[{','.join(CATEGORIES)}]")  # the same as command-line arguments

# Compactors for strategy=custom; `stop` beside the file is what makes one stop.
COMPACTORS = """
import os, signal, sys
from pathlib import Path

calls = 0

def newest(messages):
    return messages[:1] + messages[-18:]

def killed(messages):
    global calls
    calls += 1
    if calls == 3 and Path(__file__).with_name("stop").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return newest(messages)

def interrupted(messages):
    global calls
    calls += 1
    if calls == 3 and Path(__file__).with_name("stop").exists():
        raise KeyboardInterrupt
    return newest(messages)

def raising(messages):
    if len(messages) > 40:
        raise ValueError("too long for me")
    return newest(messages)

def leaving(messages):
    if len(messages) > 40:
        sys.exit(3)
    return newest(messages)

def same(messages):
    return list(messages)

def larger(messages):
    return [*messages, {"role": "user", "content": "and so on " * 2000}]

def text(messages):
    return "a summary"

def nothing(messages):
    return None

def no_roles(messages):
    return [{"content": "a summary"}]
"""


def write_sessions(folder: Path, names: Sequence[str] = ("one", "two"), rounds: int = 14) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        write_openai(work(rounds, id=name), folder / f"{name}.json")
    return folder


def write_compactors(folder: Path) -> Path:
    path = folder / "compactors.py"
    path.write_text(COMPACTORS)
    return path


def config(sessions: Path | str | None, results: Path, strategy: str | dict[str, Any] = "oldest", /, **changes: Any) -> RunConfig:
    """A configuration; `changes` replace whole groups or keys."""
    values = {
        "strategy": {"name": strategy} if isinstance(strategy, str) else strategy,
        "sessions": {"path": None if sessions is None else str(sessions)},
        "replay": {"number": 2},
        "probes": {"categories": CATEGORIES},
        "agent": {"name": "reader", "min_coverage": 0.6},  # as configs/agent/reader.yaml has it
        "executor": {},
        "results_dir": str(results),
    }
    return validate(values | changes)


def run(*arguments: Any, **changes: Any) -> Path:
    """Run what `config` makes of the arguments; the run's folder."""
    return runner.run(plan.make(config(*arguments, **changes)))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


DATA = ("compactions.jsonl", "contexts.jsonl.gz", "probes.jsonl.gz", "records.jsonl", "units.jsonl.gz")


def files(folder: Path) -> dict[str, Any]:
    """Everything a run wrote but for times: the bytes of its data, and its summary without `seconds`."""
    return {name: (folder / name).read_bytes() for name in DATA} | {"summary": summary(folder) | {"seconds": 0}}


def write_lines_of(path: Path, values: Sequence[dict[str, Any]]) -> None:
    path.write_bytes(b"".join(orjson.dumps(value) + b"\n" for value in values))
