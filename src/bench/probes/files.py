"""The artifact trail: which file each successful call created, modified, read, deleted or renamed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from bench.atoms import normal
from bench.shell import Shell, shell_calls
from bench.tools import failed, file_operation, path_of
from bench.types import Message, Session, ToolCall

Operation = Literal["create", "overwrite", "modify", "read", "delete", "rename", "unclear"]
STATES = ("created", "modified", "read", "deleted", "renamed", "untouched")

_OVERWRITTEN = re.compile(r"\b(overwrote|overwritten|updated|has been edited)\b", re.IGNORECASE)
_CREATED = re.compile(r"\bcreated\b", re.IGNORECASE)
_GENERATED = re.compile(r"(?:^|/)(?:build|dist|out|target|node_modules|__pycache__|\.\w+_cache)/")


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One operation on one file, done by the call in message `index`. `new_path` is set on a rename."""

    index: int
    operation: Operation
    path: str
    new_path: str = ""


def file_events(session: Session) -> list[FileEvent]:
    """Every file operation of a session in order; paths relative to its working directory.

    A file that a command may have changed out of sight gets the operation `unclear` there: nothing is asked about it.
    """
    results = {m.call_id: m for m in session.messages if m.role == "tool"}
    shells = {call: (index, shell) for call, index, shell in shell_calls(session)}
    events: list[FileEvent] = []
    for index, message in enumerate(session.messages):
        for call in message.calls:
            result = results.get(call.id)
            if result is None or not isinstance(call.arguments, Mapping):
                continue
            operations = shells[call.id][1].operations if call.id in shells else _operations(call, result)
            for operation, path, new_path in operations:
                path, new_path = (normal(p, "path", session.cwd) if p else "" for p in (path, new_path))
                if path and path not in (".", "..") and not any(c in path for c in "*?$`{}()<>|;&\"'\n"):
                    events.append(FileEvent(index, operation, path, new_path))
    return _settled(events, session) + _unclear(events, shells.values())


def _settled(events: Iterable[FileEvent], session: Session) -> list[FileEvent]:
    """What `overwrite` was: a file that was there already is modified; one that may have been is unclear."""
    there: set[str] = set()
    settled = []
    for event in events:
        operation = event.operation
        if operation == "overwrite" and event.path in there:
            operation = "modify"
        elif operation == "overwrite":
            base = event.path.rsplit("/", 1)[-1]
            shown = any(base in m.text for m in session.messages[: event.index])
            operation = "unclear" if shown else "create"
        there.add(event.new_path or event.path)
        if operation in ("delete", "rename"):
            there.discard(event.path)
        settled.append(replace(event, operation=operation))
    return settled


def _unclear(events: Iterable[FileEvent], shells: Iterable[tuple[int, Shell]]) -> list[FileEvent]:
    """The files that a command may have changed out of sight, and those in folders that builds write to."""
    paths = {path: event.index for event in events for path in (event.path, event.new_path) if path}
    found = [FileEvent(index, "unclear", path) for path, index in paths.items() if _GENERATED.search(path)]
    found += [FileEvent(index, "unclear", path) for index, shell in shells for path in paths if shell.touches(path)]
    return found


def states(events: Iterable[FileEvent]) -> dict[str, str]:
    """Net effect on each file: created, modified, read (only), deleted or renamed (its old name).

    `moved` is the new name of a renamed file and `unclear` a file that may have been changed out of sight: neither is
    asked about.
    """
    state: dict[str, str] = {}
    own = set()  # those the session itself made
    unclear = set()
    for event in events:
        before = state.get(event.path)
        match event.operation:
            case "create":
                if before is None:
                    own.add(event.path)
                elif event.path not in own:
                    unclear.add(event.path)  # there before, gone, and made anew: created or modified?
                state[event.path] = "created"
            case "modify":
                state[event.path] = before if before in ("created", "moved") else "modified"
            case "read":
                state.setdefault(event.path, "read")
            case "delete":
                state[event.path] = "deleted"
            case "rename":
                if before == "moved":
                    unclear.add(event.path)  # a name in between
                state[event.path] = "renamed"
                state[event.new_path] = "moved"
            case "unclear":
                state.setdefault(event.path, "unclear")
                unclear.add(event.path)
    return {path: "unclear" if path in unclear else name for path, name in state.items()}


def _operations(call: ToolCall, result: Message) -> Iterator[tuple[str, str, str]]:
    path = path_of(call.arguments)
    if not path or failed(result):
        return
    match file_operation(call):
        case "write":
            said = result.text[:200].replace(path, "")
            yield "modify" if _OVERWRITTEN.search(said) else "create" if _CREATED.search(said) else "overwrite", path, ""
        case "edit":
            yield "modify", path, ""
        case "read":
            yield "read", path, ""
