"""What stands in for a result that a strategy had to refuse (seed 003: the engine's built-in summary)."""

from __future__ import annotations

from collections.abc import Sequence

from bench.strategies import make
from bench.types import BenchError, Compaction, CompactionRequest, Message, ModelError


def check_fallback(own: str, name: str) -> None:
    """BenchError when strategy `name` cannot stand in for strategy `own`: it is the same, or cannot be made."""
    if name == own:
        raise BenchError(f"strategy {own!r} cannot fall back on itself")
    make(name, {})


def fall_back(
    context: Sequence[Message], request: CompactionRequest, why: str, name: str, *, model_is_down: bool = False
) -> Compaction:
    """The outcome `fallback`, with `built-in summary: <why>` as its line and strategy `name` in the place of the result.

    A strategy that needs a model is not called when the model is known to be down; one that fails, or changes nothing,
    leaves the context as it was (`none`).
    """
    strategy, said = make(name, {}), ""
    messages = tuple(context)
    if strategy.needs_model and (model_is_down or request.model is None):
        name, said = "none", "the model is down"
    else:
        try:
            made = strategy.compact(context, request)
            said = made.note
            if made.outcome in ("applied", "fallback"):
                messages = made.messages
            else:
                name = "none"
        except ModelError as error:
            name, said = "none", f"{name} failed too: {error}"
    return Compaction(messages, "fallback", f"built-in summary: {why}", details={"fallback": name, "fallback_note": said})
