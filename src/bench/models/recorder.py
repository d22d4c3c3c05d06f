from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.types import Message, Model, ModelCall, ModelError, Output, Retry


class Recorder:
    """A model that remembers every call made through it, answered or not. One for each compaction."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.calls: list[ModelCall] = []
        self.name, self.window, self.max_output, self.identity = model.name, model.window, model.max_output, model.identity

    def generate(
        self,
        messages: Sequence[Message],
        *,
        purpose: str,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        retry: Retry | None = None,
    ) -> Output:
        try:
            output = self._model.generate(messages, purpose=purpose, schema=schema, max_tokens=max_tokens, retry=retry)
        except ModelError as error:
            self.calls.append(ModelCall(purpose, tuple(messages), error=f"{error.kind}: {error}"))
            raise
        self.calls.append(ModelCall(purpose, tuple(messages), output))
        return output
