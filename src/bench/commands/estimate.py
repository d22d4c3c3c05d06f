"""`estimate`: what a run would do, counted before it does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HELP = """\
usage: python -m bench estimate [-m] [key=value ...]

Takes the keys of `run`, makes the same plan, and prints what the run would do: sessions, cuts, probes, answers, tokens
of context that the agent would read, model calls and their price. Nothing is run and nothing is written.
"""


def main(arguments: Sequence[str]) -> int:
    if set(arguments) & {"-h", "--help"}:
        print(HELP, end="")
        return 0
    import tempfile

    from bench.commands.run import with_hydra

    with tempfile.TemporaryDirectory() as folder:  # Hydra writes something in a multirun, wherever it is told to
        return with_hydra("estimate", [*arguments, f"hydra.sweep.dir={folder}"], _job, _finish)


def _job(values: dict[str, Any]) -> list[str]:
    from bench.commands.screen import reporter
    from bench.config import validate
    from bench.experiment import plan

    values.pop("experiment", None)
    with reporter() as report:
        made = plan.make(validate(values), report.stage)
    probes = sum(len(probes) for probes in made.bank.probes.values())
    placebos = sum(len(probes) for probes in made.bank.placebos.values())
    tokens = sum(made.counter.messages(cut.context) for cut in made.cuts)
    longest = max(made.counter.messages(cut.context) for cut in made.cuts)
    # Neither the strategies nor the agents that this version ships call a model.
    return [
        made.strategy.name, str(len({cut.session.id for cut in made.cuts})), str(len(made.cuts)), str(probes), str(3 * probes + placebos), f"{tokens:,}", f"{longest:,}",
        "0", "0.00", made.run_id,
    ]  # fmt: skip


def _finish(rows: list[list[str]]) -> int:
    from bench.commands.screen import print_table

    headings = ["strategy", "sessions", "cuts", "probes", "answers", "tokens of context", "longest", "model calls", "USD", "run"]
    print_table(headings, rows)
    return 0
