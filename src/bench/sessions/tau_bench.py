"""Results of tau-bench: a list of runs, each an OpenAI chat (`traj`) with its task, trial, reward and info.

All runs of one task, in whatever file, are one project: they are about the same people and bookings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench.sessions import openai
from bench.sessions.document import Document, clean
from bench.types import Session


class Reader:
    """Every run of a results file is one session."""

    name = "tau_bench"
    version = "1"
    description = "tau-bench results: list of runs with task_id, trial, reward and traj (an OpenAI chat)"

    def missing(self, document: Document) -> str:
        if any("task_id" in run and isinstance(run.get("traj"), list) for run in _runs(document)):
            return ""
        return "no list of runs with task_id and traj"

    def read(self, document: Document) -> list[Session]:
        sessions = []
        for run in _runs(document):
            task, trial = clean(run.get("task_id"), []), clean(run.get("trial"), [])
            recorded = run["traj"] if isinstance(run.get("traj"), list) else []  # the loader names what holds no message
            chat = {"id": f"{document.name}:task{task}-trial{trial}", "messages": recorded}
            session = openai.Reader().read(replace(document, records=[chat]))[0]
            sessions.append(replace(session, source=replace(session.source, format=self.name), project=_project(task, run)))
        return sessions


def _runs(document: Document) -> Iterator[dict[str, Any]]:
    for record in document.records:
        yield from (run for run in (record if isinstance(record, list) else [record]) if isinstance(run, dict))


def _project(task: str, run: dict[str, Any]) -> str:
    """The task by its number and a digest of its instruction, since every domain numbers its tasks from 0."""
    info = run.get("info")
    about = info.get("task") if isinstance(info, dict) else None
    instruction = clean(about.get("instruction"), []) if isinstance(about, dict) else ""
    return f"task{task}" + (f"-{hashlib.sha256(instruction.encode()).hexdigest()[:6]}" if instruction else "")
