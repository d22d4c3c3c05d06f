from __future__ import annotations

import dataclasses

import pytest

from bench.agents import make
from bench.grading import RuleGrader
from bench.measures.survival import Remains
from bench.probes import bank as banks
from bench.tokens import counter
from bench.types import BenchError, Message, Probe, Question, ToolCall


def call(id, name, text, failed=False, **arguments):
    return [
        Message("assistant", "", (ToolCall(id, name, arguments),), id=f"a{id}"),
        Message("tool", text, call_id=id, is_error=failed, id=f"t{id}"),
    ]


CONTEXT = [
    Message("system", "You are an agent.", id="m0"),
    Message("user", "# AGENTS.md (project instructions)\n\nBe careful.", id="m1"),
    Message("user", "Please look at the cache first.", id="m2"),
    *call("1", "Bash", "cache ready\nobjects stored: 48213\nbuild id: 8f3a21c9\nmean latency: 412.7 ms", command="make stats"),
    *call("2", "Write", "Created new file src/new.py (3 lines)", file_path="src/new.py", content="limit = 99120"),
    *call("3", "Read", "1\tx", file_path="docs/guide.md"),
    *call(
        "4",
        "Edit",
        "Edit refused: old_string occurs 0 times",
        failed=True,
        file_path="docs/other.md",
        old_string="a",
        new_string="b",
    ),
    *call("5", "Bash", "(no output)", command="git mv docs/guide.md docs/manual.md && rm tmp/old.log"),
    Message("user", "Now the second thing: keep the name.", id="m9"),
]


def ask(text, type, context=CONTEXT):
    return make("reader", {}).answer(context, Question("q", text, type)).values


def test_a_question_carries_no_gold():
    assert {field.name for field in dataclasses.fields(Question)} == {"id", "text", "answer_type"}


@pytest.mark.parametrize(
    ("text", "type", "answer"),
    [
        ("In the output of `make stats`, which number follows “objects stored”?", "number", ("48213",)),
        ("In the output of `make stats`, which hash follows “build id”?", "hash", ("8f3a21c9",)),
        ("In the output of `make stats`, which number follows “mean latency”?", "number", ("412.7",)),
        ("In the output of `make stats`, which number follows “queue depth of shard”?", "number", ()),
        ("Quote the user's second message of this session exactly (project instructions not counted).", "quote", ("Now the second thing: keep the name.",)),
        ("Quote the user's third message of this session exactly (project instructions not counted).", "quote", ()),
        ("List every file that you created in this session and that still exists (not those you only modified).", "paths", ("src/new.py",)),
        ("List every file that you deleted in this session.", "paths", ("tmp/old.log",)),
        ("List every file that you renamed or moved in this session, by its old name.", "paths", ("docs/guide.md",)),
        ("Did you create the file `src/new.py` in this session? Answer yes, no or not sure.", "yes_no", ("yes",)),
        ("Did you delete the file `src/new.py` in this session? Answer yes, no or not sure.", "yes_no", ("no",)),
        ("Did you edit the file `docs/other.md` in this session? Answer yes, no or not sure.", "yes_no", ("no",)),
        ("Did you delete the file `lib/never.py` in this session? Answer yes, no or not sure.", "yes_no", ()),
        ("What did you do with the file `docs/guide.md` in this session? Answer one of: created.", "state", ("renamed",)),
    ],
)  # fmt: skip
def test_the_reader(text, type, answer):
    assert ask(text, type) == answer


def test_the_reader_prefers_what_was_shown_to_what_was_asked():
    context = [*CONTEXT, *call("7", "Bash", "port: 7001", command="python - <<'EOF'\nport: 6500\nEOF")]
    assert ask("In the output of `python - <<'EOF'`, which number follows “port”?", "number", context) == ("7001",)


def test_the_reader_names_a_word_and_a_file_from_before_the_marker():
    question = (
        "The oldest message that was kept after the compacted part begins with “Now the second thing: keep the name.”. Name one"
    )
    context = [*CONTEXT[:3], *call("8", "Bash", "ledger_rotation in src/rotate.py", command="ls"), CONTEXT[-1]]
    assert ask(question, "word_and_file", context) == ("ledger_rotation", "src/rotate.py")
    assert ask(question.replace("second", "third"), "word_and_file", context) == ()


def test_scripted_without_answers_is_blind():
    assert make("scripted", {}).answer(CONTEXT, Question("q", "?", "number")).status == "abstained"
    assert make("scripted", {"answers": {"q": "7"}}).answer(CONTEXT, Question("q", "?", "number")).values == ("7",)


def test_the_oracle_answers_exactly_what_stands_in_its_context():
    oracle = make("oracle", {})
    probes = {
        "there": Probe("there", "facts", "?", "number", ("48213",), atoms=("48213",)),
        "gone": Probe("gone", "facts", "?", "number", ("55555",), atoms=("55555",)),
        "named": Probe(
            "named",
            "name_a_word",
            "?",
            "word_and_file",
            ("word:latency", "file:src/new.py"),
            atoms=("word:latency", "file:src/new.py"),
        ),
    }
    oracle.open_book(probes)
    answers = {name: oracle.answer(CONTEXT, probe.ask()).values for name, probe in probes.items()}
    assert answers == {"there": ("48213",), "gone": (), "named": ("latency", "src/new.py")}
    assert all(Remains(CONTEXT).survives(p) == bool(answers[n]) for n, p in probes.items())


@pytest.mark.parametrize(("name", "parameters"), [("nobody", {}), ("reader", {"nope": 1})])
def test_bad_agents_are_set_up_errors(name, parameters):
    with pytest.raises(BenchError):
        make(name, parameters)


def test_the_reader_reads_held_out_sessions_and_knows_nothing_without_them(cuts):
    """Full context at least .8 of facts and artifacts, head and tail only at most .1."""
    held_out = [cut for cut in cuts if cut.session.project in ("deployment", "documentation", "feature")]
    bank = banks.build(held_out, [], counter(), ["facts", "artifacts"], seed=0)
    reader, grader = make("reader", {}), RuleGrader()
    right = {"full": [], "floor": []}
    for cut in held_out:
        for arm, context in (("full", cut.context), ("floor", (*cut.head, *cut.tail))):
            right[arm] += [grader.grade(p, reader.answer(context, p.ask())).value for p in bank.probes[cut.id]]
    assert sum(right["full"]) / len(right["full"]) >= 0.8
    assert sum(right["floor"]) / len(right["floor"]) <= 0.1
