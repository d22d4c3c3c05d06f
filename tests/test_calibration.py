"""Needles planted in real sessions: what must come out is known before (measurement specification, section 2.3)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.measures.survival import Remains, remainder
from bench.strategies import make
from bench.tokens import counter
from bench.types import Compaction, CompactionRequest, Cut, Probe


def planted(cut: Cut, number: int, rng: random.Random) -> tuple[Cut, list[tuple[int, Probe]]]:
    """The cut with needles in messages of its span, each `(message index, probe)`; a message can get several."""
    messages, needles = list(cut.session.messages), []
    places = [n for n in range(cut.head_end, cut.tail_start) if messages[n].role in ("tool", "user")]
    for _ in range(number):
        index = rng.choice(places)
        needle = f"NEEDLE-id-{rng.getrandbits(40):010x}"
        messages[index] = replace(messages[index], text=f"{messages[index].text}\nstored object {needle} in cache")
        probe = Probe(f"{cut.id}/{len(needles)}", "facts", "?", "identifier", (needle,), (messages[index].id,), (needle,))
        needles.append((index, probe))
    return replace(cut, session=replace(cut.session, messages=tuple(messages))), needles


def apply(strategy, cut: Cut) -> Compaction:
    tokens = counter()
    request = CompactionRequest(
        len(cut.head), len(cut.tail), tokens.messages(cut.context) // 2, tokens.messages, random.Random(0)
    )
    return strategy.compact(cut.context, request)


def survival(compaction: Compaction, cut: Cut, probe: Probe) -> bool:
    return bool(Remains(remainder(compaction.messages, cut)).survives(probe))


@pytest.fixture(scope="module")
def sample(cuts):
    rng = random.Random(20260105)
    return [planted(cut, 30, rng) for cut in cuts[::8]]


@pytest.mark.parametrize(("name", "expected"), [("none", True), ("reset", False)])
def test_identity_keeps_every_needle_and_reset_none(sample, name, expected):
    for cut, needles in sample:
        remains = Remains(remainder(apply(make(name, {}), cut).messages, cut))
        assert {remains.survives(probe) for _, probe in needles} == {expected}


def test_oldest_keeps_exactly_the_needles_of_the_messages_it_keeps(sample):
    for cut, needles in sample:
        compaction = apply(make("oldest", {}), cut)
        kept = {message.id for message in compaction.messages}
        remains = Remains(remainder(compaction.messages, cut))
        assert compaction.outcome == "applied"
        assert [remains.survives(p) for _, p in needles] == [p.evidence[0] in kept for _, p in needles]


def test_keep_last_n_is_exact(sample):
    class KeepLast:
        def compact(self, context, request):
            return Compaction((*context[: request.head], *context[len(context) - request.tail - 20 :]))

    for cut, needles in sample:
        remains = Remains(remainder(apply(KeepLast(), cut).messages, cut))
        assert [remains.survives(p) for _, p in needles] == [index >= cut.tail_start - 20 for index, p in needles]


def test_truncating_results_is_exact(sample):
    class Truncate:
        def compact(self, context, request):
            return Compaction(tuple(replace(m, text=m.text[:300]) if m.role == "tool" else m for m in context))

    for cut, needles in sample:
        remains = Remains(remainder(apply(Truncate(), cut).messages, cut))
        for index, probe in needles:
            message = cut.session.messages[index]
            end = message.text.index(probe.gold[0]) + len(probe.gold[0])
            assert remains.survives(probe) == (message.role == "user" or end <= 300)


def test_masking_results_keeps_needles_of_users_only(sample):
    class Mask:
        def compact(self, context, request):
            return Compaction(tuple(replace(m, text="masked") if m.role == "tool" else m for m in context))

    for cut, needles in sample:
        remains = Remains(remainder(apply(Mask(), cut).messages, cut))
        assert [remains.survives(p) for _, p in needles] == [cut.session.messages[i].role == "user" for i, _ in needles]


@pytest.mark.parametrize(("p", "m"), [(0.2, 1), (0.5, 1), (0.8, 1), (0.5, 2), (0.8, 3)])
def test_dropping_messages_at_random_gives_one_minus_p_to_the_m(cuts, p, m):
    """Each message dropped with probability p, each needle in m messages: survival 1 - p^m within 3.3 standard errors."""
    rng = random.Random(f"{p}:{m}")
    kept, n = 0, 0
    while n < 2000:
        cut = rng.choice(cuts)
        messages = list(cut.session.messages)
        needle = f"NEEDLE-id-{rng.getrandbits(40):010x}"
        for index in rng.sample(range(cut.head_end, cut.tail_start), m):
            messages[index] = replace(messages[index], text=f"{messages[index].text} {needle}")
        span = [message for message in messages[cut.head_end : cut.tail_start] if needle in message.text and rng.random() >= p]
        probe = Probe("x", "facts", "?", "identifier", (needle,), (), (needle,))
        kept += bool(Remains(span).survives(probe))
        n += 1
    expected = 1 - p**m
    assert abs(kept / n - expected) <= 3.3 * (expected * (1 - expected) / n) ** 0.5
