"""Each predicate: a session in which the one candidate fails exactly that one, and the smallest change that lets it pass."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.measures.survival import Remains
from bench.probes import bank as banks
from bench.probes.soundness import PREDICATES, first_failure, leaks, unguessable
from bench.probes.view import Candidate, CutView, SessionView
from bench.tokens import counter
from bench.types import Cut, Probe
from making import assistant, call, result, session, system, user

ID = "8f3a21c9d0e1"


def cut_of(shown: str, tail: str = "All is fine so far.", head: str = "You are an agent.", command="make stats", **fields) -> Cut:
    """One command with its output as the span, between a system message and one kept message."""
    made = session(
        system(head), assistant("", call("1", command=command)), result("1", shown), assistant(tail), id=fields.pop("id", "made"),
        project=fields.pop("project", "own"),
    )  # fmt: skip
    return Cut(made, 1, 4, 1, 3)


def funnel(cut: Cut, category: str = "facts", others=()) -> dict[str, int]:
    counts = banks.build([cut], list(others), counter(), [category], seed=0).funnel[category]
    return {name: number for name, number in counts.items() if number and name != "kept"}


def other(text: str):
    return session(user(text), id="other", project="other")


SOUND = {"candidates": 1, "sound": 1}


@pytest.mark.parametrize(
    ("predicate", "bad", "good"),
    [
        ("P2", {"tail": f"The build id is {ID}."}, {"tail": "The build id is 8f3a21."}),
        ("P2", {"tail": f"The build id is {ID[:7]}."}, {"tail": "The build id is 9f3a21c."}),
        ("P2", {"head": f"Start at {ID}."}, {"head": f"Start at {ID[::-1]}."}),
        ("P2", {"command": f"make {ID}"}, {"command": "make stats"}),
    ],
)
def test_p2_the_value_stands_in_the_span_only(predicate, bad, good):
    assert funnel(cut_of(f"build id: {ID}", **bad))[predicate] >= 1
    assert funnel(cut_of(f"build id: {ID}", **bad)).get("sound", 0) == 0
    assert funnel(cut_of(f"build id: {ID}", **good)) == SOUND


@pytest.mark.parametrize(
    ("predicate", "bad", "good"),
    [
        ("P3", f"build id: {ID}\nbuild id: 77aa21c9d0e1", f"build id: {ID}\nbuild id: {ID}"),
        ("P4", "objects stored: 4821", "objects stored: 4821937"),  # too few bits and no others of its type
        ("P6", "alpha queue: REQ-5af875-alpha", "alpha queue: REQ-5af875-beta"),
        ("P8", f"======== build id: {ID}", f"=== build id: {ID}"),
    ],
)
def test_one_predicate_fails_and_the_smallest_change_mends_it(predicate, bad, good):
    assert funnel(cut_of(bad)) == {"candidates": 1, predicate: 1}
    assert funnel(cut_of(good)) == SOUND


def test_p4_a_value_of_another_project_can_be_guessed():
    assert funnel(cut_of(f"build id: {ID}"), others=[other(f"see {ID}")]) == {"candidates": 1, "P4": 1}
    assert funnel(cut_of(f"build id: {ID}"), others=[other(f"see {ID}0")]) == SOUND
    same_project = session(user(f"see {ID}"), id="twin", project="own")
    assert funnel(cut_of(f"build id: {ID}"), others=[same_project]) == SOUND


@pytest.mark.parametrize(
    ("value", "alternatives", "sound"),
    [
        ("4821", 7, False),
        ("4821", 8, True),
        ("482", 99, False),  # fewer than four digits
        ("4821937", 0, True),
        ("importlib.metadata", 99, False),  # a module that everybody has
        ("holdfast.metadata", 0, True),
    ],
)
def test_p4_size(value, alternatives, sound):
    assert unguessable(value, alternatives) is sound


def test_p7_a_description_that_fits_two_messages_is_no_question():
    def asked(first: str, second: str) -> Cut:
        messages = [system("s"), user(first), assistant("One."), user(second), assistant("Two."), assistant("Kept.")]
        return Cut(session(*messages), 1, 6, 1, 5)

    words = "Please look at the cache first."
    assert funnel(asked(words, words), "user_messages") == {"candidates": 2, "P7": 2}
    assert funnel(asked(words, f"{words} Again."), "user_messages") == {"candidates": 2, "sound": 2}


def test_p1_and_p7_on_a_candidate_made_by_hand():
    """No maker proposes what is not in the span, so these two get candidates of their own."""
    cut = cut_of(f"build id: {ID}")
    view = CutView(SessionView(cut.session, counter()), cut)
    probe = Probe("", "facts", "Which hash?", "hash", (ID,), ("m2",), (ID,))

    def failure(secret: str, matches: tuple[str, ...]) -> str | None:
        return first_failure(Candidate(probe, ((secret, "hash"),), 1, matches), view, (), Counter())

    assert failure(ID, ("m2",)) is None
    assert failure(ID[:-1] + "2", ("m2",)) == "P1"
    assert failure(ID, ("m2", "m3")) == "P7"
    assert failure(ID, ()) == "P7"


def test_an_exempt_predicate_is_not_asked():
    cut = cut_of("objects stored: 4821")
    view = CutView(SessionView(cut.session, counter()), cut)
    candidate = Candidate(Probe("", "x", "?", "number", ("4821",), ("m2",)), (("4821", "number"),), 2, ("m2",))
    assert first_failure(candidate, view, {"P3"}, Counter()) == "P4"
    assert first_failure(candidate, view, {"P3", "P4"}, Counter()) is None
    assert first_failure(candidate, view, set(PREDICATES), Counter()) is None


@pytest.mark.parametrize(("question", "leak"), [("the REQ one", True), ("the re one", False), ("x-5af875?", True)])
def test_p6_any_token_of_three_characters(question, leak):
    assert leaks([("REQ-5af875-re", "identifier")], question) is leak


def test_a_placebo_can_fail():
    """A value of the donor that the session under test holds is asked there all the same, and is found."""
    line = f"build id: {ID}"
    under_test = cut_of("a log: nothing to see", tail="Kept.", id="test", project="test")
    donor = cut_of(line, id="donor", project="donor")
    third = session(user(f"also {ID}"), id="third", project="third")

    def placebos(cut: Cut, others=()):
        return banks.build([cut, donor], list(others), counter(), ["facts"], seed=0).placebos[cut.id]

    clean = placebos(under_test)
    assert [p.gold for p in clean] == [(ID,)]
    assert not Remains(under_test.span).survives(clean[0])
    holds_it = cut_of(f"{line} (of the donor)", id="test", project="test")
    dirty = placebos(holds_it)
    assert [p.gold for p in dirty] == [(ID,)]
    assert Remains(holds_it.span).survives(dirty[0])
    assert placebos(holds_it, [third]) == ()  # what any other project holds is no placebo


def test_placebos_never_come_from_the_own_cluster():
    one, two = cut_of(f"build id: {ID}", id="one"), cut_of("build id: 77aa21c9d0e1", id="two")
    assert banks.build([one, two], [], counter(), ["facts"], seed=0).placebos == {"one#1": (), "two#1": ()}


def test_a_bank_is_the_same_bytes_twice_and_another_with_another_seed():
    shown = "\n".join(f"counter number {word}: {913_457 * n}" for n, word in enumerate(map(chr, range(97, 123)), 3))
    shown = "\n".join(f"{line.replace('number', 'named ' + line[15] * 4)}" for line in shown.split("\n"))
    cut = cut_of(shown)
    frozen = {seed: banks.build([cut], [], counter(), ["facts"], seed).frozen for seed in (0, 1)}
    assert banks.build([cut], [], counter(), ["facts"], 0).frozen == frozen[0]
    assert frozen[0] != frozen[1]
    assert len(banks.build([cut], [], counter(), ["facts"], 0).probes[cut.id]) == 3  # no more from one event
