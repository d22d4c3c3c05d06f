from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sessions import canonical, load
from bench.types import BenchError, RecordedCompaction, Session, Usage
from making import WORDS, assistant, call, result, session, sessions, system, user, work, write_lines

HEADER = {"type": "session", "schema": 1, "session_id": "s"}
COUNTS = st.integers(0, 10**6)


def full() -> Session:
    """A session with every field set."""
    return session(
        system("s"),
        user("go", at=12.5, images=2),
        assistant("look", call("c", "Read", path="a", lines=[1, 2.5, None]), thinking="hm", usage=Usage(1, 2, 3, 4)),
        result("c", "out\x00put", is_error=True),
        project="family",
        cwd="/srv",
        model="m",
        compactions=(RecordedCompaction(2, "auto", 100, 20, "so far"), RecordedCompaction(4)),
    )


def compacted() -> Session:
    """`full` with a compaction that left a summary, one message as it stands and one that it rewrote."""
    made = full()
    left = (made.messages[0], user("so far", id="summary-1"), made.messages[2], replace(made.messages[3], text="[cut]"))
    return replace(made, compactions=(RecordedCompaction(4, "auto", 100, 20, "so far", left), RecordedCompaction(4, left=())))


def same(loaded: Session, made: Session) -> bool:
    return replace(loaded, source=made.source, problems=()) == replace(made, problems=())


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a"])
def test_what_is_written_is_read(tmp_path, name):
    path = tmp_path / name
    canonical.write(full(), path)
    loaded = load(path).sessions[0]
    assert same(loaded, full())
    assert loaded.source.format == "canonical"
    assert loaded.problems == ()


def test_what_a_compaction_left_comes_back(tmp_path):
    path = tmp_path / "a.jsonl"
    canonical.write(compacted(), path)
    assert same(load(path).sessions[0], compacted())
    left = json.loads(path.read_text().splitlines()[0])["compactions"][0]["left"]
    assert [left[0], left[2]] == ["m0", "m2"]
    assert [json.loads(item)["text"] for item in (left[1], left[3])] == ["so far", "[cut]"]


@pytest.mark.parametrize("left", ["m0", [1], [None], ["nowhere"], ["{}"], [["m0"]], [{"role": "user"}], ['{"role": "robot"}']])
def test_what_a_compaction_left_is_unknown_when_an_item_cannot_be_read(tmp_path, left):
    header = HEADER | {"compactions": [{"before": 1, "left": left}]}
    path = write_lines(tmp_path / "a.jsonl", [header, {"role": "user", "text": "a", "id": "m0"}])
    made = load(path).sessions[0]
    assert made.compactions == (RecordedCompaction(1),)
    assert len(made.problems) == (0 if isinstance(left, str) else 1)


def test_a_file_from_before_what_was_left_was_recorded_is_read(tmp_path):
    header = HEADER | {
        "compactions": [{"before": 1, "trigger": "auto", "tokens_before": 5, "tokens_after": None, "summary": "s"}]
    }
    path = write_lines(tmp_path / "a.jsonl", [header, {"role": "user", "text": "a", "id": "m0"}])
    assert load(path).sessions[0].compactions == (RecordedCompaction(1, "auto", 5, None, "s"),)


def test_the_same_session_gives_the_same_bytes(tmp_path):
    first, second = tmp_path / "first.jsonl.gz", tmp_path / "second.jsonl.gz"
    canonical.write(full(), first)
    canonical.write(full(), second)
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == canonical.dumps(full())


def test_a_line_holds_every_key(tmp_path):
    lines = [json.loads(line) for line in canonical.dumps(full()).splitlines()]
    assert [line["type"] for line in lines] == ["session"] + ["message"] * 4
    assert len({tuple(line) for line in lines[1:]}) == 1
    assert json.loads(lines[3]["calls"][0]["arguments"]) == {"path": "a", "lines": [1, 2.5, None]}


def test_datasets_reads_a_canonical_file_as_one_table(tmp_path, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(name, "1")
    from datasets import load_dataset

    path = tmp_path / "a.jsonl"
    canonical.write(compacted(), path)
    table = load_dataset("json", data_files=str(path), cache_dir=str(tmp_path / "cache"), split="train")
    assert len(table) == 1 + len(full().messages)
    assert set(canonical.message_record(full().messages[0])) | set(canonical.header_record(full())) == set(table.column_names)
    assert table["text"][1:] == [m.text for m in full().messages]
    assert table["calls"][3] == [{"id": "c", "name": "Read", "arguments": '{"path":"a","lines":[1,2.5,null]}'}]


@st.composite
def compactions(draw: st.DrawFn, made: Session) -> RecordedCompaction:
    """A compaction that leaves any of the messages, as they are or rewritten, and summaries of its own."""
    kept = st.sampled_from(made.messages)
    item = kept | st.builds(replace, kept, text=WORDS) | st.builds(user, WORDS, id=WORDS.map(lambda name: f"summary-{name}"))
    left = draw(st.none() | st.lists(item, max_size=4, unique_by=lambda message: message.id).map(tuple))
    return RecordedCompaction(draw(COUNTS), draw(WORDS), draw(st.none() | COUNTS), draw(st.none() | COUNTS), draw(WORDS), left)


@given(sessions().flatmap(lambda made: st.tuples(st.just(made), compactions(made))), WORDS)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_random_sessions_come_back(tmp_path_factory, both, words):
    made, compaction = both
    made = replace(made, compactions=(compaction,), project=words, cwd=words, model=words, id=words)
    path = tmp_path_factory.mktemp("canonical", numbered=True) / "a.jsonl"
    canonical.write(made, path)
    assert same(load(path).sessions[0], made)


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "robot"},
        {"role": ["user"]},
        {"calls": ["x"]},
        {"calls": 3},
        {"calls": [{}]},
        {"usage": {"tokens": 1}},
        {"usage": 4},
    ],
)
def test_a_line_that_is_no_message_is_named_and_the_others_are_read(tmp_path, fields):
    broken = {"type": "message", "role": "user", "text": "b"} | fields
    path = write_lines(
        tmp_path / "a.jsonl", [HEADER, {"role": "user", "text": "a", "id": "1"}, broken, {"role": "user", "text": "c", "id": "2"}]
    )
    made = load(path).sessions[0]
    assert [m.text for m in made.messages] == ["a", "c"]
    assert len(made.problems) == 1
    assert made.problems[0].startswith("line 3 is not a canonical message")


@pytest.mark.parametrize(
    "fields",
    [
        {"call_id": 5},
        {"call_id": ["x"]},
        {"at": "noon"},
        {"images": "two"},
        {"id": ["x"]},
        {"text": None},
        {"usage": {"input": "x"}},
    ],
)
def test_a_field_of_a_wrong_type_does_not_lose_the_message(tmp_path, fields):
    path = write_lines(tmp_path / "a.jsonl", [HEADER, {"role": "tool", "text": "a", "call_id": "c", "id": "1"} | fields])
    made = load(path).sessions[0]
    assert [m.role for m in made.messages] == ["tool"]
    json.dumps(canonical.message_record(made.messages[0]))


@pytest.mark.parametrize(
    "fields",
    [
        {"project": 5},
        {"cwd": ["x"]},
        {"model": {"a": 1}},
        {"compactions": [{"odd": 1}, 7]},
        {"compactions": 5},
        {"session_id": None},
        {"session_id": "\ud83d"},
    ],
)
def test_a_header_with_fields_of_a_wrong_type(tmp_path, fields):
    path = write_lines(tmp_path / "a.jsonl", [HEADER | fields, {"role": "user", "text": "a", "id": "1"}])
    made = load(path).sessions[0]
    assert [m.text for m in made.messages] == ["a"]
    assert {made.cluster}  # hashable, as statistics need it
    canonical.dumps(made)


@pytest.mark.parametrize("ids", [["", ""], ["x", "x"], [None, "x"]])
def test_ids_of_messages_are_unique_after_loading(tmp_path, ids):
    path = write_lines(tmp_path / "a.jsonl", [HEADER, *({"role": "user", "text": "a", "id": id} for id in ids)])
    made = load(path).sessions[0]
    assert [m.id for m in made.messages] == ["m0", "m1"]
    assert made.problems == ("ids of messages are missing or stand twice; all were numbered anew",)


def test_another_schema_is_an_error(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [HEADER | {"schema": 2}, {"role": "user", "text": "a"}])
    with pytest.raises(BenchError, match=r"a\.jsonl is canonical schema 2"):
        load(path)


def test_a_growing_copy_is_known_in_canonical_form_too(tmp_path):
    made = work(3)
    canonical.write(made, tmp_path / "whole.jsonl")
    canonical.write(replace(made, messages=made.messages[:7]), tmp_path / "part.jsonl")
    loaded = load(tmp_path)
    assert [len(s.messages) for s in loaded.sessions] == [len(made.messages)]
    assert [line.split(":")[0] for line in loaded.left_out] == [str(tmp_path / "part.jsonl")]
