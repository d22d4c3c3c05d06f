"""What a finished run prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.analysis import differences, table
from bench.commands.screen import console, print_table
from bench.experiment.store import Run
from bench.probes.soundness import PREDICATES

NOTES_SHOWN = 8


def print_runs(runs: Sequence[Run]) -> None:
    """The funnel and the notes once, then one table of all runs; for one run its categories too."""
    first = runs[0]
    summaries = [run.summary for run in runs]
    _print_notes(first)
    _print_funnel(first)
    if len(runs) == 1:
        print_table(*table.category_rows(summaries[0]), heading=f"\n{table.title(summaries[0])} by category")
        _print_squares(summaries[0])
    sentence = table.mismatch(summaries)
    if table.small(summaries[0]):
        print_table(*table.session_rows(summaries), heading="\nToo few clusters for an average, so each session")
    else:
        print_table(
            *table.rows(summaries), heading="\nWhat each strategy keeps" if len(runs) > 1 else f"\n{table.title(summaries[0])}"
        )
        if len(runs) > 1 and not sentence:
            print_table(*differences.rows(runs), heading=f"\nEach minus {table.title(summaries[0])}, on the same probes")
    out = console()
    out.print("\n" + table.caption(summaries[0]), markup=False)
    for summary in summaries[1:]:
        if not summary["valid"]:
            out.print(f"{table.title(summary)} INVALID: {'; '.join(summary['invalid_because'])}.", markup=False)
    if sentence:
        out.print(sentence, markup=False)
    for summary in summaries:
        if summary["model_calls"]["calls"]:
            out.print(table.model_line(summary), markup=False)
        errors = summary["errors"]
        if any(errors.values()):
            out.print(
                f"{table.title(summary)}: {errors['strategy']} failed compactions (their context stays whole, which scores as kept), "
                f"{errors['infrastructure']} failed answers; the first error: {summary['first_error']}",
                markup=False,
            )
        if summary["per_protocol"]:
            parts = ", ".join(f"{name} {table.estimate(value)}" for name, value in summary["per_protocol"].items())
            out.print(f"{table.title(summary)} without cuts that failed or fell back: {parts}", markup=False)
    for run in runs:
        out.print(f"{run.folder}", markup=False)


def print_checks(folder: Path) -> bool:
    """The table of a folder's checks; returns whether none of them failed."""
    kept = orjson.loads((folder / "checks.json").read_bytes())
    failed = _print_external(kept["checks"]) if kept["kind"] == "external" else _print_calibration(kept["checks"])
    console().print(f"{folder}", markup=False)
    return not failed


def _print_calibration(checks: Sequence[Mapping[str, Any]]) -> int:
    body = [
        [
            c["name"],
            f"{c['expected']:.3f}",
            f"{c['observed']:.3f}",
            f"{c['allowed']:.3f}",
            str(c["n"]),
            "yes" if c["passed"] else "NO",
        ]
        for c in checks
    ]
    print_table(["check", "expected", "observed", "allowed", "n", "passed"], body)
    failed = sum(not check["passed"] for check in checks)
    console().print(f"\n{len(checks) - failed} of {len(checks)} checks passed", markup=False)
    return failed


def _print_external(rows: Sequence[Mapping[str, Any]]) -> int:
    """Nothing fails here: a difference is shown, whatever its size."""
    body = [
        [
            row["check"],
            *(_figure(row[key]) for key in ("published", "ours", "difference")),
            str(row["n"]),
            str(row["clusters"]),
            row["note"],
        ]
        for row in rows
    ]
    print_table(["check", "published", "ours", "difference", "n", "clusters", "note"], body)
    return 0


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.4g}" if abs(value) >= 1 else f"{value:.4f}"


def exceeded(run: Run) -> bool:
    """Whether more cells (cuts) failed, in their compaction or in an answer, than the run's `fail_on_error` allows."""
    allowed = run.header["config"]["fail_on_error"]
    failed = {cut for cut, line in run.compactions.items() if line["outcome"] == "failed"}
    failed |= {record["cut"] for record in run.records if record["status"] == "error"}
    return len(failed) > (allowed if allowed >= 1 else allowed * len(run.compactions))


def _print_notes(run: Run) -> None:
    notes = run.header["notes"]
    out = console()
    for note in notes[:NOTES_SHOWN]:
        out.print(f"note: {note}", markup=False)
    if len(notes) > NOTES_SHOWN:
        out.print(f"note: {len(notes) - NOTES_SHOWN} more in {run.folder / 'header.json'}", markup=False)


def _print_funnel(run: Run) -> None:
    headings = ["category", "candidates", *(f"-{name}" for name in PREDICATES), "sound", "kept"]
    keys = ["candidates", *PREDICATES, "sound", "kept"]
    body = [[name, *(str(counts[key]) for key in keys)] for name, counts in run.header["funnel"].items()]
    print_table(headings, body, heading="Probes: from candidates to kept, and how many each predicate took away")


def _print_squares(summary: table.Summary) -> None:
    squares = summary["survival_by_recall"]
    body = [[f"evidence {name}", str(row["right"]), str(row["wrong"])] for name, row in squares.items()]
    gap = summary["use_gap"]
    print_table(["free-form probes", "answered right", "not"], body, heading="\nSurvival x recall")
    if gap is not None:
        console().print(
            f"use gap {gap:.3f} (share of these probes that the full context answers and this one does not, where the evidence is there)",
            markup=False,
        )
