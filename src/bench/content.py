"""The searchable text of messages: what was said, and the values of call arguments as they were meant, unescaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.types import Message, ToolCall


def argument_values(arguments: Any) -> Iterator[str]:
    """Every string or number inside a call's arguments, depth first, without keys."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Mapping):
        for value in arguments.values():
            yield from argument_values(value)
    elif isinstance(arguments, list | tuple):
        for value in arguments:
            yield from argument_values(value)
    elif arguments is not None:
        yield str(arguments)


def call_text(call: ToolCall) -> str:
    return "\n".join(argument_values(call.arguments))


def message_text(message: Message) -> str:
    """Text of a message and of the arguments of its calls. Thinking is not in it: it is not sent back to a model."""
    return "\n".join((message.text, *map(call_text, message.calls))) if message.calls else message.text


def joined(messages: Iterable[Message]) -> str:
    return "\n".join(map(message_text, messages))
