from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.prompts import render
from bench.strategies.fallback import check_fallback, fall_back
from bench.strategies.fitting import fitted
from bench.strategies.summariser import account, ask, characters, whole, written
from bench.turns import turns
from bench.types import Compaction, CompactionRequest, Message, ModelError, Retry

RETRY = Retry(kinds=frozenset({"unavailable"}), waits=(1, 2, 3), within=60, statuses=frozenset({503}))
MAX_OUTPUT = 32_768  # tokens
SHORTEST = 200  # characters of a summary


@dataclass(frozen=True)
class GeminiCompact:
    """One model request summarises everything before the newest `keep` turns, in nine sections; those turns stay verbatim.

    gemini-compact 0.4, summary mode (seed 003; specification A4). The cut moves back to an assistant message; without one
    everything is summarised. The model sees every message and every output, above `fit_characters` the longest outputs
    without their middle. The result is one user message (a note, then the summary) and the newest turns, the messages
    themselves. A summary under 200 characters or cut at 32,768 tokens, a result that is not smaller, and a failing model
    are refused: strategy `fallback` (none: nothing) stands in for the built-in summary. HTTP 503 is asked again after 1,
    2 and 3 seconds.

    Deviations: the prompt is worded anew, and the conversation is one text in it. What the experiment pins at the start
    is no part of the conversation, as a system prompt is none there: it stays in front and is not shown. Thinking is not
    shown. The cut also moves back over calls whose results come late, which the product's format does not know. Its
    trigger, 60 % of the window, is the experiment's cut here.
    """

    keep: int = 6
    fit_characters: int = 2_000_000
    fallback: str = "claude_code"
    name: ClassVar[str] = "gemini_compact"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 003, summary mode; gemini-compact 1f5d6d4..9519e3d"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("gemini_compact", "gemini_summary")

    def __post_init__(self) -> None:
        if self.keep < 1 or self.fit_characters < 1:
            raise ValueError("keep and fit_characters are 1 or more")
        check_fallback(self.name, self.fallback)

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        head, conversation = tuple(context[: request.head]), tuple(context[request.head :])
        if not conversation:
            return Compaction(head, "noop", "there is nothing after the head")
        try:
            return self._summarised(head, conversation, request)
        except ModelError as error:
            return fall_back(context, request, str(error), self.fallback, model_is_down=error.down)

    def _summarised(self, head: tuple[Message, ...], conversation: tuple[Message, ...], request: CompactionRequest) -> Compaction:
        cut = cut_index(conversation, self.keep)
        history = fitted(conversation[:cut], self.fit_characters)
        prompt = render("gemini_compact", history=history, instructions=request.instructions)
        output = whole(ask(request, [prompt], purpose="summary", max_tokens=MAX_OUTPUT, retry=RETRY))
        summary = output.text.strip()
        if len(summary) < SHORTEST:
            raise ModelError("answer", f"the summary has {len(summary)} characters, under {SHORTEST}")
        kept = (written(render("gemini_summary", summary=summary)), *conversation[cut:])
        if characters(kept) >= characters(conversation):
            raise ModelError("answer", "the result is not smaller than the conversation")
        return Compaction((*head, *kept), note=account(conversation, kept, [output]))


def cut_index(conversation: Sequence[Message], keep: int) -> int:
    """Where the kept part begins: at the newest `keep` turns, moved back to an assistant message that leaves no result
    behind without its call. When there is none, the end: everything is summarised. Never 0."""
    made_at = {call.id: index for index, message in enumerate(conversation) for call in message.calls}
    answered = [(made_at[m.call_id], index) for index, m in enumerate(conversation) if m.call_id in made_at]
    tearing = {index for call, result in answered for index in range(call + 1, result + 1)}
    found = turns(conversation)
    for number in range(min(max(1, len(found) - keep), len(found) - 1), 0, -1):
        start = found[number].start
        if conversation[start].role == "assistant" and start not in tearing:
            return start
    return len(conversation)
