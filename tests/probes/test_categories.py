"""Each category on a small session: exactly the expected question, gold, optional and evidence."""

from __future__ import annotations

import pytest

from bench.probes import bank as banks
from bench.registry import PROBES
from bench.tokens import counter
from bench.types import Cut
from making import assistant, call, result, session, system, user


def made() -> Cut:
    """m0 system, m1 the instruction file, m2 to m15 the span, m16 on kept."""
    messages = [
        system("You are an agent."),
        user("# AGENTS.md\n\nBe careful with docs/held.md."),
        user("Please look at the cache first."),
        assistant("", call("1", command="make stats")),
        result("1", "objects stored: 4821937\nbuild id: 8f3a21c9d0e1"),
        assistant("", call("2", "Write", file_path="src/newfile.py", content="request_limit = 991207")),
        result("2", "Created new file src/newfile.py"),
        assistant(
            "", call("3", "Read", file_path="docs/guide.md"), call("4", "Edit", file_path="docs/held.md", old="a", new="b")
        ),
        result("3", "     1\tretry_after_wobble 12"),
        result("4", "Edited docs/held.md"),
        assistant("", call("5", command="git mv docs/oldname.md docs/brandnew.md && git rm -q tmp/stale.log")),
        result("5", "(no output)"),
        user("<reminder>the ledgerword of spoken.py stands here</reminder>"),
        user("Now the second thing: keep the name."),
        assistant("", call("6", command="ls lib")),
        result("6", "lib/listed.py\nlib/shown.py\nlib/spoken.py"),
        assistant("Everything is done, ledgerword too."),
        assistant("", call("7", command="cat lib/shown.py")),
        result("7", "pass"),
    ]
    return Cut(session(*messages, id="made", cwd="/srv/app"), 1, 19, 2, 16)


def proposed(category: str) -> list:
    from bench.probes.view import CutView, SessionView

    cut = made()
    return [c.probe for c in PROBES.get(category)().propose(CutView(SessionView(cut.session, counter()), cut))]


def test_facts():
    probes = {p.question: (p.gold, p.answer_type, p.evidence, p.atoms) for p in proposed("facts")}
    assert probes["In the output of `make stats`, which number follows “objects stored”?"] == (
        ("4821937",), "number", ("m4",), ("4821937",),
    )  # fmt: skip
    assert probes["In the output of `make stats`, which hash follows “build id”?"][0] == ("8f3a21c9d0e1",)
    assert probes["In the file `src/newfile.py`, which number follows “request_limit”?"][::2] == (("991207",), ("m5",))
    assert not any("lib/shown" in gold for (gold,), *_ in probes.values())


@pytest.mark.parametrize(
    ("asked", "gold", "optional", "evidence"),
    [
        ("created", ("src/newfile.py",), (), ("m5",)),
        ("modified", None, (), ()),  # the only one stands in the head too
        ("read", ("docs/guide.md",), ("lib/shown.py",), ("m7",)),
        ("deleted", ("tmp/stale.log",), (), ("m10",)),
        ("renamed", ("docs/oldname.md",), (), ("m10",)),
    ],
)
def test_artifacts(asked, gold, optional, evidence):
    from bench.probes.artifacts import _QUESTIONS

    probes = {p.question: p for p in proposed("artifacts")}
    assert (_QUESTIONS[asked] in probes) is (gold is not None)
    if gold:
        probe = probes[_QUESTIONS[asked]]
        assert (probe.gold, probe.atoms, probe.evidence, probe.answer_type) == (gold, gold, evidence, "paths")
        assert set(probe.optional) == {*optional, "docs/brandnew.md"}


def test_file_state():
    states = {p.atoms[0]: (p.gold[0], p.evidence) for p in proposed("file_state")}
    assert states == {
        "src/newfile.py": ("created", ("m5",)),
        "docs/guide.md": ("read", ("m7",)),
        "docs/held.md": ("modified", ("m7",)),  # P2 takes it out
        "docs/oldname.md": ("renamed", ("m10",)),
        "tmp/stale.log": ("deleted", ("m10",)),
        "lib/listed.py": ("untouched", ("m15",)),
    }
    bank = banks.build([made()], [], counter(), ["file_state"], seed=0)
    assert (bank.funnel["file_state"]["P2"], bank.funnel["file_state"]["sound"]) == (1, 5)


def test_user_messages_count_what_the_user_typed():
    found = {p.question.split(" message")[0]: (p.gold[0], p.evidence) for p in proposed("user_messages")}
    assert found == {
        "Quote the user's first": ("Please look at the cache first.", ("m2",)),
        "Quote the user's second": ("Now the second thing: keep the name.", ("m13",)),
    }


def test_work_done_asks_of_done_and_of_not_done():
    done = {("src/newfile.py", "create"), ("docs/guide.md", "open and read"), ("docs/held.md", "edit"),
            ("docs/oldname.md", "rename"), ("tmp/stale.log", "delete")}  # fmt: skip
    golds = set()
    for probe in proposed("work_done"):
        verb, path = (
            probe.question.removeprefix("Did you ").split("`")[0].removesuffix(" the file "),
            probe.question.split("`")[1],
        )
        golds.add(probe.gold[0])
        assert ((path, verb) in done) is (probe.gold == ("yes",))
        assert probe.atoms == ((path,) if probe.gold == ("yes",) else ())
    assert golds == {"yes", "no"}


def test_a_foil_was_never_done():
    from bench.probes.view import CutView, SessionView

    messages = [system("s"), assistant("", call("1", "Write", file_path="a.py", content="")), result("1", "Created new file"),
                assistant("", call("2", command="rm a.py")), result("2", ""), assistant("Kept.")]  # fmt: skip
    cut = Cut(session(*messages), 1, 6, 1, 5)
    (candidate,) = PROBES.get("work_done")().propose(CutView(SessionView(cut.session, counter()), cut))
    assert candidate.probe.question.startswith("Did you rename the file `a.py`")  # it was created and deleted
    assert candidate.probe.gold == ("no",)


def test_name_a_word_takes_what_stands_in_no_other_place():
    other = session(user("they know retry_after_wobble"), id="other", project="other")
    for others, known in (([], False), ([other], True)):
        bank = banks.build([made()], others, counter(), ["name_a_word"], seed=0)
        (probe,) = bank.probes["made#1"]
        assert ("word:retry_after_wobble" in probe.gold) is not known
        assert "“Everything is done, ledgerword too.”" in probe.question
        assert {"word:request_limit", "file:src/newfile.py", "file:lib/listed.py"} <= set(probe.gold)
        assert not {
            "word:please",
            "word:second",
            "word:everything",
            "word:ledgerword",
            "file:docs/held.md",
            "file:lib/shown.py",
        } & set(probe.gold)
        assert probe.gold == probe.atoms
