"""anchored: how much is kept, what the model is shown of the rest, and one summary that is brought up to date."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asking import Answers, request
from bench.prompts import render
from bench.strategies import make
from bench.strategies.anchored import HEADINGS, Anchored, check, kept_tokens, tail_start
from bench.strategies.transcript import transcript
from bench.tokens import counter
from bench.turns import units
from bench.types import BenchError, ModelError
from making import assistant, call, result, session, sessions, system, user, work

SUMMARY = "\n".join(f"{heading}\n{'' if heading == '## Work state' else 'none'}" for heading in HEADINGS)


def apply(messages, model, target=10**6, **parameters):
    asked = replace(request(messages, model), target_tokens=target)
    return make("anchored", parameters).compact(messages, asked)


def test_the_numbers_are_those_of_the_specification():
    assert (Anchored().keep_tokens, Anchored().result_characters, Anchored().max_output) == (0, 2_000, 4_096)


@pytest.mark.parametrize(
    ("usable", "kept"),
    [(0, 2_000), (8_000, 2_000), (8_004, 2_001), (20_000, 5_000), (60_000, 15_000), (60_004, 15_000), (980_000, 15_000)],
)
def test_a_quarter_of_what_is_usable_is_kept_between_2_000_and_15_000_tokens(usable, kept):
    assert kept_tokens(usable) == kept


TALK = session(
    user("one"), assistant("", call("a"), call("b")), result("a"), result("b"), assistant("so"), user("two"), assistant("done")
).messages  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "start"),  # every message has 10 tokens
    [
        (70, 0),  # everything fits
        (69, 1),  # the older turn is split at the first message that fits
        (60, 1),
        (59, 4),  # not between a call and its results
        (49, 4),
        (30, 4),
        (29, 5),  # the newest turn fits whole
        (20, 5),
        (19, 6),  # the newest turn is split
        (9, 7),  # nothing fits
    ],
)
def test_the_longest_end_that_fits_is_kept(budget, start):
    assert tail_start(TALK, [10] * len(TALK), budget) == start


@given(sessions(), st.integers(0, 200))
@settings(deadline=None)
def test_no_call_is_parted_from_its_results(made, budget):
    sizes = [counter().message(message) for message in made.messages]
    start = tail_start(made.messages, sizes, budget)
    assert sum(sizes[start:]) <= budget
    assert all(len({index < start for index in unit}) == 1 for unit in units(made.messages))


def test_what_leaves_becomes_one_user_message_before_what_stays():
    messages = work(9).messages
    kept = counter().messages(messages[32:])
    model = Answers([f"\n{SUMMARY}\n"])
    made = apply(messages, model, keep_tokens=kept)
    head, summary, *rest = made.messages
    assert (made.outcome, head, tuple(rest)) == ("applied", messages[0], messages[32:])
    assert (summary.role, summary.id[:8]) == ("user", "summary-")
    assert summary.text == f"{render('anchored_prefix')}\n\n{SUMMARY.strip()}"
    assert f"<conversation>\n{transcript(messages[1:32])}\n</conversation>" in model.text
    assert "<previous-summary>" not in model.text
    assert model.asked[0]["max_tokens"] == 4_096
    assert made.note.startswith("summary: 43 → 19 messages · ")


def test_the_rule_is_applied_to_the_target():
    messages = session(system("s"), user("go"), *(assistant("word " * 500) for _ in range(20))).messages
    target = 4 * counter().messages(messages[-6:])
    assert apply(messages, Answers([SUMMARY]), target=target).messages[2:] == messages[-6:]


def test_the_model_is_asked_for_the_five_sections_with_the_users_words():
    messages = work(9).messages
    model = Answers([SUMMARY])
    strategy = make("anchored", {"keep_tokens": 100})
    strategy.compact(messages, request(messages, model, instructions="Keep every port."))
    text = model.text.split("</conversation>")[-1]
    places = [text.index(f"{heading}\n") for heading in HEADINGS]
    assert places == sorted(places)
    assert "Keep every port." in text


def test_the_previous_summary_is_updated_with_only_what_leaves_now():
    messages = work(9).messages
    first = apply(messages, Answers([SUMMARY.replace("none", "the first state")]), keep_tokens=300).messages
    later = tuple(replace(message, id=f"later-{message.id}") for message in work(4, id="later").messages[1:])
    context = (*first, *later)
    model = Answers([SUMMARY.replace("none", "the second state")])
    second = apply(context, model, keep_tokens=300)
    stays = len(second.messages) - 2
    assert f"<conversation>\n{transcript(context[2 : len(context) - stays])}\n</conversation>" in model.text
    previous = model.text.split("<previous-summary>\n")[1].split("\n</previous-summary>")[0]
    assert previous == SUMMARY.replace("none", "the first state")
    assert second.messages[0] is messages[0]
    assert second.messages[2:] == context[len(context) - stays :]
    assert "the first state" not in "".join(message.text for message in second.messages)
    assert second.details == {"updated": True}


def test_what_a_first_compaction_kept_is_read_by_the_second():
    """The defect of Pi's second compaction: what the first kept was neither summarised nor kept."""
    messages = work(9).messages
    first = apply(messages, Answers([SUMMARY]), keep_tokens=300).messages
    model = Answers([SUMMARY])
    second = apply((*first, *work(9, id="later").messages[1:]), model, keep_tokens=300).messages
    for message in first[2:]:
        assert message in second or transcript([message]).split("\n", 1)[-1] in model.text


def test_results_are_cut_to_2_000_characters_in_what_the_model_reads():
    messages = session(
        system("s"), user("go"), assistant("", call("a"), call("b")), result("a", "A" * 2_000), result("b", "B" * 2_001),
        assistant("x" * 3_000), user("on"),
    ).messages  # fmt: skip
    model = Answers([SUMMARY])
    apply(messages, model, keep_tokens=8)
    assert "A" * 2_000 + "\n\n" in model.text
    assert "B" * 2_000 + "\n[cut: 2001 characters in all]" in model.text
    assert "B" * 2_001 not in model.text
    assert "x" * 3_000 in model.text


@pytest.mark.parametrize("keep_tokens", [0, 10_000])
def test_a_history_that_fits_whole_is_a_noop(keep_tokens):
    messages = work(3).messages
    made = apply(messages, Answers([]), keep_tokens=keep_tokens)
    assert (made.outcome, made.messages) == ("noop", messages)
    assert "nothing is older" in made.note


def test_only_an_earlier_summary_before_what_is_kept_is_a_noop():
    messages = work(9).messages
    first = apply(messages, Answers([SUMMARY]), keep_tokens=300).messages
    assert apply(first, Answers([]), keep_tokens=300).outcome == "noop"


# --- the answer


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_missing_section_is_refused(heading):
    with pytest.raises(ModelError, match=heading.lstrip("# ")) as raised:
        check("\n".join(line for line in SUMMARY.splitlines() if line != heading))
    assert raised.value.kind == "answer"


@pytest.mark.parametrize("heading", [heading for heading in HEADINGS if heading != "## Work state"])
def test_an_empty_section_is_refused(heading):
    with pytest.raises(ModelError, match=f"'{heading.lstrip('# ')}' of the summary is empty"):
        check(SUMMARY.replace(f"{heading}\nnone", heading))


@pytest.mark.parametrize(
    "summary",
    [
        SUMMARY,
        SUMMARY.upper(),
        f"Here it is.\n\n{SUMMARY}\n\nThat is all.",
        SUMMARY.replace("## Next move", "## Aside\nmore\n\n## Next move"),
        SUMMARY.replace("\n", "\n\n"),
    ],
)
def test_harmless_differences_are_none(summary):
    check(summary)


def test_sections_in_another_order_are_refused():
    with pytest.raises(ModelError, match="in its place"):
        check("\n".join(reversed(SUMMARY.splitlines())))


def test_an_answer_without_the_sections_changes_nothing():
    messages = work(9).messages
    with pytest.raises(ModelError, match="no section 'Objective'"):
        apply(messages, Answers(["All went well."]), keep_tokens=300)


@pytest.mark.parametrize("parameters", [{"keep_tokens": -1}, {"result_characters": -1}, {"max_output": 0}])
def test_bad_numbers_are_set_up_errors(parameters):
    with pytest.raises(BenchError, match="or more"):
        make("anchored", parameters)
