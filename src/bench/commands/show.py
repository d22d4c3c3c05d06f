"""`show`: one compaction, message by message: what stayed, what went, which probes died with it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.types import BenchError

LINE = 100


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench show", description=__doc__)
    parser.add_argument("place", metavar="RUN|PATH", help="a run folder, or recorded sessions together with --strategy")
    parser.add_argument("--strategy", help="strategy to apply to recorded sessions")
    parser.add_argument("--session", help="session id (default: the first)")
    parser.add_argument("--cut", type=int, help="number of the cut, from 1 (default: the last)")
    options = parser.parse_args(arguments)
    folder = Path(options.place).expanduser()
    if not (folder / "header.json").is_file():
        if not options.strategy:
            raise BenchError(f"{options.place} is no run folder; for recorded sessions add --strategy NAME")
        folder = _run(options.place, options.strategy)
    elif options.strategy:
        _check(folder, options.strategy)
    _show(folder, options.session, options.cut)
    return 0


def _run(path: str, strategy: str) -> Path:
    """Run `strategy` over recorded sessions, in the usual results folder, so that a second look costs nothing."""
    import yaml

    from bench.commands.screen import reporter
    from bench.config import validate
    from bench.experiment import plan, runner
    from bench.paths import config_dir
    from bench.registry import STRATEGIES

    STRATEGIES.get(strategy)
    groups = {
        "sessions": "bundled",
        "replay": "cuts",
        "probes": "default",
        "agent": "reader",
        "executor": "local",
        "strategy": strategy,
    }
    values = {}
    for group, name in groups.items():
        file = config_dir() / group / f"{name}.yaml"
        values[group] = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {"name": name}
    values["sessions"]["path"] = path
    with reporter() as report:
        made = plan.make(validate(values), report.stage)
        return runner.run(made, report.cells)


def _check(folder: Path, strategy: str) -> None:
    from bench.experiment.store import Run

    ran = Run(folder).header["strategy"]["name"]
    if ran != strategy:
        raise BenchError(f"{folder} is a run of {ran}, not of {strategy}")


def _show(folder: Path, session: str | None, number: int | None) -> None:
    from bench.commands.screen import console, plain, print_table
    from bench.content import message_text
    from bench.experiment.store import Run

    run = Run(folder)
    if not run.compactions:
        raise BenchError(f"{folder} holds no finished cut: run the same command again")
    lines = [line for line in run.compactions.values() if session in (None, line["session"])]
    if not lines:
        raise BenchError(
            f"no session {session!r} in {folder}; there are: {', '.join(dict.fromkeys(c['session'] for c in run.compactions.values()))}"
        )
    lines = [line for line in lines if line["session"] == lines[0]["session"]]
    chosen = [line for line in lines if number in (None, int(line["cut"].rsplit("#", 1)[1]))]
    if not chosen:
        raise BenchError(
            f"{lines[0]['session']} has no cut {number}; it has {', '.join(line['cut'].rsplit('#', 1)[1] for line in lines)}"
        )
    line = chosen[-1]
    contexts = run.contexts()
    before, after = contexts[line["context_before"]], {m.id: m for m in contexts[line["context_after"]]}
    out = console()
    out.print(
        f"{line['cut']} under {run.header['strategy']['label']}: {line['outcome']}, {line['note']}\n"
        f"{line['tokens_before']:,} -> {line['tokens_after']:,} tokens, {line['turns_before']} -> {line['turns_after']} turns; "
        f"head {line['head']}, tail {line['tail']} messages\n",
        markup=False,
    )
    first_of_tail = len(before) - line["tail"]
    for index, message in enumerate(before):
        if index in (line["head"], first_of_tail):
            out.print(f"--- {'span' if index == line['head'] else 'tail'}", markup=False)
        now = after.pop(message.id, None)
        mark = "gone     " if now is None else "kept     " if now == message else "rewritten"
        calls = " ".join(call.name for call in message.calls)
        text = plain(" ".join(message_text(message).split())[:LINE])
        style = {"gone     ": "red", "rewritten": "yellow"}.get(mark, "")
        out.print(
            f"{mark} {message.id:>5} {message.role:9} {plain(calls) + ': ' if calls else ''}{text}", markup=False, style=style
        )
    for message in after.values():
        out.print(
            f"new       {message.id:>5} {message.role:9} {plain(' '.join(message.text.split())[:LINE])}",
            markup=False,
            style="green",
        )
    for call in line["calls"]:
        asked = sum(len(message.text) for message in contexts[call["request"]])
        end = call.get("error") or f"{call['output']:,} tokens back, finish {call['finish']}"
        out.print(f"\nmodel call, {call['purpose']}: {asked:,} characters shown, {end}", markup=False)
    for name, value in line["details"].items():
        out.print(f"{name}: {plain(str(value))}", markup=False)
    violations = sorted({v for vs in line["violations"].values() for v in vs})
    out.print(f"\nstructure: {', '.join(violations) or 'valid for every provider'}", markup=False)
    probes = {p.id: p for p in run.bank().probes.get(line["cut"], ())}
    records = {r["probe"]: r for r in run.records if r["cut"] == line["cut"] and r["arm"] == "strategy"}
    dead = [(probes[p], r) for p, r in records.items() if r["survives"] is False or r["score"] == 0]
    rows = [
        [
            p.category,
            "gone" if r["survives"] is False else "there",
            {True: "yes", False: "no", None: "–"}[r["visible"]],
            r["outcome"],
            " ".join(p.evidence)[:30],
            p.question[:LINE],
            _gold(p),
        ]
        for p, r in dead
    ]
    if rows:
        print_table(
            ["category", "evidence", "shown to the model", "answer", "in", "question", "gold"],
            rows,
            heading=f"\n{len(rows)} of {len(records)} probes died",
        )
    else:
        out.print(f"\nall {len(records)} probes survive and are answered", markup=False)


def _gold(probe) -> str:
    text = ", ".join(probe.gold)
    return text if len(text) <= 60 else f"{text[:60]}… ({len(probe.gold)})"
