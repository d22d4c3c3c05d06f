"""A run's figures in parts: by depth, by session, and what its futures used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from bench.experiment.figures import Record, as_json, mean_records
from bench.measures.coverage import HORIZONS, CutCoverage, frc
from bench.measures.efficiency import token_reduction
from bench.measures.future import Units
from bench.measures.structure import PROVIDERS
from bench.probes.bank import FIFTHS
from bench.types import Estimate


def coverage(compactions: Mapping[str, Record], units: Mapping[str, Units], seed: int) -> dict[str, Any]:
    """Future-reference coverage to the session's end and for the shorter horizons, in turns."""
    measured = [
        (units[cut], CutCoverage(**line["coverage"] | {"survived": tuple(line["coverage"]["survived"])}))
        for cut, line in compactions.items()
    ]
    return {"end" if horizon is None else str(horizon): _plain(frc(measured, horizon, seed)) for horizon in HORIZONS}


def by_depth(records: Sequence[Record], depth: Mapping[str, float | None], cluster: Mapping[str, str]) -> dict[str, Any]:
    """Survival and recall by fifth of the span, 1 the newest, over all categories and in each."""
    fifths: dict[int, list[Record]] = {number: [] for number in range(1, FIFTHS + 1)}
    for record in records:
        if (place := depth.get(record["probe"])) is not None:
            fifths[min(FIFTHS, int(place * FIFTHS) + 1)].append(record)

    def both(chosen: Sequence[Record]) -> dict[str, Any]:
        return {"survival": mean_records(chosen, "survives", cluster), "recall": mean_records(chosen, "score", cluster)}

    names = list(dict.fromkeys(r["category"] for r in records))
    return {
        str(number): both(chosen) | {"by_category": {name: both([r for r in chosen if r["category"] == name]) for name in names}}
        for number, chosen in fifths.items()
    }


def by_session(compactions: Mapping[str, Record], arms: Mapping[str, Sequence[Record]]) -> dict[str, dict[str, Any]]:
    """Each session's own values, for corpora too small for an interval."""
    session = {cut: line["session"] for cut, line in compactions.items()}
    out: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(session.values()):
        lines = [line for line in compactions.values() if line["session"] == name]
        fields = (
            ("survival", "strategy", "survives"),
            ("recall", "strategy", "score"),
            ("ceiling", "full", "score"),
            ("floor", "floor", "score"),
        )
        row = {
            label: mean_records([r for r in arms[arm] if session[r["cut"]] == name], field, session)["value"]
            for label, arm, field in fields
        }
        reduction = [token_reduction(line["tokens_before"], line["tokens_after"]) for line in lines]
        probes = sum(session[r["cut"]] == name for r in arms["strategy"])
        outcomes = dict(sorted(Counter(line["outcome"] for line in lines).items()))
        valid = {provider: sum(not line["violations"][provider] for line in lines) for provider in PROVIDERS}
        out[name] = {
            **row,
            "token_reduction": float(np.mean(reduction)),
            "cuts": len(lines),
            "probes": probes,
            "outcomes": outcomes,
            "valid": valid,
        }
    return out


def _plain(value: Any) -> Any:
    """A dataclass of measures as JSON takes it."""
    if isinstance(value, Estimate):
        return as_json(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return list(value) if isinstance(value, tuple) else value
