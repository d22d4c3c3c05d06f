"""Where the notes about removed calls stand, and what they name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.strategies.judge import applied
from bench.strategies.notes import add_notes, described
from bench.types import ToolCall
from making import assistant, call, result, session, sessions, user


def test_the_note_is_on_the_last_assistant_message_at_or_before_the_removed_call():
    conversation = session(
        user("go"), assistant("I look."), assistant("", call("a", command="ls -la /usr/bin")), result("a", "A"),
        user("and?"), assistant("I read.", call("b", "Read", file_path="x.py"), call("c", "Read", path="y.py")),
        result("b", "B"), result("c", "C"), assistant("Done."),
    ).messages  # fmt: skip
    made = add_notes(conversation, applied(conversation, dict.fromkeys("abc", "drop")))
    assert [message.id for message in made] == ["m0", "m1", "m4", "m5", "m8"]
    assert made[1].text.startswith("I look.\n\n[")
    assert "1 tool call " in made[1].text
    assert "Bash(ls -la /usr/bin)]" in made[1].text
    assert "2 tool calls " in made[3].text
    assert made[3].text.endswith("Read(x.py), Read(y.py)]")
    assert (made[0], made[2], made[4]) == (conversation[0], conversation[4], conversation[8])


def test_the_note_is_on_the_first_assistant_message_after_when_none_is_before():
    conversation = session(
        user("go"), assistant("", call("a")), result("a"), user("and?"), assistant("Yes."), assistant("No.")
    ).messages
    made = add_notes(conversation, applied(conversation, {"a": "drop"}))
    assert [message.id for message in made] == ["m0", "m3", "m4", "m5"]
    assert made[2].text.startswith("Yes.\n\n[")
    assert made[3].text == "No."


def test_no_assistant_message_no_note_and_a_summary_gets_none():
    conversation = session(user("go"), assistant("", call("a")), result("a"), user("and?")).messages
    kept = applied(conversation, {"a": "drop"})
    assert add_notes(conversation, kept) == kept
    written = assistant("I summed it up.", id="summary-1")
    assert add_notes(conversation, (written, *kept)) == (written, *kept)
    assert add_notes(conversation, conversation) == conversation


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "ls -la /usr/bin"}, "T(ls -la /usr/bin)"),
        ({"timeout": 5, "flags": ["-x"], "command": "make", "cwd": "/srv"}, "T(make)"),
        ({"text": "  two \n\t lines  "}, "T(two lines)"),
        ({"command": "x" * 60}, f"T({'x' * 60})"),
        ({"command": "x" * 61}, f"T({'x' * 57}...)"),
        ({"n": 1}, "T()"),
        ({}, "T()"),
        ("no json", "T(no json)"),
    ],
)
def test_a_removed_call_is_named_by_its_first_text(arguments, expected):
    assert described(ToolCall("a", "T", arguments)) == expected


@given(sessions(), st.data())
def test_notes_name_exactly_the_removed_calls(made, data):
    messages = made.messages
    calls = [c for message in messages for c in message.calls]
    actions = {c.id: data.draw(st.sampled_from(["keep", "drop"])) for c in calls}
    kept = applied(messages, actions)
    noted = add_notes(messages, kept)
    assert all(after is before or after == replace(before, text=after.text) for before, after in zip(kept, noted, strict=True))
    added = [after.text.removeprefix(before.text).strip() for before, after in zip(kept, noted) if before is not after]
    expected = [described(c) for c in calls if actions[c.id] == "drop"] if any(m.role == "assistant" for m in kept) else []
    assert ", ".join(note.split("The work was done: ", 1)[1].removesuffix("]") for note in added) == ", ".join(expected)
    assert sum(int(note.split()[3]) for note in added) == len(expected)
