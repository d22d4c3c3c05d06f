from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import orjson

from bench.strategies.summariser import smaller
from bench.tools import READ, path_of
from bench.turns import answered, units
from bench.types import Compaction, CompactionRequest, Message, ToolCall

REREAD = "[This file was read again later; what it held is shown there.]"
ENOUGH = 0.3  # share of all characters that replaced duplicates must save for nothing to be truncated
_RESERVED = {64_000: 27_000, 128_000: 30_000, 200_000: 40_000}  # tokens of known windows that stay free
_PINNED = 2  # the first user and the first assistant message


@dataclass(frozen=True)
class ClineTruncate:
    """Replaces duplicate file reads by a notice; if that saves too little, drops the older half or three quarters too.

    From classic Cline, commit 59e0a663. Of successful reads of one file only the newest stays. If the notices save 30% of
    all characters, that is all. Else the messages after the first user and the first assistant message go, oldest first: an
    even number of them, ending with an assistant message; about half, or three quarters when half of the tokens would
    still be over what Cline allows of the window (`allowed`). Neither reaches the newest quarter, but in a very short
    context they can reach into the experiment's tail.

    Deviations. Cline's messages alternate and its calls are text; here neighbours of one side (users and results, or
    assistant messages) count as one, system messages stay and do not count, and a result stays or goes with its call,
    which moves both edges of what goes behind a result. Cline's tools read whole files: here a read is a duplicate of a
    later one with the same arguments only, so that another part of a file stays; file contents in user messages and in the
    results of edits are not looked at. Cline's note about the truncation is the wrapper `notes`. The cut is the trigger;
    there it is the same allowed size.
    """

    name: ClassVar[str] = "cline_truncate"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "Cline 59e0a663"
    needs_model: ClassVar[bool] = False

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        kept, notices = deduplicated(context)
        saved = smaller(_talk(context), _talk(kept))
        gone: set[int] = set()
        if not notices or saved < ENOUGH:
            gone = _truncated(context, "quarter" if request.count(context) / 2 > allowed(request.window) else "half")
        if not notices and not gone:
            return Compaction(tuple(context), "noop", "no duplicate read, and too few messages to truncate")
        messages = tuple(message for index, message in enumerate(kept) if index not in gone)
        note = f"{notices} duplicate reads replaced, {len(gone)} of {len(context)} messages dropped"
        return Compaction(messages, "applied", note)


def allowed(window: int) -> float:
    """Tokens of a window that Cline lets a context have."""
    if window in _RESERVED:
        return window - _RESERVED[window]
    return max(window - 40_000, 0.8 * window)


def removed(roles: Sequence[str], keep: Literal["half", "quarter"]) -> range:
    """Which of messages with these alternating roles go: an even number after the first two, up to an assistant message."""
    rest = max(0, len(roles) - _PINNED)
    end = _PINNED + (rest // 4 * 2 if keep == "half" else rest * 3 // 8 * 2)
    if end > _PINNED and roles[end - 1] != "assistant":
        end -= 1
    return range(_PINNED, end)


def deduplicated(context: Sequence[Message]) -> tuple[list[Message], int]:
    """The context with a notice in the place of every result of a read that a later one repeats, and how many there are."""
    kept, seen, notices = list(context), set[bytes](), 0
    for index, call in reversed(answered(context).items()):
        message, key = context[index], _read(call)
        if not key or message.is_error or message.text == REREAD:
            continue
        if key in seen:
            kept[index] = replace(message, text=REREAD, images=0)
            notices += 1
        seen.add(key)
    return kept, notices


def _read(call: ToolCall) -> bytes:
    """What a call reads: the same bytes for the same file and part of it; empty when it is no read."""
    name = call.name.lower().rsplit("__", 1)[-1]
    if not isinstance(call.arguments, Mapping) or not path_of(call.arguments):
        return b""
    if name not in READ and call.arguments.get("command") != "view":  # an editor with commands is a reader by one of them
        return b""
    return orjson.dumps(dict(call.arguments), option=orjson.OPT_SORT_KEYS)


def _truncated(context: Sequence[Message], keep: Literal["half", "quarter"]) -> set[int]:
    """Indices that go: those of the removed messages of either side, results with their calls."""
    sides: list[list[int]] = []
    for index, message in enumerate(context):
        if message.role == "system":
            continue
        if sides and _side(context[sides[-1][0]]) == _side(message):
            sides[-1].append(index)
        else:
            sides.append([index])
    going = removed([_side(context[side[0]]) for side in sides], keep)
    indices = {index for position in going for index in sides[position]}
    return {index for unit in units(context) if unit[0] in indices for index in unit}


def _side(message: Message) -> str:
    return "assistant" if message.role == "assistant" else "user"


def _talk(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.role != "system"]
