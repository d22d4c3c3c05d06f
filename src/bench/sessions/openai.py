"""OpenAI chat logs: an object with `messages` (and, in a litellm log, `response`), a bare list, or JSON lines of them.

A log of call N holds the messages of all calls before it; the loader keeps the longest of such growing copies.
`export` is the way back: plain chat messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.sessions.anthropic import histories
from bench.sessions.blocks import content_text, conversation
from bench.sessions.canonical import arguments_text, parsed_arguments
from bench.sessions.document import Document, clean, number
from bench.types import Message, Role, Session, ToolCall, Usage

_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool", "function": "tool",
}  # fmt: skip


class Reader:
    """Chat Completions messages, with tool calls in today's form or as `function_call`."""

    name = "openai"
    version = "1"
    description = "OpenAI chat log: object with messages, bare list, or JSON lines of conversations"

    def missing(self, document: Document) -> str:
        for _, _, messages in histories(document):
            if messages and all(isinstance(m, dict) and str(m.get("role")) in _ROLES for m in messages[:3]):
                return ""
        return "no list of messages with the roles system, user, assistant or tool"

    def read(self, document: Document) -> list[Session]:
        sessions = []
        for place, record, recorded in histories(document):
            problems = list(document.problems)
            items = recorded + _answers(record)
            messages = [m for item in items if (m := _message(item, problems)) is not None]
            sessions.append(conversation(self.name, document, place, record, messages, problems))
        return sessions


def _answers(record: dict[str, Any]) -> list[Any]:
    """The model's answer beside the messages of a request log, with its usage."""
    response = record.get("response")
    choices = response.get("choices") if isinstance(response, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return []
    message = choices[0].get("message")
    return [{**message, "usage": response.get("usage")}] if isinstance(message, dict) else []


def _message(item: Any, problems: list[str]) -> Message | None:
    if not isinstance(item, dict) or "role" not in item:
        problems.append(f"an item of messages is no message: {str(item)[:80]!r}")
        return None
    role = _ROLES.get(str(item["role"]))
    if role is None:
        problems.append(f"role {item['role']!r} is unknown; its text is kept as a user message")
        role = "user"
    text, images = content_text(item.get("content"), problems)
    if not text and item.get("refusal"):
        text = clean(item["refusal"], problems)
    recorded = item.get("tool_calls") or []
    if not isinstance(recorded, list):
        recorded = [recorded]
    calls = tuple(_call(call, problems) for call in recorded if isinstance(call, dict))
    problems += [f"an item of tool_calls is no call: {str(call)[:80]!r}" for call in recorded if not isinstance(call, dict)]
    if isinstance(item.get("function_call"), dict):
        call = item["function_call"]
        name = clean(call.get("name"), problems)
        calls += (ToolCall(name, name, parsed_arguments(call.get("arguments"), problems)),)
    if not (text.strip() or calls or images or role == "tool"):
        return None
    return Message(
        role,
        text,
        calls,
        call_id=(clean(item.get("tool_call_id"), problems) or clean(item.get("name"), problems)) if role == "tool" else None,
        thinking=clean(item.get("reasoning_content"), problems),
        images=images,
        usage=_usage(item.get("usage"), problems),
    )


def _call(call: dict[str, Any], problems: list[str]) -> ToolCall:
    function = next((call[kind] for kind in ("function", "custom") if isinstance(call.get(kind), dict)), call)
    arguments = function["input"] if "input" in function else function.get("arguments")  # a custom tool takes free text
    return ToolCall(clean(call.get("id"), problems), clean(function.get("name"), problems), parsed_arguments(arguments, problems))


def _usage(usage: Any, problems: list[str]) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = number(details.get("cached_tokens"), problems) if isinstance(details, dict) else 0
    prompt, completion = (number(usage.get(name), problems) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(prompt - cached, completion, cache_read=cached)


def export(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Plain OpenAI chat messages; thinking is left out, as the API takes none."""
    out: list[dict[str, Any]] = []
    for message in messages:
        item: dict[str, Any] = {"role": message.role, "content": message.text}
        if message.calls:
            item["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments_text(c.arguments)}}
                for c in message.calls
            ]
        if message.role == "tool":
            item["tool_call_id"] = message.call_id
        out.append(item)
    return out
