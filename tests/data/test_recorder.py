"""The bundled sessions: recorded twice they are the same bytes, and they hold what the data card says."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from bench.sessions import canonical
from bench.tokens import counter
from recorder.__main__ import DATA, families, record
from recorder.card import largest_overlap
from recorder.truth import Truth

ALL = families()


def played(family: str, seed: int, folder: str) -> tuple[bytes, list[str]]:
    """A recording's bytes and broken promises, made in a temporary folder of its own."""
    tempfile.tempdir = folder
    session, truth = record(family, seed)
    return canonical.dumps(session), truth.problems(session.messages, counter().messages(session.messages))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Every family recorded twice, in two folders whose names differ in length."""
    folders = [str(tmp_path_factory.mktemp(name)) for name in ("a", "another-place")]
    with ProcessPoolExecutor(2) as pool:
        jobs = {(family, n): pool.submit(played, family, 1, folders[n]) for family in ALL for n in (0, 1)}
        return {key: job.result() for key, job in jobs.items()}


@pytest.mark.parametrize("family", ALL)
def test_recording_twice_gives_identical_bytes(recordings, family):
    first, second = recordings[family, 0], recordings[family, 1]
    assert first[1] == []
    assert first == second


@pytest.mark.parametrize("family", ALL)
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="recorded with Python 3.11; error texts can differ in others")
def test_the_committed_session_is_what_the_scenario_records(recordings, family):
    committed = gzip.decompress((DATA / "sessions" / f"{family}-1.jsonl.gz").read_bytes())
    assert committed == recordings[family, 0][0]


@pytest.mark.nightly
@pytest.mark.parametrize("family", ALL)
def test_another_seed_keeps_the_promises_too(tmp_path, family):
    assert played(family, 2, str(tmp_path))[1] == []


def test_the_split_names_every_family_once():
    split = json.loads((DATA / "split.json").read_text())
    assert sorted(split["tuning"] + split["held_out"]) == ALL
    assert len(split["tuning"]) == len(split["held_out"]) == 8


def test_sessions_are_of_the_promised_size_and_kinship(bundled):
    assert [session.id for session in bundled] == [f"{family}-1" for family in ALL]
    assert all(10_000 <= counter().messages(session.messages) <= 80_000 for session in bundled)
    assert all(not session.problems for session in bundled)
    overlap = largest_overlap([(session, Truth()) for session in bundled])
    assert max(share for share, _ in overlap.values()) <= 0.05


def test_no_machine_stands_in_the_sessions(bundled):
    home = str(Path.home())
    for session in bundled:
        text = canonical.dumps(session).decode()
        assert "/tmp/recording-" not in text
        assert sys.prefix not in text
        assert home == "/root" or home not in text
