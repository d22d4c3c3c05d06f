"""handoff: five parts and no narrative, then a context that holds nothing but the head and the handoff."""

from __future__ import annotations

from asking import Answers, request
from bench.strategies import make
from bench.strategies.transcript import transcript
from making import session, system, work

STRATEGY = make("handoff", {})
HANDOFF = "1. Goal: limits everywhere.\n3. Left:\n   1. the schema\n5. Verify: make test"


def test_the_model_is_asked_for_the_five_parts_of_the_seed():
    messages = work(3).messages
    model = Answers([HANDOFF])
    STRATEGY.compact(messages, request(messages, model, instructions="Name the port."))
    parts = ("1. Goal: ", "two sentences", "2. Done: ", "paths", "3. Left: ", "numbered list", "4. Constraints and decisions: ",
             "ruled out", "5. Verify: ", "exact command", "no story", "diff")  # fmt: skip
    places = [model.text.index(part) for part in parts]
    assert places == sorted(places)
    assert transcript(messages[1:]) in model.text
    assert "Name the port." in model.text


def test_the_context_is_cleared_and_the_tail_goes_too():
    messages = work(3).messages
    made = STRATEGY.compact(messages, request(messages, Answers([f"{HANDOFF}\n"])))
    head, handoff = made.messages
    assert (made.outcome, head) == ("applied", messages[0])
    assert (handoff.role, handoff.id[:8]) == ("user", "handoff-")
    assert HANDOFF in handoff.text


def test_the_fresh_session_is_told_to_go_on_with_item_1_and_to_do_nothing_twice():
    messages = work(3).messages
    text = STRATEGY.compact(messages, request(messages, Answers([HANDOFF]))).messages[-1].text
    order = text.split(HANDOFF)[1]
    assert "item 1" in order
    assert "do not do it again" in order


def test_the_line_accounts_for_the_call():
    messages = work(3).messages
    assert STRATEGY.compact(messages, request(messages, Answers([HANDOFF]))).note.startswith("summary: 16 → 2 messages · ")


def test_nothing_after_the_head_is_a_noop():
    messages = session(system("s")).messages
    assert STRATEGY.compact(messages, request(messages, Answers([]))).outcome == "noop"
