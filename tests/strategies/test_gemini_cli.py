"""gemini_cli: its estimate, the cut results, the split, the two calls, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import Answers, request
from bench.prompts import render
from bench.sessions.document import json_text
from bench.strategies import make
from bench.strategies.gemini_cli import MOST, GeminiCli, _content, estimate, head_and_tail, split_point, truncated
from bench.strategies.transcript import transcript
from bench.tokens import counter
from bench.types import BenchError, ModelError
from making import assistant, call, result, session, sessions, system, user, work

ONCE = make("gemini_cli", {"verify": False})
TWICE = make("gemini_cli", {})
SNAPSHOT = "<scratchpad>first the goal</scratchpad>\n<state_snapshot><overall_goal>limits</overall_goal></state_snapshot>"


def test_the_numbers_are_those_of_the_specification():
    assert GeminiCli() == GeminiCli(parts=7, verify=True, preserve=0.3, tool_budget=50_000)
    assert MOST == 40_000


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (user("a" * 400), 100),
        (user("é" * 100), 150),
        (user("a" * 100 + "字" * 10), 40),
        (user("é" * 100_000), 150_000),
        (user("é" * 100_001), 25_000),  # a text this long is not looked at
        (user("", images=2), 6_000),
        (assistant("", call("a", "Bash")), 1),  # Bash{}
        (assistant("", call("a", "Bash", command="x" * 85)), 25),  # Bash{"command":"..."}
    ],
)
def test_the_estimate(message, tokens):
    assert estimate([message]) == tokens


# --- results over the budget


def outputs(*texts: str):
    calls = [call(f"c{n}", "Bash") for n in range(len(texts))]
    return session(user("go"), assistant("", *calls), *(result(f"c{n}", text) for n, text in enumerate(texts))).messages


@pytest.mark.parametrize(
    ("tokens", "cut"),  # tokens of the results, oldest first; which of them are cut
    [
        ([50_000], []),
        ([50_001], [0]),
        ([25_000, 25_000], []),
        ([25_001, 25_000], [0]),
        ([60_000, 20_000], [0]),  # 20,000 and the 10,000 that are left of it
        ([15_000, 60_000, 20_000], [1]),  # a cut result counts with what is left of it
        ([20_000, 60_000, 20_000], [0, 1]),
        ([10_000, 45_000, 20_000, 50_000], [1, 2]),  # 40,000 characters are what would be left: nothing to cut
    ],
)
def test_results_share_50_000_tokens_newest_first(tokens, cut):
    messages = outputs(*("abcd" * size for size in tokens))
    short = truncated(messages, 50_000, 40_000)
    assert [n for n in range(len(tokens)) if short[2 + n] is not messages[2 + n]] == cut
    assert short[:2] == messages[:2]


def test_a_cut_result_keeps_a_fifth_of_the_characters_at_its_head_and_the_rest_at_its_tail():
    [*_, message] = outputs("h" * 8_000 + "m" * 200_000 + "t" * 32_000)
    [*_, short] = truncated([message], 50_000, 40_000)
    head, missing, tail = short.text.split("\n\n")
    assert (head, tail) == ("h" * 8_000, "t" * 32_000)
    assert "200000 of 240000 characters" in missing
    assert replace(short, text="") == replace(message, text="")


def test_the_file_that_would_hold_a_result_has_a_relative_name_of_its_own():
    messages = session(assistant("", call("c/1..", "mcp read")), result("c/1..", "x" * 250_000)).messages
    assert "tool-outputs/mcp_read_c_1__.txt" in truncated(messages, 50_000, 40_000)[1].text


def test_a_result_over_the_budget_that_is_no_longer_than_what_would_be_left_stays():
    messages = outputs("x" * 40_000, "y" * 199_000)
    assert truncated(messages, 50_000, 40_000) == messages


@pytest.mark.parametrize(("left", "characters"), [(100_000, 40_000), (10_001, 40_000), (9_000, 36_000), (1, 4), (0, 0), (-5, 0)])
def test_a_cut_result_has_four_characters_for_each_token_left_in_the_window(left, characters):
    messages = (*outputs("x" * 250_000), assistant("done"), user("and now?"), assistant("More."))
    asked = request(messages, Answers([SNAPSHOT]), window=counter().messages(messages) + left, earlier=("invalid",))
    made = ONCE.compact(messages, asked)
    assert made.messages[2].text.count("x") == characters + 1  # and the one of "txt"


@given(st.text(max_size=300), st.integers(0, 299))
def test_head_and_tail_are_of_the_text(text, characters):
    if len(text) > characters:
        short = head_and_tail(text, characters, "f")
        assert short.startswith(text[: characters // 5])
        assert short.endswith(text[len(text) - (characters - characters // 5) :])


# --- the split


def size(message) -> int:
    return len(json_text(_content(message)))


def test_the_size_of_a_message_is_that_of_its_json():
    assert _content(user("hi")) == {"role": "user", "parts": [{"text": "hi"}]}
    assert _content(assistant("", call("a", "Bash", command="ls"))) == {
        "role": "model", "parts": [{"functionCall": {"id": "a", "name": "Bash", "args": {"command": "ls"}}}],
    }  # fmt: skip
    assert _content(result("a", "out"))["role"] == "user"


def sized(role: str, number: int):
    """A message of 200 JSON characters."""
    match role:
        case "c":
            message = assistant("x", call(f"{number}"))
        case "r":
            message = result(f"{number - 1}", "x")
        case _:
            message = (user if role == "u" else assistant)("x")
    return replace(message, text="x" * (201 - size(message)))


@pytest.mark.parametrize(
    ("roles", "preserve", "split"),  # messages of equal size: u a user's, a an answer, c a call, r its result
    [
        ("uauauauaua", 0.3, 8),  # 7 messages are 70 %, the next user message is number 8
        ("uauauauaua", 0.4, 6),  # exactly at the target
        ("uauauauaua", 0.41, 6),
        ("uauauauaua", 0.9, 2),
        ("uauauacrcr", 0.3, 4),  # none at or beyond it, and the last is a result: the last user message before
        ("uauauacrca", 0.3, 10),  # the last is an answer: everything
        ("uauauacrcc", 0.3, 4),  # the last is a call
        ("uauauaaaau", 0.3, 9),
        ("ucrcrcrcrc", 0.3, 0),  # one user message: nothing
        ("ucrcrcrcra", 0.3, 10),  # or everything
        ("crcrcrcrcr", 0.3, 0),
        ("u", 0.3, 0),
        ("a", 0.3, 1),
        ("", 0.3, 0),
    ],
)
def test_the_split(roles, preserve, split):
    made = [sized(role, number) for number, role in enumerate(roles)]
    assert {size(message) for message in made} <= {200}
    assert split_point(made, preserve) == split


def test_a_late_result_is_not_torn_from_its_call():
    late = session(
        user("u" * 500), assistant("I begin."), user("and"), assistant("", call("slow")), user("wait" * 90), result("slow", "r")
    ).messages
    assert split_point(late, 0.3) == 2


@given(sessions(), st.floats(0.01, 0.99))
def test_what_is_kept_begins_with_a_real_user_message(made, preserve):
    split = split_point(made.messages, preserve)
    assert split in (0, len(made.messages)) or made.messages[split].role == "user"
    before = {c.id for message in made.messages[:split] for c in message.calls}
    assert not before & {message.call_id for message in made.messages[split:]}


# --- the calls


def test_a_snapshot_an_acknowledgement_and_the_rest_of_the_history():
    messages = work(9).messages
    made = ONCE.compact(messages, request(messages, Answers([f"\n{SNAPSHOT}\n"])))
    head, snapshot, acknowledgement, *kept = made.messages
    assert (made.outcome, head) == ("applied", messages[0])
    assert (snapshot.role, snapshot.text) == ("user", SNAPSHOT)  # with its scratchpad
    assert (acknowledgement.role, acknowledgement.text) == ("assistant", render("gemini_cli_acknowledgement"))
    assert kept[0].role == "user"
    assert tuple(kept) == messages[len(messages) - len(kept) :]
    assert made.details == {"split": len(messages) - len(kept)}
    assert made.note.startswith("summary: 43 → ")


PARTS = {
    5: ["overall_goal", "key_knowledge", "file_system_state", "recent_actions", "current_plan"],
    7: ["overall_goal", "active_constraints", "key_knowledge", "artifact_trail", "file_system_state", "recent_actions", "task_state"],
}  # fmt: skip


@pytest.mark.parametrize("parts", [5, 7])
def test_the_prompt_asks_for_a_scratchpad_and_the_parts(parts):
    messages = work(9).messages
    model = Answers([SNAPSHOT])
    made = make("gemini_cli", {"parts": parts, "verify": False}).compact(
        messages, request(messages, model, instructions="Ports!")
    )
    text = model.text
    assert [name for name in dict.fromkeys(PARTS[7] + PARTS[5]) if f"</{name}>" in text] == sorted(
        PARTS[parts], key=(PARTS[7] + PARTS[5]).index
    )
    places = [text.index(f"<{name}>") for name in ["scratchpad", "state_snapshot", *PARTS[parts]]]
    assert places == sorted(places)
    assert "Security rule" in text
    assert ("plan that the user approved" in text) == (parts == 7)
    assert "Ports!" in text
    assert f"<conversation>\n{transcript(messages[1 : made.details['split']])}\n</conversation>" in text
    assert "earlier <state_snapshot>" not in text


def test_the_second_call_sees_the_first_and_replaces_it():
    messages = work(9).messages
    model = Answers([SNAPSHOT, "<state_snapshot>better</state_snapshot>"])
    made = TWICE.compact(messages, request(messages, model))
    assert made.messages[1].text == "<state_snapshot>better</state_snapshot>"
    first, second = ([message.text for message in asked["messages"]] for asked in model.asked)
    assert second == [first[0], render("gemini_cli_verify", answer=SNAPSHOT)]
    assert [asked["purpose"] for asked in model.asked] == ["summary", "verification"]
    assert made.note.endswith(" · 200 in, 40 out")


def test_an_empty_second_answer_leaves_the_first():
    messages = work(9).messages
    assert TWICE.compact(messages, request(messages, Answers([SNAPSHOT, " \n"]))).messages[1].text == SNAPSHOT


@pytest.mark.parametrize("answers", [[" "], [ModelError("timeout", "late")], [SNAPSHOT, ModelError("timeout", "late")]])
def test_an_empty_first_answer_and_a_failed_call_are_failures(answers):
    messages = work(9).messages
    with pytest.raises(ModelError):
        TWICE.compact(messages, request(messages, Answers(answers)))


def test_an_earlier_snapshot_is_to_be_integrated():
    messages = work(9).messages
    first = ONCE.compact(messages, request(messages, Answers([SNAPSHOT]))).messages
    later = tuple(replace(message, id=f"later-{message.id}") for message in work(9, id="later").messages[1:])
    model = Answers(["<state_snapshot>both</state_snapshot>"])
    second = ONCE.compact((*first, *later), request(messages, model)).messages
    assert "earlier <state_snapshot>" in model.text
    assert SNAPSHOT in model.text
    assert sum("<state_snapshot>" in message.text for message in second) == 1


def test_a_snapshot_that_a_tool_printed_is_none():
    messages = session(
        user("go"), assistant("", call("a")), result("a", f"{SNAPSHOT} " * 20), assistant("done"), user("on"), assistant("yes")
    ).messages
    model = Answers([SNAPSHOT])
    ONCE.compact(messages, request(messages, model))
    assert "earlier <state_snapshot>" not in model.text


@pytest.mark.parametrize(("window", "whole"), [(None, True), (100_000, True), (62_000, False), (1, False)])
def test_the_model_reads_the_cut_history_only_when_the_whole_does_not_fit_its_window(window, whole):
    messages = (*outputs("abcd" * 62_000), assistant("done"), user("and?"), assistant("yes " * 9_000))
    model = Answers([SNAPSHOT], window=window)
    made = ONCE.compact(messages, request(messages, model))
    assert made.outcome == "applied"
    assert ("abcd" * 62_000 in model.text) == whole
    assert ("tool-outputs/Bash_c0.txt" in model.text) != whole


def test_what_is_kept_is_the_cut_history():
    big = (assistant("", call("z")), result("z", "x" * 250_000))
    messages = session(user("u" * 900_000), assistant("yes"), user("on"), *big).messages
    made = ONCE.compact(messages, request(messages, Answers([SNAPSHOT]), window=10**6))
    assert [message.id for message in made.messages[2:]] == ["m2", "m3", "m4"]
    assert len(made.messages[-1].text) < 41_000


# --- no-ops


def test_a_session_with_one_user_message_is_a_noop_that_says_so():
    messages = session(
        system("s"), user("go"), *(m for n in range(9) for m in (assistant("", call(f"{n}")), result(f"{n}", "out")))
    ).messages
    made = ONCE.compact(messages, request(messages, Answers([])))
    assert (made.outcome, made.messages) == ("noop", messages)
    assert "no user message after the first" in made.note


def test_an_inflated_result_is_invalid_and_says_so():
    messages = work(9).messages
    made = ONCE.compact(messages, request(messages, Answers([SNAPSHOT * 1_000])))
    assert (made.outcome, made.messages) == ("invalid", messages)
    assert made.note.startswith(f"inflated: {estimate(messages)} tokens would become ")


def test_after_an_inflated_result_only_results_are_cut():
    messages = (*work(9).messages[:20], *work(9, id="more").messages[20:])
    asked = request(messages, Answers([]), earlier=("applied", "invalid"))
    made = ONCE.compact(messages, asked)
    assert (made.outcome, made.messages) == ("noop", messages)
    large = (*messages, assistant("", call("big")), result("big", "x" * 250_000))
    made = ONCE.compact(large, asked)
    assert made.outcome == "applied"
    assert made.note.startswith("content truncated")
    assert made.messages[:-1] == large[:-1]
    assert "tool-outputs/Bash_big.txt" in made.messages[-1].text


@pytest.mark.parametrize(
    "parameters", [{"parts": 6}, {"preserve": 0.0}, {"preserve": 1.0}, {"tool_budget": -1}, {"verify": "yes"}]
)
def test_bad_parameters_are_set_up_errors(parameters):
    with pytest.raises(BenchError):
        make("gemini_cli", parameters)
