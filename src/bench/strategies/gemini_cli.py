from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bench.prompts import render
from bench.sessions.canonical import arguments_text
from bench.sessions.document import json_text
from bench.strategies.summariser import account, ask, whole, written
from bench.strategies.transcript import transcript
from bench.turns import seams
from bench.types import Compaction, CompactionRequest, Message, ModelError, Output

ASCII, OTHER, IMAGE = 0.25, 1.5, 3_000  # tokens of a character, and of an image
FULL = 100_000  # longer texts are counted at 4 characters a token
MOST = 40_000  # characters of a result that is cut


@dataclass(frozen=True)
class GeminiCli:
    """gemini-cli's compression: a verified state snapshot of the older part, and the newest share of the history.

    Specification A3 (5411f11). Results share `tool_budget` tokens, newest first; one that would exceed them is cut to head
    20 % and tail 80 % of min(40,000, 4 x the tokens left in the window) characters, unless it is no longer than that. The
    history is split at the first real user message at or beyond (1 - `preserve`) of its JSON characters; without one,
    everything is compressed when the last message is an assistant's without a call, else up to the last real user
    message. The model reads the part as it was when that fits its window, else the cut one, thinks in a scratchpad and
    writes a snapshot of `parts` parts (5: seed 000 section 2, 7: current). With `verify` a second call looks for what is
    missing, and its answer replaces the first. The scratchpad is not taken out. Then come a short acknowledgement and the
    rest of the (cut) history. A result larger than before by the product's own estimate is not used ("inflated").

    Known pitfall: with a single user message the only splits are "nothing" and "everything", so most cuts of such a
    session are a no-op that says so.

    An inflated result is the outcome `invalid`; after one, the session's later compactions only cut results, as in the
    product until somebody compresses by hand.

    Different here: the product asks for a verification of
    an empty first answer; here that fails at once, and so does an answer cut off at the model's limit. A file that would
    hold a cut result is named and not written. A split between a call and a late result is no split. The history is sent
    as one text, without the head, and what a user says with the request is added to the prompt.
    """

    parts: int = 7
    verify: bool = True
    preserve: float = 0.3
    tool_budget: int = 50_000
    name: ClassVar[str] = "gemini_cli"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 000 section 2; gemini-cli 5411f11"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("gemini_cli", "gemini_cli_verify", "gemini_cli_acknowledgement")

    def __post_init__(self) -> None:
        if self.parts not in (5, 7):
            raise ValueError("parts is 5 or 7")
        if not 0 < self.preserve < 1 or self.tool_budget < 0:
            raise ValueError("preserve lies between 0 and 1, tool_budget is 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        head, history = context[: request.head], context[request.head :]
        room = max(0, request.window - request.count(context))
        short = truncated(history, self.tool_budget, min(MOST, 4 * room))
        split = split_point(short, self.preserve)
        if split == 0:
            return Compaction(tuple(context), "noop", "no user message after the first divides the history")
        if "invalid" in request.earlier:
            return _only_truncated(context, (*head, *short))
        outputs = self._summarise(history[:split], short[:split], request)
        summary = written(outputs[-1].text.strip(), "snapshot")
        acknowledgement = replace(written(render("gemini_cli_acknowledgement"), "acknowledgement"), role="assistant")
        left = (*head, summary, acknowledgement, *short[split:])
        before, after = estimate(context), estimate(left)
        if after > before:
            return Compaction(tuple(context), "invalid", f"inflated: {before} tokens would become {after}")
        return Compaction(left, "applied", account(context, left, outputs), details={"split": request.head + split})

    def _summarise(self, original: Sequence[Message], short: Sequence[Message], request: CompactionRequest) -> list[Output]:
        """The answers, the one to use last."""
        window = request.model.window if request.model else None
        prefix = original if window is None or estimate(original) < window else short
        prompt = render(
            "gemini_cli",
            transcript=transcript(prefix),
            parts=self.parts,
            earlier_snapshot=any("<state_snapshot>" in message.text for message in prefix if message.role != "tool"),
            instructions=request.instructions,
        )
        outputs = [whole(ask(request, [prompt], purpose="summary"))]
        if self.verify:
            question = render("gemini_cli_verify", answer=outputs[0].text.strip())
            try:
                outputs.append(whole(ask(request, [prompt, question], purpose="verification")))
            except ModelError as error:  # nothing usable came: the first answer stands; a call that failed fails it all
                if error.kind != "answer":
                    raise
        return outputs


def _only_truncated(context: Sequence[Message], left: tuple[Message, ...]) -> Compaction:
    if estimate(left) < estimate(context):
        return Compaction(left, "applied", "content truncated: an earlier snapshot was no gain, so only results are cut")
    return Compaction(tuple(context), "noop", "an earlier snapshot was no gain, and no result is over the budget")


def truncated(history: Sequence[Message], budget: int, characters: int) -> tuple[Message, ...]:
    """The history with results beyond `budget` tokens, counted from the newest, cut to `characters` characters each."""
    names = {call.id: call.name for message in history for call in message.calls}
    kept, used = list(history), 0
    for index in reversed(range(len(history))):
        message = history[index]
        if message.role != "tool":
            continue
        text = message.text
        if used + int(text_tokens(text)) > budget and len(text) > characters:
            place = re.sub(r"[^\w-]", "_", f"{names.get(message.call_id or '', 'tool')}_{message.call_id}")
            text = head_and_tail(text, characters, f"tool-outputs/{place}.txt")
            kept[index] = replace(message, text=text)
        used += int(text_tokens(text))
    return tuple(kept)


def head_and_tail(text: str, characters: int, place: str) -> str:
    """A fifth of `characters` from the beginning and the rest from the end, with what is missing and where it would be."""
    head = int(0.2 * characters)
    tail = characters - head
    missing = f"[{len(text) - characters} of {len(text)} characters of this result stand in {place} only]"
    return f"{text[:head]}\n\n{missing}\n\n{text[len(text) - tail :]}"


def split_point(history: Sequence[Message], preserve: float) -> int:
    """How many of the oldest messages are compressed."""
    sizes = [len(json_text(_content(message))) for message in history]
    target, before, last = (1 - preserve) * sum(sizes), 0, 0
    places = set(seams(history))
    for index, message in enumerate(history):
        if message.role == "user" and index in places:
            if before >= target:
                return index
            last = index
        before += sizes[index]
    ended = history and history[-1].role == "assistant" and not history[-1].calls
    return len(history) if ended else last


def estimate(messages: Sequence[Message]) -> int:
    """Tokens as gemini-cli estimates them."""
    return int(
        sum(
            text_tokens(message.text)
            + sum(text_tokens(call.name + arguments_text(call.arguments)) for call in message.calls)
            + IMAGE * message.images
            for message in messages
        )
    )


def text_tokens(text: str) -> float:
    if len(text) > FULL:
        return len(text) / 4
    ascii_characters = len(text.encode("ascii", "ignore"))
    return ASCII * ascii_characters + OTHER * (len(text) - ascii_characters)


def _content(message: Message) -> dict[str, Any]:
    """A message as a content of the Gemini API: its size decides where the history is split."""
    if message.role == "tool":
        return {"role": "user", "parts": [{"functionResponse": {"id": message.call_id, "response": {"output": message.text}}}]}
    calls = [{"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in message.calls]
    role = "model" if message.role == "assistant" else "user"
    return {"role": role, "parts": [*([{"text": message.text}] if message.text else []), *calls]}
