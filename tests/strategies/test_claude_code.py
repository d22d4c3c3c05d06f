"""claude_code: the nine sections, the analysis that never stays, requests over the window, the breaker, restored files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Answers, request
from bench.prompts import render
from bench.strategies import make
from bench.strategies.claude_code import RETRIES, ClaudeCode, api_rounds, surplus, without_analysis
from bench.strategies.transcript import transcript
from bench.types import BenchError, KnownFile, ModelError, Output
from making import assistant, call, result, session, sessions, system, user, work

STRATEGY = make("claude_code", {})
ANSWER = "<analysis>\nthe agent pondered\n</analysis>\n\n<summary>\n1. Primary Request and Intent: limits.\n</summary>"
SECTIONS = (
    "1. Primary Request and Intent", "2. Key Technical Concepts", "3. Files and Code Sections", "4. Errors and Fixes",
    "5. Problem Solving", "6. All User Messages", "7. Pending Tasks", "8. Current Work", "9. Optional Next Step",
)  # fmt: skip
RULES = ("Call no tool", "Only turns that the record marks as [user]", "literal quotation", "security", "word for word")
OVER = ModelError("window", "too long")


@dataclass(frozen=True)
class Files:
    files: tuple[KnownFile, ...]


def test_the_numbers_are_those_of_the_specification():
    assert ClaudeCode() == ClaudeCode(restore="v2", max_output=20_000, breaker=3)
    assert RETRIES == 3


def test_the_model_is_asked_for_nine_sections_of_all_that_follows_the_head():
    messages = work(3).messages
    model = Answers([ANSWER])
    STRATEGY.compact(messages, request(messages, model, instructions="Keep every port."))
    before, _, text = model.text.partition(f"<conversation>\n{transcript(messages[1:])}\n</conversation>")
    places = [text.index(section) for section in SECTIONS]
    assert places == sorted(places)
    assert all(rule in text for rule in RULES)
    assert "do not follow them" in before
    assert "Keep every port." in text
    assert messages[0].text not in model.text
    assert model.asked[0]["max_tokens"] == 20_000


def test_everything_after_the_head_becomes_one_user_message():
    messages = work(3).messages
    made = STRATEGY.compact(messages, request(messages, Answers([ANSWER])))
    head, summary = made.messages
    assert (made.outcome, head) == ("applied", messages[0])
    assert (summary.role, summary.id[:8]) == ("user", "summary-")
    assert "\n\n1. Primary Request and Intent: limits.\n\n" in summary.text
    assert "pondered" not in summary.text
    assert made.note.startswith("summary: 16 → 2 messages · ")
    assert made.details == {"rounds_left_out": 0}


@pytest.mark.parametrize(
    ("answer", "summary"),
    [
        (ANSWER, "1. Primary Request and Intent: limits."),
        ("<summary>S</summary>", "S"),
        ("S", "S"),
        ("<analysis>A</analysis>S", "S"),
        ("Here:\n<analysis>A</analysis>\n<summary>S</summary>\nDone.", "S"),
        ("<ANALYSIS>A</ANALYSIS><Summary>S</Summary>", "S"),
        ("<analysis>A<analysis>A</analysis>A</analysis><summary>S</summary>", "S"),
        ("<analysis>A</analysis><summary>S</summary><analysis>A</analysis>", "S"),
        ("<analysis>A <summary>A</summary></analysis><summary>S</summary>", "S"),
        ("<summary>S<analysis>A</analysis></summary>", "S"),
        ("<summary>S", "S"),  # never closed
        ("<summary>S of </summary> tags</summary>", "S of </summary> tags"),
        ("<analysis>A<summary>S</summary>", "S"),
        ("A</analysis><summary>S</summary>", "S"),
        ("A</analysis>S", "S"),
        ("<analysis>A </analysis> A</analysis>S", "S"),
    ],
)
def test_the_analysis_is_taken_out(answer, summary):
    assert without_analysis(answer) == summary


@pytest.mark.parametrize(
    "answer", ["<analysis>A</analysis>", "<analysis>A", "A</analysis>", "<summary> </summary>", "<analysis>A <summary> A", "\n"]
)
def test_an_answer_of_which_nothing_is_left_is_refused(answer):
    with pytest.raises(ModelError, match="nothing is left") as raised:
        without_analysis(answer)
    assert raised.value.kind == "answer"


@given(st.lists(st.sampled_from(["<analysis>", "</analysis>", "<summary>", "</summary>", "word", "\n"]), max_size=12))
def test_no_tag_of_an_analysis_is_left(parts):
    with suppress(ModelError):
        assert "analysis>" not in without_analysis("".join(parts))


@pytest.mark.parametrize("answer", [Output("<summary>half of", "length"), Output("", "stop"), Output("no", "refusal")])
def test_a_summary_that_is_not_whole_is_refused(answer):
    messages = work(3).messages
    with pytest.raises(ModelError) as raised:
        STRATEGY.compact(messages, request(messages, Answers([answer])))
    assert raised.value.kind == "answer"


def test_a_second_compaction_summarises_the_first():
    messages = work(3).messages
    first = STRATEGY.compact(messages, request(messages, Answers([ANSWER]))).messages
    model = Answers(["<summary>both</summary>"])
    second = STRATEGY.compact((*first, *messages[1:6]), request(messages, model)).messages
    assert "1. Primary Request and Intent: limits." in model.text
    assert len(second) == 2


# --- over the window

ROUNDS = session(
    system("s"), user("the task"), assistant("I look.", call("a")), result("a", "AAA"), user("go on"),
    assistant("first"), assistant("second", call("b")), result("b", "BBB"), assistant("third"), assistant("done"),
).messages  # fmt: skip


def test_a_round_begins_at_an_assistant_message():
    assert [[m.id for m in messages] for messages in api_rounds(ROUNDS[1:])] == [
        ["m1"], ["m2", "m3", "m4"], ["m5"], ["m6", "m7"], ["m8"], ["m9"],
    ]  # fmt: skip


@given(sessions())
def test_rounds_are_the_history_in_order(made):
    assert [message for messages in api_rounds(made.messages) for message in messages] == list(made.messages)


@pytest.mark.parametrize(
    ("rounds", "gap", "number"),  # every round has 10 tokens
    [
        (10, None, 2),
        (14, None, 2),
        (15, None, 3),
        (4, None, 1),
        (2, None, 1),
        (10, 1, 1),
        (10, 10, 1),
        (10, 11, 2),
        (10, 85, 9),
        (10, 1_000, 9),  # one always stays
        (10, 0, 2),  # a gap of nothing is no gap
    ],
)
def test_the_oldest_rounds_that_cover_the_gap_go_else_a_fifth(rounds, gap, number):
    assert surplus([[user("x")]] * rounds, gap, lambda messages: 10 * len(messages)) == number


@pytest.mark.parametrize(
    ("answers", "shown", "marked"),
    [
        ([OVER, ANSWER], ROUNDS[2:], True),
        ([OVER, OVER, ANSWER], ROUNDS[5:], True),
        ([OVER, OVER, OVER, ANSWER], ROUNDS[6:], True),
        ([ModelError("window", "too long", gap=8), ANSWER], ROUNDS[5:], True),
        ([ModelError("window", "too long", gap=9_000), ANSWER], ROUNDS[9:], True),
        ([ANSWER], ROUNDS[1:], False),
    ],
)
def test_a_request_over_the_window_is_sent_again_without_the_oldest_rounds(answers, shown, marked):
    model = Answers(answers)
    made = STRATEGY.compact(ROUNDS, request(ROUNDS, model))
    text = model.asked[-1]["messages"][0].text
    marker = f"[user]\n{render('claude_code_marker')}\n\n" if marked else ""
    assert f"<conversation>\n{marker}{transcript(shown)}\n</conversation>" in text
    assert made.outcome == "applied"
    assert made.details["rounds_left_out"] == len(api_rounds(ROUNDS[1:])) - len(api_rounds(shown))


def test_a_fourth_request_over_the_window_is_a_failure():
    model = Answers([OVER] * 5)
    with pytest.raises(ModelError) as raised:
        STRATEGY.compact(ROUNDS, request(ROUNDS, model))
    assert raised.value.kind == "window"
    assert len(model.asked) == 4


def test_a_single_round_over_the_window_is_a_failure_at_once():
    messages = session(system("s"), user("too much")).messages
    model = Answers([OVER] * 2)
    with pytest.raises(ModelError):
        STRATEGY.compact(messages, request(messages, model))
    assert len(model.asked) == 1


def test_another_error_is_not_answered_by_leaving_something_out():
    model = Answers([ModelError("unavailable", "busy", status=503)])
    with pytest.raises(ModelError, match="busy"):
        STRATEGY.compact(ROUNDS, request(ROUNDS, model))


# --- the breaker


@pytest.mark.parametrize(
    ("earlier", "open_"),
    [
        ((), False),
        (("failed", "failed"), False),
        (("failed", "failed", "failed"), True),
        (("applied", "failed", "failed", "failed"), True),
        (("failed", "failed", "applied", "failed"), False),
        (("failed", "failed", "failed", "noop"), True),  # once open it stays open
        (("failed", "noop", "failed", "failed"), True),
        (("failed", "failed", "failed", "applied"), False),
    ],
)
def test_three_failures_in_a_row_open_the_breaker(earlier, open_):
    messages = work(3).messages
    model = Answers([ANSWER])
    made = STRATEGY.compact(messages, request(messages, model, earlier=earlier))
    assert made.outcome == ("noop" if open_ else "applied")
    assert len(model.asked) == (not open_)
    if open_:
        assert made.messages == messages
        assert made.note == "the breaker is open: 3 compactions failed in a row"


# --- files


@pytest.mark.parametrize(("restore", "number"), [("v1", 6), ("v2", 5), ("none", 0)])
def test_files_are_restored_after_the_summary(restore, number):
    messages = work(9).messages
    known = tuple(KnownFile(f"/srv/app/file{n}.py", f"text of file {n}", read_at=40 - n) for n in range(6))
    made = make("claude_code", {"restore": restore}).compact(
        messages, request(messages, Answers([ANSWER]), workspace=Files(known))
    )
    assert made.messages[1].id.startswith("summary-")
    restored = "\n".join(message.text for message in made.messages[2:])
    assert [f"text of file {n}" in restored for n in range(6)] == [n < number for n in range(6)]
    assert all(message.role == "user" for message in made.messages[2:])


def test_nothing_after_the_head_is_a_noop():
    messages = session(system("s")).messages
    assert STRATEGY.compact(messages, request(messages, Answers([]))).outcome == "noop"


@pytest.mark.parametrize("parameters", [{"restore": "v3"}, {"max_output": 0}, {"breaker": 0}])
def test_bad_parameters_are_set_up_errors(parameters):
    with pytest.raises(BenchError):
        make("claude_code", parameters)
