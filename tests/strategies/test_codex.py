"""codex: which user messages stay and how much of them, the summary at the end, and requests over the window."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Answers, request
from bench.prompts import render
from bench.strategies import make
from bench.strategies.codex import RETRIES, Codex, estimate, newest, without_middle
from bench.strategies.transcript import transcript
from bench.types import BenchError, ModelError
from making import assistant, call, result, session, system, user, work

STRATEGY = make("codex", {})
POINTS = (
    "- Goal:",
    "- Progress and decisions:",
    "- Context, constraints and preferences:",
    "- Remaining steps:",
    "- Critical data:",
)
OVER = ModelError("window", "too long")


def test_the_model_is_asked_for_five_points_of_all_that_follows_the_head():
    messages = work(3).messages
    model = Answers(["A summary."])
    STRATEGY.compact(messages, request(messages, model, instructions="Keep every port."))
    places = [model.text.index(point) for point in POINTS]
    assert places == sorted(places)
    assert transcript(messages[1:]) in model.text
    assert "Keep every port." in model.text


def test_only_user_messages_stay_and_the_summary_is_the_last_of_them():
    messages = work(9).messages
    made = STRATEGY.compact(messages, request(messages, Answers(["\nA summary.\n"])))
    said = [message for message in messages if message.role == "user"]
    assert len(said) == 5
    assert list(made.messages[:-1]) == [messages[0], *said]
    last = made.messages[-1]
    assert (last.role, last.id[:8]) == ("user", "summary-")
    assert last.text == f"{render('codex_prefix')}\nA summary."
    assert made.note.startswith("summary: 43 → 7 messages · ")


def test_the_budget_is_20_000_tokens_of_4_bytes():
    assert Codex().user_tokens == 20_000
    assert [estimate(text) for text in ("", "a", "abcd", "abcde", "éé", "ééé")] == [0, 1, 1, 2, 1, 2]


@pytest.mark.parametrize(
    ("sizes", "kept"),  # tokens of the messages, oldest first; tokens of those that stay
    [
        ([20_000], [20_000]),
        ([5_000, 15_000], [5_000, 15_000]),
        ([5_001, 15_000], ["cut", 15_000]),
        ([5_000, 5_000, 15_000], [5_000, 15_000]),  # nothing is left for the oldest
        ([1, 30_000, 15_000], ["cut", 15_000]),  # the one that crosses the limit ends the list
        ([20_001], ["cut"]),
        ([], []),
    ],
)
def test_user_messages_are_kept_newest_first(sizes, kept):
    messages = session(*(user("abcd" * size) for size in sizes)).messages
    found = newest(messages, 20_000)
    assert [message.id for message in found] == [message.id for message in messages[len(messages) - len(kept) :]]
    assert ["cut" if "left out" in m.text else estimate(m.text) for m in found] == kept


def test_the_message_that_crosses_the_limit_keeps_both_ends_within_what_is_left():
    messages = session(user("b" * 30_000 + "m" * 200_000 + "e" * 30_000), user("n" * 60_000)).messages
    cut, whole = newest(messages, 20_000)
    assert whole is messages[1]
    assert cut.text == "b" * 10_000 + "[... about 60000 tokens left out ...]" + "e" * 10_000
    assert replace(cut, text="") == replace(messages[0], text="")


@given(st.text(st.sampled_from("aé😀"), min_size=9), st.integers(1, 8))
def test_no_character_is_torn(text, tokens):
    if estimate(text) > tokens:
        start, mark, end = without_middle(text, tokens).partition(f"[... about {estimate(text) - tokens} tokens left out ...]")
        assert mark
        assert text.startswith(start)
        assert text.endswith(end)
        assert 4 * tokens - 6 <= len((start + end).encode()) <= 4 * tokens


def test_an_earlier_summary_is_read_again_but_is_no_user_message():
    messages = work(3).messages
    first = STRATEGY.compact(messages, request(messages, Answers(["The first summary."]))).messages
    later = session(user("And now the docs."), assistant("I write them.")).messages
    model = Answers(["The second summary."])
    second = STRATEGY.compact((*first, *later), request(messages, model)).messages
    assert "The first summary." in model.text
    assert [message.text for message in second] == [
        *(message.text for message in first[:-1]), "And now the docs.", f"{render('codex_prefix')}\nThe second summary.",
    ]  # fmt: skip


ITEMS = session(
    system("s"), user("the task"), assistant("I look.", call("a"), call("b")), result("a", "AAA"), result("b", "BBB"),
    user("go on"), assistant("done"),
).messages  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "shown"),  # which messages the last request shows
    [
        (["S"], ITEMS[1:]),
        ([OVER, "S"], ITEMS[2:]),
        ([OVER, OVER, "S"], ITEMS[5:]),  # a call goes with its results
        ([OVER, OVER, OVER, "S"], ITEMS[6:]),
        ([ModelError("window", "too long", gap=1), "S"], ITEMS[2:]),
        ([ModelError("window", "too long", gap=20), "S"], ITEMS[5:]),
        ([ModelError("window", "too long", gap=10_000), "S"], ITEMS[6:]),  # one always stays
    ],
)
def test_a_request_over_the_window_is_sent_again_without_its_oldest_items(answers, shown):
    model = Answers(answers)
    made = STRATEGY.compact(ITEMS, request(ITEMS, model))
    assert len(model.asked) == len(answers)
    text = model.asked[-1]["messages"][0].text
    assert f"<conversation>\n{transcript(shown)}\n</conversation>" in text
    assert [message.text for message in made.messages[1:3]] == ["the task", "go on"]


def test_a_single_item_over_the_window_is_a_failure():
    model = Answers([OVER] * 5)
    with pytest.raises(ModelError) as raised:
        STRATEGY.compact(ITEMS, request(ITEMS, model))
    assert raised.value.kind == "window"
    assert len(model.asked) == 4


def test_retries_end():
    messages = session(system("s"), *(user(f"number {n}") for n in range(RETRIES + 20))).messages
    model = Answers([OVER] * (RETRIES + 2))
    with pytest.raises(ModelError):
        STRATEGY.compact(messages, request(messages, model))
    assert len(model.asked) == RETRIES + 1


def test_another_error_is_not_answered_by_leaving_something_out():
    model = Answers([ModelError("unavailable", "busy", status=503)])
    with pytest.raises(ModelError, match="busy"):
        STRATEGY.compact(ITEMS, request(ITEMS, model))


def test_nothing_after_the_head_is_a_noop():
    messages = session(system("s")).messages
    assert STRATEGY.compact(messages, request(messages, Answers([]))).outcome == "noop"


def test_a_negative_budget_is_a_set_up_error():
    with pytest.raises(BenchError, match="user_tokens is 0 or more"):
        make("codex", {"user_tokens": -1})
