"""Figures from records: means with clustered intervals, as JSON takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.stats import mean
from bench.types import Estimate

Record = Mapping[str, Any]


def mean_records(records: Sequence[Record], field: str, cluster: Mapping[str, str]) -> dict[str, Any]:
    return as_json(mean(*columns(records, field, cluster)))


def mean_of(compactions: Mapping[str, Record], value) -> dict[str, Any]:
    pairs = [(value(line), line["cluster"]) for line in compactions.values()]
    pairs = [(number, cluster) for number, cluster in pairs if number is not None]
    return as_json(mean([number for number, _ in pairs], [cluster for _, cluster in pairs]))


def columns(records: Sequence[Record], field: str, cluster: Mapping[str, str]) -> tuple[list[float], list[str], list[str]]:
    """(values, their clusters, their categories) of the records that have a value."""
    scored = [r for r in records if r[field] is not None]
    return [float(r[field]) for r in scored], [cluster[r["cut"]] for r in scored], [r["category"] for r in scored]


def as_json(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value, "se": estimate.se, "ci": list(estimate.ci) if estimate.ci else None, "n": estimate.n,
        "clusters": estimate.clusters,
    }  # fmt: skip
