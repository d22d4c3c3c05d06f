"""The canonical form: JSON lines, a header line first, then one message a line.

Every message line carries every key, and a call's arguments stand as JSON text, so that a table reader
(`datasets.load_dataset("json", ...)`) finds one schema in the whole file.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import orjson

from bench.sessions.document import Document, clean, clean_value, json_text, number
from bench.types import BenchError, Message, RecordedCompaction, Role, Session, Source, ToolCall, Usage

SCHEMA = 1


def header_record(session: Session) -> dict[str, Any]:
    return {
        "type": "session",
        "schema": SCHEMA,
        "session_id": session.id,
        "project": session.project,
        "cwd": session.cwd,
        "model": session.model,
        "source_format": session.source.format,
        "compactions": _compaction_records(session),
    }


def _compaction_records(session: Session) -> list[dict[str, Any]]:
    """An item of `left` is the id of a message that stands unchanged in the session, else a whole message as JSON text."""
    known = {message.id: message for message in session.messages}

    def item(message: Message) -> str:
        return message.id if known.get(message.id) == message else orjson.dumps(message_record(message)).decode()

    return [
        {name: getattr(compaction, name) for name in compaction.__dataclass_fields__}
        | {"left": None if compaction.left is None else [item(message) for message in compaction.left]}
        for compaction in session.compactions
    ]


def message_record(message: Message) -> dict[str, Any]:
    usage = message.usage
    return {
        "type": "message",
        "id": message.id,
        "role": message.role,
        "text": message.text,
        "calls": [{"id": c.id, "name": c.name, "arguments": arguments_text(c.arguments)} for c in message.calls],
        "call_id": message.call_id,
        "is_error": message.is_error,
        "thinking": message.thinking,
        "images": message.images,
        "at": message.at,
        "usage": None
        if usage is None
        else {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read, "cache_write": usage.cache_write},
    }


def arguments_text(arguments: Mapping[str, Any] | str) -> str:
    """The JSON text of a call's arguments; recorded text that never was JSON stays as it is."""
    return arguments if isinstance(arguments, str) else json_text(dict(arguments))


def dumps(session: Session) -> bytes:
    """The bytes of a session in canonical form. The same session gives the same bytes."""
    lines = [header_record(session), *(message_record(message) for message in session.messages)]
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def write(session: Session, path: Path) -> None:
    """Write `session` to `path`, gzip-compressed when it ends in `.gz` (no time or name inside, so bytes repeat)."""
    data = dumps(session)
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)


class Reader:
    """The canonical form itself."""

    name = "canonical"
    version = "1"
    description = "JSON lines, header line first, then one message a line"

    def missing(self, document: Document) -> str:
        first = document.records[0]
        if isinstance(first, dict) and first.get("type") == "session" and "schema" in first:
            return ""
        return 'no header line {"type": "session", "schema": 1, ...}'

    def read(self, document: Document) -> list[Session]:
        header = document.records[0]
        if header["schema"] != SCHEMA:
            raise BenchError(f"{document.path} is canonical schema {header['schema']}; this version reads {SCHEMA}")
        problems = list(document.problems)
        messages = []
        for line, record in zip(document.lines[1:], document.records[1:]):
            try:
                messages.append(message_from_record(record, problems))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                problems.append(f"line {line} is not a canonical message ({type(error).__name__}: {error})")
        compactions = list(_compactions(header.get("compactions"), {m.id: m for m in messages}, problems))
        ids = Counter(message.id for message in messages)
        if len(ids) < len(messages) or "" in ids:
            problems.append("ids of messages are missing or stand twice; all were numbered anew")
            messages = [replace(message, id=f"m{place}") for place, message in enumerate(messages)]
            compactions = [replace(compaction, left=None) for compaction in compactions]
        session = Session(
            id=clean(header.get("session_id"), problems) or document.name,
            messages=tuple(messages),
            source=Source(self.name, str(document.path), document.sha256),
            project=clean(header.get("project"), problems),
            cwd=clean(header.get("cwd"), problems),
            model=clean(header.get("model"), problems),
            compactions=tuple(compactions),
            problems=tuple(problems),
        )
        return [session]


def _compactions(recorded: Any, messages: Mapping[str, Message], problems: list[str]) -> Iterator[RecordedCompaction]:
    for item in recorded if isinstance(recorded, list) else ():
        if not isinstance(item, dict):
            problems.append(f"a compaction in the header line is {str(item)[:80]!r}, not an object")
            continue
        before, after = item.get("tokens_before"), item.get("tokens_after")
        yield RecordedCompaction(
            before=number(item.get("before"), problems),
            trigger=clean(item.get("trigger"), problems),
            tokens_before=None if before is None else number(before, problems),
            tokens_after=None if after is None else number(after, problems),
            summary=clean(item.get("summary"), problems),
            left=_left(item.get("left"), messages, problems),
        )


def _left(recorded: Any, messages: Mapping[str, Message], problems: list[str]) -> tuple[Message, ...] | None:
    """What a compaction left; None when an item of it cannot be read, for the rest would be something else."""
    if not isinstance(recorded, list):
        return None
    try:
        return tuple(
            messages[item] if item in messages else message_from_record(orjson.loads(item), problems) for item in recorded
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problems.append(f"what a compaction left cannot be read ({type(error).__name__}: {error})")
        return None


def message_from_record(record: Mapping[str, Any], problems: list[str]) -> Message:
    """A message from its canonical record; what is wrong with its text is added to `problems`."""
    if record["role"] not in get_args(Role):
        raise ValueError(f"unknown role {record['role']!r}")
    usage, at, call_id = record.get("usage"), record.get("at"), record.get("call_id")
    return Message(
        role=record["role"],
        text=clean(record.get("text"), problems),
        calls=tuple(
            ToolCall(clean(c["id"], problems), clean(c["name"], problems), parsed_arguments(c["arguments"], problems))
            for c in record.get("calls") or ()
        ),
        call_id=None if call_id is None else clean(call_id, problems),
        is_error=bool(record.get("is_error")),
        thinking=clean(record.get("thinking"), problems),
        images=number(record.get("images"), problems),
        id=clean(record.get("id"), problems),
        at=at if isinstance(at, int | float) else None,
        usage=None if usage is None else Usage(**{name: number(count, problems) for name, count in usage.items()}),
    )


def parsed_arguments(arguments: Any, problems: list[str]) -> Mapping[str, Any] | str:
    """A call's arguments as a dict; text that is no JSON object stays text, whole, as do arguments nested too deeply to store."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = orjson.loads(arguments)
        except ValueError:  # no JSON, or with lone surrogates in it
            return clean(arguments, problems)
    if not isinstance(value, dict):
        return clean(arguments, problems)
    value = clean_value(value, problems)
    try:
        orjson.dumps(value)
    except TypeError:
        return json_text(value)
    return value
