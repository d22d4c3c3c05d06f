"""The artifact trail: which file each successful call created, modified, read, deleted or renamed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench.atoms import normal
from bench.types import Message, Session, ToolCall

Operation = Literal["create", "modify", "read", "delete", "rename"]
STATES = ("created", "modified", "read", "deleted", "renamed", "untouched")

_WRITE = {"write", "write_file", "create_file", "write_to_file", "create"}
_EDIT = {"edit", "multiedit", "edit_file", "str_replace", "replace", "replace_in_file", "apply_diff", "notebookedit"}
_READ = {"read", "read_file", "view", "open_file", "view_file"}
_SHELL = {"bash", "shell", "execute_bash", "run_shell_command", "execute_command", "run_command", "terminal"}
_PATH_KEYS = ("file_path", "path", "filename", "target_file", "notebook_path", "absolute_path")
_OVERWRITTEN = re.compile(r"\b(overwrote|overwritten|updated|has been edited)\b", re.IGNORECASE)
_FAILED = re.compile(r"\A(?:<tool_use_error>|Error\b|Edit refused|File does not exist)")


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One operation on one file, done by the call in message `index`. `new_path` is set on a rename."""

    index: int
    operation: Operation
    path: str
    new_path: str = ""


def file_events(session: Session) -> list[FileEvent]:
    """Every file operation of a session in order, successful calls only; paths relative to its working directory."""
    results = {m.call_id: m for m in session.messages if m.role == "tool"}
    events: list[FileEvent] = []
    known: set[str] = set()
    for index, message in enumerate(session.messages):
        for call in message.calls:
            result = results.get(call.id)
            if result is None or (_failed(result) and call.name.lower() not in _SHELL):
                continue
            for operation, path, new_path in _operations(call, result):
                path, new_path = (normal(p, "path", session.cwd) if p else "" for p in (path, new_path))
                if not path or path in (".", "..", "/dev/null") or any(c in path for c in "*?$`{}()<>|;&\"'\n"):
                    continue
                if operation == "create" and path in known:
                    operation = "modify"
                if operation == "read" and path in known and _failed(result):
                    continue
                known.add(new_path or path)
                events.append(FileEvent(index, operation, path, new_path))
    return events


def states(events: Iterable[FileEvent]) -> dict[str, str]:
    """Net effect on each file: created, modified, read (only), deleted or renamed (its old name)."""
    state: dict[str, str] = {}
    for event in events:
        before = state.get(event.path)
        match event.operation:
            case "create":
                state[event.path] = "created"
            case "modify":
                state[event.path] = "created" if before == "created" else "modified"
            case "read":
                state.setdefault(event.path, "read")
            case "delete":
                state[event.path] = "deleted"
            case "rename":
                state[event.path] = "renamed"
                state[event.new_path] = "created" if before == "created" else "moved"
    return state


def _failed(result: Message) -> bool:
    return result.is_error or bool(_FAILED.match(result.text))


def _operations(call: ToolCall, result: Message) -> Iterator[tuple[Operation, str, str]]:
    name = call.name.lower().rsplit("__", 1)[-1]
    if not isinstance(call.arguments, Mapping):
        return
    if name in _SHELL:
        command = call.arguments.get("command") or call.arguments.get("cmd") or ""
        if isinstance(command, str) and not result.is_error:
            yield from _shell_operations(command)
        return
    path = next((str(call.arguments[key]) for key in _PATH_KEYS if isinstance(call.arguments.get(key), str)), "")
    if name == "str_replace_editor" or name == "str_replace_based_edit_tool":
        name = {"create": "write", "view": "read"}.get(str(call.arguments.get("command")), "edit")
    if name in _WRITE:
        yield ("modify" if _OVERWRITTEN.search(result.text[:200]) else "create"), path, ""
    elif name in _EDIT:
        yield "modify", path, ""
    elif name in _READ:
        yield "read", path, ""


def _shell_operations(command: str) -> Iterator[tuple[Operation, str, str]]:
    """rm, mv, cp, touch, cat and redirections of a shell command; here-documents' bodies are not commands."""
    command = re.sub(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?^\s*\2\s*$", r"\3", command, flags=re.DOTALL | re.MULTILINE)
    for part in re.split(r"&&|\|\||[;|\n]", command):
        try:
            tokens = shlex.split(part, comments=True)
        except ValueError:
            continue
        tokens, targets = _redirections(tokens)
        for target in targets:
            yield "create", target, ""
        if tokens[:1] == ["git"] and len(tokens) > 1 and tokens[1] in ("rm", "mv"):
            tokens = tokens[1:]
        files = [token for token in tokens[1:] if not token.startswith("-")]
        match tokens[:1]:
            case ["rm"]:
                yield from (("delete", file, "") for file in files if not file.endswith("/"))
            case ["mv"] if len(files) == 2:
                target = files[1] + files[0].rsplit("/", 1)[-1] if files[1].endswith("/") else files[1]
                yield "rename", files[0], target
            case ["cp"] if len(files) == 2 and not files[1].endswith("/"):
                yield "create", files[1], ""
            case ["touch"]:
                yield from (("create", file, "") for file in files)
            case ["cat"]:
                yield from (("read", file, "") for file in files)
            case ["sed"] if any(token.startswith("-i") for token in tokens) and len(files) > 1:
                yield "modify", files[-1], ""


def _redirections(tokens: list[str]) -> tuple[list[str], list[str]]:
    kept, targets, skip = [], [], False
    for number, token in enumerate(tokens):
        if skip:
            skip = False
        elif token in (">", ">>") and number + 1 < len(tokens):
            targets.append(tokens[number + 1])
            skip = True
        elif re.match(r"\d?>>?[^&>]", token):
            targets.append(token.lstrip("0123456789>"))
        else:
            kept.append(token)
    return kept, [target for target in targets if not target.startswith("/dev/")]


def path_of(arguments: Mapping[str, Any] | str) -> str:
    """The file a file tool's call is about, or an empty string."""
    if isinstance(arguments, str):
        return ""
    return next((str(arguments[key]) for key in _PATH_KEYS if isinstance(arguments.get(key), str)), "")
