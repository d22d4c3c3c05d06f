"""Runs against each other, paired on the same cuts and probes."""

from __future__ import annotations

from collections.abc import Sequence

from bench.analysis.table import title
from bench.experiment.store import Run
from bench.stats import Difference, detectable, difference, holm, provable_margin

FIELDS = {"survival": "survives", "recall": "score"}
LEVEL = 0.05


def differences(runs: Sequence[Run], field: str) -> list[Difference]:
    """Every later run minus the first, over the probes that both have a value of `field` for; macro mean over categories."""
    tables = [_values(run, field) for run in runs]
    cluster = {key: runs[0].compactions[key[0]]["cluster"] for key in tables[0]}
    category = {(r["cut"], r["probe"]): r["category"] for r in runs[0].records}
    return [difference(table, tables[0], cluster, category) for table in tables[1:]]


def rows(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """(headings, a row for each later run and figure): the difference, its interval and p, and what the data could tell.

    p is adjusted by Holm within one figure. `could tell`: the smallest difference that a test at 5 % finds with 80 % power;
    `margin`: the smallest loss that equal strategies could be shown not to have.
    """
    headings = ["strategy", "figure", "difference", "p (Holm)", "", "could tell", "margin", "pairs", "clusters", "design effect"]
    body = []
    for name, field in FIELDS.items():
        found = differences(runs, field)
        adjusted = iter(holm([each.p for each in found if each.p is not None]))
        for run, each in zip(runs[1:], found):
            body.append([title(run.summary), name, *_cells(each, None if each.p is None else next(adjusted))])
    return headings, body


def _values(run: Run, field: str) -> dict[tuple[str, str], float]:
    return {(r["cut"], r["probe"]): float(r[field]) for r in run.records if r["arm"] == "strategy" and r[field] is not None}


def _cells(each: Difference, p: float | None) -> list[str]:
    estimate = each.estimate
    if estimate.value is None:
        return ["–"] * 8
    if p is None or estimate.ci is None:  # the same everywhere, or too few clusters for an interval
        return [
            f"{estimate.value:+.3f}",
            "–" if p is None else f"{p:.3g}",
            "",
            "–",
            "–",
            str(estimate.n),
            str(estimate.clusters),
            "–",
        ]
    low, high = estimate.ci
    effect = "–" if each.design_effect is None else f"{each.design_effect:.1f}"
    return [
        f"{estimate.value:+.3f} [{low:+.3f}, {high:+.3f}]", f"{p:.3g}", "" if p < LEVEL else "not supported",
        f"{detectable(estimate.se, estimate.clusters):.3f}", f"{provable_margin(estimate.se, estimate.clusters):.3f}",
        str(estimate.n), str(estimate.clusters), effect,
    ]  # fmt: skip
