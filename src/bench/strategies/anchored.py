from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.prompts import render
from bench.strategies.summariser import account, ask, whole, written
from bench.strategies.transcript import transcript
from bench.turns import seams
from bench.types import Compaction, CompactionRequest, Message, ModelError

LEAST, MOST, SHARE = 2_000, 15_000, 0.25  # tokens kept: a share of what is usable, within these
HEADINGS = (
    "## Objective", "## Important details", "## Work state", "### Completed", "### Active", "### Blocked", "## Next move",
    "## Relevant files",
)  # fmt: skip


@dataclass(frozen=True)
class Anchored:
    """Anchored iterative summary: the newest messages stay, and one summary is brought up to date with what leaves.

    opencode's behaviour (specification B2, 31e22f6), of the family of Pi (B3) and Factory (B19). The previous summary is
    known by its fixed heading and is fed back to be updated with the newly dropped messages only. Kept are the newest
    turns within min(15,000, max(2,000, 25 % of the usable tokens)), and of the turn that does not fit whole what follows
    from the first message that fits: that is the longest end of the history within that many tokens. Results are cut to
    `result_characters` in what the model reads, the answer has at most `max_output` tokens, and its five sections
    (objective, important details, work state with completed, active and blocked, next move, relevant files) are all
    mandatory: one that is missing, out of order or empty is refused.

    Different here: a cut is what triggers, not a full window, so usable is the target of the whole context and not the
    window less 20,000; `keep_tokens` gives the number itself (0 for the rule). Tokens are counted by the run's own counter.
    A call is never parted from its results. When everything fits nothing is done; opencode would summarise all of it. The
    history is sent as one text (opencode's prepend form), and a heading that is not asked for is no fault. Pi's second
    summary of a split turn is left out, and so is its defect: what a first compaction kept is summarised by the second.
    """

    keep_tokens: int = 0
    result_characters: int = 2_000
    max_output: int = 4_096
    name: ClassVar[str] = "anchored"
    version: ClassVar[str] = "1"
    source: ClassVar[str] = "opencode 31e22f6, with Pi and Factory"
    needs_model: ClassVar[bool] = True
    prompts: ClassVar[tuple[str, ...]] = ("anchored", "anchored_prefix")

    def __post_init__(self) -> None:
        if self.keep_tokens < 0 or self.result_characters < 0 or self.max_output < 1:
            raise ValueError("keep_tokens and result_characters are 0 or more, max_output is 1 or more")

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        head, heading = context[: request.head], f"{render('anchored_prefix')}\n\n"
        history, previous = [], ""
        for message in context[request.head :]:
            if message.role == "user" and message.text.startswith(heading):
                previous = message.text.removeprefix(heading)
            else:
                history.append(message)
        budget = self.keep_tokens or kept_tokens(request.target_tokens)
        start = tail_start(history, [request.count([message]) for message in history], budget)
        if start == 0:
            return Compaction(tuple(context), "noop", f"nothing is older than the newest {budget} tokens, which are kept")
        prompt = render(
            "anchored",
            transcript=self._shortened(history[:start]),
            previous=previous,
            instructions=request.instructions,
        )
        output = whole(ask(request, [prompt], purpose="summary", max_tokens=self.max_output))
        check(output.text)
        left = (*head, written(heading + output.text.strip()), *history[start:])
        return Compaction(left, "applied", account(context, left, [output]), details={"updated": bool(previous)})

    def _shortened(self, dropped: Sequence[Message]) -> str:
        longer = {n: m.text for n, m in enumerate(dropped) if m.role == "tool" and len(m.text) > self.result_characters}
        cut = {n: f"{text[: self.result_characters]}\n[cut: {len(text)} characters in all]" for n, text in longer.items()}
        return transcript(dropped, outputs=cut)


def kept_tokens(usable: int) -> int:
    """opencode's rule."""
    return min(MOST, max(LEAST, int(SHARE * usable)))


def tail_start(history: Sequence[Message], sizes: Sequence[int], budget: int) -> int:
    """Where the longest end of the history within `budget` tokens begins that parts no call from its results."""
    start, tokens = len(history), 0
    while start and tokens + sizes[start - 1] <= budget:
        start -= 1
        tokens += sizes[start]
    return next(seam for seam in seams(history) if seam >= start)


def check(summary: str) -> None:
    """ModelError unless every section is there, in order, with text in it."""
    lines, starts = [line.strip().casefold() for line in summary.splitlines()], [-1]
    for heading in HEADINGS:
        if heading.casefold() not in lines[starts[-1] + 1 :]:
            raise ModelError("answer", f"the summary has no section {heading.lstrip('# ')!r} in its place")
        starts.append(lines.index(heading.casefold(), starts[-1] + 1))
    for heading, start, end in zip(HEADINGS, starts[1:], [*starts[2:], len(lines)]):
        if not any(lines[start + 1 : end]) and heading != "## Work state":
            raise ModelError("answer", f"section {heading.lstrip('# ')!r} of the summary is empty")
