"""Anthropic Messages histories: `{"system": ..., "messages": [...]}`, a bare list, or JSON lines of such objects.

`export` is the way back: the shape that the Messages API takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.sessions.blocks import assistant_parts, content_text, conversation, user_messages
from bench.sessions.document import Document
from bench.types import Message, Session

_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}


class Reader:
    """Histories as sent to the Messages API; plain text histories count when they carry `system` beside `messages`."""

    name = "anthropic"
    version = "1"
    description = "Anthropic Messages history: object, bare list, or JSON lines of objects"

    def missing(self, document: Document) -> str:
        for _, record, messages in histories(document):
            if not messages or not all(isinstance(m, dict) and m.get("role") in ("user", "assistant") for m in messages):
                continue
            blocks = (b for m in messages if isinstance(m.get("content"), list) for b in m["content"] if isinstance(b, dict))
            if "system" in record or any(str(block.get("type")) in _BLOCKS for block in blocks):
                return ""
        return "no list of user and assistant messages with tool_use, tool_result or thinking blocks, or with system beside it"

    def read(self, document: Document) -> list[Session]:
        sessions = []
        for number, record, recorded in histories(document):
            problems = list(document.problems)
            messages: list[Message] = []
            system = content_text(record.get("system"), problems)[0]
            if system.strip():
                messages.append(Message("system", system))
            for item in recorded:
                if not isinstance(item, dict) or item.get("role") not in ("user", "assistant"):
                    problems.append(f"an item of messages is no user or assistant message: {str(item)[:80]!r}")
                elif item["role"] == "user":
                    messages += user_messages(item.get("content"), problems)
                else:
                    text, thinking, calls = assistant_parts(item.get("content"), problems)
                    if text or thinking or calls:
                        messages.append(Message("assistant", text, calls, thinking=thinking))
            sessions.append(conversation(self.name, document, number, record, messages, problems))
        return sessions


def histories(document: Document) -> Iterator[tuple[int, dict[str, Any], list[Any]]]:
    """(number, object, its messages) of every conversation in the file; a bare list of messages is one conversation."""
    for number, record in enumerate(document.records):
        if isinstance(record, dict) and isinstance(record.get("messages"), list):
            yield number, record, record["messages"]
        elif isinstance(record, list) and record and all(isinstance(m, dict) and "role" in m for m in record):
            yield number, {}, record
        elif isinstance(record, list):
            conversations = [c for c in record if isinstance(c, dict) and isinstance(c.get("messages"), list)]
            yield from ((n, c, c["messages"]) for n, c in enumerate(conversations))


def export(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """(system text, Messages API list): results of one assistant message stand in one user message, in their order."""
    system = "\n\n".join(m.text for m in messages if m.role == "system")
    out: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "tool":
            block = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
            if message.is_error:
                block["is_error"] = True
            if out and out[-1]["role"] == "user" and out[-1]["content"][-1]["type"] == "tool_result":
                out[-1]["content"].append(block)
            else:
                out.append({"role": "user", "content": [block]})
            continue
        blocks: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in message.calls]
        if blocks:  # the API takes no message without content: nothing but images or thinking was in it
            out.append({"role": message.role, "content": blocks})
    return system, out
