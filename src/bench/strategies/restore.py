"""What products bring back after a compaction: the files last read, and the todo list (Claude Code, spec A2c)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.prompts import render
from bench.sessions.canonical import arguments_text
from bench.strategies.summariser import written
from bench.tools import INSTRUCTION_FILES, TODO, failed, name_of
from bench.turns import answered
from bench.types import CompactionRequest, KnownFile, Message

PROMPTS = ("restored_file", "restored_todos")


class Budget(NamedTuple):
    files: int
    each: int  # tokens
    total: int  # tokens


BUDGETS = {"v1": Budget(20, 8_192, 32_768), "v2": Budget(5, 5_000, 50_000)}
VERSIONS = (*BUDGETS, "none")

# Files that v2 leaves to other parts of the product: plans, and memory (instruction files, rules).
_OWN = re.compile(
    rf"(?:^|/)(?:\.claude/(?:plans|rules)/.*|plan\.md|memory\.md|claude\.local\.md|{'|'.join(map(re.escape, INSTRUCTION_FILES))})$",
    re.IGNORECASE,
)


def restored(
    context: Sequence[Message], kept: Sequence[Message], request: CompactionRequest, version: str
) -> tuple[Message, ...]:
    """Messages that follow `kept`: a file each, the most recent first, then the todo list as it was last written.

    `v1` (Claude Code 1.0.33): at most 20 files, 8,192 tokens each and 32,768 in all. `v2` (2.1.88): the 5 most recently
    read ones, 5,000 tokens each and 50,000 in all, without plans, memory files, and files whose newest read still stands
    in `kept`. `none`: nothing. What is already among `kept` is not brought back twice.

    The products read from the disk; here a file is as the session knew it, which may be a part of it, or its text before
    a shell command changed it. A file that was changed and never seen cannot come back, nor can one that a command deleted. One over its limit is named in one line, in v1 too, whose source does not
    say; one that no longer fits into the total is left out, and smaller ones after it may still fit.
    """
    if version == "none" or request.workspace is None:
        return ()
    budget, left, brought = BUDGETS[version], BUDGETS[version].total, []
    for file in _candidates(context, kept, request.workspace.files, version)[: budget.files]:
        message = _message(file)
        if request.count([message]) > budget.each:
            message = _message(file, too_large=True)
        tokens = request.count([message])
        if tokens <= left:
            brought.append(message)
            left -= tokens
    if todos := _todos(context):
        brought.append(written(render("restored_todos", todos=todos), "restored"))
    there = {message.id for message in kept}
    return tuple(message for message in brought if message.id not in there)


def _candidates(context: Sequence[Message], kept: Sequence[Message], files: Sequence[KnownFile], version: str) -> list[KnownFile]:
    shown = [file for file in files if file.text]
    if version == "v1":
        return shown
    there = {message.id: message for message in kept}
    read = [file for file in shown if file.read_at >= 0 and not _OWN.search(file.path)]
    hidden = [file for file in read if there.get(context[file.read_at].id) != context[file.read_at]]
    return sorted(hidden, key=lambda file: file.read_at, reverse=True)


def _message(file: KnownFile, *, too_large: bool = False) -> Message:
    text = render("restored_file", path=file.path, text=file.text, whole=file.whole, too_large=too_large)
    return written(text, "restored")


def _todos(context: Sequence[Message]) -> str:
    """The list that the newest successful call of a todo tool wrote, a line for each item; empty when there is none."""
    written_ = [call for index, call in answered(context).items() if name_of(call) in TODO and not failed(context[index])]
    if not written_ or isinstance(written_[-1].arguments, str):
        return ""
    lists = [value for value in written_[-1].arguments.values() if isinstance(value, list)]
    return "\n".join(_line(item) for item in lists[0]) if lists else ""


def _line(item: Any) -> str:
    if not isinstance(item, Mapping):
        return f"- {item}"
    said = next((str(item[key]) for key in ("content", "title", "description") if item.get(key)), arguments_text(item))
    return f"- {said} ({item['status']})" if item.get("status") else f"- {said}"
