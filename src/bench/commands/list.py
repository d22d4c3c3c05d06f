"""`list`: what there is, and what each needs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from bench.paths import data_dir
from bench.registry import AGENTS, FORMATS, MODELS, PROBES, STRATEGIES, WRAPPERS, Registry
from bench.types import BenchError

HELP = """\
usage: python -m bench list strategies|wrappers|models|sessions|formats|probes|agents

Prints the names that the configuration takes, a line each. Packages add to them through the entry-point groups
bench.strategies, bench.wrappers, bench.models, bench.sessions, bench.agents and bench.probes.
"""


def main(arguments: Sequence[str]) -> int:
    if set(arguments) & {"-h", "--help"}:
        print(HELP, end="")
        return 0
    kinds = {
        "strategies": _strategies,
        "wrappers": _wrappers,
        "models": _models,
        "sessions": _sessions,
        "formats": _formats,
        "probes": _probes,
        "agents": _agents,
    }
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
    rows = [("name", "version", "needs", "source", "what it does", "parameters")]
    for name in STRATEGIES.names():
        strategy = STRATEGIES.get(name)
        needs = "a model" if strategy.needs_model else "nothing"
        version = strategy.version if isinstance(strategy.version, str) else "-"  # custom: a hash of the file that is named
        rows.append(
            (name, version or "-", needs, getattr(strategy, "source", "-"), _first_sentence(strategy), _parameters(strategy))
        )
    return rows


def _wrappers() -> list[tuple[str, ...]]:
    rows = [("name", "version", "what it adds to any strategy", "parameters")]
    for name in WRAPPERS.names():
        wrapper = WRAPPERS.get(name)
        rows.append((name, wrapper.version, _first_sentence(wrapper), _parameters(wrapper)))
    return rows


def _models() -> list[tuple[str, ...]]:
    rows = [("name", "what it is", "parameters"), ("none", "No model: enough for every strategy that needs nothing", "-")]
    return rows + [(name, _first_sentence(MODELS.get(name)), _parameters(MODELS.get(name))) for name in MODELS.names()]


def _parameters(factory: object) -> str:
    """`keep=3 keep_text=True`: what a dataclass takes, with its defaults."""
    if not dataclasses.is_dataclass(factory):
        return "-"
    shown = []
    for field in dataclasses.fields(factory):
        if field.init:
            default = field.default_factory() if field.default is dataclasses.MISSING else field.default
            shown.append(f"{field.name}={json.dumps(default)}")
    return " ".join(shown) or "-"


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
