from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.models.cache import ResponseCache, cache_folder
from bench.types import Output, Usage

REQUEST = {"model": "openai/x", "messages": [{"role": "user", "content": "the secret plan"}]}
ANSWER = Output("naïve ☃", "length", Usage(1, 2, 3, 4), usd=0.5, seconds=1.5)


def test_an_answer_comes_back_as_it_was(tmp_path):
    ResponseCache(tmp_path).put(REQUEST, ANSWER)
    assert ResponseCache(tmp_path).get(REQUEST) == Output("naïve ☃", "length", Usage(1, 2, 3, 4), 0.5, 1.5, cached=True)
    assert ResponseCache(tmp_path).get({**REQUEST, "seed": 1}) is None


def test_many_at_once_lose_nothing(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ResponseCache(tmp_path).put({"n": n}, Output(str(n))), range(40)))
    assert [ResponseCache(tmp_path).get({"n": n}).text for n in range(40)] == [str(n) for n in range(40)]


def corrupt(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to look like a file" * 20)


def other_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE answers (other TEXT)")


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("damage", [corrupt, other_table, folder])
def test_a_damaged_cache_is_said_once_and_not_used(tmp_path, caplog, damage):
    damage(tmp_path / "responses.sqlite")
    cache = ResponseCache(tmp_path)
    for _ in range(2):
        cache.put(REQUEST, ANSWER)
        assert cache.get(REQUEST) is None
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "responses.sqlite cannot be used" in said


def test_an_unreadable_value_is_no_answer(tmp_path, caplog):
    ResponseCache(tmp_path).put(REQUEST, ANSWER)
    with sqlite3.connect(tmp_path / "responses.sqlite") as connection:
        connection.execute("UPDATE answers SET value = '{'")
    assert ResponseCache(tmp_path).get(REQUEST) is None
    assert "cannot be used" in caplog.text


def test_a_cache_that_another_process_holds_is_left_alone(tmp_path, caplog):
    ResponseCache(tmp_path).put(REQUEST, ANSWER)
    holder = sqlite3.connect(tmp_path / "responses.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    cache = ResponseCache(tmp_path, seconds=0.05)
    cache.put(REQUEST, ANSWER)
    assert "locked" in caplog.text
    holder.execute("ROLLBACK")
    holder.close()


def test_the_log_tells_two_keys_apart_without_a_word_of_the_session(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "bench.models.cache")
    cache = ResponseCache(tmp_path)
    cache.get(REQUEST)
    cache.put(REQUEST, ANSWER)
    cache.get(REQUEST)
    cache.get({**REQUEST, "messages": []})
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[0] for line in lines] == ["miss", "hit", "miss"]
    model, messages = ([line.partition(f"'{part}': ")[2].split("'")[1] for line in lines] for part in ("model", "messages"))
    assert len(set(model)) == 1
    assert (messages[0] == messages[1], messages[0] == messages[2]) == (True, False)
    assert "secret plan" not in caplog.text


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("/a", {"BENCH_CACHE_DIR": "/b", "XDG_CACHE_HOME": "/c"}, "/a"),
        (None, {"BENCH_CACHE_DIR": "/b", "XDG_CACHE_HOME": "/c"}, "/b"),
        (None, {"XDG_CACHE_HOME": "/c"}, "/c/compaction-bench"),
        (None, {"HOME": "/home/somebody"}, "/home/somebody/.cache/compaction-bench"),
    ],
)
def test_the_folder_is_the_first_that_is_named(monkeypatch, given, environment, expected):
    for name in ("BENCH_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder(given) == Path(expected)
