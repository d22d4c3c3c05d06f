"""The model behind litellm, over real HTTP: what is not asked for twice, and where a run stops before it costs too much."""

from __future__ import annotations

import pytest

from bench.types import BenchError, ModelError, OverBudget
from making import user
from serving import (
    answer,
    half_closed,
    model_for,
    refusal,
    serve,
    status,
    tool_call,
)

HELLO = [user("Hello")]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def ask(model, messages=HELLO, **arguments):
    return model.generate(messages, purpose="test", **arguments)


# --- the response cache


def cached(server, folder, **parameters):
    return model_for(server, cache=True, cache_dir=str(folder), **parameters)


def test_a_good_answer_is_not_asked_for_twice(tmp_path):
    with serve(answer("first"), answer("second")) as server:
        first = ask(cached(server, tmp_path, prices={"input": 1, "output": 2}))
        again = cached(server, tmp_path, timeout=5, retries=1, concurrency=1).generate(HELLO, purpose="another")
    assert len(server.requests) == 1
    assert (first.cached, again.cached) == (False, True)
    assert (again.text, again.usage, again.usd, again.seconds) == (first.text, first.usage, first.usd, first.seconds)


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ({"model": "openai/other"}, {}),
        ({"temperature": 1.0}, {}),
        ({"parameters": {"top_p": 0.1}}, {}),
        ({}, {"max_tokens": 10}),
        ({}, {"schema": SCHEMA}),
        ({}, {"messages": [user("Hello!")]}),
    ],
    ids=["model", "temperature", "parameters", "max_tokens", "schema", "messages"],
)
def test_what_can_change_an_answer_is_another_question(tmp_path, parameters, arguments):
    with serve() as server:
        ask(cached(server, tmp_path))
        assert not ask(cached(server, tmp_path, **parameters), **arguments).cached
    assert len(server.requests) == 2


def test_every_endpoint_has_answers_of_its_own(tmp_path):
    with serve(answer("one")) as first, serve(answer("two")) as second:
        assert [ask(cached(server, tmp_path)).text for server in (first, second)] == ["one", "two"]


@pytest.mark.parametrize(
    "bad", [answer(""), tool_call(), refusal(), answer("", finish="content_filter")], ids=["empty", "call", "refusal", "filter"]
)
def test_only_good_answers_are_kept(tmp_path, bad):
    with serve(bad, answer("good")) as server:
        model = cached(server, tmp_path)
        ask(model)
        assert ask(model).text == "good"


# --- money


def test_a_run_stops_before_it_could_spend_too_much(tmp_path):
    prices = {"input": 0.0, "output": 1_000.0}  # 0.1 USD at most for 100 tokens, 0.02 USD for the 20 that come
    with serve(answer("ok", usage=(10, 20))) as server:
        model, other = (model_for(server, prices=prices, max_output=100) for _ in range(2))
        model.limit(tmp_path, 0.15)
        other.limit(tmp_path, 0.15)  # another process of the same run
        for asked in (model, other, model):
            ask(asked)
        with pytest.raises(OverBudget, match=r"could cost \$0\.1000 and \$0\.0600 of max_usd=0\.15 are spent"):
            ask(other)
        assert ask(other, max_tokens=90).text == "ok"
    assert len(server.requests) == 4


def test_a_refused_call_costs_nothing_and_a_lost_one_may(tmp_path):
    parameters = {"prices": {"input": 0.0, "output": 1_000.0}, "max_output": 100, "retries": 0}
    with serve(status(503), half_closed(), answer("ok")) as server:
        model = model_for(server, **parameters)
        model.limit(tmp_path, 0.15)
        for _ in range(2):
            with pytest.raises(ModelError):
                ask(model)
        with pytest.raises(OverBudget, match=r"\$0\.1000 of"):
            ask(model)


def test_a_limit_needs_a_price_and_the_length_of_an_answer(tmp_path):
    with serve() as server:
        with pytest.raises(BenchError, match="model.prices="):
            model_for(server).limit(tmp_path, 1)
        with pytest.raises(BenchError, match="model.max_output"):
            model_for(server, prices={"input": 1, "output": 1}).limit(tmp_path, 1)
