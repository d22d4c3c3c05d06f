from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.registry import FORMATS
from bench.sessions import canonical, load
from bench.sessions.document import open_document
from bench.types import BenchError
from making import (
    claude_code_entries,
    essence,
    session,
    user,
    work,
    write_anthropic,
    write_claude_code,
    write_lines,
    write_openai,
)
from writing import (
    cline_record,
    openhands_events,
    pi_entries,
    write_canonical,
    write_cline,
    write_openhands,
    write_pi,
    write_tau_bench,
)

ENTRY = {"type": "user", "uuid": "u1", "sessionId": "s1", "message": {"role": "user", "content": "go"}}


def entry(number, content):
    return ENTRY | {"uuid": f"u{number}", "message": {"role": "user", "content": content}}


def texts(path):
    return [[m.text for m in s.messages] for s in load(path).sessions]


WRITERS = {
    "canonical": write_canonical,
    "claude_code": write_claude_code,
    "openhands": write_openhands,
    "pi": write_pi,
    "cline": write_cline,
    "anthropic": write_anthropic,
    "tau_bench": write_tau_bench,
    "openai": write_openai,
}
WITHOUT_SYSTEM = ("claude_code", "pi")  # the recorder leaves the system prompt out


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("ending", ["json", "jsonl", "log", "jsonl.gz"])
def test_a_format_is_known_by_content_whatever_the_name(tmp_path, name, ending):
    made = work(2, with_system=name not in WITHOUT_SYSTEM)
    path = WRITERS[name](made, tmp_path / "plain")
    target = tmp_path / f"x.{ending}"
    target.write_bytes(gzip.compress(path.read_bytes()) if name == "openai" else path.read_bytes())  # compressed under any name
    path.unlink()
    if name == "canonical":
        canonical.write(work(2), target)
    loaded = load(target).sessions
    assert [s.source.format for s in loaded] == [name]
    assert essence(loaded[0].messages) == essence(made.messages)


def test_every_format_is_tested_here():
    assert sorted(WRITERS) == sorted(FORMATS.names())


def raw(*lines: bytes) -> bytes:
    return b"\n".join(lines)


GO, ON = json.dumps(entry(1, "go")).encode(), json.dumps(entry(2, "on")).encode()


@pytest.mark.parametrize(
    ("data", "expected", "problem"),
    [
        (raw(GO, ON), ["go", "on"], None),
        (raw(GO, ON, b""), ["go", "on"], None),
        (raw(b"", GO, b"", b"  \t", ON, b"", b""), ["go", "on"], None),
        (b"\r\n".join([GO, ON, b""]), ["go", "on"], None),
        (b"\xef\xbb\xbf" + raw(GO, ON), ["go", "on"], None),
        (raw(GO, b"\xef\xbb\xbf" + ON), ["go", "on"], None),
        (raw(GO, b"\x00" * 512 + ON), ["go", "on"], None),
        (raw(GO, ON) + b"\x00" * 512, ["go", "on"], None),
        (GO + ON, ["go", "on"], "line 1 holds 2 JSON values; each was read"),
        (raw(ON[:-9], GO + b" " + ON[:-9], ON), ["go", "on"], "line 1 is cut or is not JSON\nline 2 is cut or is not JSON"),
        (raw(GO, ON[:40], ON), ["go", "on"], "line 2 is cut or is not JSON"),
        (raw(GO[:40], GO, ON), ["go", "on"], "line 1 is cut or is not JSON"),
        (raw(GO[40:], GO, ON), ["go", "on"], "line 1 is cut or is not JSON"),
        (raw(b"", b"", GO[40:], GO, ON), ["go", "on"], "line 3 is cut or is not JSON"),
        (raw(GO, b'ole":"user"}', b"", ON), ["go", "on"], "line 2 is cut or is not JSON"),
        (raw(GO, b"not json at all", ON), ["go", "on"], "line 2 is cut or is not JSON"),
        (raw(GO, ON.replace(b'"on"', b'"o\x00n"')), ["go", "o\x00n"], None),
        (raw(GO, ON.replace(b'"on"', b'"o\\u0000n"')), ["go", "o\x00n"], None),
        (raw(GO, ON.replace(b'"on"', b'"\xff\xfen"')), ["go", "\ufffd\ufffdn"], "2 pieces that are not UTF-8"),
        (raw(GO, ON.replace(b'"on"', b'"\xff\xef\xbf\xbd"')), ["go", "\ufffd\ufffd"], "1 pieces that are not UTF-8"),
        (raw(GO, ON.replace(b'"on"', b'"o\\ud83d"')), ["go", "o\ufffd"], "1 lone surrogates"),
        (raw(GO, ON.replace(b'"on"', b'"o\\ud83d\\ude00"')), ["go", "o\U0001f600"], None),
        (raw(GO, ON.replace(b'"on"', '"o\u2028\x85n"'.encode())), ["go", "o\u2028\x85n"], None),
        (raw(GO, ON.replace(b'"u2"', b'"u2", "n": NaN')), ["go", "on"], None),
    ],
)
def test_what_real_files_do_to_their_lines(tmp_path, data, expected, problem):
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    made = load(path).sessions[0]
    assert [m.text for m in made.messages] == expected
    beginnings = problem.split("\n") if problem else []
    assert len(made.problems) == len(beginnings)
    assert all(found.startswith(beginning) for found, beginning in zip(made.problems, beginnings))


@pytest.mark.parametrize("half", ["\\ud83d", "\\udc00", "\x01", "\t"])
@pytest.mark.parametrize("indent", [None, 2])
def test_one_json_value_with_what_strict_json_forbids(tmp_path, half, indent):
    text = json.dumps(
        {"messages": [{"role": "user", "content": "aHALF", "n": 1}, {"role": "assistant", "content": "b"}]}, indent=indent
    )
    path = tmp_path / "a.json"
    path.write_text(text.replace("HALF", half))
    made = load(path).sessions[0]
    assert [m.text for m in made.messages] == [("a\ufffd" if half.startswith("\\") else f"a{half}"), "b"]
    assert not any("cut" in problem for problem in made.problems)


@pytest.mark.parametrize("number", ["1" * 30, "-" + "1" * 30, "1e999", "1" * 5000, "NaN", "-Infinity"])
def test_numbers_that_nothing_can_store(tmp_path, number):
    path = tmp_path / "a.json"
    call = f'{{"id": "c", "function": {{"name": "f", "arguments": {{"n": {number}, "half": "\\ud83d"}}}}}}'
    path.write_text(f'{{"messages": [{{"role": "assistant", "content": [{number}], "tool_calls": [{call}]}}]}}')
    made = load(path).sessions[0]
    canonical.dumps(made)
    assert made.messages[0].calls[0].arguments["half"] == "\ufffd"


def test_one_line_of_five_megabytes(tmp_path):
    long = "x" * 5_000_000
    path = write_lines(tmp_path / "a.jsonl", [entry(1, "go"), entry(2, long), entry(3, "on")])
    assert [len(text) for text in texts(path)[0]] == [2, 5_000_000, 2]
    path.write_text(path.read_text().replace("xx", "\\ud83d", 1))  # the slow way to read it, too
    assert [len(text) for text in texts(path)[0]] == [2, 4_999_999, 2]


def test_entries_nested_too_deeply_are_an_error_in_one_sentence(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"messages": [{"role": "user", "content": ' + '[{"x": ' * 450 + "1" + "}]" * 450 + "}]}")
    with contextlib.suppress(BenchError):
        assert load(path).sessions[0].messages
    path.write_text("[" * 100_000)
    with pytest.raises(BenchError, match=r"deep\.json"):
        load(path)


def test_growing_copies_of_one_session(tmp_path):
    """A copy may be made at any line, inside an answer too."""
    entries = claude_code_entries(work(3, with_system=False), session_id="s1")
    for end in (*range(1, len(entries), 4), len(entries)):
        write_lines(tmp_path / f"at{end:03}.jsonl", entries[:end])
    loaded = load(tmp_path)
    assert [essence(s.messages) for s in loaded.sessions] == [essence(work(3, with_system=False).messages)]
    assert loaded.sessions[0].source.path == str(tmp_path / f"at{len(entries):03}.jsonl")
    left_out = sorted(sentence.partition(":")[0] for sentence in loaded.left_out)
    assert left_out == [str(tmp_path / f"at{end:03}.jsonl") for end in range(1, len(entries), 4)]
    assert all(str(tmp_path / f"at{len(entries):03}.jsonl") in sentence for sentence in loaded.left_out)


def test_every_prefix_inside_one_answer_is_a_copy(tmp_path):
    entries = claude_code_entries(work(1, with_system=False), session_id="s1")
    for end in range(1, len(entries) + 1):
        write_lines(tmp_path / f"at{end:03}.jsonl", entries[:end])
    loaded = load(tmp_path)
    assert len(loaded.sessions) == 1
    assert len(loaded.left_out) == len(entries) - 1


def test_identical_copies_are_left_out_and_other_sessions_of_that_id_are_renamed(tmp_path):
    for name, words in (("a", "one"), ("b", "one"), ("c", "two")):
        write_lines(tmp_path / f"{name}.jsonl", [entry(1, words)])
    loaded = load(tmp_path)
    assert [(s.id, s.messages[0].text) for s in loaded.sessions] == [("s1", "one"), ("s1~2", "two")]
    assert len(loaded.left_out) == 1
    assert "b.jsonl" in loaded.left_out[0]
    assert "a.jsonl" in loaded.left_out[0]


def test_a_foreign_file_names_what_each_reader_missed(tmp_path):
    path = tmp_path / "foreign.json"
    path.write_text('{"trajectory": [1, 2]}')
    with pytest.raises(BenchError) as caught:
        load(path)
    assert "foreign.json" in str(caught.value)
    for name in FORMATS.names():
        assert f"\n  {name}: no " in str(caught.value)


def test_a_foreign_file_in_a_folder_is_left_out_by_name(tmp_path):
    write_openai(work(2), tmp_path / "a.json")
    (tmp_path / "sub").mkdir()
    write_anthropic(work(1, id="other"), tmp_path / "sub" / "b.json")
    for name, data in (
        ("foreign.csv", b"a,b\n1,2\n"),
        ("empty.txt", b""),
        ("picture.png", bytes(range(256))),
        ("list.json", b"[]"),
    ):
        (tmp_path / name).write_bytes(data)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.json").write_text("no")
    loaded = load(tmp_path)
    assert [s.id for s in loaded.sessions] == ["a", "b"]
    assert len(loaded.left_out) == 4
    for name in ("foreign.csv", "empty.txt", "picture.png", "list.json"):
        assert sum(name in sentence for sentence in loaded.left_out) == 1


def test_an_empty_conversation_among_others_is_left_out_by_name(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"messages": [{"role": "user", "content": "go"}]}, {"id": "void", "messages": []}])
    loaded = load(path)
    assert [len(s.messages) for s in loaded.sessions] == [1]
    assert loaded.left_out == [f"{path}: void holds no message"]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("empty", b"", "is empty"),
        ("blank", b" \n\t\r\n", "is empty"),
        ("binary", bytes(range(1, 200)), "holds no JSON"),
        ("zeros", b"\x00" * 100, "holds no JSON"),
        ("prose", b"Dear reader,\nthis is no session.\n", "holds no JSON"),
        ("broken.gz", b"\x1f\x8b" + b"\x08" * 50, "cannot read"),
        ("cut.gz", gzip.compress(GO * 200)[:-20], "cannot read"),
    ],
)
def test_an_unreadable_file_is_an_error_that_names_it(tmp_path, name, data, says):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(BenchError, match=f"{name}.*{says}|{says}.*{name}"):
        load(path)


@pytest.mark.parametrize(
    "path", ["missing.jsonl", "missing/*.jsonl", "", "~nobody-of-this-name/x", "a\x00b", "x" * 5000, "[", "*?["]
)
def test_a_place_without_a_file(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.jsonl").write_bytes(GO)
    with pytest.raises(BenchError):
        load(path)


def test_an_empty_folder(tmp_path):
    with pytest.raises(BenchError, match="holds no file"):
        load(tmp_path)


def test_a_folder_of_foreign_files_names_them(tmp_path):
    (tmp_path / "foreign.csv").write_text("a,b")
    with pytest.raises(BenchError, match=r"no session in .*\n.*foreign\.csv"):
        load(tmp_path)


def test_globs(tmp_path):
    for place in ("a1.jsonl", "a2.jsonl", "b1.jsonl", "sub/a3.jsonl"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        write_lines(tmp_path / place, [ENTRY | {"sessionId": place, "message": {"role": "user", "content": place}}])
    assert texts(tmp_path / "a*.jsonl") == [["a1.jsonl"], ["a2.jsonl"]]
    assert texts(tmp_path / "b*.jsonl") == [["b1.jsonl"]]
    assert texts(tmp_path / "**" / "a*.jsonl") == [["a1.jsonl"], ["a2.jsonl"], ["sub/a3.jsonl"]]
    assert len(texts(tmp_path)) == 4


def test_a_name_with_the_signs_of_a_glob_is_a_name(tmp_path):
    path = write_lines(tmp_path / "a[1].jsonl", [ENTRY])
    write_lines(tmp_path / "a1.jsonl", [entry(9, "other")])
    assert texts(path) == [["go"]]


def test_a_file_name_that_is_no_text_can_be_stored(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path / "x") + b"\xff.json"))
    path.write_text('[{"role": "user", "content": "go"}]')
    made = load(path).sessions[0]
    json.dumps([made.id, made.source.path], ensure_ascii=False).encode()


def test_the_format_can_be_named(tmp_path):
    both = write_anthropic(work(1), tmp_path / "a.json")
    assert load(both).sessions[0].source.format == "anthropic"
    plain = tmp_path / "plain.json"
    plain.write_text('{"system": "s", "messages": [{"role": "user", "content": "go"}]}')
    assert [m.text for m in load(plain, format="openai").sessions[0].messages] == ["go"]
    assert [m.text for m in load(plain, format="anthropic").sessions[0].messages] == ["s", "go"]


def test_a_named_format_that_does_not_fit_says_what_is_missing(tmp_path):
    path = write_openai(work(1), tmp_path / "a.json")
    with pytest.raises(BenchError, match=r"a\.json cannot be read as claude_code: no line with type"):
        load(path, format="claude_code")


@pytest.mark.parametrize("folder", [True, False])
def test_an_unknown_format_is_one_error_with_the_known_ones(tmp_path, folder):
    for name in ("a.json", "b.json"):
        write_openai(work(1), tmp_path / name)
    with pytest.raises(BenchError) as caught:
        load(tmp_path if folder else tmp_path / "a.json", format="claude_cod")
    assert str(caught.value).count("unknown session format") == 1
    assert "did you mean 'claude_code'" in str(caught.value)


def test_a_split_belongs_to_the_bundled_sessions(tmp_path):
    with pytest.raises(BenchError, match="sessions.split"):
        load(write_lines(tmp_path / "a.jsonl", [ENTRY]), split="tuning")
    with pytest.raises(BenchError, match="unknown sessions.split"):
        load(split="test")


def test_equal_problems_are_counted_once(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(entry(n, f"{n} HALF")).replace("HALF", "\\ud83d") + "\n" for n in range(3)))
    assert load(path).sessions[0].problems == ("1 lone surrogates, read as U+FFFD (3 times)",)


def only_sessions_or_one_error(data: bytes, suffix: str = ".jsonl") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        path.write_bytes(data)
        try:
            loaded = load(path)
        except BenchError as error:
            if f"x{suffix}" not in str(error):
                raise
            return
    assert loaded.sessions
    for made in loaded.sessions:
        assert made.messages
        assert len({m.id for m in made.messages}) == len(made.messages)
        canonical.dumps(made)
        json.dumps([made.problems, made.source.path, made.cluster], ensure_ascii=False).encode()


BOUNDARY = {
    "type": "system", "subtype": "compact_boundary", "uuid": "b",
    "compactMetadata": {"trigger": "auto", "preTokens": 9, "preservedMessages": {"uuids": ["u1", "u2"]}},
}  # fmt: skip
SUMMARY = {"type": "user", "uuid": "s", "isCompactSummary": True, "message": {"role": "user", "content": "so far"}}
CONDENSATION = {
    "kind": "Condensation", "id": "k", "forgotten_event_ids": ["e2", "e3", "e4", "e5"], "summary": "so far", "summary_offset": 2,
}  # fmt: skip
V0 = [
    {"id": 1, "source": "user", "action": "message", "args": {"content": "go"}},
    {
        "id": 2,
        "action": "run",
        "args": {"command": "ls"},
        "tool_call_metadata": {"tool_call_id": "c", "model_response": {"id": "r"}},
    },
    {"id": 3, "observation": "run", "cause": 2, "content": "a", "extras": {}},
    {"id": 4, "action": "condensation", "args": {"forgotten_event_ids": [2, 3], "summary": "so far", "summary_offset": 1}},
]
COMPACTION = {"type": "compaction", "id": "k", "parentId": "p5", "summary": "so far", "firstKeptEntryId": "p3", "tokensBefore": 9}
SEEDS = [
    canonical.dumps(work(1)),
    "\n".join(json.dumps(line) for line in [*claude_code_entries(work(1)), BOUNDARY, SUMMARY]).encode(),
    "\n".join(json.dumps(line) for line in [*openhands_events(work(1)), CONDENSATION]).encode(),
    json.dumps({"instance_id": "i", "history": V0}).encode(),
    "\n".join(json.dumps(line) for line in [*pi_entries(work(1)), COMPACTION]).encode(),
    json.dumps(cline_record(work(1))).encode(),
    json.dumps(
        {
            "system": "s",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "x"}]}],
                }
            ],
        }
    ).encode(),
    json.dumps(
        [
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ],
        indent=1,
    ).encode(),
]


@given(st.binary(max_size=200))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_random_bytes(data):
    only_sessions_or_one_error(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(data)
        with contextlib.suppress(BenchError):
            document = open_document(path)
            assert len(document.records) == len(document.lines) > 0


@given(
    st.sampled_from(SEEDS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4)), min_size=1, max_size=4)
)
@settings(derandomize=True, max_examples=80, deadline=None)
def test_files_with_bytes_removed_and_put_in(data, changes):
    for place, removed, inserted in changes:
        at = int(place * len(data))
        data = data[:at] + inserted + data[at + removed :]
    only_sessions_or_one_error(data)


JSON = st.recursive(
    st.sampled_from([None, True, 0, -1, 2**70, 1.5, "", "user", "tool", "c", "\ud83d", "\x00"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "id", "content", "\udc00"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value, path=()):
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [place for key, item in inner for place in places(item, (*path, key))]


@given(st.data())
@settings(derandomize=True, max_examples=150, deadline=None)
def test_files_with_a_value_of_any_other_type_anywhere(data):
    text = data.draw(st.sampled_from(SEEDS)).decode()
    try:
        records, separator = [json.loads(line) for line in text.splitlines()], "\n"
    except json.JSONDecodeError:
        records, separator = [json.loads(text)], ""
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(records)[1:] or [(0,)]))
        holder = records
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = data.draw(JSON)
    only_sessions_or_one_error((separator or "\n").join(json.dumps(record) for record in records).encode())


def test_what_the_fuzzers_start_from_is_read():
    for data in SEEDS:
        only_sessions_or_one_error(data)
    assert session(user("x")).messages[0].id == "m0"
