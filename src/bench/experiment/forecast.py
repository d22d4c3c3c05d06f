"""What a run would ask of its model, found out by a rehearsal: every compaction is made with a model that only counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.experiment.plan import Plan
from bench.experiment.runner import compact
from bench.models.scripted import Scripted
from bench.types import Cut, Message, Model, ModelError, Output, Retry, Usage


@dataclass(frozen=True)
class Forecast:
    """Calls, tokens in, and at most how many tokens out where the strategy says so; `usd` is None without a price."""

    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None

    def __str__(self) -> str:
        return f"{self.calls} calls, {self.tokens_in:,} tokens in, at most {self.tokens_out:,} out"


def forecast(plan: Plan, cuts: Sequence[Cut]) -> Forecast:
    """The first attempt of every call at `cuts`; retries, and calls that an odd answer leads to, come on top."""
    if plan.model is None:
        return Forecast(0, 0, 0, 0.0)
    rehearsal = Rehearsal(plan.model)
    for cut in cuts:
        compact(plan, cut, rehearsal)
    return Forecast(rehearsal.calls, rehearsal.tokens_in, rehearsal.tokens_out, rehearsal.usd)


class Rehearsal:
    """Counts what `model` would be sent, and answers like the scripted model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._scripted = Scripted()
        self.name, self.window, self.max_output, self.identity = model.name, model.window, model.max_output, model.identity
        self.endpoint = self.warning = ""
        self.calls = self.tokens_in = self.tokens_out = 0
        self.usd: float | None = 0.0

    def generate(
        self,
        messages: Sequence[Message],
        *,
        purpose: str,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        retry: Retry | None = None,
    ) -> Output:
        answer = self._scripted.generate(messages, purpose=purpose, schema=schema, max_tokens=max_tokens, retry=retry)
        read = answer.usage.input
        if self.window and read > self.window:
            raise ModelError("window", f"{read} tokens are over the window of {self.window}", gap=read - self.window)
        wrote = min(filter(None, (max_tokens, self.max_output)), default=answer.usage.output)
        price = self._model.price(Usage(input=read, output=wrote))
        self.calls += 1
        self.tokens_in += read
        self.tokens_out += wrote
        self.usd = None if price is None or self.usd is None else self.usd + price
        return answer
