from __future__ import annotations

import random

import pytest

from bench.strategies import make
from bench.tokens import counter
from bench.types import CompactionRequest, RecordedCompaction
from making import assistant, call, result, session, system, user

CONTEXT = session(
    system("s"), user("q" * 400), assistant("a", call("c")), result("c", "r" * 600), assistant("b")
).messages  # 1000 characters of user and result, and a few more
SUMMARY = user("so far", id="summary-1")


def compact(recorded):
    request = CompactionRequest(1, 1, 0, counter().messages, random.Random(0), recorded=recorded)
    return make("recorded", {}).compact(CONTEXT, request)


def test_what_the_product_left_is_returned_as_it_is():
    made = compact(RecordedCompaction(5, "auto", 900, 80, "so far", (SUMMARY, CONTEXT[4])))
    assert made.messages == (SUMMARY, CONTEXT[4])
    assert made.outcome == "applied"
    assert made.note == "summary: 5 → 2 messages · 99% smaller"
    assert made.details == {"trigger": "auto", "tokens_before": 900, "tokens_after": 80}


def test_a_compaction_without_a_summary_says_so():
    made = compact(RecordedCompaction(5, "microcompact", left=(*CONTEXT[:3], result("c", "", id="m3"), CONTEXT[4])))
    assert (made.outcome, made.note) == ("applied", "recorded: 5 → 5 messages · 60% smaller")


@pytest.mark.parametrize("recorded", [None, RecordedCompaction(5, "auto")])
def test_without_a_recording_there_is_nothing_to_take(recorded):
    made = compact(recorded)
    assert (made.messages, made.outcome) == (CONTEXT, "noop")
    assert made.note == "there is no recorded compaction here"


def test_a_product_that_left_everything_did_nothing():
    assert compact(RecordedCompaction(5, left=CONTEXT)).outcome == "noop"
