from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.prompts import render
from bench.strategies.fallback import check_fallback, fall_back
from bench.strategies.jev_state import estimate, fitted_state
from bench.strategies.judge import Action, accepted, applied, item_schema, items, newest, pinned_calls
from bench.strategies.notes import described
from bench.strategies.summariser import ask
from bench.types import Compaction, CompactionRequest, Message, ModelError, Output

FIELDS = ("keepCall", "keepResult")
QUESTION = 20  # estimated tokens that a question costs beside its words; each call is two questions
PROMPTS, PROMPT = 3, 500  # the goal: so many of the newest user messages, so many characters of each


@dataclass(frozen=True)
class JevPrune:
    """A model that sees no outputs gives two probabilities for every older tool call: that it is needed, that its output is.

    fast-jev-compaction, the predecessor of gemini-compact's prune mode (seed 003; specification A5). Outputs are shown as
    "ok" or "error" and their size, the goal as the last 3 user messages. Every call with a result has an id, t1, t2, ...;
    those made or answered in the first message or the newest `keep` turns are kept unasked. keepResult of 0.5 or more
    keeps both; else keepCall of 0.5 or more cuts the output to 300 characters (when it is longer than 420); else both go,
    without a note. The conversation is shortened step by step until it is estimated at `fit_tokens`; questions are split
    over requests of at most `request_tokens`, each with the whole of it, and one failed request refuses all. Call ids
    that stand twice, a result before its call, a probability outside 0 to 1, or a result less than 25 % smaller in
    characters are refused: strategy `fallback` (none: nothing) stands in for the built-in summary.

    Deviations: prompt and stubs are worded anew, and the model gives both probabilities as one JSON item for each call,
    where Jev answers questions one by one. The requests of a compaction are made one after another, not 4 at once, and
    have no deadline of 15 s, since whether it is met depends on the day. The steps of the shortening are the published
    ones with their numbers, what each form looks like is not; old are all messages before the newest turns. A request in
    which not even one call fits is refused. What the experiment pins at the start is not shown, not counted, and stays.
    """

    keep: int = 6
    fit_tokens: int = 25_000
    request_tokens: int = 30_000
    fallback: str = "claude_code"
    name: ClassVar[str] = "jev_prune"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 003, its predecessor; fast-jev-compaction 15c1ea2..9ba8457"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("jev_prune",)

    def __post_init__(self) -> None:
        if min(self.keep, self.fit_tokens, self.request_tokens) < 1:
            raise ValueError("keep, fit_tokens and request_tokens are 1 or more")
        check_fallback(self.name, self.fallback)

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        try:
            return self._pruned(context, request)
        except ModelError as error:
            return fall_back(context, request, str(error), self.fallback, model_is_down=error.down)

    def _pruned(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        conversation = context[request.head :]
        check_order(conversation)
        results = {message.call_id for message in conversation if message.role == "tool"}
        calls = [call for message in conversation for call in message.calls if call.id in results]
        labels = {call.id: f"t{number}" for number, call in enumerate(calls, 1)}
        pinned = pinned_calls(conversation, self.keep)
        questions = {labels[call.id]: f"{labels[call.id]} {described(call)}" for call in calls if call.id not in pinned}
        given: dict[str, tuple[float, float]] = {}
        outputs = []
        if questions:
            state = fitted_state(conversation, labels, newest(conversation, self.keep), self.fit_tokens)
            values = {"goal": goal(conversation), "state": state}
            for batch in self._batches(questions, values):
                output = ask(
                    request, [prompt(batch, values)], purpose="probabilities", schema=item_schema("calls", list(batch), _NUMBERS)
                )
                outputs.append(output)
                given |= probabilities(output, list(batch))
        actions = {call.id: action(*given[labels[call.id]]) for call in calls if labels[call.id] in given}
        return accepted(context, request, applied(conversation, actions), actions, outputs)

    def _batches(self, questions: Mapping[str, str], values: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """The questions in order, as many in each batch as its request has room for."""
        room = self.request_tokens - estimate(prompt({}, values))
        batch: dict[str, str] = {}
        taken = 0.0
        for name, question in questions.items():
            cost = estimate(question) + QUESTION * len(FIELDS)
            if cost > room:
                raise ModelError("window", f"no question fits into a request of {self.request_tokens:,} estimated tokens")
            if taken + cost > room:
                yield batch
                batch, taken = {}, 0.0
            batch[name] = question
            taken += cost
        yield batch


_NUMBERS = {field: {"type": "number", "minimum": 0, "maximum": 1} for field in FIELDS}


def prompt(questions: Mapping[str, str], values: Mapping[str, str]) -> str:
    return render("jev_prune", questions=list(questions.values()), **values)


def goal(conversation: Sequence[Message]) -> str:
    """The newest user messages, oldest of them first."""
    said = [message.text for message in conversation if message.role == "user"]
    return "\n\n".join(text[:PROMPT] for text in said[-PROMPTS:])


def check_order(conversation: Sequence[Message]) -> None:
    """ModelError for what the product does not take: a call id that stands twice, a result that has no call before it."""
    seen: set[str] = set()
    for message in conversation:
        if message.role == "tool" and message.call_id not in seen:
            raise ModelError("request", f"a result stands before its call: {message.call_id!s:.40}")
        for call in message.calls:
            if call.id in seen:
                raise ModelError("request", f"a call id stands twice: {call.id:.40}")
            seen.add(call.id)


def probabilities(output: Output, ids: Sequence[str]) -> dict[str, tuple[float, float]]:
    """(keepCall, keepResult) for every id; ModelError for anything but two numbers from 0 to 1 for each."""
    found = {}
    for name, item in items(output, "calls", ("id", *FIELDS), ids).items():
        values = tuple(item[field] for field in FIELDS)
        if not all(_is_probability(value) for value in values):
            raise ModelError("answer", f"a probability of {name} is not a number from 0 to 1")
        found[name] = values
    return found


def _is_probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def action(keep_call: float, keep_result: float) -> Action:
    if keep_result >= 0.5:
        return "keep"
    return "truncate" if keep_call >= 0.5 else "drop"
