"""Speed and size, as issue and README promise them. `make bench`; the limits are in CPU seconds where a machine is shared."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.config import RunConfig, validate
from bench.experiment import plan, runner
from bench.strategies import make
from bench.tokens import counter
from bench.types import CompactionRequest, Message, ToolCall

CATEGORIES = ["facts", "artifacts", "file_state", "user_messages", "work_done", "name_a_word"]


def config(folder: Path, agent: str, strategy: str = "prune", **sessions) -> RunConfig:
    return validate(
        {
            "strategy": {"name": strategy}, "sessions": sessions, "replay": {}, "probes": {"categories": CATEGORIES},
            "agent": {"name": agent}, "executor": {}, "results_dir": str(folder), "overwrite": "always",
        }
    )  # fmt: skip


def cpu_of(*arguments: str, cwd: Path) -> float:
    """CPU seconds (user and system) of `python -m bench ...` as a process of its own."""
    before = os.times()
    done = subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=cwd, capture_output=True, check=False)
    after = os.times()
    assert done.returncode == 0, done.stderr.decode()
    return after.children_user - before.children_user + after.children_system - before.children_system


def test_a_run_on_the_bundled_sessions(benchmark, tmp_path):
    """60 s of wall time on two idle cores; held here in CPU seconds, since the run uses one process."""
    spent = benchmark.pedantic(lambda: cpu_of("run", "strategy=prune", f"results_dir={tmp_path}", cwd=tmp_path), rounds=1)
    assert spent <= 60


@pytest.mark.parametrize("agent", ["oracle", "scripted"])
def test_overhead_per_answered_probe(benchmark, tmp_path, agent):
    """What the harness costs for each answer of an agent that costs next to nothing: at most 1 ms of CPU."""
    made = plan.make(config(tmp_path, agent))
    answers = 3 * sum(map(len, made.bank.probes.values())) + sum(map(len, made.bank.placebos.values()))

    def run() -> float:
        runner._answers.clear()
        began = time.process_time()
        runner.run(made)
        return time.process_time() - began

    spent = benchmark.pedantic(run, rounds=3)
    benchmark.extra_info["ms_per_answer"] = 1000 * spent / answers
    assert spent / answers <= 0.001


def test_prune_on_a_million_tokens(benchmark):
    messages: list[Message] = [Message("user", "go", id="m0")]
    line = "2026-01-05 08:00:00 worker stored object 48213 in 412.7 ms\n"
    while len(messages) < 1001:
        n = len(messages)
        messages.append(Message("assistant", "next", (ToolCall(f"c{n}", "Bash", {"command": f"step {n}"}),), id=f"m{n}"))
        messages.append(Message("tool", line * 80, call_id=f"c{n}", id=f"m{n + 1}"))
    tokens = counter()
    assert tokens.messages(messages) >= 1_000_000
    strategy = make("prune", {})
    request = CompactionRequest(0, 0, 500_000, tokens.messages, None)
    benchmark(strategy.compact, messages, request)
    assert benchmark.stats.stats.min <= 0.5


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list", "strategies"],
        ["list", "--help"],
        ["run", "--help"],
        ["estimate", "--help"],
        ["show", "--help"],
        ["rescore", "--help"],
    ],
    ids=" ".join,
)
def test_short_commands(benchmark, tmp_path, arguments):
    best = benchmark.pedantic(lambda: min(cpu_of(*arguments, cwd=tmp_path) for _ in range(3)), rounds=1)
    assert best <= 0.3
