"""Wrappers: each adds to what any strategy left. `Wrapped` is a strategy with its wrappers, which act in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.types import Compaction, CompactionRequest, Message, Strategy, Wrapper


@dataclass(frozen=True)
class Wrapped:
    """A strategy, and what wrappers make of its result; it goes by the strategy's name."""

    strategy: Strategy
    wrappers: tuple[Wrapper, ...]

    @property
    def name(self) -> str:
        return self.strategy.name

    @property
    def version(self) -> str:
        return "+".join([self.strategy.version, *(f"{wrapper.name}.{wrapper.version}" for wrapper in self.wrappers)])

    @property
    def source(self) -> str:
        return self.strategy.source

    @property
    def needs_model(self) -> bool:
        return self.strategy.needs_model

    @property
    def privileged(self) -> bool:
        return getattr(self.strategy, "privileged", False) or any(wrapper.privileged for wrapper in self.wrappers)

    @property
    def prompts(self) -> tuple[str, ...]:
        return tuple(name for part in (self.strategy, *self.wrappers) for name in getattr(part, "prompts", ()))

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        made = self.strategy.compact(context, request)
        for wrapper in self.wrappers:
            made = wrapper.wrap(context, made, request)
        return made


def compacted(context: Sequence[Message], made: Compaction) -> bool:
    """Whether there was a compaction to add to: products do nothing after one that failed or changed nothing."""
    return made.outcome in ("applied", "fallback") and tuple(made.messages) != tuple(context)


def noted(made: Compaction, wrapper: Wrapper, said: str, messages: Sequence[Message] | None = None, **details: Any) -> Compaction:
    """`made` with a wrapper's messages, its words in the note, and its details."""
    note = f"{wrapper.name}: {said}"
    return replace(
        made,
        messages=tuple(made.messages if messages is None else messages),
        note=f"{made.note} + {note}" if made.note else note,
        details={**made.details, **details},
    )
