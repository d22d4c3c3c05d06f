"""What is refused over real HTTP, and what then stands in for it."""

from __future__ import annotations

import json
import time

import pytest

from asking import decided, request
from bench.models.recorder import Recorder
from bench.strategies import make
from bench.strategies.fallback import fall_back
from bench.types import BenchError
from making import assistant, call, result, session, user, work
from serving import answer, half_closed, model_for, no_choices, not_json, refusal, serve, status, tool_call

MESSAGES = session(
    user("go"), assistant("", call("a"), call("b")), result("a", "A" * 9_000), result("b", "B"),
    *(user("on") if number % 2 else assistant("next") for number in range(6)),
).messages  # fmt: skip
SUMMARY = "1. Request and intent: go on. " * 10
JUDGED = json.dumps({"calls": [{"id": name, "keepCall": 0, "keepResult": 0} for name in ("t1", "t2")]})
GOOD = {"gemini_compact": SUMMARY, "gemini_prune": decided(c1="drop", c2="keep"), "jev_prune": JUDGED}
NAMES = tuple(GOOD)


def compact(name: str, *behaviours, fallback: str = "none", messages=MESSAGES, **model):
    """What strategy `name` makes when its model behaves so, and the requests that reached the model."""
    with serve(*behaviours) as server:
        made = make(name, {"fallback": fallback}).compact(
            messages, request(messages, model_for(server, **({"retries": 0} | model)))
        )
    return made, server.requests


@pytest.mark.parametrize("name", NAMES)
def test_a_usable_answer_is_applied(name):
    made, requests = compact(name, answer(GOOD[name]))
    assert made.outcome == "applied"
    assert len(requests) == 1
    assert requests[0].json.get("max_tokens") == (32_768 if name == "gemini_compact" else None)
    schema = requests[0].json.get("response_format", {}).get("json_schema", {}).get("schema", {})
    assert list(schema.get("required", [])) == {"gemini_compact": [], "gemini_prune": ["decisions"], "jev_prune": ["calls"]}[name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (status(429, "Resource has been exhausted"), "HTTP 429: Resource has been exhausted"),
        (status(401, "no such key"), "HTTP 401: no such key"),
        (status(500, "broken"), "HTTP 500: broken"),
        (status(400, "what?"), "HTTP 400: what?"),
        (refusal(), "the model refused"),
        (tool_call(), "the model answered with a tool call instead of text"),
        (answer("  \n"), "the answer is empty"),
        (answer(SUMMARY, finish="length"), "the answer was cut off at its output limit"),
        (no_choices(), ""),
        (not_json(), ""),
        (half_closed(), ""),
    ],
)
def test_a_model_that_fails_is_refused_with_a_reason(name, behaviour, why):
    made, _ = compact(name, behaviour)
    assert made.outcome == "fallback"
    assert made.note.startswith("built-in summary: ")
    assert made.note.endswith(why)
    assert len(made.note) > 20
    assert made.messages == MESSAGES
    assert made.details == {"fallback": "none", "fallback_note": "no compaction"}


@pytest.mark.parametrize(
    ("name", "said", "why"),
    [
        ("gemini_compact", "s" * 199, "the summary has 199 characters, under 200"),
        ("gemini_compact", "s" * 20_000, "the result is not smaller than the conversation"),
        ("gemini_prune", "I keep c1.", "the answer is not JSON"),
        ("gemini_prune", "{}", "the answer is not an object that holds a list of decisions and nothing else"),
        ("gemini_prune", decided(c1="drop"), "the answer leaves out 1 of 2 calls, c2 first"),
        ("gemini_prune", decided(c1="drop", c2="drop", c3="drop"), "the answer names a call that was not asked about: c3"),
        ("gemini_prune", '{"decisions": [%s, %s]}' % (('{"id": "c1", "action": "drop"}',) * 2), "the answer decides c1 twice"),
        ("gemini_prune", decided(c1="drop", c2="stay"), "the action for c2 is not one of keep, truncate, drop"),
        ("gemini_prune", decided(c1="keep", c2="drop"), "under 25% smaller (kept 9/9 messages · -1% smaller)"),
        ("jev_prune", JUDGED.replace("0}", "2}"), "a probability of t1 is not a number from 0 to 1"),
        ("jev_prune", JUDGED.replace("0}", "1}"), "under 25% smaller (kept 9/9 messages · 0% smaller)"),
    ],
)
def test_an_answer_that_breaks_a_rule_of_the_seed_is_refused_with_a_reason(name, said, why):
    made, _ = compact(name, answer(said))
    assert (made.outcome, made.note) == ("fallback", f"built-in summary: {why}")
    assert made.messages == MESSAGES


@pytest.mark.parametrize("name", ["gemini_compact", "gemini_prune"])
def test_high_demand_is_asked_again_after_a_second_and_nothing_else_is(name):
    began = time.perf_counter()
    made, requests = compact(name, status(503, "high demand"), answer(GOOD[name]))
    assert (made.outcome, len(requests)) == ("applied", 2)
    assert time.perf_counter() - began >= 1
    for code in (500, 502, 504, 429):
        made, requests = compact(name, status(code, "no"), answer(GOOD[name]), retries=3)
        assert (made.note, len(requests)) == (f"built-in summary: HTTP {code}: no", 1)


def test_high_demand_is_asked_four_times_at_most():
    began = time.perf_counter()
    made, requests = compact("gemini_compact", status(503, "high demand"))
    assert (made.note, len(requests)) == ("built-in summary: HTTP 503: high demand", 4)
    assert time.perf_counter() - began >= 1 + 2 + 3


# --- what stands in


def test_the_built_in_summary_stands_in():
    messages = work(9).messages
    made, requests = compact(
        "gemini_prune", answer("no"), answer(f"<summary>{SUMMARY}</summary>"), fallback="claude_code", messages=messages
    )
    assert (made.outcome, made.note) == ("fallback", "built-in summary: the answer is not JSON")
    assert made.details["fallback"] == "claude_code"
    assert len(requests) == 2
    assert made.messages[0] == messages[0]
    assert SUMMARY.strip() in made.messages[1].text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("code", [429, 401, 500])
def test_a_model_that_is_down_is_not_asked_for_the_built_in_summary(name, code):
    made, requests = compact(name, status(code, "down"), fallback="claude_code")
    assert made.details == {"fallback": "none", "fallback_note": "the model is down"}
    assert made.messages == MESSAGES
    assert len(requests) == 1


def test_a_strategy_without_a_model_stands_in_when_the_model_is_down():
    made, _ = compact("gemini_compact", status(429, "down"), fallback="reset")
    assert (made.outcome, made.details["fallback"]) == ("fallback", "reset")
    assert len(made.messages) < len(MESSAGES)


def test_a_fallback_that_fails_too_leaves_the_context():
    made, requests = compact("gemini_prune", answer("no"), status(400, "nor that"), fallback="claude_code")
    assert made.details == {"fallback": "none", "fallback_note": "claude_code failed too: HTTP 400: nor that"}
    assert made.messages == MESSAGES
    assert len(requests) == 2


def test_a_fallback_that_changes_nothing_is_none():
    made = fall_back(MESSAGES, request(MESSAGES), "why", "oldest")
    assert (made.outcome, made.messages, made.details["fallback"]) == ("fallback", MESSAGES, "none")
    assert "within the target" in made.details["fallback_note"]


def test_every_request_of_a_fallback_is_recorded():
    with serve(answer("no"), answer(f"<summary>{SUMMARY}</summary>")) as server:
        model = Recorder(model_for(server, retries=0))
        make("gemini_prune", {}).compact(MESSAGES, request(MESSAGES, model))
    assert [made.purpose for made in model.calls] == ["decisions", "summary"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fallback", [None, "nobody", "custom"])
def test_a_fallback_that_cannot_be_is_a_set_up_error(name, fallback):
    with pytest.raises(BenchError):
        make(name, {"fallback": fallback or name})
