"""The canonical form: JSON lines, a header line first, then one message a line.

Every message line carries every key, and a call's arguments stand as JSON text, so that a table reader
(`datasets.load_dataset("json", ...)`) finds one schema in the whole file.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.types import Message, Session

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
        "compactions": [
            {name: getattr(item, name) for name in item.__dataclass_fields__} for item in session.compactions
        ],
    }


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
    return arguments if isinstance(arguments, str) else orjson.dumps(dict(arguments)).decode()


def dumps(session: Session) -> bytes:
    """The bytes of a session in canonical form. The same session gives the same bytes."""
    lines = [header_record(session), *(message_record(message) for message in session.messages)]
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def write(session: Session, path: Path) -> None:
    """Write `session` to `path`, gzip-compressed when it ends in `.gz` (no time or name inside, so bytes repeat)."""
    data = dumps(session)
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
