"""gemini_prune: which calls are decided about, which answers count, how they are applied, and the notes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from asking import Answers, decided, request
from bench.measures.structure import PROVIDERS, violations
from bench.models.scripted import Scripted
from bench.replay import head_length
from bench.strategies import make
from bench.strategies.gemini_compact import RETRY
from bench.strategies.gemini_prune import GeminiPrune, decisions
from bench.strategies.judge import ENOUGH, HEAD, SLACK, Action, applied, pinned_calls, truncated
from bench.types import BenchError, ModelError, Output, ToolCall, Usage
from making import assistant, call, result, session, sessions, system, user, work

STRATEGY = make("gemini_prune", {"fallback": "none"})
NEWEST = [assistant("next") if number % 2 else user("on") for number in range(6)]


def test_the_numbers_are_those_of_the_seed():
    strategy = GeminiPrune()
    assert (strategy.keep, strategy.fit_characters, strategy.notes, strategy.fallback) == (6, 400_000, True, "claude_code")
    assert (HEAD, SLACK, ENOUGH) == (300, 120, 0.25)


def unpinned(conversation, keep) -> list[str]:
    """Ids of the calls that are decided about, in the order of c1, c2, ..."""
    made = [c.id for message in conversation for c in message.calls]
    pinned = pinned_calls(conversation, keep)
    return [name for name in made if name not in pinned]


def test_ids_are_given_to_unpinned_calls_only_in_call_order():
    messages = session(
        system("s"), assistant("", call("first")), result("first", "f"),
        assistant("", call("a"), call("b")), result("b", "B" * 5_000), result("a", "A"),
        assistant("", call("unanswered")),
        assistant("", call("edge")), result("edge", "E"), *NEWEST[:5],
    ).messages  # fmt: skip
    model = Answers([decided(c1="keep", c2="drop", c3="keep")])
    made = STRATEGY.compact(messages, request(messages, model))
    assert made.outcome == "applied"
    [asked] = model.asked
    item = asked["schema"]["properties"]["decisions"]["items"]
    assert item["properties"]["id"]["enum"] == ["c1", "c2", "c3"]  # a, b, and the one without a result
    assert item["properties"]["action"]["enum"] == ["keep", "truncate", "drop"]
    assert asked["retry"] == RETRY
    for shown in ("[call fixed Bash]", "[call c1 Bash]", "[result of c2 Bash]\n" + "B" * 5_000, "[result of fixed Bash]\nE"):
        assert shown in model.text
    assert "b" not in {c.id for message in made.messages for c in message.calls}


def test_a_call_is_pinned_when_its_result_is_in_the_newest_messages():
    late = session(user("go"), assistant("", call("slow"), call("fast")), result("fast"), *NEWEST[:5], result("slow")).messages
    assert pinned_calls(late, 6) == {"slow"}
    assert pinned_calls(late, 7) == {"slow", "fast"}


# --- what is applied


def test_keep_truncate_and_drop():
    conversation = session(
        user("go"), assistant("one", call("a"), call("b")), result("a", "A" * 421), result("b", "B" * 420),
        assistant("", call("c")), result("c", "C"), assistant("two", call("d")), result("d", "D" * 999),
    ).messages  # fmt: skip
    made = applied(conversation, {"a": "truncate", "b": "truncate", "c": "drop", "d": "keep"})
    assert [message.id for message in made] == ["m0", "m1", "m2", "m3", "m6", "m7"]
    assert made[2].text == "A" * 300 + "\n[the other 121 characters of this output were cut]"
    assert [message is conversation[int(message.id[1:])] for message in made] == [True, True, False, True, True, True]


@pytest.mark.parametrize(("size", "cut"), [(300, False), (420, False), (421, True), (10_000, True)])
def test_an_output_is_cut_to_300_characters_when_it_has_more_than_420(size, cut):
    conversation = session(user("go"), assistant("", call("a")), result("a", "x" * size)).messages
    made = applied(conversation, {"a": "truncate"})
    assert made[2].text == (truncated("x" * size) if cut else "x" * size)
    assert made[2].text.count("x") == (300 if cut else size)


def test_one_of_two_parallel_calls_goes_and_its_message_stays():
    conversation = session(user("go"), assistant("", call("a"), call("b")), result("a", "A"), result("b", "B")).messages
    made = applied(conversation, {"a": "drop", "b": "keep"})
    assert [(message.id, [c.id for c in message.calls]) for message in made] == [("m0", []), ("m1", ["b"]), ("m3", [])]


# --- answers that do not count

IDS = ["c1", "c2"]
ONE, TWO = {"id": "c1", "action": "drop"}, {"id": "c2", "action": "keep"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I would drop c1.", "the answer is not JSON"),
        ("[" * 100_000, "the answer is not JSON"),
        (decided(c1="drop", c2="keep")[:-1], "the answer is not JSON"),
        (json.dumps([ONE, TWO]), "the answer is not an object that holds a list of decisions and nothing else"),
        (
            json.dumps({"decisions": {"c1": "drop"}}),
            "the answer is not an object that holds a list of decisions and nothing else",
        ),
        (
            json.dumps({"decisions": [ONE, TWO], "more": 1}),
            "the answer is not an object that holds a list of decisions and nothing else",
        ),
        (json.dumps({"decisions": [ONE, "c2"]}), "item 2 of the decisions does not have the fields id, action"),
        (json.dumps({"decisions": [{"id": "c1"}, TWO]}), "item 1 of the decisions does not have the fields id, action"),
        (json.dumps({"decisions": [ONE, TWO | {"why": ""}]}), "item 2 of the decisions does not have the fields id, action"),
        (
            json.dumps({"decisions": [ONE, {"id": 2, "action": "keep"}]}),
            "item 2 of the decisions does not have the fields id, action",
        ),
        (json.dumps({"decisions": [ONE]}), "the answer leaves out 1 of 2 calls, c2 first"),
        (json.dumps({"decisions": []}), "the answer leaves out 2 of 2 calls, c1 first"),
        (json.dumps({"decisions": [ONE, TWO, ONE]}), "the answer decides c1 twice"),
        (decided(c1="drop", c2="keep", c3="drop"), "the answer names a call that was not asked about: c3"),
        (decided(c1="drop", C2="keep"), "the answer names a call that was not asked about: C2"),
        (decided(c1="drop", c2="summarise"), "the action for c2 is not one of keep, truncate, drop"),
        (
            json.dumps({"decisions": [ONE, {"id": "c2", "action": ["keep"]}]}),
            "the action for c2 is not one of keep, truncate, drop",
        ),
        (Output(decided(c1="drop", c2="keep"), "length"), "the answer was cut off at its output limit"),
    ],
)
def test_an_answer_that_is_not_whole_is_refused_with_its_own_reason(answer, why):
    messages = session(
        user("go"), assistant("", call("a"), call("b")), result("a", "A" * 9_000), result("b", "B"), *NEWEST
    ).messages  # fmt: skip
    made = STRATEGY.compact(messages, request(messages, Answers([answer])))
    assert (made.outcome, made.note) == ("fallback", f"built-in summary: {why}")
    assert made.messages == messages


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([*IDS, *get_args(Action), "decisions"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "action", "decisions", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ITEMS = (
    st.fixed_dictionaries({"id": st.sampled_from([*IDS, "c3"]) | JSON, "action": st.sampled_from(get_args(Action)) | JSON}) | JSON
)
ANSWERS = JSON | st.fixed_dictionaries({"decisions": st.lists(ITEMS, max_size=3)}, optional={"x": JSON})


@given(ANSWERS.map(json.dumps) | st.text(max_size=40))
@example(decided(c1="drop", c2="truncate"))
def test_only_a_whole_answer_is_ever_applied(text):
    try:
        found = decisions(Output(text), IDS)
    except ModelError:
        return
    answer = json.loads(text)
    assert list(answer) == ["decisions"]
    assert sorted(item["id"] for item in answer["decisions"]) == IDS
    assert all(set(item) == {"id", "action"} and item["action"] in get_args(Action) for item in answer["decisions"])
    assert found == {item["id"]: item["action"] for item in answer["decisions"]}


# --- acceptance


def test_the_line_of_an_accepted_result_is_that_of_the_seed():
    messages = session(
        system("s"), user("what is in /usr/bin?"), assistant("", call("a", command="ls -la /usr/bin")), result("a", "x" * 11_000),
        assistant("Many programs."), user("and in notes.txt?"), assistant("", call("b", command="cat notes.txt")),
        result("b", "y" * 600), assistant("A list."), user("I edit it now"), assistant("Good."), user("ready?"),
    ).messages  # fmt: skip
    model = Answers([Output(decided(c1="drop"), usage=Usage(input=5_100, output=59))])
    made = STRATEGY.compact(messages, request(messages, model))
    assert made.outcome == "applied"
    assert made.note == "kept 9/11 messages · 93% smaller · 1 dropped, 0 truncated · 5k in, 59 out"
    assert made.details == {"asked": 1, "dropped": 1, "truncated": 0}
    assert made.messages[0] is messages[0]
    assert "Bash(ls -la /usr/bin)" in made.messages[2].text


def test_less_than_a_quarter_smaller_is_refused_with_the_line_of_the_seed():
    rounds = [
        m for number in range(2) for m in (assistant("", call(f"r{number}")), result(f"r{number}", "x" * 1_000), assistant("ok"))
    ]
    messages = session(
        user("u" * 970), assistant("", call("a", command="ls")), result("a", "y" * 120), assistant(""), *rounds, *NEWEST
    ).messages  # fmt: skip
    made = make("gemini_prune", {"fallback": "none", "notes": False}).compact(
        messages, request(messages, Answers([decided(c1="drop", c2="keep", c3="keep")]))
    )
    assert made.note == "built-in summary: under 25% smaller (kept 14/16 messages · 4% smaller)"
    assert made.messages == messages


@pytest.mark.parametrize(("rest", "outcome"), [(2_999, "applied"), (3_000, "applied"), (3_001, "fallback")])
def test_exactly_a_quarter_of_what_follows_the_head_is_enough(rest, outcome):
    messages = session(
        system("s" * 5_000), user("u" * (rest - 24)), assistant("", ToolCall("a", "Bash", "{}")), result("a", "x" * 998), assistant("I did."), *NEWEST
    ).messages  # fmt: skip
    assert sum(len(m.text) for m in messages[1:]) + 2 == rest + 1_000
    strategy = make("gemini_prune", {"fallback": "none", "notes": False})
    assert strategy.compact(messages, request(messages, Answers([decided(c1="drop")]))).outcome == outcome


def test_without_a_call_to_decide_about_the_model_is_not_asked():
    messages = session(user("go"), assistant("", call("a")), result("a", "A" * 9_000), assistant("done")).messages
    model = Answers([])
    made = STRATEGY.compact(messages, request(messages, model))
    assert made.note == "built-in summary: under 25% smaller (kept 4/4 messages · 0% smaller)"
    assert model.asked == []


def test_the_judge_is_shown_outputs_without_their_middle_above_the_limit():
    messages = session(user("go"), assistant("", call("a")), result("a", "A" * 500_000), *NEWEST).messages
    model = Answers([decided(c1="truncate")])
    made = STRATEGY.compact(messages, request(messages, model))
    assert made.note.startswith("kept 9/9 messages · 100% smaller · 0 dropped, 1 truncated")
    assert 399_000 < model.text.count("A") < 400_000


def test_notes_can_be_left_out():
    messages = work(9).messages
    answer = decided(**{f"c{number}": "drop" for number in range(1, 25)})
    bare = make("gemini_prune", {"fallback": "none", "notes": False}).compact(messages, request(messages, Answers([answer])))
    noted = STRATEGY.compact(messages, request(messages, Answers([answer])))
    assert [m.id for m in bare.messages] == [m.id for m in noted.messages]
    assert all(m is messages[int(m.id[1:])] or not m.calls for m in bare.messages)
    assert "Edit(/srv/app/parser0.py)" in noted.messages[2].text
    assert "Edit(" not in bare.messages[2].text


@pytest.mark.parametrize(
    "parameters",
    [{"keep": 0}, {"fit_characters": 0}, {"fallback": "gemini_prune"}, {"fallback": "nobody"}, {"fallback": "custom"}],
)
def test_bad_parameters_are_set_up_errors(parameters):
    with pytest.raises(BenchError):
        make("gemini_prune", {"fallback": "none"} | parameters)


# --- properties


@given(sessions(), st.integers(1, 7), st.booleans(), st.data())
def test_any_whole_answer_keeps_pairs_order_head_and_what_it_does_not_touch(made, keep, notes, data):
    messages = tuple(replace(m, text=m.text + "x" * 600) if m.role == "tool" else m for m in made.messages)
    head = head_length(messages)
    ids = unpinned(messages[head:], keep)
    assume(ids)
    actions = {name: data.draw(st.sampled_from(get_args(Action))) for name in ids}
    answer = decided(**{f"c{number}": actions[name] for number, name in enumerate(ids, 1)})
    strategy = make("gemini_prune", {"fallback": "none", "keep": keep, "notes": notes})
    done = strategy.compact(messages, request(messages, Answers([answer])))
    event(done.outcome)
    if done.outcome == "fallback":
        assert "under 25% smaller" in done.note
        assert done.messages == messages
        return
    place = {message.id: index for index, message in enumerate(messages)}
    order = [place[message.id] for message in done.messages]
    assert order == sorted(set(order))
    assert done.messages[:head] == messages[:head]
    dropped = {name for name, action in actions.items() if action == "drop"}
    before = {c.id for message in messages for c in message.calls}
    assert {c.id for message in done.messages for c in message.calls} == before - dropped
    answered = {message.call_id for message in messages if message.role == "tool"}
    assert {message.call_id for message in done.messages if message.role == "tool"} == answered - dropped
    for message in done.messages:
        original = messages[place[message.id]]
        if message.role == "tool":
            cut = actions.get(message.call_id) == "truncate"
            assert message == replace(original, text=truncated(original.text)) if cut else message is original
        elif not dropped & {c.id for c in original.calls}:
            assert message is original or (notes and message == replace(original, text=message.text))


def test_the_scripted_model_gives_decisions_that_count():
    messages = work(12).messages
    made = make("gemini_prune", {"fallback": "none"}).compact(messages, request(messages, Scripted()))
    assert made.outcome == "applied" or "under 25% smaller" in made.note
    assert not {"orphan_result", "unanswered_call"} & {
        name for provider in PROVIDERS for name in violations(made.messages, messages, 1, 2)[provider]
    }
