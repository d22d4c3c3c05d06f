from __future__ import annotations

import json

import pytest

from bench.sessions import load
from bench.types import BenchError
from making import assistant, call, essence, result, session, system, user, work
from writing import cline_record, write_cline

MADE = session(
    system("s"), user("one"), assistant("two", call("c")), result("c", "three " * 9), user("four"), assistant("five"), id="s"
)
RECORD = cline_record(MADE)
SUMMARY = {
    "id": "new", "role": "user", "content": [{"type": "text", "text": "Summary: so far"}],
    "metadata": {"kind": "compaction_summary", "summary": "so far", "tokensBefore": 900},
}  # fmt: skip


def write(folder, name, record):
    (folder / name).write_text(json.dumps(record))


def said(*places):
    return [RECORD["messages"][place] for place in places]


@pytest.fixture
def folder(tmp_path):
    write_cline(MADE, tmp_path / "s.messages.json")
    return tmp_path


def test_a_whole_session_comes_back(tmp_path):
    made = work(3)
    loaded = load(write_cline(made, tmp_path / "x.messages.json")).sessions[0]
    assert essence(loaded.messages) == essence(made.messages)
    assert (loaded.id, loaded.compactions, loaded.problems) == ("work", (), ())


def test_a_sidecar_is_a_compaction_of_the_session_beside_it(folder):
    before = load(folder).sessions[0].source.sha256
    write(folder, "s.compaction.json", RECORD | {"messages": [SUMMARY, *said(3, 4)]})
    loaded = load(folder)
    (made,) = loaded.sessions
    (found,) = made.compactions
    assert (found.before, found.tokens_before, found.summary) == (6, 900, "so far")
    assert [m.text for m in found.left] == ["s", "Summary: so far", "four", "five"]
    assert [m.id for m in found.left] == ["m0", "summary-1", "m4", "m5"]
    assert found.left[2] == made.messages[4]
    assert made.source.sha256 != before
    assert loaded.left_out == [f"{folder / 's.compaction.json'} is what a compaction left; it is read together with its session"]


def test_a_message_that_a_compaction_rewrote_keeps_its_id(folder):
    cut = {"type": "tool_result", "tool_use_id": "c", "content": "three [cut]"}
    record = RECORD | {"messages": [*said(0, 1), RECORD["messages"][2] | {"content": [cut]}, *said(3)]}
    write(folder, "basic.compaction.json", record)
    made = load(folder).sessions[0]
    left = made.compactions[0].left
    assert [m.id for m in left] == ["m0", "m1", "m2", "m3", "m4"]
    assert left[3].text == "three [cut]"
    assert left[2] == made.messages[2]
    assert made.compactions[0].before == 5


def test_alternative_compactions_are_each_recorded(folder):
    write(folder, "one.compaction.json", RECORD | {"messages": [SUMMARY, *said(4)]})
    write(folder, "two.compaction.json", RECORD | {"messages": said(0, 4)})
    write(folder, "other.compaction.json", {"sessionId": "another", "messages": [], "system_prompt": ""})
    assert [[m.id for m in c.left] for c in load(folder).sessions[0].compactions] == [
        ["m0", "summary-1", "m5"],
        ["m0", "m1", "m5"],
    ]


def test_the_number_of_source_messages_is_the_place(folder):
    record = {"version": 1, "conversation_id": "s", "source_message_count": 3, "messages": [SUMMARY]}
    write(folder, "s.compaction.json", record)
    made = load(folder).sessions[0]
    assert [(c.before, [m.text for m in c.left]) for c in made.compactions] == [(4, ["s", "Summary: so far"])]


def test_a_sidecar_is_no_session_of_its_own(folder):
    write(folder, "s.compaction.json", RECORD)
    with pytest.raises(BenchError, match="is what a compaction left"):
        load(folder / "s.compaction.json")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"messages": 3}', '{"messages": [3, null, {"id": ["x"]}], "sessionId": "s"}']
)
def test_a_broken_sidecar_loses_no_session(folder, content):
    (folder / "s.compaction.json").write_text(content)
    assert len(load(folder / "s.messages.json").sessions[0].messages) == 6


def test_attached_files_and_usage(tmp_path):
    attached = [{"type": "text", "text": "look"}, {"type": "file", "path": "/a.py", "content": "x = 1"}]
    metrics = {"inputTokens": 100, "outputTokens": 5, "cacheReadTokens": 60, "cacheWriteTokens": 10}
    write(
        tmp_path, "x.messages.json",
        {"sessionId": "s", "system_prompt": "", "messages": [
            {"id": "a", "role": "user", "content": attached, "ts": 86400000},
            {"id": "b", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "metrics": metrics, "modelInfo": {"id": "m"}},
        ]},
    )  # fmt: skip
    made = load(tmp_path).sessions[0]
    assert [(m.role, m.text) for m in made.messages] == [("user", "look\n/a.py\nx = 1"), ("assistant", "ok")]
    assert (made.messages[0].at, made.model) == (86400.0, "m")
    usage = made.messages[1].usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (30, 5, 60, 10)
