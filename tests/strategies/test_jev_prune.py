"""jev_prune: its estimate of tokens, what its judge is shown, its batches, its answers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asking import Answers, request
from bench.replay import head_length
from bench.strategies import make
from bench.strategies.jev_prune import JevPrune, action, goal
from bench.strategies.jev_state import FORMS, Form, estimate, fitted_state, state
from bench.types import ModelError, Output
from making import assistant, call, result, session, sessions, system, user, work

STRATEGY = make("jev_prune", {"fallback": "none"})
NEWEST = [assistant("next") if number % 2 else user("on") for number in range(6)]


def judged(**given: tuple[float, float]) -> str:
    """The answer of the judge: `judged(t1=(keepCall, keepResult))`."""
    return json.dumps({"calls": [{"id": name, "keepCall": c, "keepResult": r} for name, (c, r) in given.items()]})


def test_the_numbers_are_those_of_the_specification():
    strategy = JevPrune()
    assert (strategy.keep, strategy.fit_tokens, strategy.request_tokens, strategy.fallback) == (6, 25_000, 30_000, "claude_code")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0), (" \n\t", 0), ("a", 1), ("sixsix", 1), ("sevenss", 2), ("x" * 13, 3), ("two words", 2), ("7", 0.5), ("2026", 2),
        (".", 0.9), ("_", 0.9), ("a_b", 2.9), ("x1", 1.5), ("läuft", 1), ("漢字", 1), ("→!", 1.8),
    ],
)  # fmt: skip
def test_the_estimate_of_tokens(text, tokens):
    assert estimate(text) == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("keep_call", "keep_result", "expected"),
    [(0, 0.5, "keep"), (1, 1, "keep"), (0.5, 0.49, "truncate"), (1, 0, "truncate"), (0.49, 0.49, "drop"), (0, 0, "drop")],
)
def test_two_probabilities_make_one_action(keep_call, keep_result, expected):
    assert action(keep_call, keep_result) == expected


MESSAGES = session(
    system("s"), user("go"), assistant("", call("a", command="ls"), call("unanswered"), call("b")), result("a", "A" * 900),
    result("b", "B" * 9_000, is_error=True), assistant("", call("edge")), result("edge", "E" * 500), *NEWEST[:5],
).messages  # fmt: skip


def test_every_call_with_a_result_has_an_id_and_the_unpinned_ones_are_asked_about():
    model = Answers([judged(t1=(0.9, 0.1), t2=(0.1, 0.1))])
    made = STRATEGY.compact(MESSAGES, request(MESSAGES, model))
    [asked] = model.asked
    assert asked["schema"]["properties"]["calls"]["items"]["properties"]["id"]["enum"] == ["t1", "t2"]
    assert "[call t1 Bash]" in model.text
    assert "[call Bash] {}\n[result] no result" in model.text
    assert "[call t3 Bash]" in model.text
    assert "ok, 900 chars" in model.text
    assert "error, 9000 chars" in model.text
    assert "ok, 500 chars" in model.text
    assert "AAA" not in model.text
    assert "BBB" not in model.text
    assert made.note.startswith("kept 10/10 messages · ")
    assert "1 dropped, 1 truncated" in made.note
    assert [c.id for message in made.messages for c in message.calls] == ["a", "unanswered", "edge"]
    assert made.messages[3].text == "A" * 300 + "\n[the other 600 characters of this output were cut]"


def test_removed_calls_leave_no_note():
    messages = work(9).messages
    made = STRATEGY.compact(messages, request(messages, Answers([judged(**{f"t{n}": (0, 0) for n in range(1, 25)})])))
    assert made.outcome == "applied"
    assert {message.text for message in made.messages} <= {message.text for message in messages}


def test_the_goal_is_the_newest_3_prompts_of_500_characters_each():
    messages = [user("first"), user("2" * 600), assistant("no"), user("third"), result("a", "no"), user("fourth")]
    assert goal(messages) == "\n\n".join(["2" * 500, "third", "fourth"])


# --- the fitting


OLD = session(
    user("U" * 700), assistant("I look.", call("a", command="x" * 1_200)), result("a", "A" * 50), assistant("I think."),
    assistant("", call("b", command="y" * 100)), result("b", "B" * 7), user("N" * 700), assistant("", call("c", command="z" * 100)), result("c"),
).messages  # fmt: skip
LABELS = {"a": "t1", "b": "t2", "c": "t3"}


@pytest.mark.parametrize(
    ("number", "there", "gone"),
    [
        (0, ["U" * 700, "x" * 988 + "...", "I think.", "y" * 100], ["x" * 989]),
        (1, ["U" * 700, "x" * 188 + "...", "y" * 100], ["x" * 189]),
        (2, ["x" * 48 + "...", "y" * 48 + "...", "z" * 48 + "..."], ["x" * 49, "z" * 49]),
        (3, ["U" * 400 + "\n[150 characters left out]\n" + "U" * 150, "N" * 400 + "\n[150", "I think."], ["U" * 401]),
        (4, ["[700 characters of text]", "[8 characters of text]", "N" * 400, "[call t1 Bash] {"], ["UUU", "I look.", "I think."]),
        (5, ["t1 Bash: ok, 50 chars", "t2 Bash: ok, 7 chars", "[call t3 Bash] {"], ["call t1", "call t2", "xxx"]),
        (6, ["t1 Bash: ok, 50 chars", "N" * 400], ["[700 characters", "[8 characters"]),
        (7, ["[7 characters of text]\nt1 Bash: ok, 50 chars\nt2 Bash: ok, 7 chars\n\n[user]\n" + "N" * 400], []),
    ],
)  # fmt: skip
def test_each_step_shortens_more(number, there, gone):
    text = state(OLD, LABELS, 6, FORMS[number])
    assert [part for part in there if part not in text] == []
    assert [part for part in gone if part in text] == []
    assert number == 0 or estimate(text) <= estimate(state(OLD, LABELS, 6, FORMS[number - 1]))


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_the_first_form_that_fits_is_shown(number):
    sizes = [estimate(state(OLD, LABELS, 6, form)) for form in FORMS]
    limit = int(sizes[number]) + 1
    first = next(index for index, size in enumerate(sizes) if size <= limit)
    assert fitted_state(OLD, LABELS, 6, limit) == state(OLD, LABELS, 6, FORMS[first])


def test_what_does_not_fit_in_its_shortest_form_is_refused():
    with pytest.raises(ModelError, match="over 10 estimated tokens"):
        fitted_state(OLD, LABELS, 6, 10)
    strategy, model = make("jev_prune", {"fallback": "none", "fit_tokens": 10}), Answers([])
    made = strategy.compact(MESSAGES, request(MESSAGES, model))
    assert made.note == "built-in summary: the conversation is over 10 estimated tokens in its shortest form"
    assert model.asked == []


# --- the batches


def many(number: int):
    rounds = [
        m for n in range(number) for m in (assistant("", call(f"r{n}", command=f"make part{n}")), result(f"r{n}", "x" * 400))
    ]
    return session(user("go"), *rounds, *NEWEST).messages


class Sure:
    """A judge that drops every call it is asked about, and fails at the request of a number."""

    name, window, max_output, identity = "sure", None, None, {}

    def __init__(self, fails_at: int = 0) -> None:
        self.requests: list[tuple[str, list[str]]] = []
        self.fails_at = fails_at

    def generate(self, messages, *, purpose, schema=None, max_tokens=None, retry=None) -> Output:
        ids = schema["properties"]["calls"]["items"]["properties"]["id"]["enum"]
        self.requests.append((messages[0].text, ids))
        if len(self.requests) == self.fails_at:
            raise ModelError("request", "HTTP 404: no such model", status=404)
        return Output(judged(**dict.fromkeys(ids, (0, 0))))


def test_questions_are_split_over_requests_that_repeat_the_whole_conversation():
    messages, model = many(60), Sure()
    made = make("jev_prune", {"fallback": "none", "request_tokens": 3_000}).compact(messages, request(messages, model))
    assert made.outcome == "applied"
    assert "60 dropped" in made.note
    assert len(model.requests) > 1
    assert [name for _, ids in model.requests for name in ids] == [f"t{number}" for number in range(1, 61)]
    whole = state(messages, {f"r{n}": f"t{n + 1}" for n in range(60)}, len(messages) - 6, Form())
    for text, ids in model.requests:
        assert whole in text
        assert estimate(text) + 40 * len(ids) <= 3_000  # two questions a call, 20 tokens each
    for (text, ids), (_, following) in zip(model.requests, model.requests[1:]):
        more = estimate(f"{following[0]} Bash(make part{int(following[0][1:]) - 1})")
        assert estimate(text) + 40 * (len(ids) + 1) + more > 3_000


def test_one_failed_request_refuses_all():
    messages, model = many(60), Sure(fails_at=2)
    made = make("jev_prune", {"fallback": "none", "request_tokens": 3_000}).compact(messages, request(messages, model))
    assert (made.outcome, made.note) == ("fallback", "built-in summary: HTTP 404: no such model")
    assert made.messages == messages
    assert len(model.requests) == 2


def test_a_request_with_no_room_for_a_question_is_refused():
    messages, model = many(3), Sure()
    made = make("jev_prune", {"fallback": "none", "request_tokens": 100}).compact(messages, request(messages, model))
    assert made.note == "built-in summary: no question fits into a request of 100 estimated tokens"


# --- what is refused


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (judged(t1=(0, 0)), "the answer leaves out 1 of 2 calls, t2 first"),
        (judged(t1=(0, 0), t2=(0, 0), t3=(0, 0)), "the answer names a call that was not asked about: t3"),
        (judged(t1=(0, 0), t2=(0, 1.01)), "a probability of t2 is not a number from 0 to 1"),
        (judged(t1=(-0.1, 0), t2=(0, 0)), "a probability of t1 is not a number from 0 to 1"),
        (judged(t1=(True, 0), t2=(0, 0)), "a probability of t1 is not a number from 0 to 1"),
        (judged(t1=("0.5", 0), t2=(0, 0)), "a probability of t1 is not a number from 0 to 1"),
        (judged(t1=(float("nan"), 0), t2=(0, 0)), "the answer is not JSON"),
        ('{"calls": [{"id": "t1", "keepCall": 0}]}', "item 1 of the calls does not have the fields id, keepCall, keepResult"),
    ],
)
def test_an_answer_that_is_not_whole_is_refused(answer, why):
    made = STRATEGY.compact(MESSAGES, request(MESSAGES, Answers([answer])))
    assert (made.outcome, made.note) == ("fallback", f"built-in summary: {why}")


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([assistant("", call("a")), result("a"), assistant("", call("a"))], "a call id stands twice: a"),
        ([result("a"), assistant("", call("a"))], "a result stands before its call: a"),
        ([result("nobody"), assistant("done")], "a result stands before its call: nobody"),
    ],
)
def test_a_conversation_out_of_order_is_refused_unasked(messages, why):
    messages = session(user("go"), *messages, *NEWEST).messages
    model = Answers([])
    assert STRATEGY.compact(messages, request(messages, model)).note == f"built-in summary: {why}"
    assert model.asked == []


def test_less_than_a_quarter_smaller_is_refused():
    made = STRATEGY.compact(MESSAGES, request(MESSAGES, Answers([judged(t1=(0, 0), t2=(0, 1))])))
    assert made.note == "built-in summary: under 25% smaller (kept 10/10 messages · 9% smaller)"


@given(sessions(), st.integers(1, 7), st.data())
def test_any_whole_answer_keeps_pairs_order_and_head(made, keep, data):
    messages = tuple(replace(m, text=m.text + "x" * 600) if m.role == "tool" else m for m in made.messages)
    head = head_length(messages)
    probe = Sure()
    strategy = make("jev_prune", {"fallback": "none", "keep": keep})
    strategy.compact(messages, request(messages, probe))
    assume(probe.requests)
    [(_, ids)] = probe.requests
    chance = st.sampled_from([0, 0.49, 0.5, 1])
    answer = judged(**{name: (data.draw(chance), data.draw(chance)) for name in ids})
    done = strategy.compact(messages, request(messages, Answers([answer])))
    assert done.messages[:head] == messages[:head]
    place = {message.id: index for index, message in enumerate(messages)}
    order = [place[message.id] for message in done.messages]
    assert order == sorted(set(order))
    left = {c.id for message in done.messages for c in message.calls}
    answered = {message.call_id for message in messages if message.call_id}
    assert {message.call_id for message in done.messages if message.call_id} == answered & left
    unanswered = {c.id for message in messages for c in message.calls} - answered
    assert unanswered <= left
