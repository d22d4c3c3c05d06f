from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from bench.sessions import anthropic, load
from bench.types import BenchError
from making import assistant, call, essence, result, session, sessions, user, work, write_anthropic, write_lines


def read(tmp_path, value):
    path = tmp_path / "history.json"
    path.write_text(json.dumps(value))
    return load(path).sessions[0]


def use(id, **arguments):
    return {"type": "tool_use", "id": id, "name": "ls", "input": arguments}


def got(id, **fields):
    return {"type": "tool_result", "tool_use_id": id, **fields}


def test_a_whole_session_comes_back(tmp_path):
    made = work()
    loaded = load(write_anthropic(made, tmp_path / "history.json")).sessions
    assert [essence(s.messages) for s in loaded] == [essence(made.messages)]
    assert (loaded[0].model, loaded[0].source.format, loaded[0].problems) == ("claude-test", "anthropic", ())


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]])
def test_system_text_is_the_first_message(tmp_path, system):
    made = read(tmp_path, {"system": system, "messages": [{"role": "user", "content": "go"}]})
    assert [(m.role, m.text) for m in made.messages] == [("system", "Be brief."), ("user", "go")]


@pytest.mark.parametrize("system", ["", None, [], [{"type": "text", "text": ""}]])
def test_an_empty_system_text_is_no_message(tmp_path, system):
    made = read(tmp_path, {"system": system, "messages": [{"role": "user", "content": "go"}]})
    assert [(m.role, m.text) for m in made.messages] == [("user", "go")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([got("c")], [("tool", "")]),
        ([got("c", content=None)], [("tool", "")]),
        ([got("c", content=[])], [("tool", "")]),
        ([got("c", content="x")], [("tool", "x")]),
        ([got("c", content=[{"type": "text", "text": "x"}, {"type": "text", "text": "y"}])], [("tool", "x\ny")]),
        ([got("c", content="x"), {"type": "text", "text": "go on"}], [("tool", "x"), ("user", "go on")]),
        ([{"type": "text", "text": "go on"}, got("c", content="x")], [("tool", "x"), ("user", "go on")]),
        ([], []),
        ("", []),
        (None, []),
    ],
)
def test_every_shape_of_a_result(tmp_path, content, expected):
    made = read(tmp_path, [{"role": "assistant", "content": [use("c")]}, {"role": "user", "content": content}])
    assert [(m.role, m.text) for m in made.messages[1:]] == expected


def test_an_assistant_message_may_be_a_string_and_thinking_is_apart(tmp_path):
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "redacted_thinking", "data": "zz"}]
    made = read(
        tmp_path,
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "assistant", "content": [*thinking, {"type": "text", "text": "c"}]},
        ],
    )
    assert [(m.text, m.thinking) for m in made.messages] == [("a", ""), ("b", ""), ("c", "hm")]


def test_plain_text_with_neither_blocks_nor_system_is_an_openai_history(tmp_path):
    plain = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert read(tmp_path, plain).source.format == "openai"
    assert read(tmp_path, {"system": "s", "messages": plain}).source.format == "anthropic"


def test_a_list_without_its_closing_bracket(tmp_path):
    made = work(3)
    items = anthropic.export(made.messages)[1]
    whole = essence(made.messages[1:])
    for number, text in enumerate(
        (json.dumps(items), json.dumps(items, indent=1), ",\n".join(map(json.dumps, items)).join("[]"))
    ):
        path = tmp_path / f"cut{number}.json"
        path.write_text(text.rstrip("]\n "))
        loaded = load(path).sessions[0]
        assert essence(loaded.messages) == whole
        assert any("the file is cut" in problem for problem in loaded.problems)


@pytest.mark.parametrize("text", ["[]", "[", "{}", '{"messages": []}', '[{"messages": []}]', "[[]]", "null", "3", '"x"'])
def test_a_file_without_messages_is_an_error_that_names_it(tmp_path, text):
    path = tmp_path / "nothing.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"nothing\.json"):
        load(path)


def test_lines_of_histories(tmp_path):
    histories = [{"system": "s", "messages": [{"role": "user", "content": words}]} for words in ("one", "two")]
    assert [s.messages[1].text for s in load(write_lines(tmp_path / "h.jsonl", histories)).sessions] == ["one", "two"]


def test_an_item_of_another_kind_is_noted(tmp_path):
    whole = {"system": "s", "messages": [{"role": "user", "content": "a"}]}
    odd = {"system": "s", "messages": [{"role": "user", "content": "b"}, {"type": "reasoning"}, 4]}
    loaded = load(write_lines(tmp_path / "h.jsonl", [whole, odd])).sessions
    assert [[m.text for m in s.messages] for s in loaded] == [["s", "a"], ["s", "b"]]
    assert [len(s.problems) for s in loaded] == [0, 2]


def test_results_of_one_answer_are_exported_in_one_message():
    made = session(user("go"), assistant("", call("a"), call("b")), result("a", "1"), result("b", "2", is_error=True), user("on"))
    assert anthropic.export(made.messages)[1] == [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "Bash", "input": {}},
                {"type": "tool_use", "id": "b", "name": "Bash", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": "2", "is_error": True},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "on"}]},
    ]


def test_a_message_of_images_alone_does_not_stop_the_export():
    made = session(user("", images=1), result("x", "orphan"), assistant("", thinking="hm"), user("go"))
    assert [item["content"][0]["type"] for item in anthropic.export(made.messages)[1]] == ["tool_result", "text"]


@given(sessions())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_export_and_load_keep_everything(tmp_path_factory, made):
    path = write_anthropic(made, tmp_path_factory.mktemp("anthropic", numbered=True) / "history.json")
    loaded = load(path, format="anthropic").sessions[0]
    assert essence(loaded.messages) == essence(made.messages)
    assert [m.is_error for m in loaded.messages] == [m.is_error for m in made.messages]
