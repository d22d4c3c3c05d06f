"""What the strategies that ask a model share: asking it, refusing what cannot be used, and the line that accounts for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.sessions.canonical import arguments_text
from bench.turns import count_turns
from bench.types import CompactionRequest, Message, ModelError, Output, Retry, Usage


def ask(
    request: CompactionRequest,
    texts: Sequence[str],
    *,
    purpose: str,
    schema: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
    retry: Retry | None = None,
) -> Output:
    """The model's answer to user messages of these texts. A refusal, a tool call and an empty answer are ModelErrors."""
    assert request.model is not None
    messages = tuple(Message("user", text, id=f"request{number}") for number, text in enumerate(texts))
    output = request.model.generate(messages, purpose=purpose, schema=schema, max_tokens=max_tokens, retry=retry)
    if output.finish == "refusal":
        raise ModelError("answer", "the model refused")
    if output.finish == "tool_calls":
        raise ModelError("answer", "the model answered with a tool call instead of text")
    if not output.text.strip():
        raise ModelError("answer", "the answer is empty")
    return output


def whole(output: Output) -> Output:
    """An answer that was not cut off at its output limit; half a summary must not stand for what it replaces."""
    if output.finish == "length":
        raise ModelError("answer", "the answer was cut off at its output limit")
    return output


def written(text: str, kind: str = "summary") -> Message:
    """A user message that a strategy wrote; its id says so, and differs from that of any other text."""
    return Message("user", text, id=f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}")


def characters(messages: Iterable[Message]) -> int:
    """Size of a context in characters: texts, arguments of calls as JSON, results."""
    return sum(len(m.text) + sum(len(arguments_text(call.arguments)) for call in m.calls) for m in messages)


def smaller(before: Sequence[Message], after: Sequence[Message]) -> float:
    """By which share of its characters a context became smaller; negative when it grew."""
    size = characters(before)
    return (size - characters(after)) / size if size else 0.0


def percent(share: float) -> str:
    return f"{round(100 * share)}% smaller"


def usage(outputs: Iterable[Output]) -> str:
    """`312k in, 5k out`: tokens as the provider counted them, cached ones included."""
    read = written_ = 0
    for output in outputs:
        read += _input(output.usage)
        written_ += output.usage.output
    return f"{_short(read)} in, {_short(written_)} out"


def account(before: Sequence[Message], after: Sequence[Message], outputs: Iterable[Output]) -> str:
    """Seed 003's line for a summary: `summary: 58 → 7 messages · 91% smaller · 312k in, 5k out`; messages are turns."""
    counts = f"{count_turns(before)} → {count_turns(after)} messages"
    return f"summary: {counts} · {percent(smaller(before, after))} · {usage(outputs)}"


def _input(counted: Usage) -> int:
    return counted.input + counted.cache_read + counted.cache_write


def _short(tokens: int) -> str:
    return str(tokens) if tokens < 1_000 else f"{round(tokens / 1_000)}k"
