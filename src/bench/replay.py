"""Where compaction happens in a session: cuts, and the head, span and tail that each makes of what came before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.tokens import TokenCounter
from bench.tools import INSTRUCTIONS
from bench.turns import turns
from bench.types import Cut, Message, RecordedCompaction, Session


@dataclass(frozen=True)
class Cuts:
    """Cuts at `number` quantiles of a session's tokens between `first` and `last`; the newest `tail` turns are kept.

    The quantiles lie evenly. Each cut stands before an assistant message, never between a call and its result, at the
    free place nearest to its quantile; the tail is moved back until it begins with an assistant message.
    """

    number: int = 5
    first: float = 0.35
    last: float = 0.90
    tail: int = 6

    def of(self, session: Session, counter: TokenCounter) -> tuple[list[Cut], str]:
        """The cuts in order, and a sentence when there are fewer than asked for."""
        messages = session.messages
        head_end = head_length(messages)
        total = counter.messages(messages)
        places: list[tuple[float, int, int]] = []
        open_until = _open_until(messages)
        for at, share in _places(messages, counter, total, open_until):
            if self.first <= share <= self.last:
                tail_start = tail_index(messages[:at], head_end, self.tail, open_until)
                if tail_start > head_end:
                    places.append((share, at, tail_start))
        chosen: dict[int, tuple[float, int, int]] = {}
        step = (self.last - self.first) / (self.number - 1) if self.number > 1 else 0.0
        for quantile in (self.first + step * n for n in range(self.number)):
            free = [place for place in places if place[1] not in chosen]
            if free:
                place = min(free, key=lambda p: (abs(p[0] - quantile), p[1]))
                chosen[place[1]] = place
        cuts = [
            Cut(session, number, at, head_end, tail_start)
            for number, (_, at, tail_start) in enumerate(sorted(chosen.values(), key=lambda p: p[1]), 1)
        ]
        if len(cuts) == self.number:
            return cuts, ""
        what = f"{len(cuts)} of {self.number} cuts" if cuts else "no cut"
        return (
            cuts,
            f"{session.id}: {what} ({len(messages)} messages): too few places before an assistant message with something to"
            " compact",
        )


@dataclass(frozen=True)
class Recorded:
    """Cuts where the recorded product itself compacted; the newest `tail` turns are kept, as at other cuts.

    From its second compaction on, a product compacts what its last one left and what came since. Such a cut is one of an
    episode: a session of its own that begins with what was left. Alternative compactions of one place are cuts of the
    same context.
    """

    tail: int = 6

    def of(self, session: Session, counter: TokenCounter) -> tuple[list[Cut], str]:
        """The cuts in order, numbered as the compactions are, and a sentence about those that give none."""
        if not session.compactions:
            return [], f"{session.id}: no cut: no compaction is recorded in it"
        cuts: list[Cut] = []
        unusable: list[str] = []
        for number, compaction in enumerate(session.compactions, 1):
            episode = _episode(session, number)
            if compaction.left is None:
                unusable.append(f"{number} (what it left is not recorded)")
            elif episode is None:
                unusable.append(f"{number} (what the one before it left is not recorded)")
            elif cut := self._cut(episode, number):
                cuts.append(cut)
            else:
                unusable.append(f"{number} (nothing before it but what is kept)")
        total = len(session.compactions)
        sentence = f"{session.id}: {len(cuts)} of {total} recorded compactions are cuts; not {', '.join(unusable)}"
        return cuts, sentence if unusable else ""

    def _cut(self, episode: Session, number: int) -> Cut | None:
        recorded = episode.compactions[0]
        context, head_end = episode.messages[: recorded.before], head_length(episode.messages)
        tail_start = (
            tail_index(context, head_end, self.tail, _open_until(episode.messages)) if head_end < len(context) else head_end
        )
        return Cut(episode, number, recorded.before, head_end, tail_start, recorded) if tail_start > head_end else None


def _episode(session: Session, number: int) -> Session | None:
    """The session as the product saw it when it made compaction `number`, that one first in it.

    None when what the last compaction at an earlier place left is not known.
    """
    compaction = session.compactions[number - 1]
    earlier = [other for other in session.compactions[: number - 1] if other.before < compaction.before]
    if not earlier:
        return replace(session, compactions=session.compactions[number - 1 :])
    last = earlier[-1]
    if last.left is None:
        return None
    shift = len(last.left) - last.before

    def moved(other: RecordedCompaction) -> RecordedCompaction:
        return replace(other, before=other.before + shift)

    return replace(
        session,
        id=f"{session.id}@{number}",
        messages=(*last.left, *session.messages[last.before :]),
        project=session.cluster,
        compactions=tuple(map(moved, session.compactions[number - 1 :])),
    )


def head_length(messages: Sequence[Message]) -> int:
    """Number of pinned messages: system messages at the start, and a root instruction file shown as a user message."""
    end = 0
    while end < len(messages) and messages[end].role == "system":
        end += 1
    if end + 1 < len(messages) and messages[end].role == "user" and INSTRUCTIONS.match(messages[end].text):
        end += 1
    return end


def tail_index(context: Sequence[Message], head_end: int, tail: int, open_until: Sequence[int]) -> int:
    """Where the tail starts: at the newest `tail` turns, moved back to an assistant message with no call open across it."""
    after_head = turns(context[head_end:])
    number = max(0, len(after_head) - tail)
    while number and not _may_part(context, head_end + after_head[number].start, open_until):
        number -= 1
    return head_end + after_head[number].start if after_head else head_end


def _places(messages: Sequence[Message], counter: TokenCounter, total: int, open_until: Sequence[int]) -> list[tuple[int, float]]:
    """(index, share of all tokens before it) of every place before an assistant message with no call open across it."""
    places, tokens = [], 0
    for index, message in enumerate(messages):
        if _may_part(messages, index, open_until):
            places.append((index, tokens / total))
        tokens += counter.message(message)
    return places


def _open_until(messages: Sequence[Message]) -> list[int]:
    """For every index the newest result of any call before it, -1 when there is none."""
    last_result = {m.call_id: index for index, m in enumerate(messages) if m.role == "tool"}
    newest = [-1]
    for message in messages:
        newest.append(max([newest[-1], *(last_result.get(call.id, -1) for call in message.calls)]))
    return newest


def _may_part(messages: Sequence[Message], index: int, open_until: Sequence[int]) -> bool:
    return index > 0 and messages[index].role == "assistant" and open_until[index] < index
