from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.models.database import transaction
from bench.types import Output, Usage

log = logging.getLogger(__name__)
_TABLE = "answers (key TEXT PRIMARY KEY, value TEXT NOT NULL)"


def cache_folder(folder: str | None) -> Path:
    """Where answers and limits are kept: `folder`, $BENCH_CACHE_DIR, or the user's cache folder."""
    if chosen := folder or os.environ.get("BENCH_CACHE_DIR"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "compaction-bench"


class ResponseCache:
    """Good answers by the sha256 of everything that can change them, shared by all processes of this user.

    A cache that cannot be used loses nothing but time: it says so once and stays out of the way.
    """

    def __init__(self, folder: Path, seconds: float = 5.0) -> None:
        self._path = folder / "responses.sqlite"
        self._seconds = seconds  # how long another process may keep it
        self._off = False

    def get(self, request: Mapping[str, Any]) -> Output | None:
        key = _key(request)
        try:
            value = None if self._off else self._read(key)
            found = value and json.loads(value)
            output = found and Output(**found | {"usage": Usage(**found["usage"]), "cached": True})
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
            self._give_up(error)
            output = None
        if log.isEnabledFor(logging.DEBUG):  # parts by digest: a log holds nobody's session
            log.debug("%s %s: %s", "hit" if output else "miss", key, {name: _key(part)[:12] for name, part in request.items()})
        return output or None

    def put(self, request: Mapping[str, Any], output: Output) -> None:
        try:
            if not self._off:
                self._write(_key(request), json.dumps(asdict(output)))
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _read(self, key: str) -> str | None:
        with self._open() as connection:
            found = connection.execute("SELECT value FROM answers WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def _write(self, key: str, value: str) -> None:
        with self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, value))

    def _open(self):
        return transaction(self._path, _TABLE, seconds=self._seconds, journal="WAL")

    def _give_up(self, error: Exception) -> None:
        self._off = True
        log.warning("the response cache %s cannot be used (%s): the run goes on without it", self._path, error)


def _key(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True, default=str).encode()).hexdigest()
