"""What the strategies share that ask a model about every call: what is pinned, how decisions are applied, when they count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson

from bench.strategies.summariser import percent, smaller, usage, whole
from bench.turns import count_turns, turns
from bench.types import Compaction, CompactionRequest, Message, ModelError, Output

Action = Literal["keep", "truncate", "drop"]

HEAD = 300  # characters of an output that `truncate` leaves
SLACK = 120  # an output is cut only when it is longer than HEAD by more than this
ENOUGH = 0.25  # the share of its characters that a conversation has to lose


def newest(conversation: Sequence[Message], keep: int) -> int:
    """Index of the first message of the newest `keep` turns."""
    found = turns(conversation)
    return found[-keep].start if keep < len(found) else 0


def pinned_calls(conversation: Sequence[Message], keep: int) -> set[str]:
    """Ids of the calls that are made or answered in the first message or in the newest `keep` turns."""
    fixed = [*conversation[:1], *conversation[newest(conversation, keep) :]]
    return {call.id for message in fixed for call in message.calls} | {message.call_id for message in fixed if message.call_id}


def items(output: Output, key: str, fields: Sequence[str], ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The answer's list `key` by id, when it is whole: every id once, no other, exactly `fields` in each item.

    Anything else is a ModelError: an answer is applied as a whole or not at all.
    """
    try:
        answer = orjson.loads(whole(output).text)
    except ValueError:
        raise ModelError("answer", "the answer is not JSON") from None
    if not isinstance(answer, dict) or set(answer) != {key} or not isinstance(answer[key], list):
        raise ModelError("answer", f"the answer is not an object that holds a list of {key} and nothing else")
    known, found = set(ids), dict[str, dict[str, Any]]()
    for number, item in enumerate(answer[key], 1):
        if not isinstance(item, dict) or set(item) != set(fields) or not isinstance(item["id"], str):
            raise ModelError("answer", f"item {number} of the {key} does not have the fields {', '.join(fields)}")
        if item["id"] not in known:
            raise ModelError("answer", f"the answer names a call that was not asked about: {item['id']:.40}")
        if item["id"] in found:
            raise ModelError("answer", f"the answer decides {item['id']} twice")
        found[item["id"]] = item
    missing = [name for name in ids if name not in found]
    if missing:
        raise ModelError("answer", f"the answer leaves out {len(missing)} of {len(ids)} calls, {missing[0]} first")
    return found


def item_schema(key: str, ids: Sequence[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an answer that `items` takes; `fields` are those beside `id`."""
    properties = {"id": {"type": "string", "enum": list(ids)}, **fields}
    item = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {key: {"type": "array", "items": item}},
        "required": [key],
        "additionalProperties": False,
    }


def applied(conversation: Sequence[Message], actions: Mapping[str, Action]) -> tuple[Message, ...]:
    """The conversation after `actions`, by call id. A dropped call goes with its results, and so does a message that is
    left with nothing; a message that no action touches is the same object."""
    kept = []
    for message in conversation:
        if message.role == "tool":
            action = actions.get(message.call_id or "", "keep")
            if action == "drop":
                continue
            if action == "truncate" and len(message.text) > HEAD + SLACK:
                message = replace(message, text=truncated(message.text))
        else:
            calls = tuple(call for call in message.calls if actions.get(call.id) != "drop")
            if len(calls) < len(message.calls):
                if not (calls or message.images or message.text.strip()):
                    continue
                message = replace(message, calls=calls)
        kept.append(message)
    return tuple(kept)


def truncated(text: str) -> str:
    return f"{text[:HEAD]}\n[the other {len(text) - HEAD} characters of this output were cut]"


def accepted(
    context: Sequence[Message],
    request: CompactionRequest,
    kept: tuple[Message, ...],
    actions: Mapping[str, Action],
    outputs: Sequence[Output],
) -> Compaction:
    """`kept` behind the head, when it is at least 25 % smaller than the conversation in characters; else a ModelError."""
    conversation = context[request.head :]
    share = smaller(conversation, kept)
    account = f"kept {count_turns(kept)}/{count_turns(conversation)} messages · {percent(share)}"
    if share < ENOUGH:
        raise ModelError("answer", f"under {ENOUGH:.0%} smaller ({account})")
    texts = {message.id: message.text for message in conversation}
    cut = {message.call_id for message in kept if message.role == "tool" and message.text != texts[message.id]}
    dropped = sum(action == "drop" for action in actions.values())
    return Compaction(
        (*context[: request.head], *kept),
        note=f"{account} · {dropped} dropped, {len(cut)} truncated · {usage(outputs)}",
        details={"asked": len(actions), "dropped": dropped, "truncated": len(cut)},
    )
