"""Rescoring: from stored facts alone, to the same figures."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.experiment.rescore import rescore
from running import files, lines, run, summary, write_lines_of, write_sessions


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(write_sessions(tmp_path_factory.mktemp("sessions")), tmp_path_factory.mktemp("results"))


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / finished.name))


def test_an_unchanged_run(finished, copy, capsys):
    header = (copy / "header.json").read_bytes()
    assert main(["rescore", str(copy)]) == 0
    assert capsys.readouterr().out == f"{copy}: every figure as it was\n"
    assert files(copy) == files(finished)
    assert summary(copy)["seconds"] == summary(finished)["seconds"]
    assert (copy / "header.json").read_bytes() == header


def test_corrupted_scores_are_restored(finished, copy, capsys):
    records = lines(copy / "records.jsonl")
    for record in records:
        record |= {"score": 0.25, "outcome": "nonsense", "survives": not record["survives"], "detail": 3.0}
    write_lines_of(copy / "records.jsonl", records)
    compactions = [line | {"violations": {"openai": ["nonsense"]}} for line in lines(copy / "compactions.jsonl")]
    write_lines_of(copy / "compactions.jsonl", compactions)
    made = summary(copy)
    made["metrics"]["recall"]["value"] = 0.123
    made["metrics"]["survival"]["value"] = 0.456
    made["by_category"]["facts"]["recall"]["value"] = 0.789
    (copy / "summary.json").write_text(json.dumps(made))
    assert main(["rescore", str(copy)]) == 0
    assert capsys.readouterr().out == f"{copy}: changed: survival, recall, by_category\n"
    assert files(copy) == files(finished)
    assert rescore(copy) == []


def test_several_runs_and_what_is_none(copy, tmp_path, capsys):
    assert main(["rescore", str(copy), str(copy)]) == 0
    assert capsys.readouterr().out.count("every figure as it was") == 2
    assert main(["rescore", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err == f"error: no run folder {tmp_path / 'missing'}\n"
    assert main(["rescore", str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / "summary.json").unlink(), "has no summary yet"),
        (lambda f: os.truncate(f / "contexts.jsonl.gz", 3000), "contexts: run it again"),
        (lambda f: (f / "probes.jsonl.gz").unlink(), "probes.jsonl.gz"),
        (lambda f: os.truncate(f / "probes.jsonl.gz", 500), "probes.jsonl.gz"),
    ],
)
def test_a_run_that_cannot_be_rescored_is_left_as_it_is(copy, capsys, damage, says):
    damage(copy)
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert main(["rescore", str(copy)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before
