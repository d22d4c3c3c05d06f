"""Public figures that the harness must reproduce from public data: what others published beside what our code makes of it.

X1, X4 and X5 of the measurement specification, section 6. The data are not part of the project: `external_checks` takes
the folder that holds `checks/` and `sessions/`, and says so of a check whose data are not there. Nothing is tuned to a
published figure; what does not come out stands in the table as it came out.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.measures.paraphrase import SHARE, coverage
from bench.sessions import load
from bench.stats import agreement, mean
from bench.types import Message, Session

CACHE_LIFE = 300.0  # seconds that a provider keeps a prefix, at the shorter of its two prices
# Independent counts over the same recordings, made outside this code; published in the README beside the data.
LAW = {
    "pairs": 2207,
    "exact": 2078,
    "read less after more than five minutes": 36,
    "read more": 76,
    "read less within five minutes": 17,
}
# Of the human labels: agreement of the rule in sample and with its threshold left to the other labels, of the judge.
KAPPA = {"judge": 1.0, "in sample": 0.92, "leave one out": 0.88}


@dataclass(frozen=True)
class Row:
    """One figure. `published` or `ours` is None where there is none; `n` are values behind ours, in so many `clusters`."""

    check: str
    published: float | None
    ours: float | None
    n: int
    clusters: int
    note: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.published is None or self.ours is None else self.ours - self.published


def external_checks(folder: str | Path) -> list[Row]:
    """Every check, in the order of the specification; one row with the note "not here" for each whose data are absent."""
    checks, sessions = Path(folder) / "checks", Path(folder) / "sessions" / "claude-code"
    trap = checks / "complexity_trap_instances.csv", checks / "complexity_trap_published.csv"
    labels = checks / "compint_human_labels.jsonl", checks / "compint_judge_key.jsonl"
    return [
        *_rows("X1 complexity trap", complexity_trap, *trap),
        *_rows("X4 constraint labels", constraint_labels, *labels),
        *_rows("X5 prefix cache", prefix_cache, sessions),
    ]


def _rows(name: str, check: Callable[..., list[Row]], *places: Path) -> list[Row]:
    if not all(place.exists() for place in places):
        return [Row(name, None, None, 0, 0, "not here")]
    return check(*places)


# --- X1: paired differences of the Complexity Trap (arXiv:2508.21433)


def complexity_trap(instances: Path, published: Path) -> list[Row]:
    """Solve rate and cost of each way of compaction minus raw, on the same 500 tasks.

    A task without a row failed; cost = cost + summary cost; the difference of costs is that of the means over the rows
    there are. Each task is a cluster, as published; ours are t intervals, theirs from resampling.
    """
    runs: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in _table(instances):
        runs.setdefault(row["experiment"], {})[row["instance_id"]] = row
    tasks = sorted({task for run in runs.values() for task in run})
    rows = []
    for line in _table(published):
        other, raw = runs[line["experiment_other"]], runs[line["experiment_raw"]]
        found = mean([solved(other, task) - solved(raw, task) for task in tasks], tasks)
        name = f"X1 {line['group']}, {line['strategy']} - raw"
        low, high = found.ci or (None, None)
        for figure, theirs, ours in (
            ("solve rate", "solve_rate_diff", found.value),
            ("solve rate, low", "solve_rate_lo", low),
            ("solve rate, high", "solve_rate_hi", high),
        ):
            rows.append(Row(f"{name}: {figure}", float(line[theirs]), ours, found.n, found.clusters))
        cost = float(np.mean([_usd(row) for row in other.values()]) - np.mean([_usd(row) for row in raw.values()]))
        here = min(len(other), len(raw))
        missing = 2 * len(tasks) - len(other) - len(raw)
        note = f"{missing} of {2 * len(tasks)} rows missing" if missing else ""
        rows.append(Row(f"{name}: mean cost, USD", float(line["mean_cost_diff"]), cost, here, here, note))
    return rows


def solved(run: Mapping[str, Mapping[str, str]], task: str) -> float:
    return float(run[task]["outcome"]) if task in run else 0.0


def _usd(row: Mapping[str, str]) -> float:
    return float(row["cost"]) + float(row["summary_cost"])


# --- X4: human labels of COMPINT (arXiv:2608.11242)


def constraint_labels(labels: Path, key: Path) -> list[Row]:
    """Does a summary retain a side constraint: the judge, and our rule, against blind human labels.

    Left out: the threshold for a label is the lowest of those that agree best with the other labels; then the same
    without any label of the same constraint, since summaries under one constraint are one cluster.
    """
    lines, judge = _lines(labels), {line["id"]: line["judge_retention"] for line in _lines(key)}
    human = np.array([line["label"] for line in lines])
    constraints = [line["sssc_message"] for line in lines]
    scores = np.array([coverage(line["sssc_message"], line["compacted_summary"]) for line in lines])
    said = {
        "judge": (KAPPA["judge"], np.array([judge[line["id"]] for line in lines])),
        f"rule, in sample at {SHARE}": (KAPPA["in sample"], scores >= SHARE),
        "rule, leave one out": (KAPPA["leave one out"], left_out(scores, human, range(len(lines)))),
        "rule, leave one constraint out": (None, left_out(scores, human, constraints)),
    }
    return [
        Row(
            f"X4 constraint retained, {name}: kappa",
            theirs,
            agreement(human.tolist(), says.tolist()).kappa,
            len(lines),
            len(set(constraints)),
            f"{int((says & ~human).sum())} false positives, {int((~says & human).sum())} false negatives",
        )
        for name, (theirs, says) in said.items()
    ]


def left_out(scores: np.ndarray, human: np.ndarray, folds: Sequence[Any]) -> np.ndarray:
    """Labels by a threshold on `scores` that was chosen without the labels of the same fold."""
    said = np.zeros(len(scores), dtype=bool)
    for fold in dict.fromkeys(folds):
        inside = np.array([other == fold for other in folds])
        known, truth = scores[~inside], human[~inside]
        best = max(np.unique(known), key=lambda least: agreement(truth.tolist(), (known >= least).tolist()).kappa or 0.0)
        said[inside] = scores[inside] >= best
    return said


# --- X5: the prefix-cache law on recorded usage


def prefix_cache(folder: Path) -> list[Row]:
    """Cache read of request i = cache read + cache write of request i - 1, to the token, over recordings of Claude Code.

    Pairs across a compaction or a microcompaction are not counted. A pair that is off read less because the prefix was
    no longer live (more than five minutes later), or less all the same, or more than the last request of the file left:
    a request that is not in the file stood between.
    """
    sessions = [session for path in sorted(folder.glob("*.jsonl")) for session in load(path).sessions]
    main = [session for session in sessions if "/" not in session.id]  # a side chain is SESSION/AGENT
    found = Counter(kind for session in main for kind in pairs(session))
    total, files = found.total(), sum(bool(_asked(session)) for session in main)
    rows = [Row("X5 prefix cache: pairs", LAW["pairs"], total, total, files)]
    return rows + [Row(f"X5 prefix cache: {name}", LAW[name], found[name], total, files) for name in LAW if name != "pairs"]


def pairs(session: Session) -> list[str]:
    """How each two requests in a row of one session stand to the law."""
    boundaries = [compaction.before for compaction in session.compactions]
    found = []
    for (place, last), (next_place, request) in pairwise(_asked(session)):
        if any(place < boundary <= next_place for boundary in boundaries):
            continue
        left, read = last.usage.cache_read + last.usage.cache_write, request.usage.cache_read
        if read == left:
            found.append("exact")
        elif read > left:
            found.append("read more")
        else:
            late = last.at is not None and request.at is not None and request.at - last.at > CACHE_LIFE
            found.append("read less after more than five minutes" if late else "read less within five minutes")
    return found


def _asked(session: Session) -> list[tuple[int, Message]]:
    """The answers whose usage was recorded, with their places."""
    return [(n, m) for n, m in enumerate(session.messages) if m.role == "assistant" and m.usage is not None]


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
