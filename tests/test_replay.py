from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.replay import Cuts, Recorded, head_length
from bench.tokens import counter
from bench.turns import turns
from bench.types import RecordedCompaction
from making import assistant, call, result, session, sessions, system, user, work

RULES = "# AGENTS.md (project instructions)\n\nUse tabs."


def cuts(made, **settings):
    return Cuts(**settings).of(made, counter())


def share(cut):
    return counter().messages(cut.context) / counter().messages(cut.session.messages)


def split_pairs(made, at):
    """Ids of calls before message `at` with a result in or after it."""
    before = {c.id for m in made.messages[:at] for c in m.calls}
    return before & {m.call_id for m in made.messages[at:] if m.role == "tool"}


def check(made, found, tail, first=0.35, last=0.90):
    messages = made.messages
    assert [cut.number for cut in found] == list(range(1, len(found) + 1))
    assert [cut.at for cut in found] == sorted({cut.at for cut in found})
    for cut in found:
        assert first <= share(cut) <= last
        assert messages[cut.at].role == "assistant"
        assert not split_pairs(made, cut.at)
        assert cut.head + cut.span + cut.tail + cut.future == messages
        assert cut.span
        assert cut.tail[0].role == "assistant"
        assert not split_pairs(replace(made, messages=cut.context), cut.tail_start)
        kept = turns(messages[cut.head_end : cut.at])[-tail:]
        assert cut.tail_start <= cut.head_end + kept[0].start


def test_five_cuts_at_even_shares_of_the_tokens():
    made = work(14)
    found, shortage = cuts(made)
    assert (len(found), shortage) == (5, "")
    check(made, found, tail=6)
    largest = max(counter().messages([m]) for m in made.messages)
    step = 3 * largest / counter().messages(made.messages)  # the longest way to a free place is one round of three parts
    assert [share(cut) for cut in found] == pytest.approx([0.35, 0.4875, 0.625, 0.7625, 0.90], abs=step)


def test_a_cut_stands_at_the_place_nearest_to_its_share():
    made = session(user("go"), *[assistant("x") for _ in range(99)])  # every message has the same 5 tokens
    assert [counter().message(m) for m in made.messages] == [5] * 100
    found, shortage = cuts(made)
    assert shortage == ""
    assert [cut.at for cut in found] == [35, 49, 62, 76, 90]  # 48.75 -> 49; 62.5 and 76.25 -> the earlier of two as near
    assert [cut.at for cut in cuts(made, number=1)[0]] == [35]
    assert [cut.at for cut in cuts(made, number=2, first=0.5, last=0.8)[0]] == [50, 80]


@pytest.mark.parametrize("tail", [1, 2, 6, 10])
def test_the_tail_is_the_newest_turns(tail):
    made = session(user("go"), *[assistant("x") for _ in range(99)])
    found, _ = cuts(made, tail=tail)
    assert [cut.at - cut.tail_start for cut in found] == [tail] * 5


def test_parallel_results_are_one_turn_of_the_tail():
    rounds = []
    for n in range(20):
        calls = [call(f"{n}-{i}", n=n) for i in range(3)]
        rounds += [assistant("", *calls), *(result(c.id, "same") for c in calls)]
    made = session(user("go"), *rounds)
    found, _ = cuts(made, tail=6)
    assert len(found) == 5
    check(made, found, tail=6)
    for cut in found:
        assert [m.role for m in cut.tail] == ["assistant", "tool", "tool", "tool"] * 3  # six turns


def test_a_tail_that_would_begin_with_a_user_message_or_a_result_begins_before_it():
    made = session(user("go"), *[m for n in range(30) for m in (assistant("", call(f"{n}")), result(f"{n}", "r"), user("u"))])
    for tail in (1, 2, 3):
        found, _ = cuts(made, tail=tail)
        assert [[m.role for m in cut.tail] for cut in found] == [["assistant", "tool", "user"]] * 5
    found, _ = cuts(made, tail=4)
    assert [[m.role for m in cut.tail] for cut in found] == [["assistant", "tool", "user"] * 2] * 5


def test_no_cut_between_a_call_and_a_late_result():
    late = [assistant("first", call("late")), *[assistant("x") for _ in range(60)], result("late", "at last")]
    made = session(user("go"), *[assistant("x") for _ in range(30)], *late, *[assistant("x") for _ in range(30)])
    found, _ = cuts(made)
    check(made, found, tail=6)
    inside = range(32, 93)
    assert not [cut.at for cut in found if cut.at in inside]
    assert not [cut.tail_start for cut in found if cut.tail_start in inside]


def test_the_tail_never_parts_a_late_result_from_its_call():
    made = session(
        user("go"),
        *[assistant("x") for _ in range(40)],
        assistant("asks", call("late")),
        *[assistant("x") for _ in range(4)],
        result("late", "r"),
        *[assistant("x") for _ in range(20)],
    )
    place = 46  # directly behind the result, so that six turns reach into the wait for it
    found, _ = cuts(made, number=1, first=place / len(made.messages) + 0.005, last=0.8)
    assert found[0].at == 47
    assert found[0].tail_start == 41
    check(made, found, tail=6, first=0)


def test_an_unanswered_call_bars_no_cut():
    made = session(user("go"), assistant("", call("open")), *[assistant("x") for _ in range(98)])
    found, shortage = cuts(made)
    assert (len(found), shortage) == (5, "")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], 0),
        ([user("go")], 0),
        ([system("s"), user("go"), assistant("a")], 1),
        ([system("s"), system("t"), user("go")], 2),
        ([system("s"), user(RULES), user("go")], 2),
        ([user(RULES), user("go")], 1),
        ([user("# CLAUDE.md\nx"), user("go")], 1),
        ([system("s"), user("go"), user(RULES)], 1),
        ([system("s"), user("Fix it.\nSee AGENTS.md"), user("go")], 1),
        ([assistant("a"), system("s")], 0),
        ([user(RULES)], 0),
    ],
)
def test_the_head_is_system_messages_and_the_instruction_file(messages, expected):
    assert head_length(session(*messages).messages) == expected


def test_the_head_of_a_cut_is_pinned():
    made = session(system("s"), user(RULES), user("go"), *[assistant("x") for _ in range(97)])
    found, _ = cuts(made)
    assert [[m.role for m in cut.head] for cut in found] == [["system", "user"]] * 5
    assert found[0].span[0].text == "go"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [user("go")],
        [assistant("a")],
        [user("go"), assistant("a")],
        [assistant("a"), assistant("b")],
        [user("a"), user("b")],
        [system("s"), user("u")],
        [result("x"), result("y")],
    ],
)
def test_a_session_too_short_to_cut_says_so(messages):
    made = session(*messages, id="short")
    found, shortage = cuts(made)
    assert found == []
    assert shortage.startswith(f"short: no cut ({len(messages)} messages)")


def test_fewer_cuts_than_asked_for_are_reported():
    made = session(user("go"), *[assistant("x") for _ in range(11)])
    found, shortage = cuts(made)
    assert 0 < len(found) < 5
    assert shortage.startswith(f"made: {len(found)} of 5 cuts (12 messages)")
    check(made, found, tail=6)


def test_one_huge_message_leaves_the_places_around_it():
    made = session(user("go"), *[assistant("x") for _ in range(20)], user("word " * 20000), *[assistant("x") for _ in range(20)])
    found, shortage = cuts(made)
    assert found == []
    assert "no cut" in shortage


def test_a_session_without_user_or_system_messages_is_cut():
    made = work(12, with_system=False, with_user=False)
    found, shortage = cuts(made)
    assert (len(found), shortage) == (5, "")
    check(made, found, tail=6)
    assert {cut.head_end for cut in found} == {0}


def test_the_same_session_is_cut_at_the_same_places():
    assert cuts(work(14)) == cuts(work(14))


@given(sessions(most_turns=25), st.integers(1, 6), st.integers(1, 7))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_random_sessions(made, number, tail):
    found, shortage = cuts(made, number=number, tail=tail)
    check(made, found, tail)
    assert len(found) <= number
    assert (shortage == "") == (len(found) == number)


def so_far(n):
    return user(f"so far {n}", id=f"summary-{n}")


def compacted(*places, rounds=14, tail=6, **fields):
    """A session of `work` that was compacted before the messages at `places`, each time to its summary."""
    made = replace(work(rounds), **fields)
    found = (RecordedCompaction(at, "auto", left=(made.messages[0], so_far(n))) for n, at in enumerate(places, 1))
    made = replace(made, compactions=tuple(found))
    return made, *Recorded(tail).of(made, counter())


def test_a_recorded_compaction_is_a_cut_wherever_it_stands():
    made, found, sentence = compacted(22)
    assert made.messages[22].role == "tool"  # no place that `Cuts` would choose
    assert sentence == ""
    (cut,) = found
    assert (cut.id, cut.at, cut.head_end, cut.recorded) == ("work#1", 22, 1, made.compactions[0])
    assert cut.session.messages == made.messages
    assert cut.head + cut.span + cut.tail + cut.future == made.messages
    assert cut.tail[0].role == "assistant"
    assert len(turns(cut.tail)) in range(6, 9)


def test_from_the_second_compaction_on_the_context_is_what_was_left_and_what_came_since():
    made, found, sentence = compacted(21, 35, 50)
    assert sentence == ""
    assert [cut.id for cut in found] == ["work#1", "work@2#2", "work@3#3"]
    for n, (cut, start, end) in enumerate(zip(found[1:], (21, 35), (35, 50)), 1):
        assert cut.context == (made.messages[0], so_far(n), *made.messages[start:end])
        assert cut.future == made.messages[end:]
        assert cut.head == made.messages[:1]
        assert cut.recorded.left == (made.messages[0], so_far(n + 1))
        assert cut.session.compactions[0] == cut.recorded
        ids = [m.id for m in cut.session.messages]
        assert len(set(ids)) == len(ids)
    assert [c.before for c in found[1].session.compactions] == [2 + 35 - 21, 2 + 50 - 21]


@pytest.mark.parametrize("project", ["", "family"])
def test_episodes_of_a_session_are_one_cluster(project):
    made, found, _ = compacted(21, 35, project=project)
    assert {cut.session.cluster for cut in found} == {made.cluster}


def test_alternative_compactions_of_one_place_are_cuts_of_one_context():
    _, found, sentence = compacted(21, 21, 35)
    assert sentence == ""
    assert [cut.id for cut in found] == ["work#1", "work#2", "work@3#3"]
    assert found[0].context == found[1].context
    assert [cut.recorded.left[1].id for cut in found] == ["summary-1", "summary-2", "summary-3"]
    assert found[2].context[1].id == "summary-2"


def test_compactions_that_are_no_cuts_are_named():
    made, _, _ = compacted(1, 21, 35, 50)
    unknown = replace(made.compactions[2], left=None)
    made = replace(made, compactions=(*made.compactions[:2], unknown, made.compactions[3]))
    found, sentence = Recorded().of(made, counter())
    assert [cut.id for cut in found] == ["work@2#2"]
    assert sentence == (
        "work: 1 of 4 recorded compactions are cuts; not 1 (nothing before it but what is kept), 3 (what it left is not"
        " recorded), 4 (what the one before it left is not recorded)"
    )


def test_a_session_without_a_recorded_compaction_gives_no_cut_and_says_so():
    assert Recorded().of(work(3), counter()) == ([], "work: no cut: no compaction is recorded in it")


@given(sessions(most_turns=25), st.lists(st.integers(0, 80), min_size=1, max_size=4), st.integers(1, 7))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_recorded_compactions_of_random_sessions(made, places, tail):
    places = sorted(min(place, len(made.messages)) for place in places)
    left = [(*made.messages[place // 2 : place], so_far(n)) for n, place in enumerate(places)]
    made = replace(made, compactions=tuple(RecordedCompaction(at, left=kept) for at, kept in zip(places, left)))
    found, sentence = Recorded(tail).of(made, counter())
    assert (sentence == "") == (len(found) == len(places))
    assert len({cut.id for cut in found}) == len(found)
    for cut in found:
        number = cut.number - 1
        assert cut.head + cut.span + cut.tail + cut.future == cut.session.messages
        assert cut.future == made.messages[places[number] :]
        assert cut.span
        assert not cut.tail or cut.tail[0].role == "assistant"
        assert cut.recorded.left == left[number]
        assert len({m.id for m in cut.session.messages}) == len(cut.session.messages)
