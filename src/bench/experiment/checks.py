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
from bench.experiment.plan import SCHEMA
from bench.experiment.store import write_json
from bench.replay import Cuts
from bench.sessions import load
from bench.tokens import counter


def run(config: RunConfig, progress: Callable[[str], None] = lambda text: None) -> Path:
    """Do the checks that the configuration names and keep what came out; returns the folder."""
    progress("reading sessions")
    sessions = load(config.sessions.path, format=config.sessions.format, split=config.sessions.split).sessions
    sessions = sessions[: config.sessions.limit]
    asked, tokens = config.replay, counter(config.tokenizer)
    replay = Cuts(asked.number, asked.first, asked.last, asked.tail)
    cuts = [cut for session in sessions for cut in replay.of(session, tokens)[0]]
    progress("planting needles")
    checks = calibrate(cuts, tokens, make_agent("oracle", {}), make_agent("scripted", {}), config.seed)
    rows = [asdict(check) | {"passed": check.passed} for check in checks]
    identity = [config.identity(), [session.source.sha256 for session in sessions]]
    digest = hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
    folder = Path(config.results_dir).expanduser() / f"{config.checks.name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "header.json", _header(config, folder.name, len(sessions), len(cuts)))
    write_json(folder / "checks.json", {"schema": SCHEMA, "checks": rows})
    return folder


def _header(config: RunConfig, name: str, sessions: int, cuts: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA, "run_id": name, "status": "success", "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        "bench": __version__, "config": config.model_dump(), "sessions": sessions, "cuts": cuts,
    }  # fmt: skip
