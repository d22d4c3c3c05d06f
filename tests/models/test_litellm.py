"""The model behind litellm, over real HTTP: what is sent, what comes back, which key is used, and what the model says of itself."""

from __future__ import annotations

import logging
import traceback

import pytest

from bench.models import make
from bench.models.litellm import LiteLLM
from bench.types import BenchError, ModelError, Retry, Usage
from making import assistant, call, result, system, user
from serving import (
    answer,
    by_key,
    model_for,
    raw,
    refusal,
    serve,
    slow,
    status,
    tool_call,
)

HELLO = [user("Hello")]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
BUSY = frozenset({"unavailable"})


def ask(model, messages=HELLO, **arguments):
    return model.generate(messages, purpose="test", **arguments)


def failure(*behaviours, **parameters) -> tuple[ModelError, int]:
    """The error of a call, and how many requests it made."""
    with serve(*behaviours) as server, pytest.raises(ModelError) as caught:
        ask(model_for(server, **parameters))
    return caught.value, len(server.requests)


# --- what is sent


def test_a_request_holds_what_the_configuration_says_and_nothing_else():
    with serve() as server:
        messages = [
            system("Be short."),
            user("Look."),
            assistant("I look.", call("c1", "Read", path="a.py")),
            result("c1", "x = 1"),
            user("And?"),
        ]
        output = ask(model_for(server, parameters={"top_p": 0.5}), messages, max_tokens=50)
    (request,) = server.requests
    assert output.text == "ok"
    assert request.path == "/v1/chat/completions"
    assert request.key == "no-key-needed"
    assert request.json == {
        "model": "test-model",
        "temperature": 0.0,
        "top_p": 0.5,
        "max_tokens": 50,
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"a.py"}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
            {"role": "user", "content": "And?"},
        ],
    }


def test_no_temperature_is_sent_when_it_is_null():
    with serve() as server:
        ask(model_for(server, temperature=None))
    assert "temperature" not in server.requests[0].json


@pytest.mark.parametrize(("supported", "sent"), [(True, True), (False, False)])
def test_a_schema_is_sent_where_the_provider_takes_one(supported, sent):
    with serve(answer('{"a": "b"}')) as server:
        ask(model_for(server, schema=supported), schema=SCHEMA)
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    assert server.requests[0].json.get("response_format") == (form if sent else None)


@pytest.mark.parametrize(("asked", "sent"), [(5_000, 1_000), (500, 500), (None, None)])
def test_max_tokens_is_capped_at_what_the_model_can_write(asked, sent):
    with serve() as server:
        ask(model_for(server, max_output=1_000), max_tokens=asked)
    assert server.requests[0].json.get("max_tokens") == sent


@pytest.mark.parametrize(
    ("name", "on", "number", "marked"),
    [
        ("openai/claude-x", True, 3, [1]),
        ("openai/claude-x", True, 1, []),
        ("openai/claude-x", False, 3, []),
        ("openai/test-model", True, 3, []),
    ],
)
def test_the_last_message_but_one_is_marked_for_the_prompt_cache_of_claude(name, on, number, marked):
    with serve() as server:
        ask(model_for(server, model=name, prompt_cache=on), [user(f"part {n}") for n in range(number)])
    request = server.requests[0]
    assert [n for n, message in enumerate(request.messages) if isinstance(message["content"], list)] == marked
    for n in marked:
        (part,) = request.messages[n]["content"]
        assert part == {"type": "text", "text": f"part {n}", "cache_control": {"type": "ephemeral"}}
    assert request.texts == [f"part {n}" for n in range(number)]


def test_another_provider_gets_its_own_form_and_its_counts_are_told_apart(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-ant-something")
    counts = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 300}
    body = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Hi."}], "usage": counts,
    }  # fmt: skip
    with serve(raw(200, body)) as server:
        url = server.url.removesuffix("/v1")
        model = model_for(server, model="anthropic/claude-sonnet-4-5", api_base=url, keys=["SOME_KEY"])
        output = ask(model, [user("one"), user("two")])
    assert (server.requests[0].path, server.requests[0].key) == ("/v1/messages", "sk-ant-something")
    assert "cache_control" in str(server.requests[0].messages)
    assert (output.text, output.finish) == ("Hi.", "stop")
    assert output.usage == Usage(input=10, output=5, cache_read=300, cache_write=200)
    assert output.usd == pytest.approx((10 * 3 + 5 * 15 + 300 * 0.3 + 200 * 3.75) / 1e6)
    assert (model.window, model.max_output) == (200_000, 64_000)


# --- what comes back


@pytest.mark.parametrize(
    ("behaviour", "text", "finish"),
    [
        (answer("Yes."), "Yes.", "stop"),
        (answer("Half of", finish="length"), "Half of", "length"),
        (answer(None, finish="length"), "", "length"),
        (answer(""), "", "stop"),
        (answer("", finish="content_filter"), "", "refusal"),
        (refusal("I will not."), "I will not.", "refusal"),
        (tool_call(), "", "tool_calls"),
        (answer("Text too.", tool_calls=[{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]), "Text too.", "stop"),
        (answer("word " * 50_000), "word " * 50_000, "stop"),
    ],
    ids=["text", "length", "length-without-text", "empty", "filter", "refusal", "tool-call", "text-and-call", "over-long"],
)  # fmt: skip
def test_an_answer_is_told_by_its_text_and_how_it_ended(behaviour, text, finish):
    with serve(behaviour) as server:
        output = ask(model_for(server))
    assert (output.text, output.finish, output.cached) == (text, finish, False)


def test_usage_and_price_are_of_this_call():
    prices = {"input": 2.0, "output": 10.0, "cache_read": 0.5}
    with serve(slow(0.05, answer("ok", usage=(1_000, 200), cached=400))) as server:
        output = ask(model_for(server, prices=prices))
    assert output.usage == Usage(input=600, output=200, cache_read=400)
    assert output.usd == pytest.approx((600 * 2 + 400 * 0.5 + 200 * 10) / 1e6)
    assert 0.05 <= output.seconds < 30


def test_no_price_is_no_number():
    with serve() as server:
        assert ask(model_for(server)).usd is None


def test_an_answer_that_nobody_counted_has_no_price():
    body = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "x"}}]}
    with serve(raw(200, body)) as server:
        output = ask(model_for(server, prices={"input": 1, "output": 1}))
    assert (output.usage, output.usd) == (Usage(), None)


# --- keys


@pytest.mark.parametrize("refused", [status(429, "Resource has been exhausted"), status(401, "bad key"), status(403)])
def test_a_key_that_is_refused_is_followed_by_the_next_at_once(monkeypatch, refused):
    monkeypatch.setenv("FIRST_KEY", "sk-first-of-two")
    monkeypatch.setenv("SECOND_KEY", "sk-second-of-two")
    keys = ["FIRST_KEY", "KEY_THAT_IS_NOT_SET", "SECOND_KEY"]
    with serve(by_key({"sk-first-of-two": refused, "sk-second-of-two": answer("ok")})) as server:
        output = ask(model_for(server, keys=keys, wait=60.0), retry=Retry(BUSY, (60.0,)))
    assert output.text == "ok"
    assert [request.key for request in server.requests] == ["sk-first-of-two", "sk-second-of-two"]


def test_when_all_keys_are_used_up_the_error_falls_under_the_rule(monkeypatch):
    monkeypatch.setenv("FIRST_KEY", "sk-first-of-two")
    monkeypatch.setenv("SECOND_KEY", "sk-second-of-two")
    behaviour = by_key({"sk-first-of-two": status(429, "used up"), "sk-second-of-two": status(401, "wrong")})
    error, made = failure(behaviour, keys=["FIRST_KEY", "SECOND_KEY"], retries=1)
    assert (error.kind, str(error), made) == ("rate_limit", "HTTP 429: used up", 4)


def test_without_a_key_there_is_no_model(monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(BenchError, match="GROQ_API_KEY"):
        make("litellm", {"model": "groq/llama-x"})
    with pytest.raises(BenchError, match="environment variables NOT_SET, NOT_SET_EITHER$"):
        make("litellm", {"model": "groq/llama-x", "keys": ["NOT_SET", "NOT_SET_EITHER"]})


def test_a_key_is_written_nowhere(monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "bench")
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("MY_VARIABLE", key)
    with serve(status(401, f"Incorrect API key provided: {key}."), answer("ok")) as server:
        model = model_for(server, keys=["MY_VARIABLE"], cache=True, cache_dir=str(tmp_path))
        with pytest.raises(ModelError, match=r"HTTP 401: Incorrect API key provided: \[key\]\.") as caught:
            ask(model)
        assert ask(model).text == "ok"
    assert [request.key for request in server.requests] == [key, key]
    shown = "".join(traceback.format_exception(caught.value)) + repr(model) + str(model.identity) + caplog.text
    assert key not in shown + repr(server.requests)
    assert all(key.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


# --- what it is


def test_identity_holds_what_changes_an_answer_only():
    with serve() as server:
        plain = model_for(server).identity
        assert model_for(server, timeout=1, retries=0, wait=9, concurrency=1, tier="free", cache=True).identity == plain
        changes = ({"temperature": 1.0}, {"parameters": {"top_p": 0.1}}, {"window": 9}, {"max_output": 9}, {"schema": False})
        assert all(model_for(server, **change).identity != plain for change in changes)
        model = model_for(server, tier="free")
        assert (model.name, model.endpoint) == ("openai/test-model", server.url)
        assert "training" in model.warning
        assert model_for(server).warning == ""


def test_the_endpoint_is_the_address_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "gsk-something")
    model = LiteLLM("groq/llama-x")
    assert model.endpoint == "groq"
    monkeypatch.setenv("GROQ_API_BASE", "https://me:password@proxy.example/v1")
    assert LiteLLM("groq/llama-x").endpoint == "https://proxy.example/v1"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"model": ""}, "model.model=PROVIDER/NAME"),
        ({"model": "llama"}, "openai/llama"),
        ({"model": "nobody/llama", "api_base": None}, "no provider"),
        ({"api_base": "ftp://x"}, "http or https"),
        ({"api_base": "http://me:password@x/v1"}, "without a user name"),
        ({"parameters": {"api_key": "sk-1234567890"}}, "parameters cannot set api_key"),
        ({"tier": "trial"}, "paid or free"),
        ({"timeout": 0}, "timeout"),
        ({"concurrency": 0}, "concurrency"),
        ({"window": 0}, "window is 1 or more"),
        ({"requests_per_minute": -1}, "requests_per_minute is 1 or more"),
        ({"prices": {"input": 1}}, "input and output"),
        ({"prices": {"input": 1, "output": -1}}, "0 or more"),
        ({"cache_dir": "/dev/null/cache"}, "model.cache_dir"),
    ],
)
def test_a_bad_parameter_is_refused(parameters, words, tmp_path):
    usual = {"model": "openai/x", "api_base": "http://127.0.0.1:1/v1", "cache_dir": str(tmp_path)}
    with pytest.raises(BenchError, match=words) as caught:
        make("litellm", usual | parameters)
    assert "sk-1234567890" not in str(caught.value)
