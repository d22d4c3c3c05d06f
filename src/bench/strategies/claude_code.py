from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from bench.prompts import render
from bench.strategies.restore import PROMPTS, VERSIONS, restored
from bench.strategies.summariser import account, ask, whole, written
from bench.strategies.transcript import transcript
from bench.types import Compaction, CompactionRequest, Message, ModelError, OutcomeName, Output

RETRIES = 3  # after a compaction request that was over the window
SHARE = 0.2  # of the rounds goes when nobody says how far over


@dataclass(frozen=True)
class ClaudeCode:
    """Claude Code's compaction: everything after the head becomes a summary in nine sections, then files are restored.

    The nine sections, the analysis block (taken out) and the rules of the prompt are those of seed 000 section 1 and of
    the prompt of 2.1.205; numbers are as reported by third parties, for 2.1.88 and later. `restore` is which version's
    budgets bring files back (`v1`: 1.0.33, `v2`: 2.1.88, or `none`), `max_output` the cap of the answer (16,384 in
    1.0.33). After `breaker` failures in a row nothing is tried any more.

    A compaction request over the window is sent again without its oldest API rounds, three times at most: as many as
    cover the gap that the error reports, else a fifth of them. A round begins at an assistant message; what stands before
    the first one is a round too. When an assistant message comes first then, a marker in the user's name precedes it.

    Different here: the history is sent as one text, and without the head, which stays. An answer without a summary block
    counts as a summary once its analysis is out; one that is cut off at its cap is refused. The breaker does not close
    again, because nothing is compacted by hand; a compaction with nothing to do neither trips nor closes it. Files and the
    todo list come back as the session knew them; the partial variants, skills, plan files and hook output are left out.
    """

    restore: str = "v2"
    max_output: int = 20_000
    breaker: int = 3
    name: ClassVar[str] = "claude_code"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "seed 000 section 1; Claude Code 2.1.205 (numbers as reported for 2.1.88)"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("claude_code", "claude_code_summary", "claude_code_marker", *PROMPTS)

    def __post_init__(self) -> None:
        if self.restore not in VERSIONS:
            raise ValueError(f"restore is one of {', '.join(VERSIONS)}")
        if self.max_output < 1 or self.breaker < 1:
            raise ValueError("max_output and breaker are 1 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        head, history = tuple(context[: request.head]), context[request.head :]
        if self._tripped(request.earlier):
            return Compaction(tuple(context), "noop", f"the breaker is open: {self.breaker} compactions failed in a row")
        if not history:
            return Compaction(tuple(context), "noop", "nothing follows the head")
        output, left_out = self._summarise(history, request)
        left = (*head, written(render("claude_code_summary", summary=without_analysis(output.text))))
        left = (*left, *restored(context, left, request, self.restore))
        return Compaction(left, "applied", account(context, left, [output]), details={"rounds_left_out": left_out})

    def _tripped(self, earlier: Sequence[OutcomeName]) -> bool:
        tried = [outcome for outcome in earlier if outcome != "noop"]
        return len(tried) >= self.breaker and set(tried[-self.breaker :]) == {"failed"}

    def _summarise(self, history: Sequence[Message], request: CompactionRequest) -> tuple[Output, int]:
        """The answer, and how many of the oldest rounds the model was not shown."""
        rounds, left_out, retries = api_rounds(history), 0, 0
        while True:
            shown = [message for messages in rounds[left_out:] for message in messages]
            if left_out and shown[0].role == "assistant":
                shown.insert(0, Message("user", render("claude_code_marker")))
            prompt = render("claude_code", transcript=transcript(shown), instructions=request.instructions)
            try:
                return whole(ask(request, [prompt], purpose="summary", max_tokens=self.max_output)), left_out
            except ModelError as error:
                if error.kind != "window" or retries == RETRIES or left_out == len(rounds) - 1:
                    raise
                left_out += surplus(rounds[left_out:], error.gap, request.count)
                retries += 1


def api_rounds(history: Sequence[Message]) -> list[list[Message]]:
    """An assistant message with what follows it up to the next one; what precedes the first is a round of its own."""
    rounds: list[list[Message]] = []
    for message in history:
        if message.role == "assistant" or not rounds:
            rounds.append([])
        rounds[-1].append(message)
    return rounds


def surplus(rounds: Sequence[Sequence[Message]], gap: int | None, count: Callable[[Sequence[Message]], int]) -> int:
    """How many of the oldest rounds go: what covers `gap` tokens, else a fifth; at least one, and one always stays."""
    number = max(1, int(SHARE * len(rounds)))
    if gap:
        covered = accumulate(count(messages) for messages in rounds)
        number = next((n for n, tokens in enumerate(covered, 1) if tokens >= gap), len(rounds))
    return min(number, len(rounds) - 1)


_ANALYSIS = re.compile(r"<analysis>(?:(?!</?analysis>).)*</analysis>", re.DOTALL | re.IGNORECASE)
_HALF = re.compile(r"\A.*</analysis>|<analysis>.*(?=<summary>.*</summary>)|<analysis>.*", re.DOTALL | re.IGNORECASE)
_SUMMARY = re.compile(r"<summary>(.*)</summary>|<summary>(.*)", re.DOTALL | re.IGNORECASE)


def without_analysis(answer: str) -> str:
    """The summary block of an answer, else what is left of it without its analysis; ModelError when that is nothing."""
    before = None
    while answer != before:  # blocks inside blocks go from the inside
        before, answer = answer, _ANALYSIS.sub("", answer)
    answer = _HALF.sub("", answer)
    block = _SUMMARY.search(answer)
    summary = ((block[1] or block[2] or "") if block else answer).strip()
    if not summary:
        raise ModelError("answer", "nothing is left of the answer without its analysis")
    return summary
