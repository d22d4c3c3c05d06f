"""Structural validity: would each provider take the context that a strategy returned?

The rules are those that providers state in their errors: OpenAI and Anthropic refuse a call without its results or a
result without its call; Anthropic and Gemini want a user turn first; Gemini wants a call turn directly after a user
turn or a turn of results, and as many results as calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.turns import turns
from bench.types import Message

PROVIDERS = ("openai", "anthropic", "gemini")


def violations(
    messages: Sequence[Message], original: Sequence[Message], tokens: int, original_tokens: int
) -> dict[str, list[str]]:
    """What each provider would refuse, a short name each; an empty list is a valid context.

    `original` is the context before the compaction: its last user message must stand unchanged in the result, and the
    result must not be larger.
    """
    common = _common(messages, original, tokens, original_tokens)
    return {
        "openai": common + _pairs(messages),
        "anthropic": common + _pairs(messages) + _user_first(messages),
        "gemini": common + _pairs(messages) + _user_first(messages) + _call_after_user(messages),
    }


def _common(messages: Sequence[Message], original: Sequence[Message], tokens: int, original_tokens: int) -> list[str]:
    found = []
    if not messages:
        found.append("no_messages")
    if any(not (m.text.strip() or m.calls or m.images) for m in messages if m.role != "tool"):
        found.append("empty_message")
    last = next((m.text for m in reversed(original) if m.role == "user"), None)
    if last is not None and not any(m.role == "user" and last in m.text for m in messages):
        found.append("last_user_message_changed")
    if tokens > original_tokens:
        found.append("larger_than_before")
    return found


def _pairs(messages: Sequence[Message]) -> list[str]:
    """Every call answered by results that directly follow, every result after its call."""
    found: list[str] = []
    open_calls: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.call_id not in open_calls:
                found.append("orphan_result")
            open_calls.discard(message.call_id or "")
            continue
        if open_calls:
            found.append("unanswered_call")
        open_calls = {call.id for call in message.calls}
    if open_calls:
        found.append("unanswered_call")
    return list(dict.fromkeys(found))


def _user_first(messages: Sequence[Message]) -> list[str]:
    first = next((m for m in messages if m.role != "system"), None)
    return [] if first is None or first.role == "user" else ["first_turn_not_user"]


def _call_after_user(messages: Sequence[Message]) -> list[str]:
    spoken = [m for m in messages if m.role != "system"]
    order = turns(spoken)
    for before, turn in zip(order, order[1:]):
        if spoken[turn.start].calls and spoken[before.start].role == "assistant":
            return ["call_turn_not_after_user_or_result"]
    return []
