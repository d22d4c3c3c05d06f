"""The model behind litellm, over real HTTP: every way in which a call fails, and when it is tried again."""

from __future__ import annotations

import time

import pytest

from bench.types import ModelError, Retry
from making import user
from serving import (
    answer,
    half_closed,
    missing_content,
    model_for,
    no_choices,
    not_json,
    raw,
    serve,
    slow,
    status,
    wrong_role,
)

HELLO = [user("Hello")]
BUSY = frozenset({"unavailable"})


def ask(model, messages=HELLO, **arguments):
    return model.generate(messages, purpose="test", **arguments)


def failure(*behaviours, **parameters) -> tuple[ModelError, int]:
    """The error of a call, and how many requests it made."""
    with serve(*behaviours) as server, pytest.raises(ModelError) as caught:
        ask(model_for(server, **parameters))
    return caught.value, len(server.requests)


# --- how a call fails


@pytest.mark.parametrize(
    ("code", "kind", "requests"),
    [
        (400, "request", 1),
        (401, "key", 1),
        (402, "key", 1),
        (403, "key", 1),
        (404, "request", 1),
        (422, "request", 1),
        (429, "rate_limit", 3),
        (500, "unavailable", 3),
        (502, "unavailable", 3),
        (503, "unavailable", 3),
        (504, "unavailable", 3),
        (529, "unavailable", 3),
    ],
)
def test_an_http_error_says_its_number_and_the_providers_words(code, kind, requests):
    error, made = failure(status(code, f"words\nof {code}"), retries=2)
    assert (error.kind, error.status, str(error), made) == (kind, code, f"HTTP {code}: words of {code}", requests)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (raw(503, b"<html>gateway down</html>"), "HTTP 503: <html>gateway down</html>"),
        (raw(503, b""), "HTTP 503: Service Unavailable"),
        (raw(503, {"detail": "not now"}), "HTTP 503: not now"),
        (raw(503, {"error": "not now"}), "HTTP 503: not now"),
        (raw(503, [{"error": {"message": "not now"}}]), "HTTP 503: not now"),
        (status(503, "x" * 1_000), "HTTP 503: " + "x" * 199 + "…"),
    ],
)
def test_a_providers_words_are_one_short_line_whatever_the_body(behaviour, words):
    error, _ = failure(behaviour, retries=0)
    assert str(error) == words


@pytest.mark.parametrize(
    ("words", "gap"),
    [
        ("This model's maximum context length is 128000 tokens. However, your messages resulted in 130500 tokens.", 2_500),
        ("prompt is too long: 208310 tokens > 200000 maximum", 8_310),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 151_424),
        ("This model's maximum context length is exceeded.", None),
    ],
)
def test_a_request_over_the_window_says_by_how_much(words, gap):
    error, made = failure(status(400, words, code="context_length_exceeded"))
    assert (error.kind, error.gap, error.status, made) == ("window", gap, 400, 1)


def test_a_request_over_a_known_window_is_not_sent():
    with serve() as server, pytest.raises(ModelError, match="not sent") as caught:
        ask(model_for(server, window=100), [user("word " * 200)])
    assert caught.value.kind == "window"
    assert 100 < caught.value.gap < 110  # 200 words, 4 for the message
    assert not server.requests


def test_a_time_out_is_told_and_tried_again():
    error, made = failure(slow(5, answer("late")), timeout=0.2, retries=1)
    assert (error.kind, made) == ("timeout", 2)
    assert str(error).startswith("no answer within 0.2 s from http://127.0.0.1:")


def test_a_half_sent_answer_is_a_lost_connection():
    error, made = failure(half_closed(), retries=1)
    assert (error.kind, made) == ("connection", 2)
    assert "failed: peer closed connection" in str(error)


def test_nobody_there_is_a_lost_connection():
    with serve() as server:
        model = model_for(server, retries=0)
    with pytest.raises(ModelError, match="refused") as caught:
        ask(model)
    assert caught.value.kind == "connection"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (not_json(), "cannot be read"),
        (raw(200, [1, 2]), "cannot be read"),
        (raw(200, {}), "cannot be read"),
        (no_choices(), "no choices"),
        (wrong_role(), "the role user"),
        (missing_content(), "no content"),
        (answer(None), "no content"),
        (status(400, "Not this.", code="content_policy_violation"), "the model refused"),
    ],
    ids=["no-json", "list", "nothing", "no-choices", "role", "missing", "null", "policy"],
)
def test_an_answer_of_no_use_is_refused_and_not_asked_for_again(behaviour, words):
    error, made = failure(behaviour)
    assert (error.kind, made) == ("answer", 1)
    assert words in str(error)


@pytest.mark.parametrize(("code", "kind"), [(429, "rate_limit"), (502, "unavailable"), ("broken", "answer")])
def test_an_error_inside_an_answer_counts_as_one(code, kind):
    error, _ = failure(raw(200, {"error": {"message": "upstream is gone", "code": code}}), retries=0)
    assert (error.kind, "upstream is gone" in str(error)) == (kind, True)


def test_a_failure_while_another_is_handled_is_not_taken_for_it():
    with serve(status(503, "busy"), not_json()) as server:
        model = model_for(server, retries=0)
        try:
            ask(model)
        except ModelError as error:
            first = error
            with pytest.raises(ModelError) as caught:
                ask(model)
    assert (first.kind, caught.value.kind) == ("unavailable", "answer")


# --- again


def test_a_call_is_tried_again_until_it_is_answered():
    with serve(status(503), status(429), half_closed(), answer("At last.")) as server:
        assert ask(model_for(server, retries=3)).text == "At last."
    assert len(server.requests) == 4


def test_a_given_rule_replaces_the_models_own():
    rule = Retry(BUSY, (0.01, 0.01, 0.01))
    with serve(status(503)) as server, pytest.raises(ModelError):
        ask(model_for(server, retries=7), retry=rule)
    assert len(server.requests) == 4
    with serve(status(500), slow(5, answer("late"))) as server, pytest.raises(ModelError) as caught:
        ask(model_for(server, timeout=0.2), retry=rule)
    assert (caught.value.kind, len(server.requests)) == ("timeout", 2)  # not a kind of the rule


def test_the_waits_of_one_two_and_three_seconds_are_kept():
    began = time.monotonic()
    with serve(status(503, "high demand")) as server, pytest.raises(ModelError, match="HTTP 503: high demand"):
        ask(model_for(server), retry=Retry(BUSY, (1, 2, 3), within=60))
    assert 6 <= time.monotonic() - began < 12
    assert len(server.requests) == 4


def test_no_attempt_starts_once_the_time_is_over():
    with serve(slow(0.3, status(503))) as server, pytest.raises(ModelError):
        ask(model_for(server), retry=Retry(BUSY, (0.1, 0.1, 0.1), within=0.75))
    assert len(server.requests) == 2  # the second ends after 0.7 s, and a wait of 0.1 s would end too late
