"""Files as a session knew them: what the file tools of a context showed, wrote and edited. Nothing is read from a disk."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from bench.atoms import normal
from bench.shell import Shell, shell_of
from bench.tools import failed, file_operation, path_of
from bench.turns import answered
from bench.types import KnownFile, Message, ToolCall

LINES = 2_000  # that a read tool shows when it is not told how many
CONTENT = ("content", "file_text", "contents", "text")
OLD = ("old_string", "old_str", "oldText")
NEW = ("new_string", "new_str", "newText")


class KnownFiles:
    """The Workspace of a context; paths are relative to `cwd` where they are inside it.

    A read that shows a part of a file stands for it only until all of it is known, and `whole` is False then; line
    numbers that the product prints and notices beside the text are taken off. An edit is applied where its old text is
    found once, or everywhere when all of them are replaced; one that cannot be followed leaves the text as it was, no
    longer whole. Calls of file tools that failed change nothing.

    A file that a shell command deleted is gone, and one that it renamed goes by its new name. What else a command does to
    a file is not worked out: one that it changed, or may have changed out of sight, keeps the text that was last known,
    no longer whole, until a read (be it of a part) or a write shows it anew. Files that only commands read or wrote are
    not known at all.
    """

    def __init__(self, context: Sequence[Message], cwd: str = "") -> None:
        self._context = context
        self._cwd = cwd

    @cached_property
    def files(self) -> tuple[KnownFile, ...]:
        """Most recently read or written first; `read_at` and `changed_at` are the numbers of the calls' results."""
        known: dict[str, KnownFile] = {}
        for index, call in answered(self._context).items():
            if shell := shell_of(call, self._context[index]):
                known = _commanded(known, shell, self._cwd)
            if index not in self._calls:
                continue
            path = normal(path_of(call.arguments), "path", self._cwd)
            file = known.get(path, KnownFile(path, "", whole=False))
            match file_operation(call):
                case "read":
                    file = _read(file, index, self._shown.get(index))
                case "write":
                    content = _first(call.arguments, CONTENT)
                    file = replace(file, text=content or "", whole=content is not None, changed_at=index)
                case "edit":
                    file = _edited(file, index, call.arguments)
            if file.text or file.whole or file.changed_at >= 0:  # a folder has none of them
                known[path] = file
        return tuple(sorted(known.values(), key=lambda file: max(file.read_at, file.changed_at), reverse=True))

    @cached_property
    def _calls(self) -> dict[int, ToolCall]:
        """Every call of a file tool that did something, by the index of its result."""
        calls = answered(self._context).items()
        return {i: call for i, call in calls if path_of(call.arguments) and file_operation(call) and not failed(self._context[i])}

    @cached_property
    def _shown(self) -> dict[int, Shown | None]:
        """What each read showed. Where most of them have numbered lines, a result without shows nothing: it is a notice."""
        reads = {index: call for index, call in self._calls.items() if file_operation(call) == "read"}
        found = {index: _numbered(self._context[index].text, call.arguments) for index, call in reads.items()}
        if sum(shown is not None for shown in found.values()) * 2 > len(found):
            return found
        return {index: shown or _plain(self._context[index].text, reads[index].arguments) for index, shown in found.items()}


class Shown(NamedTuple):
    text: str
    whole: bool


_HEADING = re.compile(r"\AHere's the result of running `cat -n` on [^\n]*:\n")
_REMINDER = re.compile(r"(?:\A|\n)<system-reminder>")
_CUT_OFF = re.compile(
    r"<response clipped>|^\[\d+ more lines in file|^\[Showing lines \d+-\d+ of|^\.\.\. \[\d[\d,]* characters left out\]",
    re.MULTILINE,
)
_LINE = re.compile(r" *(\d+)(?:→|\t)(.*)", re.DOTALL)


def _numbered(said: str, arguments: Mapping[str, Any] | str) -> Shown | None:
    """The text under line numbers; None unless every line has one, each one more than the last."""
    text, cut_off = _bare(said)
    if not text:
        return Shown("", not cut_off and _limits(arguments) == (1, LINES))
    lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    if lines[0] is None:
        return None
    first = int(lines[0][1])
    if any(line is None or int(line[1]) != number for number, line in enumerate(lines, first)):
        return None
    return Shown("\n".join(line[2] for line in lines if line), not cut_off and first == 1 and len(lines) < _limits(arguments)[1])


def _plain(said: str, arguments: Mapping[str, Any] | str) -> Shown:
    text, cut_off = _bare(said)
    first, limit = _limits(arguments)
    return Shown(text, not cut_off and first == 1 and text.count("\n") < limit)


def _bare(said: str) -> tuple[str, bool]:
    """A read's result without what the product says beside the text, and whether it says that there is more."""
    text = _HEADING.sub("", said)
    if text.rstrip().endswith("</system-reminder>") and (reminder := _REMINDER.search(text)):
        text = text[: reminder.start()]
    cut = _CUT_OFF.search(text)
    return (text[: cut.start()].rstrip("\n"), True) if cut else (text, False)


def _limits(arguments: Mapping[str, Any] | str) -> tuple[int, int]:
    """First line asked for, and the number of lines that a part of a file would have."""
    asked = arguments if isinstance(arguments, Mapping) else {}
    first, limit = _whole_number(asked.get("offset")) or 1, _whole_number(asked.get("limit")) or LINES
    between = asked.get("view_range")
    if isinstance(between, list) and len(between) == 2:
        first, last = (_whole_number(item) or 1 for item in between)
        limit = last - first + 1 if last > 0 else LINES * LINES  # -1 is the end of the file
    return first, limit


def _whole_number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) or (isinstance(value, str) and value.isdecimal()) else 0


def _commanded(known: Mapping[str, KnownFile], shell: Shell, cwd: str) -> dict[str, KnownFile]:
    """The files after a shell command."""
    after = {path: _unless_touched(file, shell) for path, file in known.items()}
    for operation, *paths in shell.operations:
        path, new_path = (normal(path, "path", cwd) for path in paths)
        if operation == "rename":
            after = _renamed(after, path, new_path, shell)
        elif operation == "delete":
            after.pop(path, None)
        elif operation != "read" and path in after:
            after[path] = replace(after[path], whole=False)
    return after


def _unless_touched(file: KnownFile, shell: Shell) -> KnownFile:
    return replace(file, whole=False) if file.whole and shell.touches(file.path) else file


def _renamed(known: Mapping[str, KnownFile], path: str, new_path: str, shell: Shell) -> dict[str, KnownFile]:
    """The files after a file or a folder got another name, or was put into another folder."""
    if new_path in (".", "..") or any(other.startswith(new_path + "/") for other in known):
        new_path = posixpath.normpath(posixpath.join(new_path, posixpath.basename(path)))
    after = dict(known)
    if new_path in after:  # what takes its place may never have been shown
        after[new_path] = replace(after[new_path], whole=False)
    for old in known:
        if old == path or old.startswith(path + "/"):
            file = replace(after.pop(old), path=new_path + old.removeprefix(path))
            after[file.path] = _unless_touched(file, shell)
    return after


def _read(file: KnownFile, index: int, shown: Shown | None) -> KnownFile:
    file = replace(file, read_at=index)
    if shown and (shown.whole or (shown.text and not file.whole)):
        file = replace(file, text=shown.text, whole=shown.whole)
    return file


def _edited(file: KnownFile, index: int, arguments: Mapping[str, Any] | str) -> KnownFile:
    file = replace(file, changed_at=index)
    for old, new, everywhere in _changes(arguments):
        if old == "" and new is not None and not file.text:  # makes a file
            file = replace(file, text=new, whole=True)
        elif old and new is not None and (file.text.count(old) == 1 or (everywhere and old in file.text)):
            file = replace(file, text=file.text.replace(old, new))
        else:
            file = replace(file, whole=False)
    return file


def _changes(arguments: Mapping[str, Any] | str) -> Iterator[tuple[str | None, str | None, bool]]:
    """(old text, new text, whether all of them are replaced) of an edit; None for what it does not say."""
    listed = arguments.get("edits") if isinstance(arguments, Mapping) else None
    for change in listed if isinstance(listed, list) else [arguments]:
        given = change if isinstance(change, Mapping) else {}
        yield _first(given, OLD), _first(given, NEW), bool(given.get("replace_all") or given.get("expected_replacements"))


def _first(arguments: Mapping[str, Any] | str, keys: Sequence[str]) -> str | None:
    given = arguments if isinstance(arguments, Mapping) else {}
    return next((given[key] for key in keys if isinstance(given.get(key), str)), None)
