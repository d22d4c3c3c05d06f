"""From the records of a run to its numbers: means with clustered intervals, controls, and whether the run is valid."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bench.experiment.breakdown import by_depth, by_session, coverage
from bench.experiment.figures import Record, as_json, columns, mean_of, mean_records
from bench.measures.efficiency import compression_ratio, message_preservation, seed_efficiency, token_reduction
from bench.measures.future import Units
from bench.measures.structure import PROVIDERS
from bench.probes.bank import Bank, count
from bench.stats import design_effect, mean, ratio
from bench.types import Estimate

NAMED = 3  # answers shown of those to name_a_word
MIN_DENOMINATOR = 0.20  # ceiling minus floor, below which retention says nothing
LIMITS = {"ceiling": (">=", 0.8), "floor": ("<=", 0.1), "placebo": ("<=", 0.01), "leak": ("<=", 0.05)}


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
    future = coverage(compactions, units, int(header["config"]["seed"]))
    depth = {probe.id: probe.depth for probes in bank.probes.values() for probe in probes}
    metrics = {
        "survival": mean_records(arms["strategy"], "survives", cluster),
        "visible": mean_records(arms["strategy"], "visible", cluster),
        "recall": mean_records(arms["strategy"], "score", cluster),
        "ceiling": mean_records(arms["full"], "score", cluster),
        "floor": mean_records(arms["floor"], "score", cluster),
        "retention": _retention(arms, cluster, int(header["config"]["seed"])),
        "placebo_survival": mean_records(arms["placebo"], "survives", cluster),
        "placebo_recall": mean_records(arms["placebo"], "score", cluster),
        **_ratios(compactions),
        "coverage": future["end"]["unrecoverable"],
        "cost_usd": mean_of(compactions, lambda line: _usd(line["calls"])),
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
            name: mean_records([r for r in arms["strategy"] if r["cut"] in whole], field, cluster)
            for name, field in (("survival", "survives"), ("recall", "score"))
        },
        "by_category": {
            name: {
                "survival": mean_records([r for r in arms["strategy"] if r["category"] == name], "survives", cluster),
                **{label: mean_records([r for r in arms[arm] if r["category"] == name], "score", cluster)
                   for label, arm in (("recall", "strategy"), ("ceiling", "full"), ("floor", "floor"))},
                "named": _named([r for r in arms["strategy"] if r["category"] == name]),
                "outcomes": dict(sorted(Counter(r["outcome"] for r in arms["strategy"] if r["category"] == name).items())),
            }
            for name in categories
        },
        "by_depth": by_depth(arms["strategy"], depth, cluster),
        "coverage": future,
        "design_effect": {
            name: design_effect(*columns(arms["strategy"], field, cluster)) for name, field in (("survival", "survives"), ("recall", "score"))
        },
        "by_session": by_session(compactions, arms),
        "survival_by_recall": table,
        "use_gap": _use_gap(arms, free),
        "controls": controls, "valid": not reasons, "invalid_because": reasons,
        "structure": {provider: mean_of(compactions, lambda line, p=provider: float(not line["violations"][p])) for provider in PROVIDERS},
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


def _ratios(compactions: Mapping[str, Record]) -> dict[str, Any]:
    return {
        "token_reduction": mean_of(compactions, lambda c: token_reduction(c["tokens_before"], c["tokens_after"])),
        "compression_ratio": mean_of(compactions, lambda c: compression_ratio(c["tokens_before"], c["tokens_after"])),
        "message_preservation": mean_of(compactions, lambda c: message_preservation(c["turns_before"], c["turns_after"])),
        "efficiency": mean_of(
            compactions, lambda c: seed_efficiency(c["tokens_before"], c["tokens_after"], c["turns_before"], c["turns_after"])
        ),
        "over_target": mean_of(compactions, lambda c: float(max(0, c["tokens_after"] - c["target_tokens"]))),
        "tail_kept": mean_of(compactions, lambda c: c["tail_kept"]),
        "structure_valid": mean_of(compactions, lambda c: float(not any(c["violations"].values()))),
    }


def _retention(arms: Mapping[str, Sequence[Record]], cluster: Mapping[str, str], seed: int) -> dict[str, Any]:
    """(recall - floor) / (ceiling - floor) on the same probes, with an interval from resampled clusters."""
    scores: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for arm in ("full", "floor", "strategy"):
        for r in arms[arm]:
            if r["score"] is not None:
                scores[r["cut"], r["probe"]][arm] = r["score"]
    category = {(r["cut"], r["probe"]): r["category"] for r in arms["strategy"]}
    paired = {key: s for key, s in scores.items() if len(s) == 3}
    clusters, categories = [cluster[cut] for cut, _ in paired], [category[key] for key in paired]
    room = [s["full"] - s["floor"] for s in paired.values()]
    whole = mean(room, clusters, categories).value
    if whole is not None and whole < MIN_DENOMINATOR:
        nothing = as_json(Estimate(None, None, None, len(paired), len(set(clusters))))
        return nothing | {"suppressed": f"ceiling minus floor is {whole:.2f}, under {MIN_DENOMINATOR}"}
    return as_json(ratio([s["strategy"] - s["floor"] for s in paired.values()], room, clusters, categories, seed=seed))


def _controls(arms: Mapping[str, Sequence[Record]], cluster: Mapping[str, str]) -> dict[str, float | None]:
    free = {arm: [r for r in arms[arm] if r["form"] == "free"] for arm in ("full", "floor")}
    return {
        "ceiling": mean_records(free["full"], "score", cluster)["value"],
        "floor": mean_records(free["floor"], "score", cluster)["value"],
        "placebo": mean_records(arms["placebo"], "survives", cluster)["value"],
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
