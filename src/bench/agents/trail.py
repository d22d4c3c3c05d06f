"""How the reader follows files through a context: what its visible calls did to each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bench.types import Message

_NAME = r"[\w./@+~-]+"
_SHELL = re.compile(
    rf"(?:^|&&|;|\|\||\n)\s*(?:git\s+)?(?P<verb>rm|mv|cp|touch|cat)\s+(?P<rest>[^;&|<>\n]+)|(?<=\s)>>?\s*(?P<target>{_NAME})(?=\s|$)|\bsed\s+-i\S*\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s+(?P<edited>{_NAME})"
)
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_VERBS = (
    ("created", "creat"),
    ("modified", "modif"),
    ("modified", "edit"),
    ("deleted", "delet"),
    ("renamed", "renam"),
    ("read", "read"),
)


class Trail:
    """Operations by file in the order they happened: created, modified, read, deleted, renamed, arrived (a new name)."""

    def __init__(self, context: Sequence[Message]) -> None:
        results = {m.call_id: m for m in context if m.role == "tool"}
        self.operations: dict[str, list[str]] = {}
        for message in context:
            for call in message.calls:
                result = results.get(call.id)
                if result is not None and not result.is_error and isinstance(call.arguments, Mapping):
                    self._follow(call.name.lower(), call.arguments, result.text)

    def _follow(self, name: str, arguments: Mapping, result: str) -> None:
        command = arguments.get("command") or arguments.get("cmd")
        path = next((str(value) for key, value in arguments.items() if "path" in key or "file" in key), None)
        if path is None and isinstance(command, str):
            self._follow_shell(command)
        elif path is not None and command in ("view", "create"):  # one tool for all, told what to do
            self._note(path, "read" if command == "view" else "created")
        elif path is not None and re.search(r"edit|replace|patch|insert", name):
            self._note(path, "modified")
        elif path is not None and re.search(r"write|create", name):
            existed = re.search(r"overw|updated|edited", result[:200], re.IGNORECASE)
            self._note(path, "modified" if existed else "created")
        elif path is not None and re.search(r"read|view|open", name):
            self._note(path, "read")

    def _follow_shell(self, command: str) -> None:
        command = _without_heredocs(command)
        for match in _SHELL.finditer(command):
            files = [f.strip("'\"") for f in (match["rest"] or "").split() if not f.startswith("-")]
            if match["target"]:
                self._note(match["target"], "created")
            elif match["edited"]:
                self._note(match["edited"], "modified")
            elif match["verb"] == "mv" and len(files) == 2:
                self._note(files[0], "renamed")
                self._note(files[1] + files[0].rsplit("/", 1)[-1] if files[1].endswith("/") else files[1], "arrived")
            elif match["verb"] == "cp" and len(files) == 2:
                self._note(files[1], "created")
            elif match["verb"] in ("rm", "touch", "cat"):
                for file in files:
                    self._note(file, {"rm": "deleted", "touch": "created", "cat": "read"}[match["verb"]])

    def _note(self, path: str, operation: str) -> None:
        if path.startswith("/dev/") or not re.fullmatch(_NAME, path) or not re.search(r"[A-Za-z]", path):
            return
        path = self._known(path.removeprefix("./"))
        done = self.operations.setdefault(path, [])
        done.append("modified" if operation == "created" and done and done[-1] != "deleted" else operation)

    def _known(self, path: str) -> str:
        """The name under which this file is followed already: one name can be absolute, another relative."""
        for name in self.operations:
            if (
                name == path
                or (name.startswith("/") and name.endswith("/" + path))
                or (path.startswith("/") and path.endswith("/" + name))
            ):
                return name
        return path

    def _state(self, operations: Sequence[str]) -> str:
        """What the operations come to in the end."""
        for last in reversed(operations):
            if last in ("deleted", "renamed"):
                return last
            if last in ("created", "modified", "arrived"):
                break
        for kind in ("created", "arrived", "modified"):
            if kind in operations:
                return kind
        return "read"

    def files(self, question: str) -> list[str]:
        """The files of the state that a question asks for, by the first verb in it."""
        positions = [(question.find(stem), state) for state, stem in _VERBS if stem in question]
        if not positions:
            return []
        wanted = min(positions)[1] if "existed before" not in question else "modified"
        return [path for path, operations in self.operations.items() if self._state(operations) == wanted]

    def judge(self, question: str, answer_type: str, text: str) -> list[str]:
        """yes or no, or a file's state; nothing when the context does not show the file at all."""
        quoted = re.search(r"`([^`]+)`", question)
        if quoted is None or quoted[1].rsplit("/", 1)[-1] not in text:
            return []
        operations = self.operations.get(self._known(quoted[1]), [])
        if answer_type == "state":
            return [self._state(operations)] if operations else ["untouched"]
        verb = question.split("`")[0]
        wanted = next(state for state, stem in _VERBS if stem in verb)
        return ["yes" if wanted in operations else "no"]


def _without_heredocs(command: str) -> str:
    """The command without the bodies of its here-documents, line by line."""
    kept, ends = [], None
    for line in command.split("\n"):
        if ends is not None:
            ends = None if line.strip() == ends else ends
            continue
        opened = _HEREDOC.search(line)
        if opened:
            ends = opened[1]
            line = line[: opened.start()] + line[opened.end() :]
        kept.append(line)
    return "\n".join(kept)
