"""From the records of a run to its numbers: means with clustered intervals, controls, and whether the run is valid."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from bench.measures.coverage import HORIZONS, CutCoverage, frc
from bench.measures.efficiency import compression_ratio, message_preservation, seed_efficiency, token_reduction
from bench.measures.future import Units
from bench.measures.structure import PROVIDERS
from bench.probes.bank import FIFTHS, Bank, count
from bench.stats import bootstrap, design_effect, mean
from bench.types import Estimate

NAMED = 3  # answers shown of those to name_a_word
MIN_DENOMINATOR = 0.20  # ceiling minus floor, below which retention says nothing
LIMITS = {"ceiling": (">=", 0.8), "floor": ("<=", 0.1), "placebo": ("<=", 0.01), "leak": ("<=", 0.05)}

Record = Mapping[str, Any]


def summarise(
    header: Record,
    compactions: Mapping[str, Record],
    records: Sequence[Record],
    bank: Bank,
    units: Mapping[str, Units],
    seconds: float,
) -> dict[str, Any]:
    """`summary.json` of a run. Recall, survival and retention are macro means over categories."""
    cluster = {cut: line["cluster"] for cut, line in compactions.items()}
    arms: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        arms[record["arm"]].append(record)
    categories = list(dict.fromkeys(r["category"] for r in arms["strategy"]))
    free = [r for r in arms["strategy"] if r["form"] == "free"]
    controls = _controls(arms, cluster)
    table = _survival_by_recall(arms["strategy"])
    leak = _share(table["gone"]["right"], table["gone"]["right"] + table["gone"]["wrong"])
    controls["leak"] = None if leak is None or controls["floor"] is None else max(0.0, leak - controls["floor"])
    reasons = _reasons(controls)
    future = _coverage(compactions, units, int(header["config"]["seed"]))
    depth = {probe.id: probe.depth for probes in bank.probes.values() for probe in probes}
    metrics = {
        "survival": _mean(arms["strategy"], "survives", cluster),
        "visible": _mean(arms["strategy"], "visible", cluster),
        "recall": _mean(arms["strategy"], "score", cluster),
        "ceiling": _mean(arms["full"], "score", cluster),
        "floor": _mean(arms["floor"], "score", cluster),
        "retention": _retention(arms, cluster, int(header["config"]["seed"])),
        "placebo_survival": _mean(arms["placebo"], "survives", cluster),
        "placebo_recall": _mean(arms["placebo"], "score", cluster),
        **_ratios(compactions),
        "coverage": future["end"]["unrecoverable"],
        "cost_usd": _mean_of(compactions, lambda line: _usd(line["calls"])),
    }
    whole = {cut for cut, line in compactions.items() if line["outcome"] in ("applied", "noop")}
    return {
        "schema": header["schema"], "run_id": header["run_id"], "status": header["status"], "strategy": header["strategy"],
        "agent": header["agent"]["name"], "agent_label": header["agent"]["label"], "model": header["model"], "tokenizer": header["tokenizer"],
        "split": header["config"]["sessions"]["split"] if header["config"]["sessions"]["path"] is None else None,
        "bank_sha256": header["bank_sha256"], "versions": header["versions"],
        "sessions": len({line["session"] for line in compactions.values()}), "clusters": len(set(cluster.values())),
        "cuts": len(compactions), "probes": count(bank.probes.values()),
        "outcomes": {**dict.fromkeys(("applied", "noop", "fallback", "invalid", "failed"), 0), **Counter(line["outcome"] for line in compactions.values())},
        "metrics": metrics,
        "model_calls": _model_calls(compactions),
        "per_protocol": None if len(whole) == len(compactions) else {
            name: _mean([r for r in arms["strategy"] if r["cut"] in whole], field, cluster)
            for name, field in (("survival", "survives"), ("recall", "score"))
        },
        "by_category": {
            name: {
                "survival": _mean([r for r in arms["strategy"] if r["category"] == name], "survives", cluster),
                **{label: _mean([r for r in arms[arm] if r["category"] == name], "score", cluster)
                   for label, arm in (("recall", "strategy"), ("ceiling", "full"), ("floor", "floor"))},
                "named": _named([r for r in arms["strategy"] if r["category"] == name]),
                "outcomes": dict(sorted(Counter(r["outcome"] for r in arms["strategy"] if r["category"] == name).items())),
            }
            for name in categories
        },
        "by_depth": _by_depth(arms["strategy"], depth, cluster),
        "coverage": future,
        "design_effect": {
            name: design_effect(*_columns(arms["strategy"], field, cluster)) for name, field in (("survival", "survives"), ("recall", "score"))
        },
        "by_session": _by_session(compactions, arms),
        "survival_by_recall": table,
        "use_gap": _use_gap(arms, free),
        "controls": controls, "valid": not reasons, "invalid_because": reasons,
        "structure": {provider: _mean_of(compactions, lambda line, p=provider: float(not line["violations"][p])) for provider in PROVIDERS},
        "violations": dict(sorted(Counter(v for line in compactions.values() for v in {x for vs in line["violations"].values() for x in vs}).items())),
        "errors": {"infrastructure": sum(r["status"] == "error" for r in records), "strategy": sum(line["outcome"] == "failed" for line in compactions.values())},
        "first_error": _first_error(compactions, records),
        "seconds": round(seconds, 3),
    }  # fmt: skip


def _usd(calls: Sequence[Record]) -> float | None:
    """What the calls of one compaction cost by list price, cached answers too; None when the price of one is not known."""
    prices = [call.get("usd") for call in calls if "error" not in call]
    return None if None in prices else sum(prices)


def _model_calls(compactions: Mapping[str, Record]) -> dict[str, Any]:
    """Calls of a model in all compactions: how many, how many failed or came from the cache, tokens, USD by list price."""
    calls = [call for line in compactions.values() for call in line["calls"]]
    answered = [call for call in calls if "error" not in call]
    return {
        "calls": len(calls), "failed": len(calls) - len(answered), "cached": sum(call["cached"] for call in answered),
        "input": sum(call["input"] + call["cache_read"] + call["cache_write"] for call in answered),
        "output": sum(call["output"] for call in answered), "usd": _usd(calls), "seconds": round(sum(call["seconds"] for call in answered), 3),
    }  # fmt: skip


def _named(records: Sequence[Record]) -> list[str]:
    """What was named where any word and file would do: the first few different answers."""
    named = (" + ".join(r["answer"]) for r in records if r["category"] == "name_a_word" and r["answer"])
    return list(dict.fromkeys(named))[:NAMED]


def _coverage(compactions: Mapping[str, Record], units: Mapping[str, Units], seed: int) -> dict[str, Any]:
    """Future-reference coverage to the session's end and for the shorter horizons, in turns."""
    measured = [
        (units[cut], CutCoverage(**line["coverage"] | {"survived": tuple(line["coverage"]["survived"])}))
        for cut, line in compactions.items()
    ]
    return {"end" if horizon is None else str(horizon): _plain(frc(measured, horizon, seed)) for horizon in HORIZONS}


def _plain(value: Any) -> Any:
    """A dataclass of measures as JSON takes it."""
    if isinstance(value, Estimate):
        return as_json(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _by_depth(records: Sequence[Record], depth: Mapping[str, float | None], cluster: Mapping[str, str]) -> dict[str, Any]:
    """Survival and recall by fifth of the span, 1 the newest, over all categories and in each."""
    fifths: dict[int, list[Record]] = {number: [] for number in range(1, FIFTHS + 1)}
    for record in records:
        if (place := depth.get(record["probe"])) is not None:
            fifths[min(FIFTHS, int(place * FIFTHS) + 1)].append(record)

    def both(chosen: Sequence[Record]) -> dict[str, Any]:
        return {"survival": _mean(chosen, "survives", cluster), "recall": _mean(chosen, "score", cluster)}

    names = list(dict.fromkeys(r["category"] for r in records))
    return {
        str(number): both(chosen) | {"by_category": {name: both([r for r in chosen if r["category"] == name]) for name in names}}
        for number, chosen in fifths.items()
    }


def _mean(records: Sequence[Record], field: str, cluster: Mapping[str, str]) -> dict[str, Any]:
    return as_json(mean(*_columns(records, field, cluster)))


def _columns(records: Sequence[Record], field: str, cluster: Mapping[str, str]) -> tuple[list[float], list[str], list[str]]:
    """(values, their clusters, their categories) of the records that have a value."""
    scored = [r for r in records if r[field] is not None]
    return [float(r[field]) for r in scored], [cluster[r["cut"]] for r in scored], [r["category"] for r in scored]


def _mean_of(compactions: Mapping[str, Record], value) -> dict[str, Any]:
    pairs = [(value(line), line["cluster"]) for line in compactions.values()]
    pairs = [(number, cluster) for number, cluster in pairs if number is not None]
    return as_json(mean([number for number, _ in pairs], [cluster for _, cluster in pairs]))


def _by_session(compactions: Mapping[str, Record], arms: Mapping[str, Sequence[Record]]) -> dict[str, dict[str, Any]]:
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
            label: _mean([r for r in arms[arm] if session[r["cut"]] == name], field, session)["value"]
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


def _ratios(compactions: Mapping[str, Record]) -> dict[str, Any]:
    return {
        "token_reduction": _mean_of(compactions, lambda c: token_reduction(c["tokens_before"], c["tokens_after"])),
        "compression_ratio": _mean_of(compactions, lambda c: compression_ratio(c["tokens_before"], c["tokens_after"])),
        "message_preservation": _mean_of(compactions, lambda c: message_preservation(c["turns_before"], c["turns_after"])),
        "efficiency": _mean_of(
            compactions, lambda c: seed_efficiency(c["tokens_before"], c["tokens_after"], c["turns_before"], c["turns_after"])
        ),
        "over_target": _mean_of(compactions, lambda c: float(max(0, c["tokens_after"] - c["target_tokens"]))),
        "tail_kept": _mean_of(compactions, lambda c: c["tail_kept"]),
        "structure_valid": _mean_of(compactions, lambda c: float(not any(c["violations"].values()))),
    }


def _retention(arms: Mapping[str, Sequence[Record]], cluster: Mapping[str, str], seed: int) -> dict[str, Any]:
    """(recall - floor) / (ceiling - floor) on the same probes, with an interval from resampled clusters."""
    scores: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for arm in ("full", "floor", "strategy"):
        for r in arms[arm]:
            if r["score"] is not None:
                scores[r["cut"], r["probe"]][arm] = r["score"]
    category = {(r["cut"], r["probe"]): r["category"] for r in arms["strategy"]}
    paired = [(key, s) for key, s in scores.items() if len(s) == 3]
    clusters = sorted({cluster[cut] for (cut, _), _ in paired})
    names = sorted({category[key] for key, _ in paired})
    sums = np.zeros((4, len(clusters), len(names)))  # full, floor, strategy, number of probes
    for key, s in paired:
        place = (clusters.index(cluster[key[0]]), names.index(category[key]))
        for row, value in enumerate((s["full"], s["floor"], s["strategy"], 1.0)):
            sums[row][place] += value

    def statistic(weights: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            totals = np.einsum("rc,acn->arn", weights, sums)
            full, floor, kept = (np.nanmean(totals[row] / totals[3], axis=1) for row in range(3))
            return (kept - floor) / np.where(full - floor > 0, full - floor, np.nan)

    nothing = as_json(Estimate(None, None, None, len(paired), len(clusters)))
    if not paired:
        return nothing
    ones = np.ones((1, len(clusters)))
    totals = np.einsum("rc,acn->arn", ones, sums)
    full, floor = (float(np.mean(totals[row] / totals[3])) for row in range(2))
    if full - floor < MIN_DENOMINATOR:
        return nothing | {"suppressed": f"ceiling minus floor is {full - floor:.2f}, under {MIN_DENOMINATOR}"}
    spread = bootstrap(statistic, len(clusters), seed)
    se, ci = spread if spread else (None, None)
    return as_json(Estimate(float(statistic(ones)[0]), se, ci, len(paired), len(clusters)))


def _controls(arms: Mapping[str, Sequence[Record]], cluster: Mapping[str, str]) -> dict[str, float | None]:
    free = {arm: [r for r in arms[arm] if r["form"] == "free"] for arm in ("full", "floor")}
    return {
        "ceiling": _mean(free["full"], "score", cluster)["value"],
        "floor": _mean(free["floor"], "score", cluster)["value"],
        "placebo": _mean(arms["placebo"], "survives", cluster)["value"],
    }


def _reasons(controls: Mapping[str, float | None]) -> list[str]:
    reasons = []
    for name, (sign, limit) in LIMITS.items():
        value = controls[name]
        if value is not None and (value < limit if sign == ">=" else value > limit):
            reasons.append(f"{name} is {value:.3f}, asked for {sign} {limit}")
    return reasons


def _survival_by_recall(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    """Counts over the free-form categories: evidence there or gone, answer right or wrong."""
    table = {"there": {"right": 0, "wrong": 0}, "gone": {"right": 0, "wrong": 0}}
    for r in records:
        if r["form"] == "free" and r["survives"] is not None and r["score"] is not None:
            table["there" if r["survives"] else "gone"]["right" if r["score"] else "wrong"] += 1
    return table


def _first_error(compactions: Mapping[str, Record], records: Sequence[Record]) -> str:
    errors = (line.get("error") for line in (*compactions.values(), *records))
    return next((error.strip().splitlines()[-1] for error in errors if error and error.strip()), "")


def _use_gap(arms: Mapping[str, Sequence[Record]], free: Sequence[Record]) -> float | None:
    """Recall with the full context minus recall under the strategy, over the free-form probes whose evidence is there."""
    full = {(r["cut"], r["probe"]): r["score"] for r in arms["full"]}
    pairs = [(full.get((r["cut"], r["probe"])), r["score"]) for r in free if r["survives"]]
    pairs = [(before, after) for before, after in pairs if before is not None and after is not None]
    return sum(before - after for before, after in pairs) / len(pairs) if pairs else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def as_json(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value, "se": estimate.se, "ci": list(estimate.ci) if estimate.ci else None, "n": estimate.n,
        "clusters": estimate.clusters,
    }  # fmt: skip
