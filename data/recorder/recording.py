"""A recording: a temporary workspace, tools that really act on it, and the messages that come out.

What differs from one machine or run to the next (temporary paths, durations, dates, addresses) is replaced by
reproducible values, so recording twice gives identical bytes.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.types import Message, Session, Source, ToolCall
from recorder.truth import Truth

START = 1_767_600_000.0  # 2026-01-05 08:00 UTC, the first message of every recording
DURATION = re.compile(
    r"(Ran \d+ tests? in |(?:passed|failed|errors?|skipped|warnings?|collected|deselected|ran)\b[^\n]*? in )[\d.]+s"
    r"|((?:real|user|sys)\t\d+m)[\d.]+s"
)
OUTPUT_LIMIT = 30_000  # characters of one tool result, as agents cap them


@dataclass
class Call:
    """A tool call that a script asks for; it runs when the turn that holds it is recorded."""

    name: str
    arguments: dict[str, Any]


@dataclass
class Recording:
    """One session in the making. Scripts set the workspace up with `file` and `run`, then play turns.

    `rng` is seeded by family and seed: a script draws its ports, ids and counts from it, so that another seed gives
    another session of the same family.
    """

    family: str
    project: str
    seed: int = 1
    messages: list[Message] = field(default_factory=list)
    truth: Truth = field(default_factory=Truth)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.family}:{self.seed}")
        self._clock = START + self.rng.randrange(0, 200) * 86_400
        self._calls = 0
        self._temporary = tempfile.TemporaryDirectory(prefix="recording-")
        self.home = Path(self._temporary.name).resolve()
        self.root = self.home / self.project
        self.root.mkdir()
        self.cwd = f"/home/dev/{self.project}"
        binaries = self.home / ".bin"
        binaries.mkdir()
        for name in ("python", "python3"):
            # A script, not a link: a link would leave the virtual environment, and with it pytest.
            (binaries / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            (binaries / name).chmod(0o755)
        self._binaries = binaries

    # --- set-up, not recorded -------------------------------------------------------------------------------

    def file(self, path: str, text: str) -> None:
        """Put a file into the workspace before the session (or between turns, as if somebody else had)."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def run(self, command: str) -> str:
        """Run a set-up command in the workspace; an error stops the recording."""
        code, output = self._shell(command)
        if code:
            raise RuntimeError(f"{self.family}: set-up command failed ({code}): {command}\n{output}")
        return output

    # --- turns ----------------------------------------------------------------------------------------------

    def system(self, text: str) -> None:
        self._add(Message("system", text.strip()))

    def instructions(self, text: str, path: str = "AGENTS.md") -> None:
        """The root instruction file: written into the workspace and shown to the agent as a message."""
        self.file(path, text.strip() + "\n")
        self._add(Message("user", f"# {path} (project instructions)\n\n{text.strip()}"))

    def user(self, text: str) -> None:
        self._tick(30, 900)
        self._add(Message("user", text.strip()))

    def agent(self, text: str = "", *calls: Call, thinking: str = "") -> list[str]:
        """One assistant message with its calls (several = parallel); returns the outputs in call order."""
        self._tick(2, 40)
        made = tuple(ToolCall(self._call_id(), call.name, call.arguments) for call in calls)
        self._add(Message("assistant", text.strip(), calls=made, thinking=thinking.strip()))
        outputs = []
        for call in made:
            before = self._listing()
            output, failed = getattr(self, f"_do_{call.name.lower()}")(**call.arguments)
            self.truth.observe(call, failed, before, self._listing())
            self._tick(1, 12)
            output = self._scrub(output)
            self._add(Message("tool", output, call_id=call.id, is_error=failed))
            outputs.append(output)
        return outputs

    @staticmethod
    def bash(command: str) -> Call:
        return Call("Bash", {"command": command})

    @staticmethod
    def read(path: str, offset: int | None = None, limit: int | None = None) -> Call:
        optional = {k: v for k, v in (("offset", offset), ("limit", limit)) if v is not None}
        return Call("Read", {"file_path": path, **optional})

    @staticmethod
    def write(path: str, content: str) -> Call:
        return Call("Write", {"file_path": path, "content": content})

    @staticmethod
    def edit(path: str, old: str, new: str) -> Call:
        return Call("Edit", {"file_path": path, "old_string": old, "new_string": new})

    @staticmethod
    def grep(pattern: str, path: str = ".") -> Call:
        return Call("Grep", {"pattern": pattern, "path": path})

    @staticmethod
    def todo(*items: tuple[str, str]) -> Call:
        """Each item is (content, status); status is pending, in_progress or completed."""
        return Call("TodoWrite", {"todos": [{"content": content, "status": status} for content, status in items]})

    # --- tools ----------------------------------------------------------------------------------------------

    def _do_bash(self, command: str) -> tuple[str, bool]:
        code, output = self._shell(command)
        output = output.rstrip("\n")
        if code:
            return f"{output}\n[exit code {code}]".lstrip("\n"), True
        return output or "(no output)", False

    def _do_read(self, file_path: str, offset: int = 1, limit: int = 2000) -> tuple[str, bool]:
        target = self._inside(file_path)
        if not target.is_file():
            return f"File does not exist: {file_path}", True
        lines = target.read_text(encoding="utf-8", errors="replace").splitlines()
        shown = lines[offset - 1 : offset - 1 + limit]
        return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(shown, offset)) or "(empty file)", False

    def _do_write(self, file_path: str, content: str) -> tuple[str, bool]:
        target = self._inside(file_path)
        existed = target.exists()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        verb = "Overwrote" if existed else "Created new file"
        return f"{verb} {file_path} ({len(content.splitlines())} lines)", False

    def _do_edit(self, file_path: str, old_string: str, new_string: str) -> tuple[str, bool]:
        target = self._inside(file_path)
        if not target.is_file():
            return f"File does not exist: {file_path}", True
        text = target.read_text(encoding="utf-8")
        if text.count(old_string) != 1:
            return f"Edit refused: old_string occurs {text.count(old_string)} times in {file_path}", True
        start = text[: text.index(old_string)].count("\n") + 1
        text = text.replace(old_string, new_string)
        target.write_text(text, encoding="utf-8")
        lines = text.splitlines()
        first, last = max(1, start - 2), min(len(lines), start + new_string.count("\n") + 2)
        snippet = "\n".join(f"{number:6d}\t{lines[number - 1]}" for number in range(first, last + 1))
        return f"Edited {file_path}; lines {first}-{last} are now:\n{snippet}", False

    def _do_grep(self, pattern: str, path: str) -> tuple[str, bool]:
        wanted, found = re.compile(pattern), []
        top = self._inside(path)
        files = [top] if top.is_file() else sorted(f for f in top.rglob("*") if f.is_file() and ".git" not in f.parts)
        for file in files:
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
            except UnicodeDecodeError:
                continue
            name = file.relative_to(self.root)
            found += [f"{name}:{number}:{line}" for number, line in enumerate(lines, 1) if wanted.search(line)]
        return "\n".join(found) or "No matches found", False

    def _do_todowrite(self, todos: list[dict[str, str]]) -> tuple[str, bool]:
        marks = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}
        return "Todo list updated:\n" + "\n".join(f"{marks[t['status']]} {t['content']}" for t in todos), False

    # --- what makes it repeat -------------------------------------------------------------------------------

    def _shell(self, command: str) -> tuple[int, str]:
        stamp = f"{int(self._clock)} +0000"
        environment = {
            "PATH": f"{self._binaries}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb", "COLUMNS": "120",
            "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "SOURCE_DATE_EPOCH": str(int(self._clock)),
            "PYTEST_ADDOPTS": "-p no:cacheprovider", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1",
            "GIT_AUTHOR_NAME": "Dev", "GIT_AUTHOR_EMAIL": "dev@example.com", "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_NAME": "Dev", "GIT_COMMITTER_EMAIL": "dev@example.com", "GIT_COMMITTER_DATE": stamp,
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main",
        }  # fmt: skip
        for file in self.root.rglob("*"):  # `ls -l` and `make` see the session's clock, in the order things were changed
            if not file.is_symlink() and file.stat().st_mtime > self._clock:
                os.utime(file, (self._clock, self._clock))
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.root, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
        )  # fmt: skip
        self._clock += 1
        return done.returncode, done.stdout.decode("utf-8", errors="replace")

    def _scrub(self, text: str) -> str:
        text = text.replace(str(self._binaries), "/usr/bin").replace(str(self.home), "/home/dev")
        for prefix in {sys.prefix, sys.base_prefix}:
            text = text.replace(prefix, "/usr")
        text = re.sub(r"\bat 0x[0-9a-f]{8,16}\b", "at 0x7f3a5c0e1d40", text)
        text = DURATION.sub(self._duration, text)
        if len(text) > OUTPUT_LIMIT:
            half = OUTPUT_LIMIT // 2
            text = f"{text[:half]}\n... [{len(text) - OUTPUT_LIMIT} characters left out] ...\n{text[-half:]}"
        return text

    def _duration(self, match: re.Match[str]) -> str:
        """The time a test runner or `time` printed becomes one drawn from its place in the session."""
        digest = hashlib.sha256(f"{self.family}:{self.seed}:{self._calls}".encode()).digest()
        return f"{match[1] or match[2]}0.{100 + digest[0] * 3}s"

    def _listing(self) -> dict[str, str]:
        return {
            str(f.relative_to(self.root)): hashlib.sha256(f.read_bytes()).hexdigest()
            for f in sorted(self.root.rglob("*"))
            if f.is_file() and ".git" not in f.relative_to(self.root).parts
        }

    def _inside(self, path: str) -> Path:
        target = Path(path.replace(self.cwd, str(self.root)) if path.startswith("/") else self.root / path).resolve()
        if not target.is_relative_to(self.root):
            raise RuntimeError(f"{self.family}: {path} is outside the workspace")
        return target

    def _tick(self, low: int, high: int) -> None:
        self._clock += self.rng.randrange(low, high)

    def _call_id(self) -> str:
        self._calls += 1
        return f"call_{hashlib.sha256(f'{self.family}:{self.seed}:{self._calls}'.encode()).hexdigest()[:12]}"

    def _add(self, message: Message) -> None:
        values = {name: getattr(message, name) for name in Message.__slots__}
        self.messages.append(Message(**{**values, "id": f"m{len(self.messages)}", "at": self._clock}))

    def session(self) -> Session:
        """The recorded session, and an end to the workspace."""
        shutil.rmtree(self.home, ignore_errors=True)
        self._temporary.cleanup()
        return Session(
            id=f"{self.family}-{self.seed}", messages=tuple(self.messages), source=Source("recorder", "", ""),
            project=self.family, cwd=self.cwd, model="scripted",
        )  # fmt: skip
