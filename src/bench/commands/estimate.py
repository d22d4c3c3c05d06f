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
    from bench.experiment.forecast import forecast

    values.pop("experiment", None)
    with reporter() as report:
        made = plan.make(validate(values), report.stage)
        report.stage("rehearsing the compactions")
        ahead = forecast(made, made.cuts)
    probes = sum(len(probes) for probes in made.bank.probes.values())
    placebos = sum(len(probes) for probes in made.bank.placebos.values())
    tokens = sum(made.counter.messages(cut.context) for cut in made.cuts)
    longest = max(made.counter.messages(cut.context) for cut in made.cuts)
    return [
        made.label, str(len({cut.session.id for cut in made.cuts})), str(len(made.cuts)), str(probes), str(3 * probes + placebos), f"{tokens:,}", f"{longest:,}",
        (made.model.endpoint or "this process") if made.model else "–", str(ahead.calls), f"{ahead.tokens_in:,}", f"{ahead.tokens_out:,}",
        "unknown" if ahead.usd is None else f"{ahead.usd:.2f}", made.run_id,
    ]  # fmt: skip


def _finish(rows: list[list[str]]) -> int:
    from bench.commands.screen import print_table

    headings = [
        "strategy", "sessions", "cuts", "probes", "answers", "tokens of context", "longest", "sends to", "model calls", "tokens in",
        "tokens out at most", "USD at most", "run",
    ]  # fmt: skip
    print_table(headings, rows)
    return 0
