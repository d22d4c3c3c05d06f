"""`list`: what there is, and what each needs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bench.paths import config_dir, data_dir
from bench.registry import AGENTS, FORMATS, PROBES, STRATEGIES, Registry
from bench.types import BenchError

HELP = """\
usage: python -m bench list strategies|sessions|formats|probes|agents

Prints the names that the configuration takes, a line each. Packages add to them through the entry-point groups
bench.strategies, bench.sessions, bench.agents and bench.probes.
"""


def main(arguments: Sequence[str]) -> int:
    if set(arguments) & {"-h", "--help"}:
        print(HELP, end="")
        return 0
    kinds = {"strategies": _strategies, "sessions": _sessions, "formats": _formats, "probes": _probes, "agents": _agents}
    if len(arguments) != 1 or arguments[0] not in kinds:
        raise BenchError(f"list takes one of: {', '.join(kinds)}")
    rows = kinds[arguments[0]]()
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    return 0


def _first_sentence(thing: object) -> str:
    text = " ".join((thing.__doc__ or "").split())
    return text.split(". ")[0].rstrip(".")


def _described(registry: Registry) -> list[tuple[str, ...]]:
    return [(name, _first_sentence(registry.get(name))) for name in registry.names()]


def _strategies() -> list[tuple[str, ...]]:
    rows = [("name", "version", "needs", "parameters", "what it does")]
    for name in STRATEGIES.names():
        strategy = STRATEGIES.get(name)
        file = config_dir() / "strategy" / f"{name}.yaml"
        parameters = " ".join(_parameters(file.read_text())) if file.is_file() else ""
        needs = "a model" if strategy.needs_model else "nothing"
        rows.append((name, str(strategy.version), needs, parameters or "-", _first_sentence(strategy)))
    return rows


def _parameters(text: str) -> list[str]:
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line.replace(": ", "=") for line in lines if ": " in line and not line.startswith("name:")]


def _sessions() -> list[tuple[str, ...]]:
    split = json.loads((data_dir() / "split.json").read_text())
    half = {family: name for name, families in split.items() for family in families}
    rows = [("bundled session", "family", "half")]
    for file in sorted((data_dir() / "sessions").glob("*.jsonl.gz")):
        name = file.name.removesuffix(".jsonl.gz")
        family = name.rsplit("-", 1)[0]
        rows.append((name, family, half[family]))
    return rows


def _formats() -> list[tuple[str, ...]]:
    return [("name", "version", "what it is")] + [
        (n, FORMATS.get(n).version, FORMATS.get(n).description) for n in FORMATS.names()
    ]


def _probes() -> list[tuple[str, ...]]:
    import importlib

    rows = [("category", "version", "per cut", "what is asked")]
    for name in PROBES.names():
        category = PROBES.get(name)
        rows.append(
            (name, category.version, str(category.per_cut), _first_sentence(importlib.import_module(category.__module__)))
        )
    return rows


def _agents() -> list[tuple[str, ...]]:
    return [("name", "who answers"), *_described(AGENTS)]
