"""Which tool calls could be run again for the same result: what they showed is not lost by a compaction, only re-fetched."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from bench.atoms import extract, normal
from bench.content import argument_values
from bench.shell import Shell, shell_calls
from bench.tools import EDIT, READ, SHELL, WRITE, path_of
from bench.types import Session, ToolCall

# Of the programs that change nothing, those that show the same again: not `date`, `pytest`, `mkdir` or `git commit`.
_SHOWING = frozenset({
    "awk", "basename", "cat", "cd", "cmp", "cut", "diff", "dirname", "du", "echo", "egrep", "fgrep", "file", "find", "grep",
    "head", "jq", "less", "ls", "md5sum", "more", "nl", "od", "printf", "pwd", "rg", "sed", "sha1sum", "sha256sum", "sort",
    "stat", "tail", "tr", "tree", "true", "uniq", "wc", "which", "xxd",
})  # fmt: skip
_GIT_SHOWING = frozenset({"blame", "cat-file", "diff", "grep", "log", "ls-files", "rev-parse", "shortlog", "show", "status"})
_SEARCHES_FILES = frozenset({"grep", "glob", "ls", "list_dir", "list_directory", "list_files", "search_files", "find_files"})
_ASKING = frozenset(
    {"calculate", "describe", "fetch", "find", "get", "list", "lookup", "query", "read", "search", "show", "view"}
)
_CHANGING = frozenset({"add", "create", "delete", "edit", "insert", "remove", "replace", "set", "update", "write"})


@dataclass(frozen=True, slots=True)
class _Act:
    """One call: what it looked at (None: it is not known to only look), and what it may have changed.

    `looked_at` are files for a call that looks at files, else the values of its arguments; empty is anything at all.
    """

    index: int
    in_files: bool
    looked_at: frozenset[str] | None
    values: frozenset[str]
    shell: Shell | None = None


class Reruns:
    """The calls of one session, in order."""

    def __init__(self, session: Session) -> None:
        self._cwd = session.cwd
        shells = {id: shell for id, _, shell in shell_calls(session)}
        failed = {m.call_id for m in session.messages if m.role == "tool" and (m.is_error or m.text.startswith("Error"))}
        self._acts = [self._act(n, c, shells.get(c.id)) for n, message in enumerate(session.messages) for c in message.calls]
        ids = [call.id for message in session.messages for call in message.calls]
        self._looks = {id: n for n, id in enumerate(ids) if self._acts[n].looked_at is not None and id not in failed}

    def possible(self, call_id: str | None, until: int) -> bool:
        """Whether the call only looked, and nothing before message `until` may have changed what it looked at.

        What cannot be told counts as a change.
        """
        number = self._looks.get(call_id or "")
        if number is None:
            return False
        look = self._acts[number]
        return not any(self._changes(act, look) for act in self._acts[number + 1 :] if act.index < until)

    def _act(self, index: int, call: ToolCall, shell: Shell | None) -> _Act:
        name = call.name.rsplit("__", 1)[-1]
        values = frozenset(value for value in argument_values(call.arguments) if value.strip())
        path = path_of(call.arguments)
        if name.lower() in SHELL:
            command = call.arguments.get("command") or call.arguments.get("cmd") if isinstance(call.arguments, Mapping) else None
            command = command if isinstance(command, str) else ""
            shows = shell is not None and not shell.everything and _shows(command)
            return _Act(index, True, self._files(command) if shows else None, values, shell)
        if name.lower() in READ and path:
            return _Act(index, True, frozenset({normal(path, "path", self._cwd)}), values)
        if name.lower() in _SEARCHES_FILES:
            return _Act(index, True, self._files(path), values)
        if name.lower() in WRITE | EDIT:
            return _Act(index, True, None, frozenset({normal(path, "path", self._cwd)}))
        words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)] or [""]
        asks = bool({words[0], words[-1]} & _ASKING) and not _CHANGING.intersection(words)
        return _Act(index, False, values if asks and isinstance(call.arguments, Mapping) else None, values)

    def _files(self, text: str) -> frozenset[str]:
        return frozenset(normal(atom.text, "path", self._cwd) for atom in extract(text) if atom.type == "path")

    @staticmethod
    def _changes(act: _Act, look: _Act) -> bool:
        if act.looked_at is not None:
            return False
        if act.in_files != look.in_files:
            return False  # a file does not change a booking, a booking no file
        if not look.looked_at:
            return True
        if not look.in_files:
            return bool(act.values & look.looked_at)
        if act.shell:
            written = {p for operation, *paths in act.shell.operations if operation != "read" for p in paths if p}
            return any(act.shell.touches(path) or _one_of(path, written) for path in look.looked_at)
        return any(_one_of(path, act.values) for path in look.looked_at)


def _one_of(path: str, written: frozenset[str] | set[str]) -> bool:
    """Whether a written path is the path looked at, lies in it, or ends with it."""
    return any(w == path or w.startswith(path + "/") or w.endswith("/" + path) or path.endswith("/" + w) for w in written)


def _shows(command: str) -> bool:
    """Whether every program of a command is one that only shows, and none of its output goes into a file."""
    try:
        lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=";|&<>()")
        lexer.whitespace_split, lexer.commenters = True, ""
        tokens = list(lexer)
    except ValueError:
        return False
    if not tokens:
        return False
    starts = True
    for number, token in enumerate(tokens):
        if set(token) <= set(";|&()"):
            starts = True
        elif starts:
            following = tokens[number + 1] if number + 1 < len(tokens) else ""
            if token == "git" and following not in _GIT_SHOWING or token != "git" and token not in _SHOWING:
                return False
            starts = False
        elif (token.startswith("-i") or token in ("-delete", "-exec")) and re.search(r"\bsed\b|\bfind\b", command):
            return False
    return ">" not in re.sub(r"\d?>&?\s*(?:/dev/null|\d)", "", command)
