"""Notes that tell the model which calls it once made and no longer sees (seed 003, prune mode).

Seed 003: without a note, a model that read a reply whose work was gone said it had never done that work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.prompts import render
from bench.types import Message, ToolCall

ARGUMENT = 60  # characters of a call's argument shown whole; of a longer one three less, and three dots


def add_notes(context: Sequence[Message], kept: Sequence[Message]) -> tuple[Message, ...]:
    """`kept` with a note about every call of `context` that is gone from it; messages without a note are the same objects.

    The note of a call stands at the end of the last kept assistant message at or before its place in `context`, else of
    the first one after it; all calls of one place share one note. Kept messages are known by their ids: one that
    `context` does not have, such as a summary, gets no note. Without any assistant message left there is none at all.
    """
    place = {message.id: index for index, message in enumerate(context)}
    hosts = [number for number, message in enumerate(kept) if message.role == "assistant" and message.id in place]
    places = [place[kept[number].id] for number in hosts]
    left = {call.id for message in kept for call in message.calls}
    gone: dict[int, list[ToolCall]] = {}
    for index, message in enumerate(context if hosts else ()):
        removed = [call for call in message.calls if call.id not in left]
        if removed:
            gone.setdefault(hosts[max(0, bisect_right(places, index) - 1)], []).extend(removed)
    noted = list(kept)
    for number, calls in gone.items():
        note = render("gemini_note", count=len(calls), calls=", ".join(map(described, calls)))
        text = f"{kept[number].text}\n\n{note}" if kept[number].text else note
        noted[number] = replace(kept[number], text=text)
    return tuple(noted)


def described(call: ToolCall) -> str:
    """`Tool(argument)`: the first value among its arguments that is a text, on one line, at most 60 characters."""
    values = call.arguments.values() if isinstance(call.arguments, Mapping) else [call.arguments]
    argument = " ".join(next((value for value in values if isinstance(value, str)), "").split())
    return f"{call.name}({argument if len(argument) <= ARGUMENT else argument[: ARGUMENT - 3] + '...'})"
