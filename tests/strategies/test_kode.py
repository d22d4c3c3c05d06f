"""kode: an opening statement of the user and the summary of the assistant, and nothing else after the head."""

from __future__ import annotations

from asking import Answers, request
from bench.strategies import make
from bench.strategies.transcript import transcript
from making import session, system, work

STRATEGY = make("kode", {})
DIRECTIONS = (
    "1. Technical Context", "2. Project Overview", "3. Code Changes", "4. Debugging & Issues", "5. Current Status",
    "6. Pending Tasks", "7. User Preferences", "8. Key Decisions",
)  # fmt: skip


def test_the_model_is_asked_once_for_eight_directions_of_all_that_follows_the_head():
    messages = work(3).messages
    model = Answers(["A summary."])
    STRATEGY.compact(messages, request(messages, model, instructions="Keep every port."))
    places = [model.text.index(direction) for direction in DIRECTIONS]
    assert places == sorted(places)
    assert transcript(messages[1:]) in model.text
    assert "Keep every port." in model.text
    assert messages[0].text not in model.text


def test_the_new_history_is_an_opening_statement_and_the_summary_of_the_assistant():
    messages = work(3).messages
    made = STRATEGY.compact(messages, request(messages, Answers(["\nA summary.\n"])))
    head, opening, summary = made.messages
    assert (made.outcome, head) == ("applied", messages[0])
    assert (opening.role, opening.id[:8]) == ("user", "opening-")
    assert "eight" in opening.text
    assert (summary.role, summary.text, summary.calls) == ("assistant", "A summary.", ())


def test_the_line_accounts_for_the_call():
    messages = work(3).messages
    assert STRATEGY.compact(messages, request(messages, Answers(["A summary."]))).note.startswith("summary: 16 → 3 messages · ")


def test_a_second_compaction_reads_the_first_and_replaces_it():
    messages = work(3).messages
    first = STRATEGY.compact(messages, request(messages, Answers(["The first summary."]))).messages
    model = Answers(["The second summary."])
    second = STRATEGY.compact((*first, *messages[1:6]), request(messages, model)).messages
    assert "The first summary." in model.text
    assert [message.text for message in second[2:]] == ["The second summary."]
    assert len(second) == 3


def test_nothing_after_the_head_is_a_noop():
    messages = session(system("s")).messages
    assert STRATEGY.compact(messages, request(messages, Answers([]))).outcome == "noop"
