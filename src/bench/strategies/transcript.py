"""A conversation as one text, for a model that reads it as data.

Products send their live message list. Here every summariser and judge gets the same text form instead, so that any
model takes it, whatever its rules about roles and tools are; what each of them leaves out or cuts is its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.sessions.canonical import arguments_text
from bench.types import Message, ToolCall


def transcript(
    messages: Sequence[Message], *, outputs: Mapping[int, str] | None = None, labels: Mapping[str, str] | None = None
) -> str:
    """One block a message, in order. `outputs` replaces the text of results, by index; `labels` names calls, by call id.

    Thinking is left out, as it is when a product sends its messages.
    """
    return "\n\n".join(block for _, block in blocks(messages, outputs=outputs, labels=labels))


def blocks(
    messages: Sequence[Message], *, outputs: Mapping[int, str] | None = None, labels: Mapping[str, str] | None = None
) -> list[tuple[int, str]]:
    """(index of the message, its text) of every message."""
    outputs, labels = outputs or {}, labels or {}
    names = {call.id: call.name for message in messages for call in message.calls}
    found = []
    for index, message in enumerate(messages):
        text = outputs.get(index, message.text)
        if message.role == "tool":
            state = "error" if message.is_error else "result"
            head = f"[{state} of {labelled(message.call_id or '', names.get(message.call_id or '', 'unknown tool'), labels)}]"
        else:
            head = f"[{message.role}]"
        parts = [f"{head}\n{text}" if text else head, *(call_line(call, labels) for call in message.calls)]
        if message.images:
            parts.append(f"[{message.images} image{'s' if message.images > 1 else ''}]")
        found.append((index, "\n".join(parts)))
    return found


def call_line(call: ToolCall, labels: Mapping[str, str]) -> str:
    return f"[call {labelled(call.id, call.name, labels)}] {arguments_text(call.arguments)}"


def labelled(call_id: str, name: str, labels: Mapping[str, str]) -> str:
    return f"{labels[call_id]} {name}" if call_id in labels else name
