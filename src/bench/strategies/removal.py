"""What the removals `oldest` and `middle` share: dropping units oldest first until a target is met, and the check of a result."""

from __future__ import annotations

from collections.abc import Sequence

from bench.turns import count_turns, units
from bench.types import Compaction, CompactionRequest, Message


def drop_oldest_first(context: Sequence[Message], request: CompactionRequest, protected: set[int], min_turns: int) -> Compaction:
    """Drop whole units (a call with all its results) oldest first while the context is over its target.

    A unit that holds a system message or an index in `protected` stays. Dropping stops at the target, or before fewer
    than `min_turns` turns would be left.
    """
    tokens = request.count(context)
    if tokens <= request.target_tokens:
        return Compaction(tuple(context), "noop", f"{tokens} tokens are within the target of {request.target_tokens}")
    left, dropped = count_turns(context), set[int]()
    for unit in units(context):
        if tokens <= request.target_tokens:
            break
        if any(index in protected or context[index].role == "system" for index in unit):
            continue
        messages = [context[index] for index in unit]
        if left - count_turns(messages) < min_turns:
            continue
        tokens -= request.count(messages)
        left -= count_turns(messages)
        dropped.update(unit)
    if not dropped:
        return Compaction(tuple(context), "noop", "over the target, but every message is protected")
    kept = tuple(message for index, message in enumerate(context) if index not in dropped)
    return Compaction(kept, "applied", _note(context, kept, request))


def checked(context: Sequence[Message], kept: Sequence[Message], request: CompactionRequest, min_turns: int) -> Compaction:
    """The published removals' check of their own result: enough turns left, and fewer tokens; else the original stays."""
    if count_turns(kept) < min_turns or request.count(kept) >= request.count(context):
        return Compaction(tuple(context), "noop", "the result failed its own check, so the original was returned")
    return Compaction(tuple(kept), "applied", _note(context, kept, request))


def _note(context: Sequence[Message], kept: Sequence[Message], request: CompactionRequest) -> str:
    over = request.count(kept) - request.target_tokens
    missed = f", {over} tokens over the target" if over > 0 else ""
    return f"{len(context) - len(kept)} of {len(context)} messages dropped{missed}"
