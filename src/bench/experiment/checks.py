"""Checks that have no strategy: their folder holds `checks.json` beside `header.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from bench import __version__
from bench.agents import make as make_agent
from bench.config import RunConfig
from bench.experiment.calibration import calibrate
from bench.experiment.external_checks import external_checks
from bench.experiment.plan import SCHEMA
from bench.experiment.store import write_json
from bench.replay import Cuts
from bench.sessions import load
from bench.tokens import counter


def run(config: RunConfig, progress: Callable[[str], None] = lambda text: None) -> Path:
    """Do the checks that the configuration names and keep what came out; returns the folder."""
    rows, facts = _external(config, progress) if config.checks.name == "external" else _calibration(config, progress)
    digest = hashlib.sha256(orjson.dumps([config.identity(), facts], option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
    folder = Path(config.results_dir).expanduser() / f"{config.checks.name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    header = {
        "schema": SCHEMA, "run_id": folder.name, "status": "success", "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        "bench": __version__, "config": config.model_dump(), **facts,
    }  # fmt: skip
    write_json(folder / "header.json", header)
    write_json(folder / "checks.json", {"schema": SCHEMA, "kind": config.checks.name, "checks": rows})
    return folder


def _calibration(config: RunConfig, progress: Callable[[str], None]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(a row for each law, what it was tried on)."""
    progress("reading sessions")
    place, asked, tokens = config.sessions, config.replay, counter(config.tokenizer)
    sessions = load(place.path, format=place.format, split=place.split).sessions[: place.limit]
    replay = Cuts(asked.number, asked.first, asked.last, asked.tail)
    cuts = [cut for session in sessions for cut in replay.of(session, tokens)[0]]
    progress("planting needles")
    checks = calibrate(cuts, tokens, make_agent("oracle", {}), make_agent("scripted", {}), config.seed)
    rows = [asdict(check) | {"passed": check.passed} for check in checks]
    return rows, {"sessions": {session.id: session.source.sha256 for session in sessions}, "cuts": len(cuts)}


def _external(config: RunConfig, progress: Callable[[str], None]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(a row for each published figure, nothing else)."""
    progress("public figures")
    return [asdict(row) | {"difference": row.difference} for row in external_checks(config.checks.path)], {}
