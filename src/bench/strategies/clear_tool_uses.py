from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.turns import units
from bench.types import Compaction, CompactionRequest, Message

CLEARED = "[The result of this call was cleared.]"


@dataclass(frozen=True)
class ClearToolUses:
    """Clears the results of all tool uses but the newest `keep`, and optionally their inputs (Anthropic's context editing).

    The API's clear_tool_uses_20250919, from its documentation and the types of its SDK 2.14.0. A tool use is one call, so
    parallel calls count one by one; the calls stay, so that pairs stay whole. Over `trigger_tokens` the uses older than
    the newest `keep` are cleared, but for those of `exclude_tools`, and only if at least `clear_at_least` tokens go (and
    never if the context would grow). `clear_tool_inputs` empties the arguments of those calls too: of all, or of the tools
    it names.

    Two things differ: the API's trigger is 100,000 tokens where the cut is the trigger here, and where the documentation is
    silent, excluded uses count among the newest `keep`. LangChain's copy reads `clear_at_least` as the amount after which
    clearing stops; that is another strategy and not offered here.
    """

    trigger_tokens: int = 0
    keep: int = 3
    clear_at_least: int = 0
    exclude_tools: tuple[str, ...] = ()
    clear_tool_inputs: bool | tuple[str, ...] = False
    name: ClassVar[str] = "clear_tool_uses"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "Anthropic API, clear_tool_uses_20250919"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if min(self.trigger_tokens, self.keep, self.clear_at_least) < 0:
            raise ValueError("trigger_tokens, keep and clear_at_least are 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        tokens = request.count(context)
        if tokens <= self.trigger_tokens:
            return Compaction(tuple(context), "noop", f"{tokens} tokens are within the trigger of {self.trigger_tokens}")
        uses = [(call, unit) for unit in units(context) for call in context[unit[0]].calls]
        kept = list(context)
        for call, (asked, *results) in uses[: max(0, len(uses) - self.keep)]:
            result = next((index for index in results if context[index].call_id == call.id), None)
            if result is None or call.name in self.exclude_tools:
                continue
            kept[result] = replace(context[result], text=CLEARED, images=0)
            if self._clears_input(call.name):
                calls = (replace(other, arguments={}) if other.id == call.id else other for other in kept[asked].calls)
                kept[asked] = replace(kept[asked], calls=tuple(calls))
        if kept == list(context):
            return Compaction(tuple(context), "noop", f"nothing to clear in {len(uses)} tool uses, {self.keep} are kept")
        fewer = tokens - request.count(kept)
        if fewer < self.clear_at_least:
            return Compaction(tuple(context), "noop", f"clearing saves {fewer} tokens, {self.clear_at_least} are wanted")
        changed = sum(after != before for after, before in zip(kept, context, strict=True) if before.role == "tool")
        return Compaction(tuple(kept), "applied", f"{changed} of {len(uses)} results cleared, {fewer} tokens")

    def _clears_input(self, name: str) -> bool:
        return self.clear_tool_inputs if isinstance(self.clear_tool_inputs, bool) else name in self.clear_tool_inputs
