"""A run's folder: what is in it, going on after a kill, one writer, the same bytes on any number of workers."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from bench.__main__ import main
from bench.experiment import plan, runner
from bench.experiment.rescore import rescore
from bench.experiment.store import Run, Store, context_objects
from bench.probes import bank as banks
from bench.types import Answer, BenchError
from making import work
from running import DATA, SMALL, config, files, lines, run, summary, write_compactors, write_sessions

SOURCES = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    return write_sessions(tmp_path_factory.mktemp("sessions"))


@pytest.fixture(scope="module")
def finished(sessions, tmp_path_factory):
    """A run that nobody stopped."""
    return run(sessions, tmp_path_factory.mktemp("results"))


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the finished run, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / finished.name))


def again(sessions, folder, **changes):
    assert run(sessions, folder.parent, **changes) == folder


def test_the_files_of_a_run(finished):
    assert sorted(file.name for file in finished.iterdir()) == sorted([*DATA, "header.json", "summary.json"])
    header = Run(finished).header
    assert (header["status"], header["run_id"], header["schema"], header["cuts"]) == ("success", finished.name, 1, 4)
    assert [session["id"] for session in header["sessions"]] == ["one", "two"]
    assert header["config"]["seed"] == 0


def test_the_header_says_started_before_anything_is_done(sessions, tmp_path):
    seen = []
    made = plan.make(config(sessions, tmp_path))

    def look(done, total, errors):
        seen.append((done, total, errors, Run(tmp_path / made.run_id).header["status"]))
        assert not (tmp_path / made.run_id / "summary.json").exists()

    folder = runner.run(made, look)
    assert seen == [(number, 4, 0, "started") for number in range(5)]
    assert Run(folder).header["status"] == "success"


def test_the_summary_has_the_keys_of_the_design(finished):
    made = summary(finished)
    assert set(made) >= {
        "schema", "run_id", "status", "strategy", "agent", "model", "tokenizer", "sessions", "clusters", "cuts", "probes", "outcomes",
        "metrics", "by_category", "controls", "errors",
    }  # fmt: skip
    assert set(made["outcomes"]) == {"applied", "noop", "fallback", "invalid", "failed"}
    assert set(made["controls"]) == {"ceiling", "floor", "placebo", "leak"}
    assert set(made["errors"]) == {"infrastructure", "strategy"}
    assert set(made["metrics"]) >= {
        "survival", "recall", "retention", "token_reduction", "message_preservation", "efficiency", "structure_valid",
    }  # fmt: skip
    assert all(set(metric) >= {"value", "se", "ci", "n", "clusters"} for metric in made["metrics"].values())
    assert (made["sessions"], made["clusters"], made["cuts"], made["outcomes"]["applied"]) == (2, 2, 4, 4)


def test_one_record_for_each_probe_and_arm(finished):
    bank = banks.read((finished / "probes.jsonl.gz").read_bytes())
    expected = Counter(
        [(cut, arm, p.id) for cut, probes in bank.probes.items() for p in probes for arm in ("full", "floor", "strategy")]
        + [(cut, "placebo", p.id) for cut, placebos in bank.placebos.items() for p in placebos]
    )
    assert sum(expected.values()) > 100
    assert Counter((r["cut"], r["arm"], r["probe"]) for r in lines(finished / "records.jsonl")) == expected
    counted = Counter(cut for cut, _, _ in expected)
    assert {c["cut"]: c["records"] for c in lines(finished / "compactions.jsonl")} == counted
    assert summary(finished)["probes"] == sum(len(probes) for probes in bank.probes.values())


def test_contexts_are_stored_once_by_hash(finished):
    objects = [orjson.loads(line) for line in gzip.decompress((finished / "contexts.jsonl.gz").read_bytes()).splitlines()]
    assert set(Counter(item["sha256"] for item in objects).values()) == {1}
    contexts = Run(finished).contexts()
    for compaction in lines(finished / "compactions.jsonl"):
        before, after = contexts[compaction["context_before"]], contexts[compaction["context_after"]]
        assert before == work(14, id=compaction["session"]).messages[: compaction["at"]]
        assert len(after) < len(before)
        assert context_objects(before)[0] == compaction["context_before"]


def test_two_runs_give_the_same_bytes(sessions, finished, tmp_path):
    assert files(run(sessions, tmp_path)) == files(finished)


def test_two_workers_give_the_same_bytes_as_one(sessions, finished, tmp_path):
    assert files(run(sessions, tmp_path, executor={"workers": 2})) == files(finished)


# --- going on


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been_killed(sessions, tmp_path):
    compactors = write_compactors(tmp_path)
    stop = tmp_path / "stop"
    stop.touch()
    strategy = [f"strategy.target={compactors}:killed", "strategy=custom"]
    command = [sys.executable, "-m", "bench", "run", *strategy, f"sessions.path={sessions}", f"results_dir={tmp_path}/a", *SMALL]
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (folder,) = (tmp_path / "a").iterdir()
    assert Run(folder).header["status"] == "started"
    assert list(Run(folder).compactions) == ["one#1", "one#2"]
    assert not (folder / "summary.json").exists()

    stop.unlink()
    custom = {"name": "custom", "target": f"{compactors}:killed", "isolate": False}  # all that configs/strategy/custom.yaml has
    again(sessions, folder, strategy=custom)
    assert Run(folder).header["status"] == "success"
    assert files(folder) == files(run(sessions, tmp_path / "b", custom))


def test_an_interrupted_run_says_so_and_goes_on(sessions, tmp_path):
    custom = {"name": "custom", "target": f"{write_compactors(tmp_path)}:interrupted"}
    (tmp_path / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        run(sessions, tmp_path / "a", custom)
    (folder,) = (tmp_path / "a").iterdir()
    assert Run(folder).header["status"] == "cancelled"
    assert len(Run(folder).compactions) == 2
    assert not (folder / ".lock").exists()
    (tmp_path / "stop").unlink()
    again(sessions, folder, strategy=custom)
    assert files(folder) == files(run(sessions, tmp_path / "b", custom))


def cut_end(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def drop_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


DAMAGES = {
    "compactions torn": lambda f: cut_end(f / "compactions.jsonl", 0.95),
    "compactions without the last newline": lambda f: os.truncate(
        f / "compactions.jsonl", (f / "compactions.jsonl").stat().st_size - 1
    ),
    "compactions without the last line": lambda f: drop_last_line(f / "compactions.jsonl"),
    "compactions half": lambda f: cut_end(f / "compactions.jsonl", 0.5),
    "compactions gone": lambda f: (f / "compactions.jsonl").unlink(),
    "records torn": lambda f: os.truncate(f / "records.jsonl", (f / "records.jsonl").stat().st_size - 9),
    "records half": lambda f: cut_end(f / "records.jsonl", 0.5),
    "records gone": lambda f: (f / "records.jsonl").unlink(),
    "contexts torn": lambda f: os.truncate(f / "contexts.jsonl.gz", (f / "contexts.jsonl.gz").stat().st_size - 9),
    "contexts half": lambda f: cut_end(f / "contexts.jsonl.gz", 0.5),
    "contexts gone": lambda f: (f / "contexts.jsonl.gz").unlink(),
    "no summary": lambda f: (f / "summary.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_mended_by_the_same_command(sessions, finished, copy, damage):
    DAMAGES[damage](copy)
    again(sessions, copy)
    assert files(copy) == files(finished)
    assert len(Run(copy).contexts()) == 8


def change(name: str, old: str, new: str, line: int):
    """A damage: in one line of a file the first match of `old` becomes `new`."""

    def damage(folder: Path) -> None:
        rows = (folder / name).read_text().split("\n")
        changed = re.sub(old, new, rows[line], count=1)
        assert changed != rows[line]
        (folder / name).write_text("\n".join([*rows[:line], changed, *rows[line + 1 :]]))

    return damage


def junk(folder: Path) -> None:
    with (folder / "contexts.jsonl.gz").open("ab") as file:
        file.write(gzip.compress(b"{}\nnull\n[1, 2]\nno json\n"))


SHAPES = {
    "compaction without a cut": change("compactions.jsonl", r'"cut":"[^"]*"', '"cut":null', 1),
    "compaction of a list": change("compactions.jsonl", r'"context_after":"[^"]*"', '"context_after":[]', 1),
    "outcome of a number": change("compactions.jsonl", r'"outcome":"[^"]*"', '"outcome":5', 1),
    "compactions of no JSON": lambda f: (f / "compactions.jsonl").write_text("garbage\n"),
    "empty objects": lambda f: [(f / name).write_text("{}\n") for name in ("compactions.jsonl", "records.jsonl")],
    "answer of a number": change("records.jsonl", r'"answer":\[[^]]*\]', '"answer":7', 2),
    "contexts with other things": junk,
    "header of a list": lambda f: (f / "header.json").write_text("[1, 2]"),
    "header of nothing": lambda f: (f / "header.json").write_text("{}"),
    "summary of nothing": lambda f: (f / "summary.json").write_text("null"),
    "summary of a list": lambda f: (f / "summary.json").write_text("[1, 2]"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_json_of_a_wrong_shape_is_one_sentence_for_readers_and_mended_by_the_same_command(
    sessions, finished, copy, capsys, shape
):
    SHAPES[shape](copy)
    for command in ("show", "rescore"):
        code = main([command, str(copy)])
        assert code in (0, 2)
        assert capsys.readouterr().err.count("error: ") == (code == 2)
    again(sessions, copy)
    for name in ("records.jsonl", "compactions.jsonl"):
        assert (copy / name).read_bytes() == (finished / name).read_bytes()
    assert len(Run(copy).contexts()) == 8


def test_a_rescore_of_a_run_that_lost_lines_is_refused_and_changes_nothing(copy):
    cut_end(copy / "records.jsonl", 0.5)
    before = (copy / "summary.json").read_bytes()
    with pytest.raises(BenchError, match="damaged"):
        rescore(copy)
    assert (copy / "summary.json").read_bytes() == before


def test_everything_torn_at_once(sessions, finished, copy):
    for name in ("records.jsonl", "compactions.jsonl", "contexts.jsonl.gz"):
        cut_end(copy / name, 0.9)
    (copy / "summary.json").write_text('{"schema"')
    again(sessions, copy)
    assert files(copy) == files(finished)


def test_a_finished_run_is_left_as_it_is(sessions, copy):
    before = files(copy)
    read = {name: (copy / name).stat().st_mtime_ns for name in ("records.jsonl", "compactions.jsonl", "contexts.jsonl.gz")}
    seconds = summary(copy)["seconds"]
    again(sessions, copy)
    assert files(copy) == before
    assert {name: (copy / name).stat().st_mtime_ns for name in read} == read
    assert summary(copy)["seconds"] == seconds > 0


def test_overwrite_always_starts_anew(sessions, finished, copy):
    (copy / "foreign.txt").write_text("left by somebody")
    (copy / "records.jsonl").write_bytes((copy / "records.jsonl").read_bytes().replace(b'"right"', b'"wrong"'))
    again(sessions, copy, overwrite="always")
    assert files(copy) == files(finished)
    assert not (copy / "foreign.txt").exists()


def test_overwrite_never_refuses_a_folder_that_is_there(sessions, finished, copy):
    before = files(copy)
    with pytest.raises(BenchError, match="is there already and overwrite=never"):
        again(sessions, copy, overwrite="never")
    assert files(copy) == before
    shutil.rmtree(copy)
    again(sessions, copy, overwrite="never")
    assert files(copy) == files(finished)


@pytest.mark.parametrize("overwrite", ["only-missing", "always"])
def test_only_one_may_write(sessions, finished, copy, overwrite):
    store = Store(copy, "only-missing")
    with pytest.raises(BenchError, match="another process is writing to"):
        again(sessions, copy, overwrite=overwrite)
    assert files(copy) == files(finished)  # untouched, though overwrite=always was asked for
    store.close()
    again(sessions, copy)


def test_a_file_where_the_folder_should_be(sessions, finished, tmp_path):
    (tmp_path / finished.name).write_text("")
    with pytest.raises(BenchError, match="cannot write to"):
        run(sessions, tmp_path)


# --- the name of a run


def name(*arguments, **changes) -> str:
    return plan.make(config(*arguments, **changes)).run_id


@pytest.mark.parametrize(
    "changes",
    [
        {"strategy": {"name": "oldest", "min_turns": 5}},
        {"strategy": {"name": "reset"}},
        {"agent": {"name": "oracle"}},
        {"agent": {"name": "reader", "min_coverage": 0.7}},
        {"seed": 1},
        {"tokenizer": "cl100k_base"},
        {"replay": {"number": 1}},
        {"replay": {"number": 2, "target_ratio": 0.4}},
        {"probes": {"categories": ["facts"]}},
    ],
    ids=str,
)
def test_what_can_change_a_number_changes_the_name(sessions, finished, tmp_path, changes):
    assert name(sessions, tmp_path, **changes) != finished.name


@pytest.mark.parametrize(
    "changes",
    [{"overwrite": "always"}, {"executor": {"workers": 7}}, {"fail_on_error": 3}, {"results_dir": "elsewhere"}],
    ids=str,
)
def test_what_changes_no_number_does_not(sessions, finished, tmp_path, changes):
    assert name(sessions, tmp_path, **changes) == finished.name


def test_the_place_of_the_sessions_does_not_change_the_name_but_their_bytes_do(sessions, finished, tmp_path, monkeypatch):
    moved = Path(shutil.copytree(sessions, tmp_path / "moved"))
    assert name(moved, tmp_path) == finished.name
    monkeypatch.chdir(tmp_path)
    assert name("moved", tmp_path) == finished.name
    file = moved / "one.json"
    file.write_bytes(file.read_bytes() + b"\n")  # the same session in other bytes, at the same place, in the same process
    assert name(moved, tmp_path) != finished.name


class Witness:
    """Answers with the hash of what it was shown."""

    name = label = "witness"
    version = "1"

    def answer(self, context, question):
        return Answer((context_objects(context)[0],))


def test_answers_are_shared_among_strategies_but_never_among_versions_of_a_session(tmp_path):
    folder = write_sessions(tmp_path / "s", ["one"])
    seen, banks_seen = {}, set()
    for version in ("I look at", "I glance at"):
        file = folder / "one.json"
        file.write_text(file.read_text().replace("I look at", version))
        for strategy in ("reset", "none"):
            made = replace(plan.make(config(folder, tmp_path / version, strategy)), agent=Witness())
            records = lines(runner.run(made) / "records.jsonl")
            seen[version, strategy] = {(r["arm"], r["cut"], *r["answer"]) for r in records if r["arm"] in ("full", "floor")}
            banks_seen.add(made.bank.sha256)
    assert len(banks_seen) == 1  # the same questions, of other sessions
    assert seen["I look at", "reset"] == seen["I look at", "none"]
    assert seen["I glance at", "reset"] == seen["I glance at", "none"]
    assert not {row for row in seen["I look at", "none"] if row[0] == "full"} & seen["I glance at", "none"]
