"""A model that gives prepared answers, and the request of a compaction that asks it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.replay import head_length
from bench.tokens import counter
from bench.types import CompactionRequest, Message, Model, ModelError, Output, Retry, Usage


@dataclass
class Answers:
    """Gives its answers in order: a text, an Output, or a ModelError to raise. `asked` is what it was asked."""

    answers: list[str | Output | ModelError]
    asked: list[dict[str, Any]] = field(default_factory=list)
    name: str = "answers"
    window: int | None = None
    max_output: int | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)

    def generate(
        self,
        messages: Sequence[Message],
        *,
        purpose: str,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        retry: Retry | None = None,
    ) -> Output:
        self.asked.append({"messages": messages, "purpose": purpose, "schema": schema, "max_tokens": max_tokens, "retry": retry})
        given = self.answers[len(self.asked) - 1]
        if isinstance(given, ModelError):
            raise given
        return given if isinstance(given, Output) else Output(given, usage=Usage(input=100, output=20))

    @property
    def text(self) -> str:
        """What the only request said."""
        [asked] = self.asked
        return "\n".join(message.text for message in asked["messages"])


def request(messages: Sequence[Message], model: Model | None = None, **fields: Any) -> CompactionRequest:
    """A compaction of all of `messages`; the head is the one that every experiment pins."""
    count = counter().messages
    return CompactionRequest(head_length(messages), 0, 10**6, count, random.Random(0), model=model, **fields)


def decided(**actions: str) -> str:
    """The answer of a judge: `decided(c1="drop")`."""
    return json.dumps({"decisions": [{"id": name, "action": action} for name, action in actions.items()]})
