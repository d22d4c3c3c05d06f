"""What chat formats share: content parts and blocks to messages, a conversation to a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bench.sessions.canonical import parsed_arguments
from bench.sessions.document import Document, clean
from bench.types import Message, Session, Source, ToolCall


def content_text(content: Any, problems: list[str]) -> tuple[str, int]:
    """Text and number of images of a content value: a string, a list of parts, or nothing."""
    if not isinstance(content, list):
        return clean(content, problems), 0
    texts, images = [], 0
    for part in content:
        if isinstance(part, str):
            texts.append(clean(part, problems))
        elif not isinstance(part, dict):
            problems.append(f"a content part is {type(part).__name__}, not an object; kept as text")
            texts.append(clean(part, problems))
        elif part.get("type") in ("image", "image_url", "input_image"):
            images += 1
        elif part.get("type") == "text" or isinstance(part.get("text"), str):
            texts.append(clean(part.get("text"), problems))
        else:
            texts.append(clean({key: value for key, value in part.items() if key != "cache_control"}, problems))
    return "\n".join(text for text in texts if text.strip()), images


def user_messages(content: Any, problems: list[str], at: float | None = None) -> list[Message]:
    """One recorded user message: a tool message for each result in it, then one user message with what the user said."""
    if not isinstance(content, list):
        text = clean(content, problems)
        return [Message("user", text, at=at)] if text.strip() else []
    made, said = [], []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            text, images = content_text(block.get("content"), problems)
            call_id = clean(block.get("tool_use_id"), problems)
            made.append(Message("tool", text, call_id=call_id, is_error=bool(block.get("is_error")), images=images, at=at))
        else:
            said.append(block)
    text, images = content_text(said, problems)
    if text.strip() or images:
        made.append(Message("user", text, images=images, at=at))
    return made


def assistant_parts(content: Any, problems: list[str]) -> tuple[str, str, tuple[ToolCall, ...]]:
    """Text, thinking and calls of one recorded assistant message."""
    if not isinstance(content, list):
        text = clean(content, problems)
        return (text if text.strip() else ""), "", ()
    said, thinking, calls = [], [], []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in ("tool_use", "server_tool_use"):
            arguments = parsed_arguments(block.get("input"), problems)
            calls.append(ToolCall(clean(block.get("id"), problems), clean(block.get("name"), problems), arguments))
        elif kind == "thinking":
            thinking.append(clean(block.get("thinking"), problems))
        elif kind != "redacted_thinking":
            said.append(block)
    return content_text(said, problems)[0], "\n".join(filter(None, thinking)), tuple(calls)


def conversation(
    format: str, document: Document, place: int, record: Mapping[str, Any], messages: Sequence[Message], problems: list[str]
) -> Session:
    """The session of one conversation in a file; the first of a file is named by the file, later ones by their place too."""
    return Session(
        id=clean(record.get("id"), problems) or document.name + (f"#{place}" if place else ""),
        messages=tuple(replace(message, id=f"m{number}") for number, message in enumerate(messages)),
        source=Source(format, str(document.path), document.sha256),
        model=clean(record.get("model"), problems),
        problems=tuple(problems),
    )


def seconds(timestamp: Any) -> float | None:
    """Seconds since 1970 of an ISO time (without a zone: UTC, so that it does not depend on the machine), else None."""
    try:
        moment = datetime.fromisoformat(str(timestamp))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def milliseconds(timestamp: Any) -> float | None:
    """Seconds since 1970 of a time in milliseconds, else None."""
    return timestamp / 1000 if isinstance(timestamp, int | float) and 0 <= timestamp < 2**53 else None
