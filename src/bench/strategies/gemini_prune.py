from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast, get_args

from bench.prompts import render
from bench.strategies.fallback import check_fallback, fall_back
from bench.strategies.fitting import fitted
from bench.strategies.gemini_compact import RETRY
from bench.strategies.judge import Action, accepted, applied, item_schema, items, pinned_calls
from bench.strategies.notes import add_notes
from bench.strategies.summariser import ask
from bench.types import Compaction, CompactionRequest, Message, ModelError, Output

ACTIONS = get_args(Action)


@dataclass(frozen=True)
class GeminiPrune:
    """One model request decides for every older tool call: kept, kept with a cut output, or dropped with its output.

    gemini-compact 0.4, prune mode (seed 003; specification A4). Calls in the first message and in the newest `keep` turns
    are kept whole; every other one, answered or not, has an id, c1, c2, ... in order. The model sees the whole
    conversation with full outputs, above `fit_characters` the longest outputs without their middle. An answer counts only
    with every id once and no other. A cut output keeps 300 characters (when it is longer than 420); messages left empty
    go. The nearest assistant message names the calls that went; `notes: false` leaves that out. A result less than 25 %
    smaller in characters, an answer that breaks the rules and a failing model are refused: strategy `fallback` (none:
    nothing) stands in for the built-in summary. Without a call to decide about, which the seed does not speak of, the
    model is not asked and the result is refused for its size. HTTP 503 is asked again after 1, 2 and 3 seconds.

    Deviations: prompt, notes and stubs are worded anew, and the conversation is one text in the prompt. What the
    experiment pins at the start is no part of the conversation, as a system prompt is none there: it stays in front, is
    not shown and not counted. Thinking is not shown. An answer that ends at the output limit is refused even when it
    reads whole. When no assistant message is left, there is no place for a note.
    """

    keep: int = 6
    fit_characters: int = 400_000
    notes: bool = True
    fallback: str = "claude_code"
    name: ClassVar[str] = "gemini_prune"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 003, prune mode; gemini-compact 1f5d6d4..9519e3d"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("gemini_prune", "gemini_note")

    def __post_init__(self) -> None:
        if self.keep < 1 or self.fit_characters < 1:
            raise ValueError("keep and fit_characters are 1 or more")
        check_fallback(self.name, self.fallback)

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        try:
            return self._pruned(context, request)
        except ModelError as error:
            return fall_back(context, request, str(error), self.fallback, model_is_down=error.down)

    def _pruned(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        conversation = context[request.head :]
        pinned = pinned_calls(conversation, self.keep)
        made = dict.fromkeys(call.id for message in conversation for call in message.calls)
        ids = {call_id: f"c{number}" for number, call_id in enumerate((name for name in made if name not in pinned), 1)}
        actions: dict[str, Action] = {}
        outputs = []
        if ids:
            history = fitted(conversation, self.fit_characters, labels=dict.fromkeys(made, "fixed") | ids)
            prompt = render("gemini_prune", history=history, ids=list(ids.values()))
            schema = item_schema("decisions", list(ids.values()), {"action": {"type": "string", "enum": list(ACTIONS)}})
            outputs = [ask(request, [prompt], purpose="decisions", schema=schema, retry=RETRY)]
            decided = decisions(outputs[0], list(ids.values()))
            actions = {call_id: decided[name] for call_id, name in ids.items()}
        kept = applied(conversation, actions)
        if self.notes:
            kept = add_notes(conversation, kept)
        return accepted(context, request, kept, actions, outputs)


def decisions(output: Output, ids: Sequence[str]) -> dict[str, Action]:
    """The action for every id; ModelError for an answer that is not exactly one known action for each."""
    found: dict[str, Action] = {}
    for name, item in items(output, "decisions", ("id", "action"), ids).items():
        if item["action"] not in ACTIONS:
            raise ModelError("answer", f"the action for {name} is not one of {', '.join(ACTIONS)}")
        found[name] = cast("Action", item["action"])
    return found
