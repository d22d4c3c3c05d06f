from __future__ import annotations

import json

import pytest

from bench.sessions import load
from making import assistant, call, essence, result, session, system, user, work, write_lines
from writing import action, openhands_events, write_folder

SYSTEM = {"kind": "SystemPromptEvent", "id": "e0", "system_prompt": {"type": "text", "text": "s"}, "tools": []}
GO = {
    "kind": "MessageEvent",
    "id": "e1",
    "source": "user",
    "llm_message": {"role": "user", "content": [{"type": "text", "text": "go"}]},
}


def observation(name, call_id, **fields):
    return {"kind": "ObservationEvent", "id": name, "tool_call_id": call_id, "observation": {"kind": "X"} | fields}


def condensation(name, forgotten, summary="so far", offset=2):
    return {
        "kind": "Condensation", "id": name, "forgotten_event_ids": list(forgotten), "summary": summary, "summary_offset": offset,
    }  # fmt: skip


def pairs(first, last):
    """Action a<n> and result o<n> for every n."""
    return [
        e for n in range(first, last + 1) for e in (action(n, f"a{n}", call(f"c{n}")), observation(f"o{n}", f"c{n}", output="r"))
    ]


def read(tmp_path, *events):
    return load(write_lines(tmp_path / "a.jsonl", events)).sessions[0]


def left(made):
    """For every compaction what it left: calls and results by their call, others by their text."""
    return [[m.call_id or (m.calls[0].id if m.calls else m.text) for m in compaction.left] for compaction in made.compactions]


def test_parallel_calls_of_one_answer_are_one_message(tmp_path):
    made = read(
        tmp_path,
        SYSTEM,
        GO,
        action(1, "a1", call("c1"), "I look.", reasoning_content="hm"),
        action(1, "a2", call("c2", path="x")),
        observation("o1", "c1", output="one"),
        observation("o2", "c2", output="two"),
        action(2, "a3", call("c3")),
    )
    assert [m.role for m in made.messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    answer = made.messages[2]
    assert (answer.text, answer.thinking, [c.id for c in answer.calls]) == ("I look.", "hm", ["c1", "c2"])
    assert dict(answer.calls[1].arguments) == {"path": "x"}
    assert answer.at == 1772359200.0
    assert made.problems == ("call c3 has no result",)


@pytest.mark.parametrize(
    ("fields", "text", "is_error"),
    [
        ({"output": "out", "error": False}, "out", False),
        ({"output": "", "error": "no such file"}, "no such file", True),
        ({"content": "logged"}, "logged", False),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "is_error": True}, "a\nb", True),
        ({"message": "done"}, "done", False),
        ({"output": "x", "metadata": {"prefix": "<", "suffix": ">", "exit_code": 1}}, "<\nx\n>", False),
        ({"output": ""}, "", False),
        ({"task_list": ["a"]}, '{"task_list":["a"]}', False),
    ],
)
def test_every_shape_of_a_result(tmp_path, fields, text, is_error):
    made = read(tmp_path, GO, action(1, "a1", call("c1")), observation("o1", "c1", **fields))
    assert (made.messages[-1].text, made.messages[-1].is_error) == (text, is_error)


def test_errors_rejections_images_and_events_about_the_run(tmp_path):
    image = {"type": "image", "image_urls": ["data:1", "data:2"]}
    made = read(
        tmp_path,
        GO | {"llm_message": {"role": "user", "content": [image, image]}},
        {"kind": "ConversationStateUpdateEvent", "id": "x", "key": "k"},
        action(1, "a1", call("c1")),
        {"kind": "AgentErrorEvent", "id": "o1", "tool_call_id": "c1", "error": "bad arguments"},
        action(2, "a2", call("c2")),
        {"kind": "UserRejectObservation", "id": "o2", "tool_call_id": "c2", "rejection_reason": "no"},
    )
    assert made.messages[0].images == 4
    assert [(m.text, m.is_error) for m in made.messages if m.role == "tool"] == [("bad arguments", True), ("no", True)]


def test_a_condensation_leaves_the_log_without_what_it_forgot_and_the_summary_at_its_offset(tmp_path):
    made = read(tmp_path, SYSTEM, GO, *pairs(1, 5), condensation("k", ["a1", "o1", "a2", "o2"]), *pairs(6, 6))
    assert left(made) == [["s", "go", "so far", "c3", "c3", "c4", "c4", "c5", "c5"]]
    assert made.compactions[0].before == 12
    assert [m.id for m in made.compactions[0].left][:3] == ["m0", "m1", "summary-1"]
    assert len(made.messages) == 14  # what happened, uncompacted


@pytest.mark.parametrize("old_summary", ["k1-summary", "an id that stands nowhere"])
def test_a_second_condensation_forgets_the_first_summary_with_its_range(tmp_path, old_summary):
    made = read(
        tmp_path, SYSTEM, GO, *pairs(1, 4), condensation("k1", ["a1", "o1", "a2", "o2"], "first"),
        *pairs(5, 6), condensation("k2", [old_summary, "a3", "o3", "a4", "o4"], "second"), *pairs(7, 7),
    )  # fmt: skip
    assert left(made) == [["s", "go", "first", "c3", "c3", "c4", "c4"], ["s", "go", "second", "c5", "c5", "c6", "c6"]]


def test_a_summary_that_is_not_forgotten_stays(tmp_path):
    made = read(
        tmp_path,
        SYSTEM,
        GO,
        *pairs(1, 4),
        condensation("k1", ["a1", "o1"], "first"),
        condensation("k2", ["a2", "o2"], "second", 3),
    )
    assert left(made)[1] == ["s", "go", "first", "second", "c3", "c3", "c4", "c4"]


def test_a_result_whose_call_was_forgotten_is_not_in_view(tmp_path):
    """The first condenser cut by count, between a call and its result; the SDK then dropped the result."""
    made = read(
        tmp_path,
        SYSTEM,
        GO,
        *pairs(1, 4),
        condensation("k", ["a1", "o1", "a2"]),
        *pairs(5, 5),
        condensation("k2", [], None, None),
    )
    assert left(made) == [
        ["s", "go", "so far", "c3", "c3", "c4", "c4"],
        ["s", "go", "so far", "c3", "c3", "c4", "c4", "c5", "c5"],
    ]


def test_an_answer_that_lost_one_of_its_calls_is_not_in_view(tmp_path):
    made = read(
        tmp_path, SYSTEM, GO, action(1, "a1", call("c1")), action(1, "a2", call("c2")),
        observation("o1", "c1", output="r"), observation("o2", "c2", output="r"), *pairs(3, 3), condensation("k", ["a1"]),
    )  # fmt: skip
    assert left(made) == [["s", "go", "so far", "c3", "c3"]]


def test_a_requested_condensation_says_so(tmp_path):
    made = read(tmp_path, GO, *pairs(1, 2), {"kind": "CondensationRequest", "id": "q"}, condensation("k", ["a1", "o1"], "x", 1))
    assert [c.trigger for c in made.compactions] == ["requested"]


def test_a_folder_of_event_files_is_one_session(tmp_path):
    made = work(3)
    folder = write_folder(openhands_events(made), tmp_path / "conversations" / "one", id="the-id", agent={"llm": {"model": "m"}})
    for place in (tmp_path, folder, folder / "events", f"{folder}/events/*.json"):
        loaded = load(place)
        assert [(s.id, s.model) for s in loaded.sessions] == [("the-id", "m")]
        assert essence(loaded.sessions[0].messages) == essence(made.messages)
        assert loaded.left_out == []
        assert loaded.sessions[0].source.path == str(folder)
    before = loaded.sessions[0].source.sha256
    (folder / "events" / "event-00003-e3.json").write_text("{")
    broken = load(folder).sessions[0]
    assert broken.source.sha256 != before
    assert any("event-00003" in problem for problem in broken.problems)


def test_folders_without_a_state_are_named_by_their_folder(tmp_path):
    for name in ("one", "two"):
        write_folder(openhands_events(work(1, id=name)), tmp_path / name)
    assert [s.id for s in load(tmp_path).sessions] == ["one", "two"]
    assert [s.id for s in load(tmp_path / "two").sessions] == ["two"]


def v0(**fields):
    return {"source": "agent"} | fields


def answer(name, *calls, text="", usage=None):
    made = [{"id": c, "function": {"name": "run", "arguments": f'{{"n": "{c}"}}'}} for c in calls]
    return {"id": name, "choices": [{"message": {"content": text, "tool_calls": made}}], "usage": usage}


def ran(id, call_id, response):
    metadata = {"function_name": "run", "tool_call_id": call_id, "model_response": response}
    return v0(id=id, action="run", args={"command": "x", "thought": "t"}, tool_call_metadata=metadata)


def got(id, cause, call_id=None, content="r", kind="run"):
    metadata = {"tool_call_metadata": {"tool_call_id": call_id}} if call_id else {}
    return v0(id=id, observation=kind, cause=cause, content=content, **metadata)


def read_v0(tmp_path, *history):
    return load(write_lines(tmp_path / "output.jsonl", [{"instance_id": "i", "history": history}])).sessions[0]


SAID = v0(id=1, source="user", action="message", args={"content": "go"})


def test_v0_actions_come_from_the_models_answers(tmp_path):
    both = answer("r1", "c1", "c2", text="I run.", usage={"prompt_tokens": 9, "completion_tokens": 2})
    made = read_v0(
        tmp_path,
        v0(id=0, action="system", args={"content": "s"}),
        SAID,
        v0(id=2, source="user", action="recall", args={"query": "go"}),
        v0(id=3, source="environment", observation="recall", cause=2, content="Added", extras={"microagent_knowledge": [{"content": "k"}]}),
        ran(4, "c1", both), got(5, 4, "c1"), ran(6, "c2", both), got(7, 6, "c2", "no", "error"),
        v0(id=8, action="message", args={"content": "done", "wait_for_response": True}),
        v0(id=9, source="environment", observation="agent_state_changed", content=""),
    )  # fmt: skip
    assert [(m.role, m.text, m.is_error) for m in made.messages] == [
        ("system", "s", False), ("user", "go", False), ("user", "k", False), ("assistant", "I run.", False),
        ("tool", "r", False), ("tool", "no", True), ("assistant", "done", False),
    ]  # fmt: skip
    assert [c.id for c in made.messages[3].calls] == ["c1", "c2"]
    assert dict(made.messages[3].calls[1].arguments) == {"n": "c2"}
    assert (made.messages[3].usage.input, made.messages[3].usage.output) == (9, 2)
    assert (made.id, made.problems) == ("i", ())


@pytest.mark.parametrize("paired", [True, False])
def test_older_v0_actions_are_calls_themselves(tmp_path, paired):
    events = [
        {"action": "message", "content": "go", "wait_for_response": False},
        {"action": "run", "command": "ls", "thought": "I look.", "keep_prompt": True},
        {"observation": "run", "command": "ls", "exit_code": 0, "content": "a b"},
        {"action": "run_ipython", "code": "1", "thought": ""},
        {"observation": "run_ipython", "content": "2"},
        {"action": "finish", "thought": "done", "outputs": {}},
    ]
    history = (
        [[events[0], {"observation": "null", "content": ""}], events[1:3], events[3:5], [events[5], None]] if paired else events
    )
    made = read_v0(tmp_path, *history)
    calls = [c for m in made.messages for c in m.calls]
    assert [(m.role, m.text) for m in made.messages] == [
        ("user", "go"), ("assistant", "I look."), ("tool", "a b"), ("assistant", ""), ("tool", "2"), ("assistant", "done"),
    ]  # fmt: skip
    assert [(c.name, dict(c.arguments)) for c in calls] == [
        ("run", {"command": "ls"}),
        ("run_ipython", {"code": "1"}),
        ("finish", {"outputs": {}}),
    ]
    assert [m.call_id for m in made.messages if m.role == "tool"] == [c.id for c in calls[:2]]


@pytest.mark.parametrize(
    "forgotten", [{"forgotten_event_ids": [4, 5]}, {"forgotten_events_start_id": 4, "forgotten_events_end_id": 5}]
)
def test_v0_condensations(tmp_path, forgotten):
    made = read_v0(
        tmp_path, SAID, ran(4, "c1", answer("r1", "c1")), got(5, 4, "c1"), ran(6, "c2", answer("r2", "c2")), got(7, 6, "c2"),
        v0(id=8, action="condensation", args=forgotten | {"summary": "so far", "summary_offset": 1}),
    )  # fmt: skip
    assert left(made) == [["go", "so far", "c2", "c2"]]


def test_a_record_with_messages_in_its_history_is_not_openhands(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(
            {"history": [{"role": "user", "action": "x", "content": "go"}], "messages": [{"role": "user", "content": "go"}]}
        )
    )
    assert load(path).sessions[0].source.format == "openai"


def test_a_made_session_comes_back(tmp_path):
    made = session(system("s"), user("go"), assistant("a", call("c", x=1)), result("c", "r", is_error=True), assistant("end"))
    loaded = load(write_lines(tmp_path / "a.jsonl", openhands_events(made))).sessions[0]
    assert essence(loaded.messages) == essence(made.messages)
    assert [m.is_error for m in loaded.messages] == [m.is_error for m in made.messages]
