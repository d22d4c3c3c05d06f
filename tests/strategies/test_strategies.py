"""The contract that every registered strategy keeps, and the known answers of each."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.measures.structure import PROVIDERS, violations
from bench.models.scripted import Scripted
from bench.registry import STRATEGIES
from bench.sessions.anthropic import export
from bench.strategies import make
from bench.strategies.prune import stub
from bench.tokens import counter
from bench.turns import seams, turns, units
from bench.types import BenchError, Compaction, CompactionRequest, Cut, Message, Strategy, ToolCall
from bench.workspace import KnownFiles
from making import sessions

BUILT_IN = [name for name in STRATEGIES.names() if name not in ("custom", "recorded")]  # those have tests of their own
WITH_MODEL = [name for name in BUILT_IN if STRATEGIES.get(name).needs_model]
WITHOUT_MODEL = [name for name in BUILT_IN if name not in WITH_MODEL]
AIMING = ("oldest", "middle", "hybrid")  # at request.target_tokens


def message(role, text="", *calls, call_id=None, id="", error=False) -> Message:
    return Message(role, text, tuple(ToolCall(c, "Bash", {"command": f"run {c}"}) for c in calls), call_id, error, id=id)


def numbered(*messages: Message) -> tuple[Message, ...]:
    return tuple(Message(m.role, m.text, m.calls, m.call_id, m.is_error, id=f"m{n}") for n, m in enumerate(messages))


def apply(strategy: Strategy, context: Sequence[Message], head=0, tail=0, target=10**9, count=None) -> Compaction:
    count = count or (lambda messages: 10 * len(list(messages)))
    return strategy.compact(context, CompactionRequest(head, tail, target, count, random.Random(0)))


ROUNDS = numbered(
    message("system", "s"), message("user", "q"),
    message("assistant", "one", "a"), message("tool", "A", call_id="a"),
    message("assistant", "", "b", "c"), message("tool", "B", call_id="b"), message("tool", "C", call_id="c"),
    message("user", "again"),
    message("assistant", "three", "d"), message("tool", "D", call_id="d"),
    message("assistant", "done"),
)  # fmt: skip


def hold_to_contract(strategy: Strategy, cut: Cut) -> Compaction:
    """What every strategy promises of every context."""
    tokens = counter()

    def compacted() -> Compaction:
        workspace = KnownFiles(cut.context, cut.session.cwd)
        target = tokens.messages(cut.context) // 2
        request = CompactionRequest(
            len(cut.head), len(cut.tail), target, tokens.messages, random.Random(0), model=Scripted(), workspace=workspace
        )
        return strategy.compact(cut.context, request)

    before, made = tuple(cut.context), compacted()
    assert made == compacted()
    assert tuple(cut.context) == before
    assert (made.messages == before) == (made.outcome in ("noop", "invalid")) or made.outcome == "fallback"
    assert made.note or made.outcome == "applied"
    assert made.messages[: cut.head_end] == cut.head
    order = {message.id: place for place, message in enumerate(before)}
    kept = [order[message.id] for message in made.messages if message.id in order]
    assert kept == sorted(kept)
    assert len({message.id for message in made.messages}) == len(made.messages)
    found = violations(made.messages, before, tokens.messages(made.messages), tokens.messages(before))
    torn = {name for provider in PROVIDERS for name in found[provider]} & {"orphan_result", "unanswered_call"}
    was_torn = violations(before, before, 1, 1)["openai"]
    assert torn <= set(was_torn)
    return made


@pytest.mark.parametrize("name", WITHOUT_MODEL)
def test_contract_of_those_without_a_model_on_every_bundled_cut(name, cuts):
    for cut in cuts:
        made = hold_to_contract(make(name, {}), cut)
        assert {m.id for m in made.messages} <= {m.id for m in cut.context}
        if name in AIMING:
            assert counter().messages(made.messages) <= counter().messages(cut.context) // 2 or "target" in made.note


@pytest.mark.parametrize("name", WITH_MODEL)
def test_contract_of_those_with_a_model_on_every_bundled_session(name, cuts):
    last = {cut.session.id: cut for cut in cuts}
    made = [hold_to_contract(make(name, {}), cut) for cut in last.values()]
    assert len(made) == 16
    assert any(compaction.outcome == "applied" for compaction in made)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(session=sessions(), data=st.data())
def test_contract_on_random_sessions(name, session, data):
    size = len(session.messages)
    head = data.draw(st.integers(0, min(1, size - 1)), "head")
    places = [place for place in seams(session.messages) if head <= place < size] or [head]
    tail_start = data.draw(st.sampled_from(places), "tail starts")
    hold_to_contract(make(name, {}), Cut(session, 1, size, head, tail_start))


def test_none_is_a_noop_and_reset_leaves_head_and_tail():
    assert apply(make("none", {}), ROUNDS).outcome == "noop"
    assert [m.id for m in apply(make("reset", {}), ROUNDS, head=2, tail=3).messages] == ["m0", "m1", "m8", "m9", "m10"]


def test_oldest_drops_whole_rounds_until_the_target():
    made = apply(make("oldest", {}), ROUNDS, head=1, tail=1, target=80)
    assert [m.id for m in made.messages] == ["m0", *(f"m{n}" for n in range(4, 11))]
    assert apply(make("oldest", {}), ROUNDS, head=1, tail=1, target=110).outcome == "noop"


def test_oldest_stops_before_min_turns():
    made = apply(make("oldest", {"min_turns": 6}), ROUNDS, head=1, tail=1, target=0)
    assert len(turns(made.messages)) == 6


def test_middle_keeps_both_ends_and_drops_the_oldest_of_the_middle_first():
    made = apply(make("middle", {"preserve_start": 1, "preserve_end": 1}), ROUNDS, head=1, tail=1, target=80)
    assert [m.id for m in made.messages] == ["m0", "m1", "m7", "m8", "m9", "m10"]


def test_middle_faithful_drops_the_whole_middle_and_tears_pairs_apart():
    strategy = make("middle", {"preserve_start": 2, "preserve_end": 3, "faithful": True})
    made = apply(strategy, ROUNDS, head=1, tail=6, target=100)
    assert [m.id for m in made.messages] == ["m0", "m1", "m2", "m8", "m9", "m10"]
    assert "unanswered_call" in violations(made.messages, ROUNDS, 1, 2)["openai"]
    assert apply(strategy, ROUNDS, target=110).outcome == "noop"


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (3, "noop"),
        (2, ["m0", "m1", "m2", "m4", "m5", "m6", "m7", "m8", "m9", "m10"]),
        (1, ["m0", "m1", "m2", "m7", "m8", "m9", "m10"]),
    ],
)
def test_trim_tools_keeps_the_newest_rounds_and_all_text(keep, expected):
    made = apply(make("trim_tools", {"keep": keep}), ROUNDS)
    assert made.outcome == "noop" if expected == "noop" else [m.id for m in made.messages] == expected
    assert all(m.text == o.text for m in made.messages for o in ROUNDS if m.id == o.id)


def test_trim_tools_keeps_an_unfinished_last_round_and_can_drop_text():
    open_round = numbered(*ROUNDS, message("assistant", "now", "e"))
    made = apply(make("trim_tools", {"keep": 0}), open_round)
    assert made.messages[-1].calls[0].id == "e"
    without = apply(make("trim_tools", {"keep": 0, "keep_text": False}), ROUNDS)
    assert [m.id for m in without.messages] == ["m0", "m1", "m7", "m10"]


def test_prune_counts_encoded_bytes_and_the_newest_of_a_parallel_batch():
    context = numbered(
        message("user", "q"), message("assistant", "", "a", "b", "c", "d"),
        message("tool", "x" * 2001, call_id="a"), message("tool", "é" * 1001, call_id="b"),
        message("tool", "y" * 5000, call_id="c"), message("tool", "z" * 5000, call_id="d"),
    )  # fmt: skip
    made = apply(make("prune", {"keep_recent": 2}), context)
    assert [m.text for m in made.messages[2:]] == [stub(2001), stub(2002), "y" * 5000, "z" * 5000]
    assert apply(make("prune", {"keep_recent": 2}), made.messages).outcome == "noop"
    assert apply(make("prune", {"keep_recent": 4}), context).outcome == "noop"


def seeds_walk(messages: list[dict], keep_bytes: int, keep_recent: int) -> dict[str, int]:
    """The seed's walk, read directly: backward over messages and over the blocks of each; result id -> pruned size."""
    pruned, seen = {}, 0
    for item in reversed(messages):
        if not isinstance(item["content"], list):
            continue
        for block in reversed(item["content"]):
            if block["type"] != "tool_result":
                continue
            seen += 1
            size = len(str(block.get("content", "")).encode("utf-8"))
            if seen > keep_recent and size > keep_bytes:
                pruned[block["tool_use_id"]] = size
    return pruned


@pytest.mark.parametrize(("keep_bytes", "keep_recent"), [(2000, 3), (500, 1)])
def test_prune_equals_the_seeds_walk_on_the_anthropic_export_of_every_bundled_session(bundled, keep_bytes, keep_recent):
    strategy = make("prune", {"keep_bytes": keep_bytes, "keep_recent": keep_recent})
    pruned = 0
    for session in bundled:
        _, exported = export(session.messages)
        expected = seeds_walk(exported, keep_bytes, keep_recent)
        pruned += len(expected)
        made = apply(strategy, session.messages)
        for before, after in zip(session.messages, made.messages, strict=True):
            if before.role == "tool" and before.call_id in expected:
                assert after.text == stub(expected[before.call_id])
            else:
                assert after == before
    assert pruned > 50


def test_units_keep_a_call_and_its_late_result_together():
    late = numbered(message("assistant", "", "a"), message("user", "wait"), message("tool", "A", call_id="a"))
    assert units(late) == [[0, 2], [1]]


def test_custom_takes_and_returns_chat_messages(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def compact(messages):\n    return messages[:1] + [{'role': 'user', 'content': 'short'}]\n"
    )
    made = apply(make("custom", {"target": f"{tmp_path}/mine.py:compact"}), ROUNDS)
    assert [m.id for m in made.messages] == ["m0", "new1"]
    assert made.messages[1].text == "short"
    (tmp_path / "same.py").write_text("def compact(messages):\n    return list(messages)\n")
    assert apply(make("custom", {"target": f"{tmp_path}/same.py:compact"}), ROUNDS).outcome == "noop"
    (tmp_path / "bad.py").write_text("def compact(messages):\n    return 'a summary'\n")
    assert apply(make("custom", {"target": f"{tmp_path}/bad.py:compact"}), ROUNDS).outcome == "invalid"


@pytest.mark.parametrize("target", ["", "nofile.py:f", "bench.nothing:f", "bench.types:nothing"])
def test_custom_without_a_function_is_a_set_up_error(target):
    with pytest.raises(BenchError):
        make("custom", {"target": target})


@pytest.mark.parametrize(
    ("name", "parameters"), [("prune", {"keep_bytes": -1}), ("trim_tools", {"keep": -2}), ("oldest", {"nope": 1}), ("no", {})]
)
def test_bad_parameters_and_names_are_set_up_errors(name, parameters):
    with pytest.raises(BenchError):
        make(name, parameters)
