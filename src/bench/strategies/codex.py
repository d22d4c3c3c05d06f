from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.prompts import render
from bench.strategies.summariser import account, ask, whole, written
from bench.strategies.transcript import transcript
from bench.turns import units
from bench.types import Compaction, CompactionRequest, Message, ModelError, Output

BYTES_PER_TOKEN = 4  # Codex's own estimate
RETRIES = 100  # requests over the window are sent again at most so often


@dataclass(frozen=True)
class Codex:
    """OpenAI Codex CLI's local compaction: the user's own messages stay, and a summary of five points stands last.

    Specification B1 (e06dd0e). User messages are kept newest first while they fit in `user_tokens` (4 bytes a token, as
    Codex estimates); the first that does not fit is cut to the rest of the budget, from its middle, and ends the list.
    Assistant messages, calls and results all go. Earlier summaries are known by their fixed first sentence: they are no
    user messages, but the model reads them, so a summary of a summary is made. A request over the window is sent again
    without its oldest item (a call goes with its results) until it fits or one item is left; the user messages are taken
    from the whole history all the same.

    Different here: the history is sent as one text, and without the head, which stays in front (Codex puts its initial
    context back before the last user message when it compacts in the middle of a turn). When an error says how far over
    the window the request was, as many items go at once as cover that, which single steps would have reached too; there
    are 100 retries at most. An empty answer is refused, where Codex writes that there is no summary; so is one cut off.
    """

    user_tokens: int = 20_000
    name: ClassVar[str] = "codex"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "OpenAI Codex CLI e06dd0e"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("codex", "codex_prefix")

    def __post_init__(self) -> None:
        if self.user_tokens < 0:
            raise ValueError("user_tokens is 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        head, history = context[: request.head], context[request.head :]
        if not history:
            return Compaction(tuple(context), "noop", "nothing follows the head")
        output, left_out = _summarise(history, request)
        prefix = f"{render('codex_prefix')}\n"
        said = [message for message in history if message.role == "user" and not message.text.startswith(prefix)]
        left = (*head, *newest(said, self.user_tokens), written(prefix + output.text.strip()))
        return Compaction(left, "applied", account(context, left, [output]), details={"items_left_out": left_out})


def _summarise(history: Sequence[Message], request: CompactionRequest) -> tuple[Output, int]:
    """The answer, and how many of the oldest items the model was not shown."""
    items, left_out, retries = units(history), 0, 0
    while True:
        shown = [history[index] for index in sorted(index for item in items[left_out:] for index in item)]
        prompt = render("codex", transcript=transcript(shown), instructions=request.instructions)
        try:
            return whole(ask(request, [prompt], purpose="summary")), left_out
        except ModelError as error:
            if error.kind != "window" or retries == RETRIES or left_out == len(items) - 1:
                raise
            retries += 1
            gap = error.gap or 1
            while gap > 0 and left_out < len(items) - 1:
                gap -= request.count([history[index] for index in items[left_out]])
                left_out += 1


def newest(messages: Sequence[Message], tokens: int) -> list[Message]:
    """The newest messages within `tokens`, in order; the one that crosses the limit loses its middle."""
    kept: list[Message] = []
    for message in reversed(messages):
        if tokens <= 0:
            break
        size = estimate(message.text)
        kept.append(message if size <= tokens else replace(message, text=without_middle(message.text, tokens)))
        tokens -= size
    return kept[::-1]


def estimate(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def without_middle(text: str, tokens: int) -> str:
    """The beginning and the end of a text, half of the budget each, with a mark between them; no character is torn."""
    data, half = text.encode(), BYTES_PER_TOKEN * tokens // 2
    end = data[len(data) - (BYTES_PER_TOKEN * tokens - half) :]
    mark = f"[... about {estimate(text) - tokens} tokens left out ...]"
    return f"{data[:half].decode(errors='ignore')}{mark}{end.decode(errors='ignore')}"
