"""What the predecessor's judge is shown (A5 of the specification): the conversation without outputs, in estimated tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from bench.sessions.canonical import arguments_text
from bench.types import Message, ModelError, ToolCall

_PIECES = re.compile(r"([^\W\d_]+)|(\d)|([^\w\s]|_)")
TEXT_HEAD, TEXT_TAIL = 400, 150  # characters of a text that has to be shortened


def estimate(text: str) -> float:
    """Tokens by the product's rule: a word 1 and one more for every six letters after its first, a digit 0.5, any other
    symbol 0.9, white space nothing."""
    tokens = 0.0
    for word, digit, _ in _PIECES.findall(text):
        tokens += 1 + (len(word) - 1) // 6 if word else 0.5 if digit else 0.9
    return tokens


@dataclass(frozen=True)
class Form:
    """How much of a conversation is written: each field is one step of the fitting."""

    inputs: int = 1_000
    short_texts: bool = False
    old_texts: bool = True
    old_calls: bool = True
    old_talk: bool = True
    merged: bool = False


FORMS = (
    Form(),
    Form(200),
    Form(60),
    Form(60, True),
    Form(60, True, old_texts=False),
    Form(60, True, old_texts=False, old_calls=False),
    Form(60, True, old_texts=False, old_calls=False, old_talk=False),
    Form(60, True, old_texts=False, old_calls=False, old_talk=False, merged=True),
)


def fitted_state(conversation: Sequence[Message], labels: Mapping[str, str], old: int, limit: int) -> str:
    """The first of FORMS that is estimated at `limit` tokens or fewer; `conversation[:old]` is what may be shortened most.

    ModelError when none is.
    """
    for form in FORMS:
        text = state(conversation, labels, old, form)
        if estimate(text) <= limit:
            return text
    raise ModelError("window", f"the conversation is over {limit:,} estimated tokens in its shortest form")


def state(conversation: Sequence[Message], labels: Mapping[str, str], old: int, form: Form) -> str:
    """One block a message that is no result; a call stands with its label, its input and how it ended."""
    ends = {m.call_id: outcome(m) for m in conversation if m.role == "tool"}
    blocks = []
    for index, message in enumerate(conversation):
        aged = index < old
        if message.role == "tool" or (aged and not form.old_talk and not message.calls):
            continue
        calls = [_call(call, labels, ends.get(call.id, "no result"), form, aged) for call in message.calls]
        blocks.append((f"[{message.role}]", [*_text(message.text, form, aged), *calls]))
    if not form.merged:
        return "\n\n".join("\n".join([head, *lines]) for head, lines in blocks)
    runs = groupby(blocks, key=lambda block: block[0])
    return "\n\n".join("\n".join([head, *(line for _, lines in run for line in lines)]) for head, run in runs)


def outcome(result: Message) -> str:
    return f"{'error' if result.is_error else 'ok'}, {len(result.text)} chars"


def _text(text: str, form: Form, aged: bool) -> Iterator[str]:
    if text and aged and not form.old_texts:
        yield f"[{len(text)} characters of text]"
    elif form.short_texts and len(text) > TEXT_HEAD + TEXT_TAIL:
        yield f"{text[:TEXT_HEAD]}\n[{len(text) - TEXT_HEAD - TEXT_TAIL} characters left out]\n{text[-TEXT_TAIL:]}"
    elif text:
        yield text


def _call(call: ToolCall, labels: Mapping[str, str], end: str, form: Form, aged: bool) -> str:
    name = f"{labels[call.id]} {call.name}" if call.id in labels else call.name
    if aged and not form.old_calls:
        return f"{name}: {end}"
    given = arguments_text(call.arguments)
    shown = given if len(given) <= form.inputs else f"{given[: form.inputs]}..."
    return f"[call {name}] {shown}\n[result] {end}"
