"""The strategies that need no model: the numbers of their sources, and what holds for any session."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.efficiency import seed_efficiency
from bench.replay import head_length
from bench.strategies import make
from bench.strategies.clear_tool_uses import CLEARED
from bench.strategies.cline_truncate import REREAD, allowed, deduplicated, removed
from bench.strategies.hybrid import Characteristics, Decision, characteristics, efficiency, first_layer, second_layer
from bench.strategies.mask_observations import stub
from bench.strategies.opencode_prune import PRUNED
from bench.turns import answered, units
from bench.types import BenchError, Compaction, CompactionRequest, Message
from making import assistant, call, result, session, sessions, system, user

SWE_AGENT = Path(__file__).parents[2] / "../shared/sessions/swe-agent/marshmallow-1867-fc-from_source.traj"


def characters(messages: Sequence[Message]) -> int:
    """A count that tests can set: a token is a character of text."""
    return sum(len(message.text) for message in messages)


def apply(name: str, context: Sequence[Message], /, *, target=0, head=0, tail=0, window=200_000, **parameters) -> Compaction:
    request = CompactionRequest(head, tail, target, characters, random.Random(0), window)
    return make(name, parameters).compact(context, request)


def talk(*sizes: int) -> tuple[Message, ...]:
    """User and assistant messages of these sizes, in turn."""
    return session(*((assistant if n % 2 else user)("x" * size) for n, size in enumerate(sizes))).messages


def rounds(number: int, size: int = 10, tool: str = "Bash", first: int = 0) -> list[Message]:
    """Rounds of one call `c<n>` and its result."""
    made = []
    for n in range(first, first + number):
        made += [assistant("", call(f"c{n}", tool, command=f"run {n}")), result(f"c{n}", "x" * size)]
    return made


def ids(made: Compaction) -> list[str]:
    return [message.id for message in made.messages]


def changed(made: Compaction, before: Sequence[Message]) -> list[str | None]:
    """The call ids of the results that are not as they were."""
    return [message.call_id for message, old in zip(made.messages, before, strict=True) if message.text != old.text]


# --- hybrid: first layer


@pytest.mark.parametrize(
    ("provider", "model_name", "choice", "start", "end", "warn_at", "compact_at", "min_turns"),
    [
        ("openai", "gpt-4o", "hybrid", 6, 6, 0.85, 0.90, 4),
        ("openai", "o1-mini", "middle", 8, 8, 0.90, 0.95, 4),
        ("anthropic", "claude-sonnet-4", "oldest", 5, 7, 0.85, 0.92, 4),
        ("Anthropic", "", "oldest", 5, 7, 0.85, 0.92, 4),
        ("ollama", "qwen3", "hybrid", 3, 4, 0.70, 0.80, 3),
        ("lmstudio", "", "hybrid", 3, 4, 0.70, 0.80, 3),
        ("google", "gemini-1.5-pro", "middle", 10, 10, 0.90, 0.95, 4),
        ("google", "gemini-2.5-pro", "hybrid", 4, 5, 0.80, 0.90, 4),
        ("openai", "gpt-5", "hybrid", 4, 5, 0.80, 0.90, 4),
        ("openai", "o1", "hybrid", 4, 5, 0.80, 0.90, 4),
        ("somebody", "gpt-4", "hybrid", 4, 5, 0.80, 0.90, 4),
        ("", "", "hybrid", 4, 5, 0.80, 0.90, 4),
    ],
)
def test_the_first_layer_is_a_table(provider, model_name, choice, start, end, warn_at, compact_at, min_turns):
    row = first_layer(provider, model_name)
    assert (row.choice, row.preserve_start, row.preserve_end) == (choice, start, end)
    assert (row.warn_at, row.compact_at, row.min_turns) == (warn_at, compact_at, min_turns)


@pytest.mark.parametrize(
    ("provider", "model_name", "choice", "left"),
    [
        ("anthropic", "claude-sonnet-4", "oldest", [f"m{n}" for n in range(26, 30)]),  # down to the fewest turns
        ("google", "gemini-1.5-pro", "middle", [*(f"m{n}" for n in range(10)), *(f"m{n}" for n in range(20, 30))]),
        ("openai", "o1-mini", "middle", [*(f"m{n}" for n in range(8)), *(f"m{n}" for n in range(22, 30))]),
    ],
)
def test_a_removal_named_by_the_first_layer_runs_with_its_numbers(provider, model_name, choice, left):
    made = apply("hybrid", talk(*[10] * 30), provider=provider, model_name=model_name)
    assert ids(made) == left
    assert (made.details["layer"], made.details["rule"], made.details["choice"]) == (1, None, choice)
    assert "efficiency" not in made.details


# --- hybrid: second layer

NO_RULE = {"turns": 25, "ratio": 0.9, "recent": 0.4, "long_message": False, "system": False, "tool": False}


@pytest.mark.parametrize(
    ("known", "rule", "choice", "confidence"),
    [
        ({}, None, None, 0.0),
        ({"turns": 19}, 1, "middle", 0.8),
        ({"turns": 20}, None, None, 0.0),
        ({"turns": 19, "ratio": 0.8}, None, None, 0.0),  # .8 is moderate
        ({"turns": 31, "ratio": 0.6}, 2, "oldest", 0.9),  # .6 is heavy
        ({"turns": 31, "ratio": 0.61}, None, None, 0.0),
        ({"turns": 30, "ratio": 0.6}, None, None, 0.0),
        ({"recent": 0.41}, 3, "middle", 0.7),
        ({"long_message": True}, None, None, 0.0),  # light
        ({"long_message": True, "ratio": 0.8}, 4, "oldest", 0.6),
        ({"tool": True}, 5, "middle", 0.7),
        ({"system": True}, 5, "middle", 0.7),
        # several match: the first wins
        ({"turns": 19, "recent": 0.5, "tool": True}, 1, "middle", 0.8),
        ({"turns": 31, "ratio": 0.5, "recent": 0.5, "long_message": True}, 2, "oldest", 0.9),
        ({"recent": 0.5, "ratio": 0.7, "long_message": True}, 3, "middle", 0.7),
        ({"ratio": 0.7, "long_message": True, "tool": True}, 4, "oldest", 0.6),
    ],
)
def test_the_second_layer_takes_the_first_rule_that_matches(known, rule, choice, confidence):
    assert second_layer(Characteristics(**NO_RULE | known)) == Decision(rule, choice, confidence)


def test_the_characteristics_of_a_context():
    request = CompactionRequest(0, 0, 600, characters, random.Random(0))
    parallel = session(
        user("x" * 300),
        assistant("x" * 200, call("a"), call("b")),
        result("a", "x" * 100),
        result("b", "x" * 100),
        *(assistant("x" * 50) for _ in range(4)),
    ).messages
    known = characteristics(parallel, request)
    assert known == Characteristics(7, 600 / 900, 400 / 900, long_message=False, system=False, tool=True)
    assert known.severity == "moderate"
    assert characteristics((system("x"), user("x" * 301)), request).long_message
    assert characteristics((system("x"), user("x" * 301)), request).system


@pytest.mark.parametrize("trigger", [0.801, 0.9, 0.95])
def test_with_the_published_target_and_triggers_the_severity_is_always_light(trigger):
    context = talk(*[int(trigger * 1_000)] * 10)  # of a window of 10,000
    made = apply("hybrid", context, window=10_000, target_ratio=0.8)
    assert made.details["severity"] == "light"
    assert made.outcome == "applied"
    assert apply("hybrid", context, window=20_000, target_ratio=0.8).outcome == "noop"


# --- hybrid: third layer


@pytest.mark.parametrize(
    ("after", "kept", "exact", "printed"), [(6200, 12, 0.506667, 0.5066), (5800, 10, 0.48, 0.4804)], ids=["middle", "oldest"]
)
def test_the_efficiencies_of_the_seeds_example_exact_and_as_it_prints_them(after, kept, exact, printed):
    assert efficiency(9000, after, kept, 15 - kept) == pytest.approx(exact, abs=5e-7)
    assert seed_efficiency(9000, after, 15, kept, rounding=3) == pytest.approx(printed, abs=5e-7)


def test_a_context_that_grew_counts_as_not_reduced():
    assert efficiency(9000, 9900, 15, 0) == pytest.approx(0.4)


def test_the_seeds_example_never_reaches_the_third_layer():
    """15 messages of 9000 tokens with a target of 6000: moderate, some message is over 300 tokens, so rule 4 decides."""
    made = apply("hybrid", talk(*[600] * 15), target=6000)
    assert made.details == {
        "layer": 2, "rule": 4, "choice": "oldest", "confidence": 0.6, "severity": "moderate", "ratio": 6000 / 9000,
    }  # fmt: skip
    assert ids(made) == [f"m{n}" for n in range(5, 15)]


def test_without_a_rule_both_run_and_a_tie_goes_to_the_middle():
    made = apply("hybrid", talk(*[10] * 25), target=230)
    assert (made.details["layer"], made.details["rule"], made.details["confidence"]) == (3, None, 0.0)
    assert made.details["efficiency"] == {"middle": pytest.approx(0.416), "oldest": pytest.approx(0.416)}
    assert made.details["choice"] == "middle"
    assert ids(made) == ["m0", "m1", "m2", "m3", *(f"m{n}" for n in range(6, 25))]


def test_without_a_rule_the_higher_efficiency_wins():
    made = apply("hybrid", talk(100, *[10] * 24), target=300)
    assert made.details["efficiency"]["oldest"] == pytest.approx(0.6 * 100 / 340 + 0.4 * 24 / 25)
    assert made.details["efficiency"]["middle"] == pytest.approx(0.6 * 40 / 340 + 0.4 * 21 / 25)
    assert made.details["choice"] == "oldest"
    assert ids(made) == [f"m{n}" for n in range(1, 25)]


def test_faithful_passes_on_and_keeps_the_published_count_that_inflates_the_middle():
    made = apply("hybrid", talk(100, *[10] * 24), target=300, faithful=True)
    assert ids(made) == ["m0", "m1", "m2", "m3", *(f"m{n}" for n in range(20, 25))]  # both ends, whatever the target
    assert made.details["efficiency"]["middle"] == pytest.approx(0.6 * 160 / 340 + 0.4)
    over = apply("hybrid", talk(*[100] * 4, *[10] * 21), target=420, faithful=True)  # the ends alone are 450
    assert over.details["efficiency"]["middle"] == pytest.approx(0.6 * 160 / 610 + 0.4 * 9 / 25)
    assert over.details["choice"] == "oldest"


def test_hybrid_within_its_target_is_a_noop():
    assert apply("hybrid", talk(*[10] * 25), target=250).outcome == "noop"


# --- oldest, as published


def test_oldest_faithful_protects_the_system_role_only_and_tears_pairs_apart():
    asked = assistant("x" * 10, call("a"))
    context = session(system("s" * 10), user("x" * 10), asked, result("a", "x" * 10), *[assistant("x" * 10)] * 4).messages
    made = apply("oldest", context, target=60, head=2, tail=6, faithful=True)
    assert ids(made) == ["m0", *(f"m{n}" for n in range(3, 8))]  # the user message went, and the call of the result m3
    assert ids(apply("oldest", context, target=60, head=2, tail=4)) == ["m0", "m1", "m4", "m5", "m6", "m7"]


def test_oldest_faithful_goes_by_time_and_ties_by_place():
    at = (3.0, 1.0, 2.0, 1.0, 9.0, 9.0, 9.0)
    context = session(*(user("x" * 10, at=time) for time in at)).messages
    assert ids(apply("oldest", context, target=40, faithful=True)) == ["m0", "m4", "m5", "m6"]
    untimed = (*context[:6], user("x" * 10, id="m6"))
    assert ids(apply("oldest", untimed, target=40, faithful=True)) == ["m3", "m4", "m5", "m6"]


def test_oldest_faithful_stops_at_its_fewest_turns_and_refuses_less():
    assert len(apply("oldest", talk(*[10] * 8), faithful=True).messages) == 4
    assert len(apply("oldest", talk(*[10] * 8), faithful=True, min_turns=7).messages) == 7
    assert apply("oldest", talk(*[10] * 3), faithful=True).outcome == "noop"


# --- mask_observations


@pytest.mark.parametrize(
    ("task", "number", "n", "polling", "masked"),
    [
        (True, 10, 5, 1, range(0, 5)),  # the task is the first of 11: observations 2 to 6
        (True, 4, 5, 1, range(0)),
        (True, 5, 5, 1, range(0)),  # 6 - 5 = 1: only the first, which is never masked
        (True, 6, 5, 1, range(0, 1)),
        (True, 10, 5, 3, range(0, 3)),  # 11 counts as 9
        (True, 11, 5, 3, range(0, 6)),  # 12 counts as 12
        (True, 10, 1, 20, range(0)),
        (False, 10, 5, 1, range(1, 5)),  # without a task the first result is the first observation
    ],
)
def test_observations_from_the_second_on_are_masked_but_for_the_newest(task, number, n, polling, masked):
    context = session(*([user("the task")] if task else []), *rounds(number)).messages
    made = apply("mask_observations", context, n=n, polling=polling)
    assert changed(made, context) == [f"c{number}" for number in masked]
    assert made.outcome == ("applied" if masked else "noop")


def test_all_results_of_a_turn_are_one_observation_and_the_stub_counts_lines():
    batch = [assistant("", call("a"), call("b")), result("a", "one\ntwo\n"), result("b", "", images=2)]
    context = session(user("the task"), *batch, *rounds(2)).messages
    made = apply("mask_observations", context, n=2)
    assert changed(made, context) == ["a", "b"]
    assert "2 lines" in made.messages[2].text
    assert "0 lines and 2 images" in made.messages[3].text
    assert made.messages[3].images == 0


def test_a_masked_result_is_not_masked_again_when_the_session_goes_on():
    context = session(user("the task"), *rounds(10)).messages
    first = apply("mask_observations", context).messages
    assert apply("mask_observations", first).outcome == "noop"
    longer = (*first, *rounds(1, first=10))
    made = apply("mask_observations", longer)
    assert changed(made, longer) == ["c5"]
    assert made.messages[2].text == stub(context[2])


@pytest.mark.parametrize(("n", "polling"), [(5, 1), (3, 4)])
def test_a_recorded_trajectory_is_masked_where_its_own_marks_say(n, polling):
    if not SWE_AGENT.exists():
        pytest.skip("no SWE-agent trajectory here")
    history = json.loads(SWE_AGENT.read_text())["history"]
    observations = [index for index, entry in enumerate(history) if entry.get("message_type") == "observation"]
    expected = observations[1 : max(0, len(observations) // polling * polling - n)]
    context = [
        Message(entry["role"], str(entry["content"]), call_id=(entry.get("tool_call_ids") or [None])[0], id=f"m{number}")
        for number, entry in enumerate(history)
    ]
    made = apply("mask_observations", context, n=n, polling=polling)
    assert [index for index, message in enumerate(made.messages) if message != context[index]] == expected
    assert len(expected) > 5


# --- clear_tool_uses


def test_the_newest_three_tool_uses_stay_and_parallel_calls_count_one_by_one():
    context = session(
        user("q"), *rounds(2, 100), assistant("", call("x"), call("y")), result("x", "x" * 99), result("y", "y" * 99), *rounds(1, 9, first=2)
    ).messages  # fmt: skip
    made = apply("clear_tool_uses", context)
    assert changed(made, context) == ["c0", "c1"]
    assert [message.calls for message in made.messages] == [message.calls for message in context]
    assert changed(apply("clear_tool_uses", context, keep=2), context) == ["c0", "c1", "x"]
    assert apply("clear_tool_uses", context, keep=5).outcome == "noop"
    assert apply("clear_tool_uses", made.messages).outcome == "noop"


@pytest.mark.parametrize(("tokens", "outcome"), [(100_000, "noop"), (100_001, "applied")])
def test_the_trigger_is_passed_by_more_tokens_only(tokens, outcome):
    context = session(user("x" * (tokens - 5_000)), *rounds(5, 1_000)).messages
    assert apply("clear_tool_uses", context, trigger_tokens=100_000).outcome == outcome


@pytest.mark.parametrize(
    ("least", "outcome"), [(2 * (1_000 - len(CLEARED)), "applied"), (2 * (1_000 - len(CLEARED)) + 1, "noop")]
)
def test_nothing_is_cleared_unless_enough_can_go(least, outcome):
    context = session(user("q"), *rounds(5, 1_000)).messages
    assert apply("clear_tool_uses", context, clear_at_least=least).outcome == outcome


def test_results_shorter_than_their_placeholder_are_not_worth_clearing():
    assert apply("clear_tool_uses", session(user("q"), *rounds(9, 5)).messages).outcome == "noop"


@pytest.mark.parametrize(
    ("inputs", "emptied"),
    [(False, set()), (True, {"c0", "c1", "c2"}), (["Read"], {"c1"}), (("Read", "Bash"), {"c0", "c1", "c2"})],
)
def test_inputs_are_emptied_for_all_or_for_named_tools(inputs, emptied):
    context = session(
        user("q"), *rounds(1, 99), *rounds(1, 99, "Read", 1), *rounds(1, 99, first=2), *rounds(3, 99, first=3)
    ).messages
    made = apply("clear_tool_uses", context, clear_tool_inputs=inputs)
    calls = [call for message in made.messages for call in message.calls]
    assert {call.id for call in calls if not call.arguments} == emptied
    assert changed(made, context) == ["c0", "c1", "c2"]
    assert apply("clear_tool_uses", made.messages, clear_tool_inputs=inputs).outcome == "noop"


def test_excluded_tools_are_never_cleared():
    context = session(user("q"), *rounds(1, 99), *rounds(1, 99, "Read", 1), *rounds(4, 99, first=2)).messages
    assert changed(apply("clear_tool_uses", context, exclude_tools=["Read"]), context) == ["c0", "c2"]


@pytest.mark.parametrize(
    "parameters", [{"exclude_tools": "Read"}, {"exclude_tools": [1]}, {"clear_tool_inputs": "Read"}, {"keep": True}, {"keep": -1}]
)
def test_a_list_of_tools_is_a_list_of_strings(parameters):
    with pytest.raises(BenchError):
        make("clear_tool_uses", parameters)


# --- opencode_prune


def before_two_turns(*messages: Message) -> tuple[Message, ...]:
    """A session with these messages before its newest two user turns."""
    return session(user("first"), *messages, user("second"), *rounds(1, 50_000, first=90), user("third")).messages


@pytest.mark.parametrize(
    ("number", "pruned"),
    [
        (5, 0),  # 10k over the 40k that stay
        (6, 0),  # exactly 20k: more than that is asked for
        (7, 3),
        (9, 5),
    ],
)
def test_output_older_than_40k_goes_if_it_is_more_than_20k(number, pruned):
    context = before_two_turns(*rounds(number, 10_000))
    made = apply("opencode_prune", context)
    assert changed(made, context) == [f"c{n}" for n in range(pruned)]
    assert made.outcome == ("applied" if pruned else "noop")
    assert apply("opencode_prune", made.messages).outcome == "noop"


def test_the_newest_two_user_turns_are_neither_pruned_nor_counted():
    newest = (user("one"), *rounds(20, 10_000, first=20), user("two"), *rounds(20, 10_000, first=40))
    context = session(user("zero"), *rounds(20, 10_000), *newest).messages
    assert changed(apply("opencode_prune", context), context) == [f"c{n}" for n in range(16)]
    assert apply("opencode_prune", session(*newest).messages).outcome == "noop"


def test_errors_and_skills_are_neither_pruned_nor_counted():
    error = [assistant("", call("e")), result("e", "x" * 90_000, is_error=True)]
    context = before_two_turns(*rounds(1, 90_000, "skill", 50), *error, *rounds(7, 10_000))
    assert changed(apply("opencode_prune", context), context) == ["c0", "c1", "c2"]
    assert "c50" in changed(apply("opencode_prune", context, protected_tools=[]), context)


def test_the_walk_ends_at_a_pruned_result_and_at_a_summary():
    pruned = [assistant("", call("p")), result("p", PRUNED)]
    context = before_two_turns(*rounds(5, 10_000, first=20), *pruned, *rounds(7, 10_000))
    assert changed(apply("opencode_prune", context), context) == ["c0", "c1", "c2"]
    summary = Message("user", "What happened before.", id="summary-1")
    context = (*session(*rounds(5, 10_000, first=20)).messages, summary, *before_two_turns(*rounds(7, 10_000)))
    assert changed(apply("opencode_prune", context), context) == ["c0", "c1", "c2"]


# --- cline_truncate


@pytest.mark.parametrize(
    ("window", "tokens"),
    [(64_000, 37_000), (128_000, 98_000), (200_000, 160_000), (1_000_000, 960_000), (100_000, 80_000), (32_000, 25_600)],
)
def test_the_allowed_part_of_a_window(window, tokens):
    assert allowed(window) == tokens


@pytest.mark.parametrize(
    ("messages", "keep", "gone"),
    [
        (18, "half", range(2, 10)),
        (17, "half", range(2, 8)),
        (6, "half", range(2, 4)),
        (5, "half", range(2, 2)),
        (18, "quarter", range(2, 14)),
        (17, "quarter", range(2, 12)),
        (5, "quarter", range(2, 4)),
        (4, "quarter", range(2, 2)),
        (1, "half", range(2, 2)),
        (0, "half", range(2, 2)),
    ],
)
def test_an_even_number_goes_after_the_first_two(messages, keep, gone):
    roles = ["user", "assistant"] * 9
    assert removed(roles[:messages], keep) == gone
    assert not gone or roles[gone.stop - 1] == "assistant"


def test_what_goes_ends_with_an_assistant_message():
    assert removed(["assistant", "user"] * 9, "half") == range(2, 9)


@pytest.mark.parametrize(("window", "left"), [(200_000, 10), (64_000, 6)])
def test_three_quarters_go_when_half_would_still_be_too_much(window, left):
    context = talk(*[5_000] * 18)  # half of 90,000 tokens is over the 37,000 allowed of 64,000
    made = apply("cline_truncate", context, window=window)
    assert ids(made) == ["m0", "m1", *(f"m{n}" for n in range(20 - left, 18))]


def test_a_result_goes_with_its_call_and_system_messages_stay():
    context = session(
        system("s"), user("q"), *rounds(3), system("by the way"), assistant("", call("x"), call("y")), result("x"), result("y"), *rounds(6, first=3)
    ).messages  # fmt: skip
    made = apply("cline_truncate", context)  # 21 messages of two sides: 8 of the 19 after the first two go
    gone = [message for message in context if message.id not in ids(made)]
    assert [c.id for message in gone for c in message.calls] == ["c1", "c2", "x", "y", "c3"]
    assert [message.call_id for message in gone if message.role == "tool"] == ["c1", "c2", "x", "y", "c3"]
    assert len(gone) == 9


def reads(*paths: str, size: int = 100, **arguments) -> list[Message]:
    made = []
    for number, path in enumerate(paths):
        made += [assistant("", call(f"r{number}", "Read", file_path=path, **arguments)), result(f"r{number}", "x" * size)]
    return made


def test_of_the_reads_of_a_file_only_the_newest_stays():
    context = session(user("q"), *reads("a", "b", "a", "a")).messages
    kept, notices = deduplicated(context)
    assert [m.text == REREAD for m in kept if m.role == "tool"] == [True, False, True, False]
    assert notices == 2
    assert deduplicated(kept) == (kept, 0)


def test_other_parts_failed_reads_and_other_tools_are_no_duplicates():
    parts = [assistant("", call("p", "Read", file_path="a", offset=50)), result("p", "y" * 100)]
    failed = [assistant("", call("f", "Read", file_path="a")), result("f", "no such file", is_error=True)]
    writes = [assistant("", call("w", "Write", file_path="a")), result("w", "done"), assistant("", call("v", "Write", file_path="a")), result("v", "done")]  # fmt: skip
    assert deduplicated(session(user("q"), *reads("a"), *parts, *failed, *writes).messages)[1] == 0
    views = [assistant("", call(n, "str_replace_based_edit_tool", command="view", path="a")) for n in "st"]
    assert deduplicated(session(views[0], result("s", "x"), views[1], result("t", "x")).messages)[1] == 1


@pytest.mark.parametrize(("other", "dropped"), [(0, 0), (10_000, 2)])
def test_nothing_is_dropped_when_the_notices_save_thirty_percent(other, dropped):
    """Two reads of 1000 characters: the notice saves almost half of them, or 8% beside 10,000 others."""
    context = session(user("x" * other), *reads("a", "b", "a", size=1_000), assistant("done")).messages
    made = apply("cline_truncate", context)
    assert made.outcome == "applied"
    assert len(made.messages) == len(context) - dropped
    assert (REREAD in [m.text for m in made.messages]) == (not dropped or "m2" in ids(made))


# --- what holds for any session

KEEPING = [  # whole pairs and the pinned head
    ("none", {}),
    ("reset", {}),
    ("oldest", {}),
    ("oldest", {"min_turns": 0}),
    ("middle", {"preserve_start": 1, "preserve_end": 1, "min_turns": 2}),
    ("hybrid", {}),
    ("hybrid", {"provider": "ollama"}),
    ("hybrid", {"provider": "anthropic"}),
    ("trim_tools", {"keep": 1}),
    ("trim_tools", {"keep": 0, "keep_text": False}),
    ("prune", {"keep_bytes": 80, "keep_recent": 1}),
    ("mask_observations", {"n": 1}),
    ("mask_observations", {"n": 2, "polling": 3}),
    ("clear_tool_uses", {"keep": 1}),
    ("clear_tool_uses", {"keep": 0, "clear_tool_inputs": True}),
    ("opencode_prune", {"user_turns": 1, "protect_tokens": 10, "minimum_tokens": 5}),
    ("cline_truncate", {}),
]
PUBLISHED = [(name, {"faithful": True}) for name in ("oldest", "middle", "hybrid")]
IDEMPOTENT = ("none", "trim_tools", "prune", "mask_observations", "clear_tool_uses", "opencode_prune")


def bounds(context: Sequence[Message]) -> list[int]:
    """Where a context can be parted without parting a call from its results."""
    spans = [(unit[0], unit[-1]) for unit in units(context)]
    return [index for index in range(len(context) + 1) if not any(first < index <= last for first, last in spans)]


@st.composite
def contexts(draw: st.DrawFn) -> tuple[tuple[Message, ...], int, int, int]:
    """A context with the lengths of its head and tail, and a target."""
    context = draw(sessions()).messages
    head = head_length(context)
    start = draw(st.sampled_from([index for index in bounds(context) if index >= head]))
    return context, head, len(context) - start, draw(st.integers(0, characters(context)))


@pytest.mark.parametrize(("name", "parameters"), KEEPING + PUBLISHED, ids=str)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(drawn=contexts())
def test_any_session_is_rewritten_in_order_the_same_way_each_time(name, parameters, drawn):
    context, head, tail, target = drawn
    given_messages = list(context)
    made = apply(name, given_messages, target=target, head=head, tail=tail, **parameters)
    assert made == apply(name, context, target=target, head=head, tail=tail, **parameters)
    assert given_messages == list(context)
    assert (made.messages == context) == (made.outcome == "noop") or name == "reset"
    places = [int(message.id.removeprefix("m")) for message in made.messages]
    assert places == sorted(set(places))
    assert [m for m in made.messages if m.role in ("system", "user")] == [context[p] for p in places if context[p].role in ("system", "user")]  # fmt: skip
    if name in IDEMPOTENT:
        assert apply(name, made.messages, target=target, head=head, tail=tail, **parameters).outcome == "noop"


@pytest.mark.parametrize(("name", "parameters"), KEEPING, ids=str)
@settings(derandomize=True, max_examples=40, deadline=None)
@given(drawn=contexts())
def test_no_session_loses_its_head_or_half_of_a_pair(name, parameters, drawn):
    context, head, tail, target = drawn
    made = apply(name, context, target=target, head=head, tail=tail, **parameters)
    assert made.messages[:head] == context[:head]
    assert {m.id for m in context if m.role == "system"} <= set(ids(made)) or name == "reset"
    before, after = answered(context), answered(made.messages)
    results = [index for index, message in enumerate(made.messages) if message.role == "tool"]
    assert set(results) == set(after)  # every result has its call
    had = {call.id for call in before.values()}
    assert {c.id for m in made.messages for c in m.calls} & had == {call.id for call in after.values()}
