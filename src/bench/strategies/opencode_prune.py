from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.turns import answered
from bench.types import Compaction, CompactionRequest, Message

PRUNED = "[The output of this older call was pruned.]"


@dataclass(frozen=True)
class OpencodePrune:
    """Prunes old tool output when that saves enough: the newest output stays up to an amount of tokens (opencode's prune).

    From opencode 31e22f6. Walks back over the results, past the newest `user_turns` user messages and all that follows
    them; the newest `protect_tokens` tokens of output stay, what is older goes if it is more than `minimum_tokens`
    together. Results that are errors, and those of `protected_tools`, are neither counted nor pruned. The walk ends at a
    result that is pruned already, or at a summary, so applying it again changes nothing.

    A session with fewer than `user_turns` user messages is never pruned. Tokens are the run's own count of a result, where
    opencode estimates a quarter of its characters; a pruned result's images go with its text.
    """

    user_turns: int = 2
    protect_tokens: int = 40_000
    minimum_tokens: int = 20_000
    protected_tools: tuple[str, ...] = ("skill",)
    name: ClassVar[str] = "opencode_prune"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "opencode 31e22f6"
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if min(self.user_turns, self.protect_tokens, self.minimum_tokens) < 0:
            raise ValueError("user_turns, protect_tokens and minimum_tokens are 0 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        calls = answered(context)
        users = walked = saved = 0
        old = []
        for index in range(len(context) - 1, -1, -1):
            message = context[index]
            users += message.role == "user"
            if users < self.user_turns:
                continue
            if message.id.startswith("summary"):
                break
            if message.role != "tool" or message.is_error or (index in calls and calls[index].name in self.protected_tools):
                continue
            if message.text == PRUNED:
                break
            tokens = request.count((message,))
            walked += tokens
            if walked > self.protect_tokens:
                saved += tokens
                old.append(index)
        if saved <= self.minimum_tokens or not old:
            return Compaction(tuple(context), "noop", f"{saved} tokens of output could go, over {self.minimum_tokens} must")
        kept = list(context)
        for index in old:
            kept[index] = replace(context[index], text=PRUNED, images=0)
        return Compaction(tuple(kept), "applied", f"{len(old)} results of {saved} tokens pruned")
