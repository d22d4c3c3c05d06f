from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.prompts import render
from bench.strategies.summariser import account, ask, whole, written
from bench.strategies.transcript import transcript
from bench.types import Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Kode:
    """Kode's compaction: an opening statement of the user and a summary in eight directions replace all after the head.

    The eight directions and the opening statement that seed 000 section 1 gives are those of the agent Kode
    (shareAI-lab): the whole history and one request go to the model, and its answer stands as the assistant's. Nothing is
    kept word for word. That the statement promises more than a summary can hold is part of it.

    Different here: the history is sent as one text, and without the head, which stays. An answer cut off at the model's
    limit is refused. The files that Kode reads again after an automatic compaction are the wrapper `restore_files`.
    """

    name: ClassVar[str] = "kode"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 000 section 1; Kode's compact command"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("kode", "kode_opening")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        head, history = context[: request.head], context[request.head :]
        if not history:
            return Compaction(tuple(context), "noop", "nothing follows the head")
        prompt = render("kode", transcript=transcript(history), instructions=request.instructions)
        output = whole(ask(request, [prompt], purpose="summary"))
        summary = replace(written(output.text.strip()), role="assistant")
        left = (*head, written(render("kode_opening"), "opening"), summary)
        return Compaction(left, "applied", account(context, left, [output]))
