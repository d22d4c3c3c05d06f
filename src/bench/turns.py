"""Provider turns: the unit in which rules and measures count messages.

All results that answer one assistant message are one turn, whatever format the session came in; every other message
is a turn of its own. A unit is what must stay together: an assistant message with calls and all results of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.types import Message, ToolCall


def turns(messages: Sequence[Message]) -> list[range]:
    """Index ranges of the turns, in order; together they cover all messages."""
    found: list[range] = []
    for index, message in enumerate(messages):
        if message.role == "tool" and found and messages[found[-1].start].role == "tool":
            found[-1] = range(found[-1].start, index + 1)
        else:
            found.append(range(index, index + 1))
    return found


def count_turns(messages: Sequence[Message]) -> int:
    return len(turns(messages))


def units(messages: Sequence[Message]) -> list[list[int]]:
    """Index lists of what must be kept or removed together, ordered by first index."""
    owner: dict[str, int] = {}
    found: list[list[int]] = []
    for index, message in enumerate(messages):
        if message.role == "tool" and message.call_id in owner:
            found[owner[message.call_id]].append(index)
            continue
        for call in message.calls:
            owner[call.id] = len(found)
        found.append([index])
    return found


def seams(messages: Sequence[Message]) -> list[int]:
    """Indexes at which the messages can be parted with no call torn from a result of it; 0 and their number are among them."""
    inside = {index for unit in units(messages) for index in range(unit[0] + 1, unit[-1] + 1)}
    return [index for index in range(len(messages) + 1) if index not in inside]


def answered(messages: Sequence[Message]) -> dict[int, ToolCall]:
    """The call that each result answers, by the index of the result: the newest before it with that id."""
    calls: dict[str | None, ToolCall] = {}
    found = {}
    for index, message in enumerate(messages):
        if message.role == "tool" and message.call_id in calls:
            found[index] = calls[message.call_id]
        calls |= {call.id: call for call in message.calls}
    return found
