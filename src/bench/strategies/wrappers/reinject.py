from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from bench.prompts import render
from bench.strategies.summariser import written
from bench.strategies.wrappers import compacted, noted
from bench.tools import INSTRUCTION_FILES, INSTRUCTIONS
from bench.types import BenchError, Compaction, CompactionRequest, Message

LIMIT = 10_000  # characters of a hook's output that reach the context
SOURCES = ("file", "instructions", "user_messages")

_CONSTRAINT = re.compile(
    r"\b(?:must|never|always|only|keep|without|avoid|do not|don['’]t|may not|cannot|should not)\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Reinject:
    """Standing constraints, put in again at the end of what any strategy left (seed 004 section 24.3).

    As a session-start hook with the matcher "compact" does it in Claude Code (spec A2e): the text lands behind summary,
    kept tail and attachments, before the next user turn, and only its first 10,000 characters do. Without a compaction
    there is no hook.

    `source=file`: the text of `file`, a file of yours. `source=instructions`: the root instruction files that the
    session itself read or was shown (AGENTS.md, CLAUDE.md, CONSTRAINTS.md and the like), as they were last known.
    `source=user_messages`: every sentence or line of a user message that holds one of must, never, always, only, keep,
    without, avoid, do not, don't, may not, cannot, should not; privileged, because no product picks them out. Without a
    source it is `file` when there is one, else `instructions`. The version holds a hash of the file.
    """

    file: str = ""
    source: str = ""
    version: str = field(init=False, default="1")
    name: ClassVar[str] = "reinject"
    prompts: ClassVar[tuple[str, ...]] = ("reinject",)
    _text: str = field(init=False, default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source or ("file" if self.file else "instructions"))
        if self.source not in SOURCES:
            raise ValueError(f"source is one of {', '.join(SOURCES)}")
        if (self.source == "file") != bool(self.file):
            raise ValueError("source=file goes with file=PATH, and no other source does")
        if self.file:
            text = _read(self.file)
            object.__setattr__(self, "_text", text)
            object.__setattr__(self, "version", f"{self.version}-{hashlib.sha256(text.encode()).hexdigest()[:10]}")

    @property
    def privileged(self) -> bool:
        return self.source == "user_messages"

    def wrap(self, context: Sequence[Message], made: Compaction, request: CompactionRequest) -> Compaction:
        if not compacted(context, made):
            return made
        text = self._text
        if self.source == "instructions":
            text = instructions(context, request)
        elif self.source == "user_messages":
            text = "\n".join(f"- {sentence}" for sentence in constraints(context))
        if not text.strip():
            return noted(made, self, "nothing to put in")
        output = render("reinject", text=text.strip())
        message = written(output[:LIMIT], "reinjected")
        if any(message.id == kept.id for kept in made.messages):
            return noted(made, self, "it is already there")
        cut = f", cut at {LIMIT} characters" if len(output) > LIMIT else ""
        return noted(made, self, self.source + cut, (*made.messages, message), reinjected_characters=len(message.text))


def instructions(context: Sequence[Message], request: CompactionRequest) -> str:
    """The root instruction files of a session, one after the other: as its tools knew them last, else as a message shows."""
    found: dict[str, str] = {}
    for message in context:
        shown = INSTRUCTIONS.match(message.text) if message.role == "user" else None
        if shown:
            found[shown["name"]] = message.text
    known = [file for file in request.workspace.files if file.text] if request.workspace else []
    for name in INSTRUCTION_FILES:
        files = [file for file in known if _is_root(file.path, name)]
        root = min(files, key=lambda file: (file.path.startswith("/"), file.path.count("/")), default=None)
        if root and (root.whole or name not in found):
            found[name] = root.text
    return "\n\n".join(text.strip() for text in found.values())


def constraints(context: Sequence[Message]) -> list[str]:
    """Sentences in which the user states a constraint, in order, each once; not those of instruction files or a harness."""
    spoken = [
        m.text
        for m in context
        if m.role == "user" and not m.text.lstrip().startswith(("<", "[")) and not INSTRUCTIONS.match(m.text)
    ]
    sentences = (sentence.strip(" \t-*") for text in spoken for sentence in _SENTENCE.split(text))
    return list(dict.fromkeys(sentence for sentence in sentences if _CONSTRAINT.search(sentence)))


def _is_root(path: str, name: str) -> bool:
    """Whether a path is that of an instruction file at the root; of an absolute one, whose root is unknown, it may be."""
    return path in (name, f".github/{name}") or (path.startswith("/") and path.endswith(f"/{name}"))


def _read(file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"wrapper reinject cannot read {file}: {error}") from None
