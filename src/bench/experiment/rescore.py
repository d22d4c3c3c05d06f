"""Every measure of a finished run again, from its stored contexts, probes and answers; no agent, no model, no session."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import orjson

from bench import grading
from bench.experiment.plan import MEASURES_VERSION
from bench.experiment.store import Run, Store
from bench.experiment.summary import summarise
from bench.grading import RuleGrader
from bench.measures.coverage import coverage
from bench.measures.structure import violations
from bench.measures.survival import Remains
from bench.types import Answer, BenchError


def rescore(folder: Path) -> list[str]:
    """Write the run's records, compactions and summary anew with today's measures; returns what changed in the summary.

    A metric is named by itself, anything else by its key.
    """
    run = Run(folder)
    old = run.summary
    today = {"grader": grading.VERSION, "measures": MEASURES_VERSION}
    header = run.header | {"versions": run.header["versions"] | today}
    held = Counter(record["cut"] for record in run.records)
    if len(run.compactions) != old["cuts"] or any(line.get("records") != held[cut] for cut, line in run.compactions.items()):
        raise BenchError(f"{folder} is damaged: lines are missing from it; run the same command again to mend it")
    contexts = run.contexts()
    bank, units = run.bank(), run.units()
    probes = {probe.id: probe for table in (bank.probes, bank.placebos) for cut in table.values() for probe in cut}
    remains: dict[str, Remains] = {}
    shown: dict[str, Remains] = {}
    compactions = []
    for cut, line in run.compactions.items():
        before, after = contexts[line["context_before"]], contexts[line["context_after"]]
        pinned = {m.id for m in (*before[: line["head"]], *before[len(before) - line["tail"] :])}
        left = [m for m in after if m.id not in pinned]
        remains[cut] = Remains(left)
        if line["calls"]:
            shown[cut] = Remains([message for call in line["calls"] for message in contexts[call["request"]]])
        found = violations(after, before, line["tokens_after"], line["tokens_before"])
        compactions.append(line | {"violations": found, "coverage": asdict(coverage(units[cut], left))})
    records = []
    for record in run.records:
        probe = probes[record["probe"]]
        score = RuleGrader().grade(probe, Answer(tuple(record["answer"]), record["status"]))
        survives = remains[record["cut"]].survives(probe) if record["arm"] in ("strategy", "placebo") else None
        visible = shown[record["cut"]].survives(probe) if record["arm"] == "strategy" and record["cut"] in shown else None
        records.append(
            record
            | {"survives": survives, "visible": visible, "score": score.value, "outcome": score.outcome, "detail": score.detail}
        )
    new = summarise(header, {line["cut"]: line for line in compactions}, records, bank, units, old["seconds"])
    store = Store(folder, "only-missing")
    try:
        store.replace(compactions, records)
        store.header(header)
        store.summary(new)
    finally:
        store.close()
    new = orjson.loads(orjson.dumps(new))
    metrics = [name for name, value in new["metrics"].items() if value != old.get("metrics", {}).get(name)]
    return metrics + [name for name, value in new.items() if name != "metrics" and value != old.get(name)]
