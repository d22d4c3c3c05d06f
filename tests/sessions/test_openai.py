from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from bench.sessions import anthropic, load, openai
from bench.types import Usage
from making import assistant, call, essence, result, session, sessions, system, user, work, write_lines, write_openai


def read(tmp_path, value, name="log.json"):
    path = tmp_path / name
    path.write_text(json.dumps(value))
    return load(path).sessions


def messages(tmp_path, *items):
    return read(tmp_path, {"messages": list(items)})[0]


def use(id, arguments="{}", name="ls", **fields):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def test_a_whole_session_comes_back(tmp_path):
    made = work()
    loaded = load(write_openai(made, tmp_path / "log.json")).sessions
    assert [essence(s.messages) for s in loaded] == [essence(made.messages)]
    assert (loaded[0].id, loaded[0].model, loaded[0].source.format, loaded[0].problems) == ("log", "gpt-test", "openai", ())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", "plain"),
        (None, None),
        ([], None),
        (" \n", None),
        ([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "text", "text": ""}], None),
        (["bare"], "bare"),
        ([7], "7"),
    ],
)
def test_every_shape_of_content(tmp_path, content, expected):
    made = messages(tmp_path, {"role": "user", "content": content}, {"role": "assistant", "content": "ok"})
    assert [m.text for m in made.messages] == ([] if expected is None else [expected]) + ["ok"]


@pytest.mark.parametrize("content", ["out", [{"type": "text", "text": "out", "cache_control": {}}]])
def test_content_of_a_result_is_text_or_a_list(tmp_path, content):
    made = messages(
        tmp_path,
        {"role": "assistant", "content": None, "tool_calls": [use("c")]},
        {"role": "tool", "tool_call_id": "c", "content": content},
    )
    assert [(m.text, m.call_id) for m in made.messages] == [("", None), ("out", "c")]
    assert made.problems == ()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"path": "a"}', {"path": "a"}),
        ({"path": "a"}, {"path": "a"}),
        ("not json {", "not json {"),
        ('{"cut": "of', '{"cut": "of'),
        ("[1, 2]", "[1, 2]"),
        ("", ""),
        (None, ""),
        ([1], "[1]"),
        ('{"n": NaN}', '{"n": NaN}'),
    ],
)
def test_arguments_are_an_object_or_their_text(tmp_path, arguments, expected):
    made = messages(tmp_path, {"role": "assistant", "tool_calls": [use("c", arguments)]})
    assert made.messages[0].calls[0].arguments == expected


@pytest.mark.parametrize("depth", [200, 300])
def test_deeply_nested_arguments_can_be_stored(tmp_path, depth):
    text = '{"a":' * depth + "1" + "}" * depth
    made = messages(tmp_path, {"role": "assistant", "tool_calls": [use("c", text)]})
    arguments = made.messages[0].calls[0].arguments
    assert arguments == text if depth > 254 else json.dumps(arguments, separators=(",", ":")) == text


def test_the_answer_of_a_litellm_log_is_its_last_message(tmp_path):
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60}}
    log = {
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "go"}],
        "response": {
            "choices": [{"message": {"role": "assistant", "content": "done", "reasoning_content": "hm"}}],
            "usage": usage,
        },
    }
    made = read(tmp_path, log)[0]
    assert [(m.role, m.text) for m in made.messages] == [("system", "be brief"), ("user", "go"), ("assistant", "done")]
    assert made.messages[-1].usage == Usage(input=40, output=20, cache_read=60)
    assert made.messages[-1].thinking == "hm"


@pytest.mark.parametrize(
    "response", [None, "text", {}, {"choices": []}, {"choices": ["x"]}, {"choices": {}}, {"choices": [{"message": 1}]}]
)
def test_a_response_of_another_shape_loses_nothing(tmp_path, response):
    made = read(tmp_path, {"messages": [{"role": "user", "content": "go"}], "response": response})[0]
    assert [m.text for m in made.messages] == ["go"]


@pytest.mark.parametrize("usage", [{"prompt_tokens": "x"}, {"prompt_tokens": None}, "many", {"prompt_tokens_details": 3}])
def test_a_usage_of_a_wrong_type_loses_nothing(tmp_path, usage):
    assert messages(tmp_path, {"role": "user", "content": "go", "usage": usage}).messages[0].text == "go"


def test_the_log_of_each_call_repeats_those_before_and_the_last_is_kept(tmp_path):
    made = work(4)
    logs = [{"messages": openai.export(made.messages[:end])} for end in range(2, len(made.messages) + 1, 3)]
    logs.append({"messages": openai.export(made.messages)})
    folder = tmp_path / "logs"
    folder.mkdir()
    for number, log in enumerate(logs):
        (folder / f"call{number:02}.json").write_text(json.dumps(log))
    loaded = load(folder)
    assert [essence(s.messages) for s in loaded.sessions] == [essence(made.messages)]
    assert len(loaded.left_out) == len(logs) - 1
    assert all(f"call{number:02}.json" in line for number, line in enumerate(loaded.left_out))
    lines = load(write_lines(tmp_path / "all.jsonl", logs))
    assert [essence(s.messages) for s in lines.sessions] == [essence(made.messages)]
    assert len(lines.left_out) == len(logs) - 1


@pytest.mark.parametrize("suffix", ["json", "jsonl", "txt"])
def test_the_ending_of_the_name_says_nothing(tmp_path, suffix):
    conversations = [{"messages": [{"role": "user", "content": words}]} for words in ("one", "two")]
    lines = write_lines(tmp_path / f"a.{suffix}", conversations)
    whole = tmp_path / f"b.{suffix}"
    whole.write_text(json.dumps(conversations, indent=2))
    for path in (lines, whole):
        assert [[m.text for m in s.messages] for s in load(path).sessions] == [["one"], ["two"]]


def test_a_bare_list_and_lines_of_bare_lists(tmp_path):
    conversation = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    assert [len(s.messages) for s in read(tmp_path, conversation)] == [2]
    path = write_lines(tmp_path / "x.jsonl", [conversation, [*conversation, {"role": "user", "content": "three"}]])
    assert [len(s.messages) for s in load(path).sessions] == [3]


def test_old_function_calls(tmp_path):
    item = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": '{"path": "."}'}}
    made = messages(
        tmp_path,
        item,
        {"role": "function", "name": "ls", "content": "a"},
        item,
        {"role": "function", "name": "ls", "content": "b"},
    )
    first, result_a, second, result_b = made.messages
    assert first.calls[0].arguments == {"path": "."}
    assert result_a.call_id == first.calls[0].id != second.calls[0].id == result_b.call_id
    assert not [p for p in made.problems if "no result" in p or "no call" in p]


def test_custom_tools_take_free_text(tmp_path):
    made = messages(
        tmp_path,
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}]},
    )
    assert (made.messages[0].calls[0].name, made.messages[0].calls[0].arguments) == ("patch", "*** Begin")


def test_flattened_calls_with_objects(tmp_path):
    made = messages(tmp_path, {"role": "assistant", "tool_calls": [{"id": "c", "name": "book", "arguments": {"seat": 3}}]})
    assert (made.messages[0].calls[0].name, made.messages[0].calls[0].arguments) == ("book", {"seat": 3})


def test_ids_that_every_answer_uses_anew_are_made_unique(tmp_path):
    asking = {"role": "assistant", "tool_calls": [use("call_0", '{"n": 1}'), use("call_1", '{"n": 2}')]}
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": f"{n}"} for n in (1, 0)]
    made = messages(tmp_path, {"role": "user", "content": "go"}, asking, *results, asking, *results)
    calls = [c for m in made.messages for c in m.calls]
    assert len({c.id for c in calls}) == 4
    answered = {c.id: (c.arguments["n"], index) for index, m in enumerate(made.messages) for c in m.calls}
    assert [answered[m.call_id] for m in made.messages if m.role == "tool"] == [(2, 1), (1, 1), (2, 4), (1, 4)]
    assert made.problems == ("ids of calls are missing or stand twice; each call was given one of its own",)


def test_calls_without_ids_are_answered_in_their_order(tmp_path):
    asking = {"role": "assistant", "tool_calls": [use(None, name="a"), use(None, name="b")]}
    made = messages(tmp_path, asking, {"role": "tool", "content": "of a"}, {"role": "tool", "content": "of b"})
    assert [m.call_id for m in made.messages[1:]] == [c.id for c in made.messages[0].calls]
    assert len({c.id for c in made.messages[0].calls}) == 2


def test_unanswered_calls_and_orphan_results_are_noted_and_nothing_is_lost(tmp_path):
    made = messages(
        tmp_path,
        {"role": "tool", "tool_call_id": "gone", "content": "orphan"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [use("kept"), use("open")]},
        {"role": "tool", "tool_call_id": "kept", "content": "ok"},
        {"role": "tool", "tool_call_id": "kept", "content": "again"},
    )
    assert [m.text for m in made.messages] == ["orphan", "go", "", "ok", "again"]
    assert made.problems == ("call open has no result", "a result for 'gone' has no call", "call kept has 2 results")


@pytest.mark.parametrize("calls", [5, "x", {"id": "c"}, ["x"], [None], [5]])
def test_calls_of_a_wrong_type_lose_nothing_else(tmp_path, calls):
    made = messages(tmp_path, {"role": "user", "content": "go"}, {"role": "assistant", "content": "ok", "tool_calls": calls})
    assert [m.text for m in made.messages] == ["go", "ok"]
    assert made.problems


@pytest.mark.parametrize("role", ["exit", 5, None, ["user"], {"a": 1}])
def test_an_unknown_role_is_kept_as_a_user_message(tmp_path, role):
    items = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    made = messages(tmp_path, *items, {"role": role, "content": "left"})
    assert [(m.role, m.text) for m in made.messages][-1] == ("user", "left")
    assert any("is unknown" in problem for problem in made.problems)


@pytest.mark.parametrize("junk", ["text", 4, None, ["x"], {"content": "no role"}])
def test_an_item_that_is_no_message_is_noted(tmp_path, junk):
    made = messages(tmp_path, *[{"role": "user", "content": words} for words in "abc"], junk)
    assert [m.text for m in made.messages] == ["a", "b", "c"]
    assert len(made.problems) == 1
    assert "is no message" in made.problems[0]


def test_developer_is_system_and_a_refusal_is_text(tmp_path):
    made = messages(
        tmp_path, {"role": "developer", "content": "rules"}, {"role": "assistant", "content": None, "refusal": "I can not"}
    )
    assert [(m.role, m.text) for m in made.messages] == [("system", "rules"), ("assistant", "I can not")]


def test_lone_surrogates_in_every_place(tmp_path):
    half = "\ud83d"
    made = messages(
        tmp_path,
        {"role": "assistant", "content": f"a{half}", "tool_calls": [use(f"c{half}", json.dumps({"k": half}), name=f"n{half}")]},
        {"role": "tool", "tool_call_id": f"c{half}", "content": [{"type": "odd", "x": [half]}]},
    )
    json.dumps([essence(made.messages), made.problems], ensure_ascii=False).encode()
    assert made.messages[0].text == "a\ufffd"
    assert made.messages[1].call_id == made.messages[0].calls[0].id == "c\ufffd"


@given(sessions())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_export_and_load_keep_everything(tmp_path_factory, made):
    path = write_openai(made, tmp_path_factory.mktemp("openai", numbered=True) / "log.json")
    assert essence(load(path, format="openai").sessions[0].messages) == essence(made.messages)


def test_an_export_with_results_out_of_place_is_still_whole():
    made = session(system("s"), result("x", "orphan"), user("go"), assistant("", call("c", n=1)), result("c", "r"))
    assert [item["role"] for item in openai.export(made.messages)] == ["system", "tool", "user", "assistant", "tool"]
    instructions, items = anthropic.export(made.messages)
    assert instructions == "s"
    assert [[block["type"] for block in item["content"]] for item in items] == [
        ["tool_result"],
        ["text"],
        ["tool_use"],
        ["tool_result"],
    ]
