"""What a shell command did to files, as far as its text says; and what it may have done out of sight."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from bench.tools import SHELL
from bench.tools import failed as said_to_fail
from bench.types import Message, Session, ToolCall

_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
# Programs that change no file they name (git and sed are looked at more closely).
_READERS = frozenset({
    "[", "awk", "basename", "cat", "cd", "cksum", "cmp", "comm", "cut", "date", "diff", "dirname", "du", "echo",
    "egrep", "env", "exit", "export", "expr", "false", "fgrep", "file", "find", "fold", "for", "grep", "head", "jq",
    "kill", "less", "ls", "md5sum", "mkdir", "more", "nl", "od", "paste", "printf", "pwd", "pytest", "rg", "seq",
    "sha1sum", "sha256sum", "shasum", "sleep", "sort", "stat", "tail", "test", "tr", "tree", "true", "type", "uniq",
    "unset", "wait", "wc", "which", "xxd", "done", "fi", "}",
})  # fmt: skip
_GIT_READERS = frozenset({
    "add", "blame", "cat-file", "commit", "diff", "grep", "hash-object", "init", "log", "ls-files", "ls-tree",
    "rev-parse", "shortlog", "show", "status", "tag",
})  # fmt: skip
_GIT_SWEEPING = re.compile(
    r"\bgit\s+(?:stash|reset\s+--hard|restore|checkout|switch|apply|am|revert|cherry-pick|merge|rebase|clean)\b"
)
_CHANGED_IN_OUTPUT = re.compile(
    r"\b(?:wrote|writ(?:e|ing|ten)|creat\w+|generat\w+|updat\w+|saved?|renam\w+|mov\w+|remov\w+|delet\w+|format\w+|fix\w+)\b|->"
)


_WRITING = re.compile(
    r"\bwrite|\bopen\([^)\n]*,\s*['\"][wax]|\b(?:re(?:name|move|place)|unlink|rmtree|move|copy\w*|touch|dump)\(|>"
)
_CLAUSES = ("do", "then", "else", "elif", "if", "while", "until", "!", "{", "time")  # what follows is a command of its own
_VARIABLE = re.compile(r"\$(?:[\w{@*]|$)")  # `$` alone is what is left of `$(...)`
_PUNCTUATION = ";|&<>()\n"


@dataclass
class Shell:
    """`operations`: (operation, path, new path), in order.

    `unclear` are words that may name a file, a folder or a pattern of files that was changed, `code` is program text that
    writes files, `looped` are the words a loop puts into names, and `everything` is set where any file may have been changed.
    """

    operations: list[tuple[str, str, str]] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    looped: list[str] = field(default_factory=list)
    everything: bool = False

    def touches(self, path: str) -> bool:
        """Whether the command may have changed the file out of sight."""
        base = path.rsplit("/", 1)[-1]
        named = re.compile(rf"(?<![\w-]){re.escape(base)}(?![\w-])")
        return (
            self.everything
            or base.split(".")[0] in self.looped
            or any(named.search(text) for text in (*self.code, *self.unclear))
            or any(
                path.startswith(word.rstrip("/") + "/") or (_is_pattern(word) and fnmatchcase(path, word))
                for word in self.unclear
            )
        )


def shell_calls(session: Session) -> Iterator[tuple[str, int, Shell]]:
    """(call id, message number, what it did) of every shell command that has a result."""
    results = {m.call_id: m for m in session.messages if m.role == "tool"}
    for index, message in enumerate(session.messages):
        for call in message.calls:
            if call.id in results and (shell := shell_of(call, results[call.id])):
                yield call.id, index, shell


def shell_of(call: ToolCall, result: Message) -> Shell | None:
    """What a call did, when it is one of a shell."""
    if call.name.lower() not in SHELL or not isinstance(call.arguments, Mapping):
        return None
    command = call.arguments.get("command") or call.arguments.get("cmd")
    return parse(command if isinstance(command, str) else "", result.text, said_to_fail(result))


def parse(command: str, output: str, failed: bool) -> Shell:
    """Operations of a command that succeeded. A failed one may have got some way: what it would have done is unclear."""
    shell = Shell()
    plain, bodies = _here_documents(command)
    folder, understood = "", True
    try:
        parts = _parts(plain)
    except ValueError:  # an open quote
        return Shell(code=[command])
    looped = [word for tokens, *_ in parts if tokens[:1] == ["for"] for word in tokens[3:]]
    for tokens, written, appended in parts:
        certain = True
        while tokens and tokens[0] in _CLAUSES:
            certain &= tokens[0] in ("{", "time")
            tokens = tokens[1:]
        if tokens[:1] == ["cd"] and len(tokens) == 2:
            folder = "" if tokens[1].startswith(("/", "~", "-")) else posixpath.join(folder, tokens[1])
            continue
        made = [("overwrite", target, "") for target in written] + list(_operations(tokens))
        done = [(operation, *(posixpath.join(folder, p) if p else "" for p in paths)) for operation, *paths in made]
        if certain:
            shell.operations += done
        else:  # perhaps it was not run
            shell.unclear += [path for operation, *paths in done if operation != "read" for path in paths if path]
        shell.unclear += appended  # to a new file or to an old one
        if tokens and len(made) == len(written) and not _reads(tokens):
            understood = False
            shell.everything |= _sweeps(tokens)
            acted_on = _acted_on(tokens)
            inline = [word for word in acted_on if len(word.split()) > 1]
            shell.code += [text for text in inline if _WRITING.search(text)]
            shell.unclear += [word for word in acted_on if word not in inline and len(word.strip("./")) > 1]
            if any(_VARIABLE.search(word) for word in acted_on):  # a variable: what a loop puts there, else anything
                shell.looped, shell.everything = looped, shell.everything or not looped
            shell.everything |= tokens[0] == "xargs" or (tokens[0] == "find" and not any(map(_is_pattern, tokens[1:])))
        if any(map(_VARIABLE.search, (*written, *appended))):
            shell.looped = looped
    shell.unclear += shell.looped
    if not understood:
        shell.code += [body for body in bodies if _WRITING.search(body)]
        shell.code += [line for line in output.split("\n") if len(line) <= 400 and _CHANGED_IN_OUTPUT.search(line)]
    if failed:
        shell.unclear += [path for operation, *paths in shell.operations if operation != "read" for path in paths if path]
        shell.operations = []
    return shell


def _here_documents(command: str) -> tuple[str, list[str]]:
    """(the command without the bodies of its here-documents, those bodies); one pass over the lines."""
    kept, bodies, end = [], [], None
    for line in command.split("\n"):
        if end is not None:
            if line.strip() == end:
                end = None
            else:
                bodies[-1] += line + "\n"
            continue
        opened = _HERE_DOCUMENT.search(line)
        if opened:
            end = opened[2]
            bodies.append("")
            line = line[: opened.start()] + line[opened.end() :]
        kept.append(line)
    return "\n".join(kept), bodies


def _parts(command: str) -> list[tuple[list[str], list[str], list[str]]]:
    """Simple commands of a line: (words, files written, files appended to). Raises ValueError on an open quote."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    parts: list[tuple[list[str], list[str], list[str]]] = [([], [], [])]
    target: list[str] | None = None
    for token in lexer:
        words, written, appended = parts[-1]
        if set(token) <= set(_PUNCTUATION):
            if not set(token) & {"<", ">"}:
                parts.append((["else"] if token == "||" else [], [], []))
                continue
            if words and words[-1].isdigit() and ">" in token:
                words.pop()
            target = [] if "<" in token or "&" in token else appended if ">>" in token else written
        elif target is not None:
            if not token.startswith("/dev/"):
                target.append(token)
            target = None
        elif words or not re.match(r"\w+=", token):  # assignments before a command are not part of it
            words.append(token)
    return parts


def _operations(tokens: list[str]) -> Iterator[tuple[str, str, str]]:
    if tokens[:1] == ["git"] and len(tokens) > 1 and tokens[1] in ("rm", "mv"):
        tokens = tokens[1:]
    options = "".join(token for token in tokens[1:] if token.startswith("-"))
    files = [token for token in tokens[1:] if not token.startswith("-")]
    recursive = "r" in options or "R" in options
    match tokens[:1]:
        case ["rm"] if not recursive and not any(map(_is_pattern, files)):
            yield from (("delete", file, "") for file in files)
        case ["mv"] if len(files) == 2 and not any(map(_is_pattern, files)):
            target = files[1] + files[0].rsplit("/", 1)[-1] if files[1].endswith("/") else files[1]
            yield "rename", files[0], target
        case ["cp"] if len(files) == 2 and not recursive and not any(map(_is_pattern, files)):
            yield "overwrite", files[1] + files[0].rsplit("/", 1)[-1] if files[1].endswith("/") else files[1], ""
        case ["touch"]:
            yield from (("overwrite", file, "") for file in files)
        case ["cat"]:
            yield from (("read", file, "") for file in files)
        case ["sed"] if any(token.startswith("-i") for token in tokens):
            scripts = [n for n, token in enumerate(tokens) if n and tokens[n - 1] in ("-e", "-f", "--expression")]
            edited = [t for n, t in enumerate(tokens[1:], 1) if n not in scripts and not t.startswith("-")]
            edited = edited if scripts else edited[1:]
            if not any(map(_is_pattern, edited)):
                yield from (("modify", file, "") for file in edited)


def _reads(tokens: list[str]) -> bool:
    program = tokens[0].rsplit("/", 1)[-1]
    if program == "git":
        return len(tokens) > 1 and tokens[1] in _GIT_READERS
    if program == "sed":
        return not any(token.startswith("-i") for token in tokens)
    if program == "xargs":
        rest = tokens[1:]
        while rest and (rest[0].startswith("-") or rest[0].isdigit()):
            rest = rest[1:]
        return not rest or _reads(rest)
    if program == "find":
        return not re.search(r"-delete|-exec", " ".join(tokens))
    if program in ("python", "python3") and tokens[1:3] in (["-m", "pytest"], ["-m", "unittest"]):
        return True
    return program in _READERS


def _acted_on(tokens: list[str]) -> list[str]:
    """The words of a command that may name files it changes: a script that is run is not changed by that."""
    if tokens[0] in ("python", "python3", "bash", "sh", "node", "perl") and "-c" not in tokens and "-e" not in tokens:
        rest = tokens[1:]
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest = rest[1:]
        return rest[2:] if rest[:1] == ["-m"] else rest[1:]
    return tokens[1:]


def _sweeps(tokens: list[str]) -> bool:
    """Whether a git command may have changed any file: a checkout of named files or of a new branch does not."""
    if tokens[0] != "git" or not _GIT_SWEEPING.match(" ".join(tokens)):
        return False
    if tokens[1] in ("checkout", "switch", "restore"):
        options = "".join(token for token in tokens[2:] if token.startswith("-"))
        return "b" not in options and "c" not in options and not any("." in t.strip(".") or "/" in t for t in tokens[2:])
    return True


def _is_pattern(token: str) -> bool:
    return any(character in token for character in "*?[$`{")
