from __future__ import annotations

import json

import pytest

from bench.sessions import load
from bench.types import BenchError, Message, RecordedCompaction, Usage
from making import assistant, call, claude_code_entries, essence, result, session, user, work, write_claude_code, write_lines

IDENTITY = {"sessionId": "s1", "cwd": "/srv/app", "version": "2.1.0"}


def said(content, uuid="u1", **fields):
    return {"type": "user", "uuid": uuid, **IDENTITY, "message": {"role": "user", "content": content}, **fields}


def answer(*blocks, id="msg_1", uuid=None, usage=None, **fields):
    message = {"id": id, "role": "assistant", "model": "claude-test", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "uuid": uuid, **IDENTITY, "message": message, **fields}


def text(words):
    return {"type": "text", "text": words}


def use(id, **arguments):
    return {"type": "tool_use", "id": id, "name": "Bash", "input": arguments}


def got(id, content="done", **fields):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **fields}


def read(tmp_path, *entries):
    return load(write_lines(tmp_path / "s1.jsonl", entries)).sessions[0]


def test_a_whole_session_comes_back(tmp_path):
    made = work(with_system=False)
    loaded = load(write_claude_code(made, tmp_path / "x.jsonl")).sessions
    assert len(loaded) == 1
    assert essence(loaded[0].messages) == essence(made.messages)
    assert (loaded[0].id, loaded[0].project, loaded[0].cwd, loaded[0].model) == ("work", "/srv/app", "/srv/app", "claude-test")
    assert loaded[0].problems == ()
    assert loaded[0].messages[0].at == 1772359200.0  # 2026-03-01T10:00:00Z


def test_blocks_of_one_answer_become_one_message_with_the_last_usage(tmp_path):
    usage = [
        {"input_tokens": 10, "output_tokens": n, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}
        for n in (9, 9, 159)
    ]
    made = read(
        tmp_path,
        said("go"),
        answer({"type": "thinking", "thinking": "hm", "signature": "REDACTED"}, uuid="a", usage=usage[0], requestId="r"),
        answer(text("I look."), uuid="b", usage=usage[1], requestId="r"),
        answer(use("t1", command="ls"), uuid="c", usage=usage[2], requestId="r"),
        said([got("t1")], uuid="d"),
    )
    assert [m.role for m in made.messages] == ["user", "assistant", "tool"]
    merged = made.messages[1]
    assert (merged.thinking, merged.text, [c.id for c in merged.calls]) == ("hm", "I look.", ["t1"])
    assert merged.usage == Usage(input=10, output=159, cache_read=7, cache_write=3)


@pytest.mark.parametrize("request_id", [{}, {"requestId": None}, {"requestId": ""}])
def test_an_answer_is_known_by_its_message_id_when_the_request_id_is_missing(tmp_path, request_id):
    usage = {"input_tokens": 1, "output_tokens": 2}
    made = read(
        tmp_path,
        answer(text("one"), id="m1", uuid="a", usage=usage, **request_id),
        answer(text("two"), id="m1", uuid="b", usage=usage, **request_id),
        answer(text("three"), id="m2", uuid="c", usage=usage, **request_id),
    )
    assert [m.text for m in made.messages] == ["one\ntwo", "three"]
    assert sum(m.usage.output for m in made.messages) == 4


def test_results_between_the_blocks_of_one_answer(tmp_path):
    made = read(
        tmp_path,
        answer(use("t1"), uuid="a"),
        said([got("t1", "first")], uuid="b"),
        answer(use("t2"), uuid="c"),
        said([got("t2", "second")], uuid="d"),
        answer(text("end"), id="msg_2", uuid="e"),
    )
    assert [(m.role, m.text) for m in made.messages] == [
        ("assistant", ""),
        ("tool", "first"),
        ("tool", "second"),
        ("assistant", "end"),
    ]
    assert [c.id for c in made.messages[0].calls] == ["t1", "t2"]
    assert made.problems == ()


def test_answers_without_any_id_are_kept_apart(tmp_path):
    made = read(tmp_path, answer(text("one"), id=None, uuid="a"), answer(text("two"), id=None, uuid="b"))
    assert [m.text for m in made.messages] == ["one", "two"]


def test_a_file_that_starts_in_the_middle(tmp_path):
    made = read(
        tmp_path,
        said([got("gone", "orphan")], parentUuid="nowhere"),
        answer(text("so"), use("open"), parentUuid="also-nowhere"),
    )
    assert [m.text for m in made.messages] == ["orphan", "so"]
    assert set(made.problems) == {"a result for 'gone' has no call", "call open has no result"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", [("user", "plain")]),
        ([], []),
        (None, []),
        ("  \n ", []),
        ([text("")], []),
        ([{"type": "text", "text": None}], []),
        ([text("a"), text(" "), text("b")], [("user", "a\nb")]),
        (["bare", text("b")], [("user", "bare\nb")]),
        ([got("t", None)], [("tool", "")]),
        ([{"type": "tool_result", "tool_use_id": "t"}], [("tool", "")]),
        ([got("t", [text("x"), text("y")])], [("tool", "x\ny")]),
        ([got("t", "r"), text("and now this")], [("tool", "r"), ("user", "and now this")]),
    ],
)
def test_every_shape_of_user_content(tmp_path, content, expected):
    made = read(tmp_path, said(content), answer(text("ok")))
    assert [(m.role, m.text) for m in made.messages] == [*expected, ("assistant", "ok")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [("plain", ["plain"]), ("   ", []), (None, []), ([], []), ([text("")], []), ([text(" "), text("b")], ["b"])],
)
def test_every_shape_of_assistant_content(tmp_path, content, expected):
    entry = answer()
    entry["message"]["content"] = content
    assert [m.text for m in read(tmp_path, said("go"), entry).messages] == ["go", *expected]


def test_images_are_counted_and_errors_are_marked(tmp_path):
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    made = read(tmp_path, said([image] * 8), answer(use("t")), said([got("t", [image, text("no")], is_error=True)], uuid="u2"))
    assert [(m.role, m.images, m.text, m.is_error) for m in made.messages if m.role != "assistant"] == [
        ("user", 8, "", False),
        ("tool", 1, "no", True),
    ]


def test_the_second_copy_of_a_result_is_not_read(tmp_path):
    made = read(tmp_path, answer(use("t")), said([got("t", "once")], toolUseResult={"stdout": "once more"}))
    assert [m.text for m in made.messages] == ["", "once"]


def test_lines_that_are_no_messages_are_passed_over_however_many_come_first(tmp_path):
    other = [{"type": kind, **IDENTITY} for kind in ("progress", "attachment", "file-history-snapshot", "queue-operation")]
    made = read(tmp_path, *other * 100, said("at last"), {"type": "summary", "summary": "x", "leafUuid": "u1"})
    assert [m.text for m in made.messages] == ["at last"]
    assert made.problems == ()


def boundary(**metadata):
    return {
        "type": "system",
        "subtype": "compact_boundary",
        "parentUuid": None,
        "logicalParentUuid": "u1",
        "uuid": "cb",
        "compactMetadata": metadata,
    }


def summary(words):
    return said(words, uuid="cs", isCompactSummary=True, isVisibleInTranscriptOnly=True)


def test_a_recorded_compaction_is_kept_beside_the_messages(tmp_path):
    made = read(
        tmp_path,
        said("go"),
        answer(text("done")),
        boundary(trigger="auto", preTokens=167081, postTokens=9000),
        summary("It went on."),
        said("next", uuid="u9"),
    )
    assert [m.text for m in made.messages] == ["go", "done", "next"]
    left = (Message("user", "It went on.", id="summary-1"),)
    assert made.compactions == (RecordedCompaction(2, "auto", 167081, 9000, "It went on.", left),)
    assert made.problems == ()


@pytest.mark.parametrize("metadata", [{}, {"preTokens": "many"}, {"trigger": None}])
def test_a_boundary_alone(tmp_path, metadata):
    made = read(tmp_path, said("go"), boundary(**metadata))
    assert [(c.before, c.trigger, c.summary, c.left) for c in made.compactions] == [(1, "", "", None)]


def test_a_boundary_whose_metadata_is_no_object(tmp_path):
    made = read(tmp_path, said("go"), boundary() | {"compactMetadata": "auto"})
    assert made.compactions == (RecordedCompaction(1),)


def test_a_summary_without_its_boundary_is_noted(tmp_path):
    made = read(tmp_path, summary("Before this we ..."), said("go", uuid="u2"))
    assert [(c.before, c.summary, [m.text for m in c.left]) for c in made.compactions] == [
        (0, "Before this we ...", ["Before this we ..."])
    ]
    assert made.problems == ("a compaction summary without its boundary",)
    assert [m.text for m in made.messages] == ["go"]


CONVERSATION = (
    said("go", uuid="1"),
    answer(text("I look."), uuid="2", id="a"),
    answer(use("t"), uuid="3", id="a"),
    said([got("t", "out")], uuid="4"),
    answer(text("so"), uuid="5", id="b"),
)


def preserved(*uuids):
    return {"preservedMessages": {"anchorUuid": "cs", "uuids": list(uuids)}}


def segment(head, tail):
    return {"preservedSegment": {"headUuid": head, "anchorUuid": "cs", "tailUuid": tail}}


@pytest.mark.parametrize(
    ("metadata", "expected", "problems"),
    [
        ({}, [], 0),
        (preserved("3", "4", "5"), ["m1", "m2", "m3"], 0),  # a line of a merged answer stands for all of it
        (preserved("2", "3", "4"), ["m1", "m2"], 0),
        (segment("3", "5"), ["m1", "m2", "m3"], 0),
        (preserved("gone", "5"), ["m3"], 1),
        (segment("gone", "5"), ["m3"], 1),
        ({"preservedMessages": {"uuids": "5"}, "preservedSegment": []}, [], 0),
    ],
)
def test_a_compaction_leaves_its_summary_and_what_it_preserved(tmp_path, metadata, expected, problems):
    made = read(tmp_path, *CONVERSATION, boundary(**metadata), summary("so far"), said("next", uuid="9"))
    left = made.compactions[0].left
    assert [m.id for m in left] == ["summary-1", *expected]
    assert list(left[1:]) == [m for m in made.messages if m.id in expected]
    assert len([p for p in made.problems if "are not in the file" in p]) == problems


def test_files_attached_behind_a_summary_were_left_by_the_compaction(tmp_path):
    def attachment(uuid, **fields):
        return {"type": "attachment", "uuid": uuid, "attachment": fields}

    file = {"type": "file", "filename": "/a.py", "content": {"type": "text", "file": {"filePath": "/a.py", "content": "x = 1"}}}
    made = read(
        tmp_path, attachment("0", **file), *CONVERSATION, attachment("6", **file), boundary(), summary("so far"),
        attachment("7", **file), attachment("8", type="hook_success", content="x"), said("next", uuid="9"), attachment("10", **file),
    )  # fmt: skip
    assert [m.text for m in made.compactions[0].left] == ["so far", "/a.py\nx = 1"]
    assert len(made.messages) == 5


def test_a_microcompaction_leaves_everything_but_the_results_it_cleared(tmp_path):
    micro = {
        "type": "system", "subtype": "microcompact_boundary", "uuid": "mb",
        "microcompactMetadata": {"trigger": "auto", "preTokens": 60, "tokensSaved": 20, "compactedToolIds": ["t"]},
    }  # fmt: skip
    made = read(tmp_path, *CONVERSATION, micro, said("next", uuid="8"), boundary(**preserved("4", "8")), summary("so far"))
    cleared, whole = made.compactions
    assert (cleared.before, cleared.trigger, cleared.tokens_before, cleared.tokens_after) == (4, "microcompact", 60, 40)
    assert [(m.id, m.text) for m in cleared.left] == [
        ("m0", "go"), ("m1", "I look."), ("m2", "[result cleared]"), ("m3", "so"),
    ]  # fmt: skip
    assert [(m.id, m.text) for m in whole.left] == [("summary-2", "so far"), ("m2", "[result cleared]"), ("m4", "next")]
    assert made.messages[2].text == "out"


def test_history_that_a_second_compaction_appends_again_is_read_once(tmp_path):
    history = claude_code_entries(
        session(user("one"), assistant("two", call("t", command="ls")), result("t", "three")), session_id="s1"
    )
    made = read(tmp_path, *history, boundary(), *history, said("four", uuid="u99", parentUuid="u1"))
    assert [m.text for m in made.messages] == ["one", "two", "three", "four"]
    assert made.problems == ()


def test_what_the_product_wrote_itself_is_left_out_and_named(tmp_path):
    error = answer(text("API Error: 529"), id="e1", isApiErrorMessage=True)
    made_up = answer(text("No response requested."), id="e2")
    made_up["message"]["model"] = "<synthetic>"
    made = read(tmp_path, said("go"), error, made_up, answer(text("fine")))
    assert [m.text for m in made.messages] == ["go", "fine"]
    assert len(made.problems) == 2
    assert "API Error: 529" in made.problems[0]
    assert made.model == "claude-test"


def test_side_chains_are_sessions_of_their_own(tmp_path):
    path = write_lines(
        tmp_path / "s1.jsonl",
        [
            said("go", uuid="1"),
            said("search", uuid="2", isSidechain=True, agentId="a7"),
            answer(text("found"), id="m2", uuid="3", isSidechain=True, agentId="a7"),
            said("old form", uuid="4", isSidechain=True),
            answer(text("done"), id="m1", uuid="5"),
        ],
    )
    assert {s.id: [m.text for m in s.messages] for s in load(path).sessions} == {
        "s1": ["go", "done"],
        "s1/a7": ["search", "found"],
        "s1/sidechain": ["old form"],
    }


@pytest.mark.parametrize(
    "broken",
    [
        {"uuid": ["a"]},
        {"uuid": {"a": 1}},
        {"timestamp": 12},
        {"timestamp": "yesterday"},
        {"timestamp": "0001-01-01T00:00:00"},
        {"cwd": ["x"]},
        {"sessionId": {"x": 1}},
        {"requestId": []},
        {"agentId": {"x": "\ud83d"}, "isSidechain": True},
    ],
)
def test_fields_of_a_wrong_type_lose_nothing(tmp_path, broken):
    made = read(tmp_path, answer(text("kept"), **{"uuid": "a"} | broken))
    assert [m.text for m in made.messages] == ["kept"]


@pytest.mark.parametrize("usage", ["many", {"input_tokens": "ten"}, {"output_tokens": {}}, {"input_tokens": None}, []])
def test_a_usage_of_a_wrong_type_loses_nothing(tmp_path, usage):
    made = read(tmp_path, answer(text("kept"), usage=usage))
    assert [m.text for m in made.messages] == ["kept"]
    assert made.messages[0].usage in (None, Usage())


def test_times_without_a_zone_do_not_depend_on_the_machine(tmp_path):
    made = read(tmp_path, said("go", timestamp="1970-01-02T00:00:00"))
    assert made.messages[0].at == 86400.0


def test_an_entry_without_a_message_is_noted(tmp_path):
    made = read(tmp_path, said("go"), {"type": "assistant", "uuid": "x9", **IDENTITY, "message": "lost"}, 17)
    assert [m.text for m in made.messages] == ["go"]
    assert any("'x9'" in problem for problem in made.problems)
    assert any("a line holds int" in problem for problem in made.problems)


def test_lone_surrogates_anywhere_can_be_stored(tmp_path):
    half = "\ud83d"
    line = answer(text(f"t{half}"), use(f"c{half}", **{f"k{half}": [f"v{half}"]}), id=f"m{half}", uuid=f"u{half}")
    line["message"]["content"][1]["name"] = f"n{half}"
    made = read(tmp_path, line, said([got(f"c{half}", [{"type": "odd", "x": half}])], sessionId=f"s{half}", cwd=half))
    stored = json.dumps([essence(made.messages), made.id, made.cwd, made.problems], ensure_ascii=False)
    stored.encode("utf-8")
    assert [c.id for c in made.messages[0].calls] == ["c\ufffd"]
    assert made.messages[1].call_id == "c\ufffd"
    assert dict(made.messages[0].calls[0].arguments) == {"k\ufffd": ["v\ufffd"]}
    assert any("lone surrogate" in problem for problem in made.problems)


def test_a_file_with_a_boundary_and_nothing_else_is_an_error(tmp_path):
    path = write_lines(tmp_path / "s1.jsonl", [boundary(), said("", uuid="x")])
    with pytest.raises(BenchError, match="holds no message"):
        load(path)
