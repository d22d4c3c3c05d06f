"""Summaries side by side: for the terminal, and as Markdown for documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.stats import MIN_CLUSTERS

Summary = Mapping[str, Any]

_COLUMNS = (
    ("survival", "survival"), ("placebo", "placebo_survival"), ("recall", "recall"), ("retention", "retention"),
    ("coverage", "coverage"), ("token reduction", "token_reduction"), ("compression", "compression_ratio"), ("messages kept", "message_preservation"),
    ("efficiency", "efficiency"), ("tail kept", "tail_kept"),
)  # fmt: skip
_MODEL_COLUMNS = ("shown to the model", "USD")
_UNBOUNDED = frozenset({"compression_ratio"})  # every other metric shown lies between 0 and 1


def estimate(value: Mapping[str, Any], highest: float = 1.0) -> str:
    """`0.61 [0.57, 0.65]`; a dash when there is no value, and the value alone when it is one for all clusters.

    A t interval can reach past what a proportion can be: its end is then shown as `highest` or 0, where the value is not.
    """
    if value["value"] is None:
        return "–"
    text = f"{value['value']:.2f}"
    if value["ci"] is None:
        return text
    low, high = value["ci"]
    low = low if value["value"] < 0 else max(low, 0.0)
    high = high if value["value"] > highest else min(high, highest)
    return text if high - low < 0.005 else f"{text} [{low:.2f}, {high:.2f}]"


def rows(summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """(headings, a row for each run): strategy, its metrics, validity by provider, outcomes."""
    asked = any(s["model_calls"]["calls"] for s in summaries)
    headings = ["strategy", *(heading for heading, _ in _COLUMNS), "valid o/a/g", *(_MODEL_COLUMNS if asked else ()), "outcomes"]
    body = []
    for s in summaries:
        valid = "/".join(f"{s['structure'][p]['value']:.2f}" for p in ("openai", "anthropic", "gemini"))
        outcomes = " ".join(f"{count} {name}" for name, count in s["outcomes"].items() if count)
        body.append(
            [
                title(s),
                *(estimate(s["metrics"][name], float("inf") if name in _UNBOUNDED else 1.0) for _, name in _COLUMNS),
                valid,
                *(_asked(s) if asked else ()),
                outcomes,
            ]
        )
    return headings, body


def _asked(summary: Summary) -> list[str]:
    """What the strategy's model was shown of the probes, and what its calls took."""
    calls = summary["model_calls"]
    if not calls["calls"]:
        return ["–"] * len(_MODEL_COLUMNS)
    usd = "–" if calls["usd"] is None else f"{calls['usd']:.4f}"
    return [estimate(summary["metrics"]["visible"]), usd]


def model_line(summary: Summary) -> str:
    """What the strategy's model was asked and what that took."""
    calls, shown = summary["model_calls"], summary["metrics"]["visible"]
    usd = "price unknown" if calls["usd"] is None else f"${calls['usd']:.4f} by list price"
    seen = (
        ""
        if shown["value"] is None
        else f"; the evidence of {shown['value']:.0%} of the probes (mean over categories) stood in a request"
    )
    return (
        f"{title(summary)}: {calls['calls']} model calls ({calls['failed']} failed, {calls['cached']} from the cache), "
        f"{calls['input']:,} tokens in, {calls['output']:,} out, {usd}{seen}"
    )


def title(summary: Summary) -> str:
    """The strategy with what sets it apart: parameters that are not its defaults, wrappers, the model it asks."""
    return summary["strategy"]["label"]


def session_rows(summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """A row for each session and strategy, for a corpus too small for an average over sessions."""
    values = ("survival", "recall", "ceiling", "floor", "token_reduction")
    headings = ["session", "strategy", "cuts", "probes", *(name.replace("_", " ") for name in values), "valid o/a/g", "outcomes"]
    body = []
    for session in summaries[0]["by_session"]:
        for summary in summaries:
            row = summary["by_session"].get(session)
            if row:
                shown = ("–" if row[name] is None else f"{row[name]:.2f}" for name in values)
                valid = (
                    "/".join(f"{row['valid'][provider]}" for provider in ("openai", "anthropic", "gemini")) + f" of {row['cuts']}"
                )
                outcomes = " ".join(f"{count} {name}" for name, count in row["outcomes"].items())
                body.append([session, title(summary), str(row["cuts"]), str(row["probes"]), *shown, valid, outcomes])
    return headings, body


def category_rows(summary: Summary) -> tuple[list[str], list[list[str]]]:
    headings = ["category", "probes", "survival", "recall", "ceiling", "floor", "answers"]
    body = []
    for name, row in summary["by_category"].items():
        answers = ", ".join(f"{outcome} {count}" for outcome, count in row["outcomes"].items())
        if row["named"]:
            answers += f"; named {', '.join(row['named'])}"
        shown = (_counted(row[k]) if few(row[k]) else estimate(row[k]) for k in ("survival", "recall", "ceiling", "floor"))
        body.append([name, str(row["recall"]["n"]), *shown, answers])
    return headings, body


def caption(summary: Summary) -> str:
    """What the figures of a table rest on: n, clusters, who answered, controls, and whether the run is valid."""
    controls = ", ".join(
        f"{name} {'–' if value is None else format(value, '.3f')}" for name, value in summary["controls"].items()
    )
    split = {"all": "bundled sessions, tuning and held-out", None: "own sessions"}.get(
        summary["split"], f"bundled sessions, {summary['split']} half"
    )
    text = (
        f"{split}: {summary['sessions']} sessions in {summary['clusters']} clusters, {summary['cuts']} cuts, {summary['probes']} probes; "
        f"agent {summary['agent_label']}; tokens {summary['tokenizer']}. "
        "Means over categories with 95 % intervals over clusters (t, G-1; retention: bootstrap); valid for OpenAI/Anthropic/Gemini. "
        f"Controls: {controls}."
    )
    if (summary["model"] or {}).get("name") == "scripted":
        text += " The scripted model writes no summary: its rows measure sizes and rules only."
    if not summary["valid"]:
        text += f" INVALID: {'; '.join(summary['invalid_because'])}."
    return text


def mismatch(summaries: Sequence[Summary]) -> str:
    """A sentence when the runs were not asked the same questions, else an empty string."""
    banks = {s["bank_sha256"] for s in summaries}
    return "" if len(banks) < 2 else "These runs were asked different probes: their figures cannot be compared."


def few(value: Mapping[str, Any]) -> bool:
    """Whether a mean rests on too few clusters to be an average over sessions."""
    return value["clusters"] < MIN_CLUSTERS


def _counted(value: Mapping[str, Any]) -> str:
    """`12 of 30`: what is there, where an average would claim more."""
    return "–" if value["value"] is None else f"{round(value['value'] * value['n'])} of {value['n']}"


def small(summary: Summary) -> bool:
    return summary["clusters"] < MIN_CLUSTERS


def markdown(headings: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in body)])
