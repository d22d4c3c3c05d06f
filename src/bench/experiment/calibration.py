"""Needles planted in real sessions: what must survive is known before (measurement specification, section 2.3).

The harness tests itself here: identity keeps everything, a reset nothing, and every rule in between exactly what it says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.measures.survival import Remains, remainder
from bench.strategies import make
from bench.tokens import TokenCounter
from bench.types import Agent, Compaction, CompactionRequest, Cut, Message, Probe, Question

NEEDLES = 30  # in each cut
DRAWS = 2_000  # of a law with chance in it
WIDTH = 3.3  # standard errors that such a law may be off
NAMED = "oldest", "middle", "hybrid", "trim_tools", "prune", "mask_observations", "clear_tool_uses", "cline_truncate"


@dataclass(frozen=True, slots=True)
class Check:
    """`observed` must be `expected` within `allowed`, over `n` needles."""

    name: str
    expected: float
    observed: float
    n: int
    allowed: float = 0.0

    @property
    def passed(self) -> bool:
        return abs(self.observed - self.expected) <= self.allowed


@dataclass(frozen=True, slots=True)
class Needle:
    """A value that stands once in its session, in message `index`; its end is `end` characters into the text."""

    index: int
    end: int
    probe: Probe


def planted(cut: Cut, number: int, rng: random.Random) -> tuple[Cut, list[Needle]]:
    """The cut with needles in results and user messages of its span, each on a line of its own."""
    messages, needles = list(cut.session.messages), []
    places = [n for n in range(cut.head_end, cut.tail_start) if messages[n].role in ("tool", "user")]
    for _ in range(number):
        index = rng.choice(places)
        value = f"NEEDLE-id-{rng.getrandbits(40):010x}"
        text = f"{messages[index].text}\nstored object {value}"
        messages[index] = replace(messages[index], text=f"{text} in cache")
        probe = Probe(f"{cut.id}/{len(needles)}", "facts", "?", "identifier", (value,), (messages[index].id,), (value,))
        needles.append(Needle(index, len(text), probe))
    return replace(cut, session=replace(cut.session, messages=tuple(messages))), needles


def calibrate(cuts: Sequence[Cut], tokens: TokenCounter, lookup: Agent, blind: Agent, seed: int = 0) -> list[Check]:
    """Every law with a known answer, over `cuts`. `lookup` answers what stands in its context, `blind` never answers."""
    rng = random.Random(f"{seed}:calibration")
    sample = [planted(cut, NEEDLES, rng) for cut in cuts]
    checks = []
    for name, law in _LAWS.items():
        expected = [law(needle, cut) for cut, needles in sample for needle in needles]
        observed = [found for cut, needles in sample for found in _survivals(_PLAIN[name](cut), cut, needles)]
        checks.append(_exact(name, expected, observed))
    for name in NAMED:
        expected, observed = [], []
        for cut, needles in sample:
            made = _applied(name, cut, tokens)
            texts = {message.id: message.text for message in made.messages}
            expected += [needle.probe.gold[0] in texts.get(cut.session.messages[needle.index].id, "") for needle in needles]
            observed += _survivals(made, cut, needles)
        checks.append(_exact(f"{name}: a needle is there exactly when its own message still holds it", expected, observed))
    checks += [_chance(cuts, p, m, rng) for p, m in ((0.2, 1), (0.5, 1), (0.8, 1), (0.5, 2), (0.8, 3))]
    for name, agent, context, share in (
        ("lookup agent, full context", lookup, lambda cut: cut.context, 1.0),
        ("lookup agent, head and tail only", lookup, lambda cut: (*cut.head, *cut.tail), 0.0),
        ("blind agent, full context", blind, lambda cut: cut.context, 0.0),
    ):
        right = [found for cut, needles in sample for found in _answered(agent, context(cut), needles)]
        checks.append(Check(f"recall of the {name}", share, sum(right) / len(right), len(right)))
    return checks


def _keep_last(cut: Cut) -> Compaction:
    return Compaction((*cut.head, *cut.context[max(len(cut.head), cut.tail_start - 20) :]))


def _truncate(cut: Cut) -> Compaction:
    return Compaction(tuple(replace(m, text=m.text[:300]) if m.role == "tool" else m for m in cut.context))


def _mask(cut: Cut) -> Compaction:
    return Compaction(tuple(replace(m, text="masked") if m.role == "tool" else m for m in cut.context))


_PLAIN: dict[str, Callable[[Cut], Compaction]] = {
    "identity keeps every needle": lambda cut: Compaction(cut.context, "noop"),
    "reset keeps none": lambda cut: Compaction((*cut.head, *cut.tail)),
    "keeping the last 20 messages of the span keeps those in them": _keep_last,
    "cutting results to 300 characters keeps those that end before": _truncate,
    "masking all results keeps those of users": _mask,
}
_LAWS: dict[str, Callable[[Needle, Cut], bool]] = {
    "identity keeps every needle": lambda needle, cut: True,
    "reset keeps none": lambda needle, cut: False,
    "keeping the last 20 messages of the span keeps those in them": lambda needle, cut: needle.index >= cut.tail_start - 20,
    "cutting results to 300 characters keeps those that end before": lambda needle, cut: (
        cut.session.messages[needle.index].role == "user" or needle.end <= 300
    ),
    "masking all results keeps those of users": lambda needle, cut: cut.session.messages[needle.index].role == "user",
}


def _applied(name: str, cut: Cut, tokens: TokenCounter) -> Compaction:
    target = tokens.messages(cut.context) // 2
    return make(name, {}).compact(
        cut.context, CompactionRequest(len(cut.head), len(cut.tail), target, tokens.messages, random.Random(0))
    )


def _survivals(made: Compaction, cut: Cut, needles: Sequence[Needle]) -> list[bool]:
    remains = Remains(remainder(made.messages, cut))
    return [bool(remains.survives(needle.probe)) for needle in needles]


def _exact(name: str, expected: Sequence[bool], observed: Sequence[bool]) -> Check:
    """Needle by needle: a law that is right on average and wrong on each does not pass."""
    right = sum(a == b for a, b in zip(expected, observed, strict=True))
    return Check(f"{name} (share of needles as predicted)", 1.0, right / len(expected), len(expected))


def _chance(cuts: Sequence[Cut], p: float, m: int, rng: random.Random) -> Check:
    """Each message dropped with probability p, each needle in m messages: 1 - p^m of the needles survive."""
    kept = 0
    for _ in range(DRAWS):
        cut = rng.choice(cuts)
        messages: list[Message] = list(cut.span)
        value = f"NEEDLE-id-{rng.getrandbits(40):010x}"
        for index in rng.sample(range(len(messages)), min(m, len(messages))):
            messages[index] = replace(messages[index], text=f"{messages[index].text} {value}")
        left = [message for message in messages if value in message.text and rng.random() >= p]
        kept += bool(Remains(left).survives(Probe("x", "facts", "?", "identifier", (value,), (), (value,))))
    expected = 1 - p**m
    allowed = WIDTH * (expected * (1 - expected) / DRAWS) ** 0.5
    return Check(f"messages dropped with probability {p}, needle in {m}", expected, kept / DRAWS, DRAWS, allowed)


def _answered(agent: Agent, context: Sequence[Message], needles: Sequence[Needle]) -> list[bool]:
    if hasattr(agent, "open_book"):
        agent.open_book({needle.probe.id: needle.probe for needle in needles})
    return [
        needle.probe.gold[0] in agent.answer(context, Question(needle.probe.id, "?", "identifier")).values for needle in needles
    ]
