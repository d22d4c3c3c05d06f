"""Small sessions with known content, as objects and as files of every format that is read here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from bench.sessions import anthropic, openai
from bench.types import Message, Session, Source, ToolCall

PLACES = ("parser", "server", "client", "ledger", "router", "cache", "worker", "report", "schema", "loader")


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def system(text: str) -> Message:
    return Message("system", text)


def assistant(text: str = "", *calls: ToolCall, **fields: Any) -> Message:
    return Message("assistant", text, calls, **fields)


def call(id: str, name: str = "Bash", /, **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def result(call_id: str, text: str = "", **fields: Any) -> Message:
    return Message("tool", text, call_id=call_id, **fields)


def session(*messages: Message, id: str = "made", **fields: Any) -> Session:
    """The messages numbered m0, m1, ... as every reader numbers them."""
    numbered = tuple(replace(message, id=f"m{number}") for number, message in enumerate(messages))
    return Session(id, numbered, fields.pop("source", Source("made", "made", "0" * 64)), **fields)


def value(label: object) -> str:
    """A value of eight hex digits that only `label` gives."""
    return hashlib.sha256(str(label).encode()).hexdigest()[:8]


def work(rounds: int = 9, *, with_system: bool = True, with_user: bool = True, id: str = "work") -> Session:
    """A session of about 4.4 messages a round: commands with labelled values in their outputs, files read and edited,
    some calls in parallel, a user message every second round."""
    made = [system("You are a coding agent. Work in /srv/app and keep the tests green.")] if with_system else []
    for number in range(rounds):
        place = f"{PLACES[number % len(PLACES)]}{number}"
        path = f"/srv/app/{place}.py"
        if with_user and number % 2 == 0:
            made.append(user(f"Now the {place}: keep its limit at {number + 11} and do not touch the {place} of last week."))
        first, second, third = (f"call-{number}-{letter}" for letter in "abc")
        made += [
            assistant(
                f"I look at the {place} and build it.",
                call(first, "Bash", command=f"make -C {place} build"),
                call(second, "Read", file_path=path),
            ),
            result(
                first,
                f"compiling {place}\nbuild id: {value((id, place, 'build'))}\n"
                f"log file: /var/log/{place}.log\nport: {4100 + number}",
            ),
            result(second, f"def {place}_limit():\n    return {number + 7}  # token {value((id, place, 'token'))}\n"),
            assistant(
                "", call(third, "Edit", file_path=path, old_string=f"return {number + 7}", new_string=f"return {number + 11}")
            ),
            result(third, f"The file {path} has been updated."),
        ]
    made.append(assistant("All of it is built and changed."))
    return session(*made, id=id)


def write_lines(path: Path, entries: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def claude_code_entries(made: Session, *, session_id: str | None = None) -> list[dict[str, Any]]:
    """Claude Code lines: one for each block of an answer, sharing its message id and usage; system text is never recorded."""
    entries: list[dict[str, Any]] = []

    def add(kind: str, message: dict[str, Any], **fields: Any) -> None:
        number = len(entries)
        entries.append(
            {
                "type": kind,
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "isSidechain": False,
                "sessionId": session_id or made.id,
                "cwd": "/srv/app",
                "timestamp": f"2026-03-01T10:{number // 60:02}:{number % 60:02}.000Z",
                "message": message,
                **fields,
            }
        )

    for number, message in enumerate(made.messages):
        if message.role == "user":
            add("user", {"role": "user", "content": message.text})
        elif message.role == "tool":
            block = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text, "is_error": message.is_error}
            add("user", {"role": "user", "content": [block]}, toolUseResult={"stdout": message.text})
        elif message.role == "assistant":
            blocks = [{"type": "text", "text": message.text}] if message.text else []
            blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in message.calls]
            for block in blocks:
                answer = {
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "model": "claude-test",
                    "content": [block],
                    "usage": {"input_tokens": 5, "output_tokens": 9},
                }
                add("assistant", answer, requestId=f"req_{number}")
    return entries


def write_claude_code(made: Session, path: Path) -> Path:
    return write_lines(path, claude_code_entries(made))


def write_openai(made: Session, path: Path) -> Path:
    path.write_text(json.dumps({"model": "gpt-test", "messages": openai.export(made.messages)}), encoding="utf-8")
    return path


def write_anthropic(made: Session, path: Path) -> Path:
    instructions, messages = anthropic.export(made.messages)
    path.write_text(json.dumps({"model": "claude-test", "system": instructions, "messages": messages}), encoding="utf-8")
    return path


def essence(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """What no format may lose: role, text, calls with their arguments, and which call a result answers."""
    return [
        (
            m.role,
            m.text,
            [(c.id, c.name, c.arguments if isinstance(c.arguments, str) else dict(c.arguments)) for c in m.calls],
            m.call_id,
        )
        for m in messages
    ]


# --- random sessions, for property tests

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3) | WORDS.map(lambda text: f"no json: {text}")


@st.composite
def sessions(draw: st.DrawFn, most_turns: int = 12) -> Session:
    """A random session that a file can hold: messages in any order, calls with none to all of their results, some late."""
    made = [system(draw(WORDS))] if draw(st.booleans()) else []
    made.append(user(draw(WORDS)))
    number, late = 0, []
    for _ in range(draw(st.integers(0, most_turns))):
        kind = draw(st.sampled_from(["user", "text", "calls", "calls"]))
        if kind == "user":
            made.append(user(draw(WORDS)))
        elif kind == "text":
            made.append(assistant(draw(WORDS)))
        else:
            calls = tuple(ToolCall(f"c{number + n}", draw(WORDS), draw(ARGUMENTS)) for n in range(draw(st.integers(1, 3))))
            number += len(calls)
            made.append(assistant(draw(st.just("") | WORDS), *calls))
            results = [
                result(c.id, draw(st.just("") | WORDS), is_error=draw(st.booleans())) for c in draw(st.permutations(calls))
            ]
            now = draw(st.integers(0, len(results)))
            made += results[:now]
            if draw(st.booleans()):
                late += results[now:]
        if late and draw(st.booleans()):
            made.append(late.pop())
    return session(*made)
