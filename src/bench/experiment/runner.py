"""Executes a plan: one compaction for each cut, then every probe in every arm, each in a fork of its context."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from bench import __version__
from bench.config import RunConfig
from bench.experiment import plan as planning
from bench.experiment.plan import SCHEMA, Plan
from bench.experiment.store import Run, Store, context_objects, read_lines
from bench.experiment.summary import summarise
from bench.grading import RuleGrader
from bench.measures.coverage import coverage
from bench.measures.structure import violations
from bench.measures.survival import Remains, remainder
from bench.models.recorder import Recorder
from bench.registry import PROBES
from bench.turns import count_turns
from bench.types import (
    Answer,
    ArmName,
    BenchError,
    Compaction,
    CompactionRequest,
    Cut,
    Message,
    Model,
    ModelCall,
    ModelError,
    OverBudget,
    Probe,
)
from bench.workspace import KnownFiles

Progress = Callable[[int, int, int], None]  # cells done, cells in all, cells with an error


@dataclass
class Cell:
    """One finished cut as it goes to the store."""

    compaction: dict[str, Any]
    records: list[dict[str, Any]]
    contexts: list[dict[str, Any]]
    seconds: float


def pending(plan: Plan) -> list[Cut]:
    """The cuts that the plan's folder does not hold yet."""
    path = Path(plan.config.results_dir).expanduser() / plan.run_id / "compactions.jsonl"
    done = set() if plan.config.overwrite == "always" else {line["cut"] for line in read_lines(path)}
    return [cut for cut in plan.cuts if cut.id not in done]


def run(plan: Plan, progress: Progress = lambda done, total, errors: None) -> Path:
    """Do what the plan's folder does not hold yet, and write its summary. Returns the folder."""
    folder = Path(plan.config.results_dir).expanduser() / plan.run_id
    store = Store(folder, plan.config.overwrite)
    status = "cancelled"
    try:
        if plan.model and plan.config.max_usd:
            plan.model.limit(folder, plan.config.max_usd)
        store.header(header(plan, "started"))
        store.probes(plan.bank.frozen)
        store.units(plan.units)
        todo = [cut for cut in plan.cuts if cut.id not in store.finished]
        errors, seconds = 0, 0.0 if todo else store.seconds
        progress(len(store.finished), len(plan.cuts), errors)
        for number, cell in enumerate(_cells(plan, todo), 1):
            store.cell(cell.compaction, cell.records, cell.contexts)
            errors += cell.compaction["outcome"] == "failed" or any(r["status"] == "error" for r in cell.records)
            seconds += cell.seconds
            progress(len(plan.cuts) - len(todo) + number, len(plan.cuts), errors)
        store.sync()
        finished = Run(folder)
        order = {cut.id: number for number, cut in enumerate(plan.cuts)}
        if list(finished.compactions) != list(order):  # cuts from the middle were lost and done again
            compactions = sorted(finished.compactions.values(), key=lambda line: order[line["cut"]])
            store.replace(compactions, sorted(finished.records, key=lambda record: order[record["cut"]]))
            finished = Run(folder)
        status = "success"
        store.summary(summarise(header(plan, status), finished.compactions, finished.records, plan.bank, plan.units, seconds))
    except OverBudget as error:
        status = "stopped"
        done = len(Run(folder).compactions)
        raise BenchError(
            f"{error}; {done} of {len(plan.cuts)} cuts are done, and the same command with a larger max_usd goes on from there"
        ) from None
    except Exception:
        status = "error"
        raise
    finally:
        store.header(header(plan, status))
        store.close()
    return folder


def header(plan: Plan, status: str) -> dict[str, Any]:
    """What the run is. Nothing in it is secret: keys are read from the environment only and never come here."""
    return {
        "schema": SCHEMA,
        "run_id": plan.run_id,
        "status": status,
        "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        "bench": __version__,
        "strategy": {
            "name": plan.strategy.name, "label": plan.label, "version": plan.strategy.version, "source": getattr(plan.strategy, "source", ""),
            "privileged": getattr(plan.strategy, "privileged", False), **plan.config.strategy.parameters,
        },
        "agent": {"name": plan.agent.name, "label": plan.agent.label, "version": plan.agent.version},
        "model": {**plan.model.identity, "endpoint": plan.model.endpoint} if plan.model else None,
        "tokenizer": plan.counter.name,
        "config": plan.config.model_dump(),
        "versions": plan.versions,
        "bank_sha256": plan.bank.sha256,
        "funnel": {name: dict(counts) for name, counts in plan.bank.funnel.items()},
        "sessions": [
            {"id": s.id, "cluster": s.cluster, "format": s.source.format, "path": s.source.path, "sha256": s.source.sha256,
             "messages": len(s.messages), "tokens": plan.counter.messages(s.messages), "problems": list(s.problems)}
            for s in plan.sessions
        ],
        "cuts": len(plan.cuts),
        "notes": plan.notes,
    }  # fmt: skip


def _cells(plan: Plan, cuts: Sequence[Cut]) -> Iterator[Cell]:
    """Finished cells in the order of `cuts`, whatever the number of processes."""
    workers = min(plan.config.executor.workers, len(cuts))
    if workers <= 1:
        yield from (execute(plan, cut) for cut in cuts)
        return
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_prepare_worker, initargs=(plan.config,)
    ) as pool:
        try:
            yield from pool.map(_execute_in_worker, [cut.id for cut in cuts])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_worker_plan: Plan | None = None


def _prepare_worker(config: RunConfig) -> None:
    """A worker leaves Ctrl-C to its parent, and ends when the parent is gone, however it went."""
    global _worker_plan
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
    _worker_plan = planning.make(config)
    if _worker_plan.model and config.max_usd:
        _worker_plan.model.limit(Path(config.results_dir).expanduser() / _worker_plan.run_id, config.max_usd)


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _execute_in_worker(cut_id: str) -> Cell:
    assert _worker_plan is not None
    return execute(_worker_plan, next(cut for cut in _worker_plan.cuts if cut.id == cut_id))


def execute(plan: Plan, cut: Cut) -> Cell:
    """One compaction and all its probes. An exception of a strategy or an agent becomes part of the records."""
    began = time.perf_counter()
    compaction = compact(plan, cut, plan.model)
    probes, placebos = plan.bank.probes.get(cut.id, ()), plan.bank.placebos.get(cut.id, ())
    if hasattr(plan.agent, "open_book"):
        plan.agent.open_book({probe.id: probe for probe in (*probes, *placebos)})
    left = remainder(compaction.messages, cut)
    remains = Remains(left)
    shown = Remains([m for call in compaction.calls for m in call.request]) if compaction.calls else None
    arms: list[tuple[ArmName, Sequence[Message], Sequence[Probe]]] = [
        ("full", cut.context, probes),
        ("floor", (*cut.head, *cut.tail), probes),
        ("strategy", compaction.messages, probes),
        ("placebo", compaction.messages, placebos),
    ]
    records = [_record(plan, cut, arm, context, probe, remains, shown) for arm, context, asked in arms for probe in asked]
    before, objects = context_objects(cut.context)
    after, more = context_objects(compaction.messages)
    calls = []
    for call in compaction.calls:
        shown_as, request = context_objects(call.request)
        answered_as, answer = context_objects([Message("assistant", call.output.text)] if call.output else [])
        calls.append(_call_line(call) | {"request": shown_as, "answer": answered_as})
        more += [*request, *answer]
    line = _compaction_line(plan, cut, compaction) | {"calls": calls, "context_before": before, "context_after": after}
    line |= {"coverage": asdict(coverage(plan.units[cut.id], left)), "records": len(records)}
    return Cell(line, records, [*objects, *more], time.perf_counter() - began)


def _call_line(call: ModelCall) -> dict[str, Any]:
    """A model call without its texts: what it was for, what it took, how it ended."""
    output = call.output
    if output is None:
        return {"purpose": call.purpose, "error": call.error}
    counted = output.usage
    return {
        "purpose": call.purpose, "finish": output.finish, "input": counted.input, "output": counted.output, "cache_read": counted.cache_read,
        "cache_write": counted.cache_write, "usd": output.usd, "seconds": output.seconds, "cached": output.cached,
    }  # fmt: skip


def compact(plan: Plan, cut: Cut, asked: Model | None) -> Compaction:
    """Apply the plan's strategy at a cut; an exception is the outcome `failed`, the context then as it was."""
    model = Recorder(asked) if asked else None
    request = CompactionRequest(
        head=len(cut.head),
        tail=len(cut.tail),
        target_tokens=int(plan.config.replay.target_ratio * plan.counter.messages(cut.context)),
        count=plan.counter.messages,
        rng=random.Random(f"{plan.config.seed}:{cut.id}:{plan.strategy.name}"),
        window=plan.config.replay.window,
        session=cut.session.id,
        instructions=plan.config.strategy.instructions,
        model=model,
        workspace=KnownFiles(cut.context, cut.session.cwd),
        recorded=cut.recorded,
    )
    began = time.perf_counter()
    try:
        made = _whole(plan.strategy.compact(cut.context, request), cut)
    except OverBudget:
        raise
    except ModelError as error:
        made = Compaction(cut.context, "failed", str(error), error=f"{error.kind}: {error}")
    except (Exception, SystemExit):  # somebody's compactor may be a script that calls sys.exit
        made = Compaction(cut.context, "failed", error=traceback.format_exc(limit=8))
    if made.outcome == "applied" and made.messages == cut.context:
        made = replace(made, outcome="noop", note=made.note or "the strategy returned the context unchanged")
    return replace(made, seconds=time.perf_counter() - began, calls=tuple(model.calls) if model else ())


def _whole(made: Any, cut: Cut) -> Compaction:
    """What a strategy returned, when it is a compaction of messages; anything else is the outcome `invalid`."""
    if not isinstance(made, Compaction):
        return Compaction(cut.context, "invalid", f"the strategy returned {type(made).__name__}, no Compaction")
    messages = tuple(made.messages)
    if not all(isinstance(message, Message) for message in messages):
        return Compaction(cut.context, "invalid", "the strategy returned something that is no Message")
    return replace(made, messages=messages)


def _compaction_line(plan: Plan, cut: Cut, compaction: Compaction) -> dict[str, Any]:
    before, after = plan.counter.messages(cut.context), plan.counter.messages(compaction.messages)
    kept = {message.id: message for message in compaction.messages}
    return {
        "cut": cut.id, "session": cut.session.id, "cluster": cut.session.cluster, "at": cut.at, "head": len(cut.head), "tail": len(cut.tail),
        "tokenizer": plan.counter.name, "outcome": compaction.outcome, "note": compaction.note, "error": compaction.error,
        "details": dict(compaction.details),
        "tokens_before": before, "tokens_after": after, "tokens_span": plan.counter.messages(cut.span),
        "turns_before": count_turns(cut.context), "turns_after": count_turns(compaction.messages),
        "target_tokens": int(plan.config.replay.target_ratio * before),
        "tail_kept": sum(kept.get(m.id) == m for m in cut.tail) / len(cut.tail),
        "violations": violations(compaction.messages, cut.context, after, before),
    }  # fmt: skip


_answers: dict[tuple[Any, ...], Answer] = {}  # full and floor arms are the same for every strategy of a multirun
_ANSWERS_KEPT = 200_000


def _record(
    plan: Plan, cut: Cut, arm: ArmName, context: Sequence[Message], probe: Probe, remains: Remains, shown: Remains | None
) -> dict[str, Any]:
    error = ""
    key = (plan.config.agent.model_dump_json(), cut.session.source, cut.id, cut.at, len(context), arm, probe)
    shared = arm in ("full", "floor")
    answer = _answers.get(key) if shared else None
    if answer is None:
        try:
            answer = plan.agent.answer(context, probe.ask())
            if not isinstance(answer, Answer) or not all(isinstance(value, str) for value in answer.values):
                raise TypeError(f"the agent returned {answer!r:.200}, no Answer with texts")
        except Exception:
            answer, error = Answer(status="error"), traceback.format_exc(limit=8)
        if shared and not error and len(_answers) < _ANSWERS_KEPT:
            _answers[key] = answer
    score = RuleGrader().grade(probe, answer)
    survives = remains.survives(probe) if arm in ("strategy", "placebo") else None
    visible = shown.survives(probe) if shown and arm == "strategy" else None
    return {
        "bank": plan.bank.sha256[:16], "cut": cut.id, "probe": probe.id, "arm": arm, "category": probe.category, "form": PROBES.get(probe.category).form,
        "survives": survives, "visible": visible, "status": answer.status, "answer": list(answer.values), "score": score.value, "outcome": score.outcome,
        "detail": score.detail, **({"error": error} if error else {}),
    }  # fmt: skip
