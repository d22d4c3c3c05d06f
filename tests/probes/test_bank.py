"""The frozen bank over the bundled sessions: soundness checked again with plain means, counts, determinism, placebo."""

from __future__ import annotations

import gzip
import re
from collections import Counter

import pytest

from bench.content import joined
from bench.probes import bank as banks
from bench.probes.soundness import PREDICATES
from bench.registry import PROBES
from bench.tokens import counter

CATEGORIES = PROBES.names()


@pytest.fixture(scope="module")
def bank(cuts):
    return banks.build(cuts, [], counter(), CATEGORIES, seed=0)


def test_the_same_bytes_twice_and_others_with_another_seed(cuts, bank):
    some = [cut for cut in cuts if cut.session.id in ("bug_hunt-1", "deployment-1")]
    first, again = (banks.build(some, [], counter(), CATEGORIES, seed=0) for _ in range(2))
    assert first.frozen == again.frozen
    assert banks.build(some, [], counter(), CATEGORIES, seed=1).frozen != first.frozen


def test_the_frozen_form_reads_back(bank):
    read = banks.read(gzip.compress(bank.frozen))
    assert (read.probes, {k: v for k, v in read.placebos.items() if v}) == (
        bank.probes,
        {k: v for k, v in bank.placebos.items() if v},
    )
    assert read.sha256 == bank.sha256


def test_the_funnel_adds_up(bank):
    for name, counts in bank.funnel.items():
        assert counts["candidates"] == counts["sound"] + sum(counts[p] for p in PREDICATES), name
        assert counts["kept"] == sum(probe.category == name for probes in bank.probes.values() for probe in probes)


def test_twenty_to_forty_probes_at_nearly_every_cut(bank):
    sizes = [len(probes) for probes in bank.probes.values()]
    assert max(sizes) <= 40
    assert sum(size >= 20 for size in sizes) >= 0.9 * len(sizes)


def test_depth_fifths_are_equal_or_said_to_be_not(bank):
    for cut, probes in bank.probes.items():
        for name in ("facts", "file_state", "work_done"):
            depths = Counter(min(4, int(p.depth * 5)) for p in probes if p.category == name)
            equal = len({depths[n] for n in range(5)}) == 1
            assert equal or cut in bank.unequal[name], (cut, name, depths)


def test_no_event_and_no_type_dominates(bank):
    for probes in bank.probes.values():
        facts = [p for p in probes if p.category == "facts"]
        assert max(Counter(p.evidence[-1] for p in facts).values(), default=0) <= 3
        assert max(Counter(p.answer_type for p in facts).values(), default=0) <= 8


def test_the_gold_of_a_fact_stands_in_the_span_and_nowhere_else(cuts, bank):
    """P1, P2 and P6 again, by plain search."""
    for cut in cuts:
        span, kept = joined(cut.span), joined([*cut.head, *cut.tail])
        for probe in bank.probes[cut.id]:
            if probe.category == "facts":
                value = probe.gold[0]
                whole = re.compile(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)")
                assert value in span
                assert not whole.search(kept), (cut.id, probe)
                assert value not in probe.question


def test_evidence_holds_the_gold(cuts, bank):
    for cut in cuts:
        messages = {m.id: m for m in cut.session.messages}
        for probe in bank.probes[cut.id]:
            if probe.category in ("facts", "artifacts"):
                text = joined(messages[name] for name in probe.evidence)
                assert all(gold.rsplit("/", 1)[-1] in text for gold in probe.gold), probe


def test_named_words_are_in_no_dictionary_and_not_outside_the_span(cuts, bank):
    from bench.probes.name_a_word import common_words

    for cut in cuts:
        kept = set(re.findall(r"\w+", joined([*cut.head, *cut.tail]).lower()))
        for probe in bank.probes[cut.id]:
            if probe.category == "name_a_word":
                words = {gold[5:] for gold in probe.gold if gold.startswith("word:")}
                assert words
                assert not words & common_words()
                assert not words & kept
                assert not any(word in probe.question.lower().split() for word in words)


def test_work_done_asks_for_what_was_done_and_what_was_not(bank):
    golds = Counter(p.gold[0] for probes in bank.probes.values() for p in probes if p.category == "work_done")
    assert min(golds["yes"], golds["no"]) >= 0.35 * sum(golds.values())


def test_placebos_are_ten_of_another_family_and_hardly_ever_found(cuts, bank):
    """That a placebo can be found is shown in test_soundness."""
    from bench.measures.survival import Remains

    facts = {probe.gold: cut.session.project for cut in cuts for probe in bank.probes[cut.id] if probe.category == "facts"}
    assert all(facts.get(p.gold) != cut.session.project for cut in cuts for p in bank.placebos[cut.id])
    found = [Remains(cut.span).survives(probe) for cut in cuts for probe in bank.placebos[cut.id]]
    assert len(found) == 10 * len(cuts)
    assert sum(found) / len(found) <= 0.01


def test_no_gold_token_stands_in_a_fact_question(bank):
    for probe in (p for probes in bank.probes.values() for p in probes if p.category == "facts"):
        tokens = {token for token in re.findall(r"[a-z0-9_]+", probe.gold[0].lower()) if len(token) >= 3}
        assert not tokens & set(re.findall(r"[a-z0-9_]+", probe.question.lower())), probe


def test_named_words_and_files_are_of_no_other_family(bundled, cuts, bank):
    texts = {session.project: joined(session.messages).lower() for session in bundled}
    for cut in cuts[::5]:
        others = "\n".join(text for project, text in texts.items() if project != cut.session.project)
        words = set(re.findall(r"[a-z0-9_]+", others))
        for probe in bank.probes[cut.id]:
            if probe.category == "name_a_word":
                assert not {gold[5:] for gold in probe.gold if gold.startswith("word:")} & words


def test_a_set_of_files_is_shown_by_nothing_kept(cuts, bank):
    for cut in cuts:
        kept = joined([*cut.head, *cut.tail])
        for probe in bank.probes[cut.id]:
            if probe.category == "artifacts":
                names = [re.escape(path.rsplit("/", 1)[-1]) for path in probe.gold]
                assert not re.search(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", kept), (cut.id, probe.gold)
