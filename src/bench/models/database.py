from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def transaction(path: Path, table: str, *, seconds: float = 30.0, journal: str = "DELETE") -> Iterator[sqlite3.Connection]:
    """One write transaction on a SQLite file with `table`, alone among all threads and processes.

    It waits up to `seconds` for its turn; an exception undoes what the block did. Raises sqlite3.Error.
    """
    with closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
