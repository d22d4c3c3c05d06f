"""The data card, written from the recordings themselves: no count in it is typed in by hand."""

from __future__ import annotations

import json
from pathlib import Path

from bench.analysis.table import markdown
from bench.tokens import DEFAULT_ENCODING, counter
from bench.types import Session
from recorder.truth import Truth

SHINGLE = 50  # tokens


def shingles(session: Session) -> frozenset[int]:
    """Hashes of every run of 50 tokens in the texts and call arguments of a session."""
    from bench.content import joined

    tokens = counter().encode(joined(session.messages))
    return frozenset(hash(tuple(tokens[n : n + SHINGLE])) for n in range(max(0, len(tokens) - SHINGLE + 1)))


def largest_overlap(recorded: list[tuple[Session, Truth]]) -> dict[str, tuple[float, str]]:
    """For each session the largest share of its shingles that a session of another family has too, and which."""
    sets = {session.id: (session.project, shingles(session)) for session, _ in recorded}
    found = {}
    for name, (project, own) in sets.items():
        others = ((len(own & other) / max(1, len(own)), them) for them, (theirs, other) in sets.items() if theirs != project)
        found[name] = max(others, default=(0.0, ""))
    return found


def write(recorded: list[tuple[Session, Truth]], data: Path) -> None:
    """Write `data/README.md`."""
    split = json.loads((data / "split.json").read_text())
    half = {family: name for name, families in split.items() for family in families}
    overlap = largest_overlap(recorded)
    sizes, contents = [], []
    for session, truth in recorded:
        messages = session.messages
        commands = [c for m in messages for c in m.calls]
        tokens = counter().messages(messages)
        share, other = overlap[session.id]
        users = sum(m.role == "user" for m in messages) - 1
        sizes.append(
            [session.id, half[session.project], f"{tokens:,}", str(len(messages)), str(users), str(len(commands)),
             str(sum(len(m.calls) > 1 for m in messages)), str(sum(m.is_error for m in messages)), f"{share:.2%}" + (f" ({other})" if share else "")]
        )  # fmt: skip
        todos = {str(c.arguments) for c in commands if c.name == "TodoWrite"}
        contents.append(
            [session.id, len(set(truth.facts)), len(truth.constraints), len(truth.decisions), len(truth.updates), len(truth.beliefs),
             len(todos), len(truth.created), len(truth.modified), len(truth.read), len(truth.deleted), len(truth.renamed),
             truth.tests_failed, truth.tests_passed, len(truth.used_later)]
        )  # fmt: skip
    contents = [[str(value) for value in row] for row in contents]
    total = sum(counter().messages(session.messages) for session, _ in recorded)
    text = CARD.format(
        sessions=len(recorded), families=len({s.project for s, _ in recorded}), total=f"{total:,}", encoding=DEFAULT_ENCODING,
        tuning=", ".join(split["tuning"]), held_out=", ".join(split["held_out"]),
        sizes=markdown(
            ["session", "half", "tokens", "messages", "user messages", "calls", "parallel", "failed calls", "largest overlap"], sizes
        ),
        contents=markdown(
            ["session", "facts", "constraints", "decisions", "changed values", "wrong beliefs", "todo states", "created", "modified",
             "read", "deleted", "renamed", "tests failed", "tests passed", "used later"], contents,
        ),
    )  # fmt: skip
    (data / "README.md").write_text(text)


CARD = """\
# The bundled sessions: data card

{sessions} recorded sessions of {families} scenario families, {total} tokens ({encoding}) in all. `make sessions` records them
anew and writes this page; every count on it is taken from the recordings.

**What they are.** Each family is a script (`recorder/scenarios/`) of what a user and an assistant say, written for this
project. Every tool call in it is really executed in a temporary workspace that the script builds, and its true output
is recorded. The assistant's words are written, not sampled from a model: the sessions show what an agent's context
holds, not how a model writes.

**Format.** `sessions/<family>-<seed>.jsonl.gz`, canonical JSON lines, loadable as a `datasets` dataset too.

**Reproducible.** Recording twice gives identical bytes. Workspace paths read `/home/dev/<project>`; commits, file times
and message times come from a clock of the session's own; durations that a test runner or `time` prints are replaced by
drawn ones; memory addresses are masked. Recorded with Python 3.11; other versions can word an error differently.

**Split, stated before any tuning.** Tuning: {tuning}. Held out: {held_out}. Sessions of one family are one cluster in
every statistic.

**Kinship.** No family shares more than 5 % of its 50-token shingles with another; the last column below is the largest
share, and with which session.

{sizes}

**What each session holds**, declared by its script in the recording's own words and checked against the recording
(facts, constraints, decisions, changed values, wrong beliefs, things used later) or observed from what its calls did:

{contents}

**What they are not.** They are in English, by one hand, in made-up projects, and shorter than the sessions that
compaction is for in practice; a model's own habits (thinking, repeating itself, giving up) are not in them. Figures
from them compare strategies with each other; they do not predict what your own sessions lose. Run your own.

**Licence.** MIT, like the code. No text is taken from other projects, and no person or organisation in them is real.
"""
