from __future__ import annotations

import pytest

from bench.sessions import load
from bench.types import BenchError
from making import assistant, call, essence, result, session, user, work, write_lines
from writing import pi_entries, write_pi

MADE = session(user("one"), assistant("two", call("c")), result("c", "three"), user("four"), assistant("five"), id="s")


def read(tmp_path, *entries):
    return load(write_lines(tmp_path / "a.jsonl", entries)).sessions[0]


def compaction(**fields):
    return {"type": "compaction", "timestamp": "2026-03-01T11:00:00Z", "summary": "so far", "tokensBefore": 175004} | fields


def texts(messages):
    return [m.text for m in messages]


@pytest.mark.parametrize("version", [1, 3])
def test_a_whole_session_comes_back(tmp_path, version):
    made = work(3, with_system=False)
    loaded = load(write_lines(tmp_path / "a.jsonl", pi_entries(made, version=version))).sessions[0]
    assert essence(loaded.messages) == essence(made.messages)
    assert (loaded.id, loaded.project, loaded.cwd, loaded.problems) == ("work", "/srv/app", "/srv/app", ())


def test_the_first_kept_entry_by_its_place_in_the_file(tmp_path):
    entries = pi_entries(MADE, version=1)
    made = read(
        tmp_path, *entries, compaction(firstKeptEntryIndex=4), {"type": "message", "message": {"role": "user", "content": "six"}}
    )
    assert texts(made.messages) == ["one", "two", "three", "four", "five", "six"]
    (found,) = made.compactions
    assert (found.before, found.tokens_before, found.tokens_after, found.summary) == (5, 175004, None, "so far")
    assert texts(found.left) == ["so far", "four", "five"]
    assert [m.id for m in found.left] == ["summary-1", "m3", "m4"]


def test_the_first_kept_entry_by_its_id(tmp_path):
    made = read(tmp_path, *pi_entries(MADE), compaction(id="k", parentId="p4", firstKeptEntryId="p3"))
    assert texts(made.compactions[0].left) == ["so far", "four", "five"]


def test_what_a_second_compaction_kept_goes_on_from_the_log(tmp_path):
    first, second = compaction(firstKeptEntryIndex=4), compaction(summary="again", firstKeptEntryIndex=5)
    made = read(tmp_path, *pi_entries(MADE, version=1), first, second)
    assert [texts(c.left) for c in made.compactions] == [["so far", "four", "five"], ["again", "five"]]


@pytest.mark.parametrize(
    "fields", [{"firstKeptEntryIndex": 99}, {"firstKeptEntryId": "nowhere"}, {"firstKeptEntryIndex": "x"}, {}]
)
def test_an_unknown_first_kept_entry_is_noted(tmp_path, fields):
    made = read(tmp_path, *pi_entries(MADE, version=1), compaction(**fields))
    assert made.compactions[0].left is None
    assert made.problems == ("the first entry that compaction 1 kept is not in the session",)


def test_two_entries_on_one_line(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [*pi_entries(MADE, version=1), compaction(firstKeptEntryIndex=4)])
    head, tail = path.read_text().rsplit('\n{"type": "compaction"', 1)
    path.write_text(f'{head}{{"type": "compaction"{tail}')
    assert len(load(path).sessions[0].compactions) == 1


def test_the_session_is_the_branch_that_ends_at_the_last_entry(tmp_path):
    other = {"type": "message", "id": "q", "parentId": "p2", "message": {"role": "user", "content": "instead"}}
    summary = {"type": "branch_summary", "id": "b", "parentId": "q", "fromId": "p4", "summary": "tried it"}
    made = read(tmp_path, *pi_entries(MADE), other, summary)
    assert texts(made.messages) == ["one", "two", "three", "instead", "tried it"]
    assert made.problems == ("2 messages stand on branches that the session did not end on; they are left out",)


def test_commands_of_the_user_and_what_extensions_say(tmp_path):
    def ran(**fields):
        return {"type": "message", "message": {"role": "bashExecution", "command": "ls", "output": "a b", "exitCode": 0} | fields}

    made = read(
        tmp_path, {"type": "session", "id": "s"}, ran(), ran(exitCode=2), ran(cancelled=True), ran(excludeFromContext=True),
        {"type": "custom_message", "content": "by the way"}, {"type": "custom", "data": {}}, {"type": "label", "label": "x"},
        {"type": "message", "message": {"role": "user", "content": "go"}},
    )  # fmt: skip
    assert texts(made.messages) == ["$ ls\na b", "$ ls\na b\n(exit code 2)", "$ ls\na b\n(cancelled)", "by the way", "go"]
    assert {m.role for m in made.messages} == {"user"}


def test_an_answer_with_thinking_and_usage_and_one_that_was_aborted(tmp_path):
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]
    usage = {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}
    said = {"role": "assistant", "content": content, "model": "m", "usage": usage, "timestamp": 86400000}
    aborted = {"role": "assistant", "content": [], "stopReason": "aborted", "usage": usage}
    made = read(
        tmp_path, {"type": "session", "id": "s"}, {"type": "message", "message": said}, {"type": "message", "message": aborted}
    )
    (answer,) = made.messages
    assert (answer.text, answer.thinking, answer.at, made.model) == ("yes", "hm", 86400.0, "m")
    assert (answer.usage.input, answer.usage.output, answer.usage.cache_read, answer.usage.cache_write) == (1, 2, 3, 4)


def test_entries_whose_parents_go_round_end(tmp_path):
    entries = pi_entries(MADE)
    entries[1]["parentId"] = "p4"
    assert texts(read(tmp_path, *entries).messages) == ["one", "two", "three", "four", "five"]


def test_a_header_of_the_canonical_form_is_not_pi(tmp_path):
    path = write_pi(MADE, tmp_path / "a.jsonl")
    assert load(path).sessions[0].source.format == "pi"
    path.write_text(path.read_text().replace('"type": "session"', '"type": "session", "schema": 1', 1))
    with pytest.raises(BenchError, match="canonical"):
        load(path)
