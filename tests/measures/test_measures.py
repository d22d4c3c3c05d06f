from __future__ import annotations

import pytest

from bench.measures.efficiency import compression_ratio, message_preservation, seed_efficiency, token_reduction
from bench.measures.structure import violations
from bench.measures.survival import Remains
from bench.types import Message, Probe, ToolCall


@pytest.mark.parametrize(
    ("before", "after", "turns_before", "turns_after", "rounding", "expected"),
    [
        (9000, 6200, 15, 12, None, 0.506667),
        (9000, 5800, 15, 10, None, 0.480000),
        (9000, 6200, 15, 12, 3, 0.5066),
        (9000, 5800, 15, 10, 3, 0.4804),
        (9000, 0, 15, 0, None, 0.60),
        (9000, 9000, 15, 15, None, 0.40),
    ],
)
def test_the_seeds_efficiency(before, after, turns_before, turns_after, rounding, expected):
    assert seed_efficiency(before, after, turns_before, turns_after, rounding) == pytest.approx(expected, abs=5e-7)


def test_ratios_name_their_direction():
    assert token_reduction(100, 25) == 0.75
    assert compression_ratio(100, 25) == 4.0
    assert compression_ratio(100, 0) is None
    assert message_preservation(10, 4) == 0.4


def call(id: str, text: str = "") -> Message:
    return Message("assistant", text, (ToolCall(id, "Bash", {}),))


def result(id: str) -> Message:
    return Message("tool", "out", call_id=id)


USER = Message("user", "do it")
GOOD = [Message("system", "s"), USER, call("a"), result("a"), Message("assistant", "done")]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (GOOD, {"openai": [], "anthropic": [], "gemini": []}),
        ([], {"openai": ["no_messages", "last_user_message_changed"]}),
        ([USER, call("a")], {"openai": ["unanswered_call"]}),
        ([USER, call("a"), USER, result("a")], {"openai": ["unanswered_call", "orphan_result"]}),
        ([USER, result("a")], {"openai": ["orphan_result"]}),
        ([call("a"), result("a"), USER], {"openai": [], "anthropic": ["first_turn_not_user"], "gemini": ["first_turn_not_user"]}),
        (
            [USER, Message("assistant", "text"), call("a"), result("a")],
            {"openai": [], "anthropic": [], "gemini": ["call_turn_not_after_user_or_result"]},
        ),
        ([USER, Message("assistant", " ")], {"openai": ["empty_message"]}),
        ([Message("user", "do")], {"openai": ["last_user_message_changed"]}),
        ([Message("user", "Summary.\n\ndo it")], {"openai": []}),
    ],
)
def test_structure(messages, expected):
    found = violations(messages, GOOD, 1, 2)
    assert {provider: found[provider] for provider in expected} == expected


def test_a_larger_result_is_a_violation():
    assert violations(GOOD, GOOD, 3, 2)["gemini"] == ["larger_than_before"]


def probe(type: str, *atoms: str) -> Probe:
    return Probe("p", "facts", "?", type, atoms, atoms=atoms)


@pytest.mark.parametrize(
    ("text", "type", "atom", "expected"),
    [
        ("took 412.7ms today", "number", "412.7", True),
        ("took 1412.7 ms", "number", "412.7", False),
        ("rows: 48,213", "number", "48213", True),
        ("rows: 48213", "number", "48,213", True),
        ("rows: 48213.5", "number", "48213", False),
        ("see src/app/main.py:12", "path", "src/app/main.py", True),
        ("see app/main.py", "path", "src/app/main.py", True),
        ("see main.py", "path", "src/app/main.py", False),
        ("see src/app/main.pyc", "path", "src/app/main.py", False),
        ("req-8f3a21x", "identifier", "req-8f3a21", False),
        ("v1.2.3", "version", "1.2.3", True),
        ("1.2.3.4", "version", "1.2.3", False),
        ("keep   it\n short", "quote", "keep it short", True),
    ],
)
def test_survival_of_one_atom(text, type, atom, expected):
    assert Remains([Message("tool", text)]).survives(probe(type, atom)) is expected


def test_survival_reads_call_arguments_unescaped():
    message = Message("assistant", "", (ToolCall("a", "Write", {"file_path": "x", "content": 'first\nid = "req-8f3a21"'}),))
    assert Remains([message]).survives(probe("identifier", "req-8f3a21"))


def test_survival_of_sets_and_foils_and_any_word():
    remains = Remains([Message("tool", "a/one.py and a/two.py, some ledger_rows")])
    assert remains.share(probe("paths", "a/one.py", "a/two.py", "a/three.py", "a/four.py")) == 0.5
    assert remains.survives(probe("paths", "a/one.py", "a/two.py", "a/three.py"))
    assert not remains.survives(probe("paths", "a/one.py", "a/three.py"))
    assert remains.survives(probe("yes_no")) is None
    named = Probe("p", "name_a_word", "?", "word_and_file", (), atoms=("word:ledger_rows", "word:gone", "file:a/one.py"))
    assert remains.survives(named)
