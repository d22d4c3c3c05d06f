from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.prompts import render
from bench.strategies.summariser import account, ask, whole, written
from bench.strategies.transcript import transcript
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Handoff:
    """A reset done well: the model writes a handoff in five parts, then the context is cleared.

    The parts of seed 004 section 24.5: goal; done, with paths; left, numbered; constraints, decisions and what was ruled
    out; the command that verifies. No narrative. The head and one user message remain: the handoff, and the request to go
    on with item 1 of what is left without doing again what is done. The tail goes too, as in a fresh session.

    Different here: the handoff stands in the message instead of a file, because a recorded agent cannot read one; the
    constraints file that the seed has read beside it is the wrapper `reinject`. A handoff cut off at the model's limit is
    refused.
    """

    name: ClassVar[str] = "handoff"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 004 section 24.5"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("handoff", "handoff_resume")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        head, history = context[: request.head], context[request.head :]
        if not history:
            return Compaction(tuple(context), "noop", "nothing follows the head")
        prompt = render("handoff", transcript=transcript(history), instructions=request.instructions)
        output = whole(ask(request, [prompt], purpose="handoff"))
        left = (*head, written(render("handoff_resume", handoff=output.text.strip()), "handoff"))
        return Compaction(left, "applied", account(context, left, [output]))
