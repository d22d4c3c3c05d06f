"""How fast a model is asked, by all threads and processes of this user together: calls at a time, and calls a minute."""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.models.database import transaction

MINUTE = 60.0
_LOOK_AGAIN = 0.05  # seconds between two looks for a free slot


class Slots:
    """`number` calls in flight at a time: a call holds the lock on one of as many files. A process that dies lets go."""

    def __init__(self, folder: Path, name: str, number: int) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        self._paths = [folder / f"{digest}-{slot}.lock" for slot in range(number)]
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a free slot and hold it."""
        with ExitStack() as held:
            while not any(self._taken(path, held) for path in self._paths):
                time.sleep(_LOOK_AGAIN)
            yield

    def _taken(self, path: Path, held: ExitStack) -> bool:
        file = path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        held.enter_context(file)
        return True


class Rates:
    """Requests and tokens of the last `minute` seconds in a SQLite table; None is no limit.

    pyrate-limiter 4.5.1 was looked at: its SQLite bucket writes one row for each token of a request.
    """

    def __init__(
        self, folder: Path, name: str, *, requests: int | None = None, tokens: int | None = None, minute: float = MINUTE
    ) -> None:
        self._path = folder / "rates.sqlite"
        self._name = name
        self._requests = requests
        self._tokens = tokens
        self._minute = minute
        folder.mkdir(parents=True, exist_ok=True)

    def wait(self, tokens: int) -> None:
        """Wait until a request of `tokens` is within the limits, and write it down.

        A request that is larger than the limit on tokens by itself is let through when no other was made.
        """
        if self._requests is None and self._tokens is None:
            return
        while pause := self._ask(tokens):
            time.sleep(pause)

    def _ask(self, tokens: int) -> float:
        """0 when the request may be made now and is written down, else the seconds after which to ask again."""
        now = time.time()
        with transaction(self._path, "requests (name TEXT, at REAL, tokens INTEGER)") as connection:
            connection.execute("DELETE FROM requests WHERE at <= ?", (now - self._minute,))
            made = connection.execute("SELECT at, tokens FROM requests WHERE name = ? ORDER BY at", (self._name,)).fetchall()
            number, total = len(made), sum(size for _, size in made)
            for at, size in made:  # the oldest that have to leave first
                many = self._requests is not None and number >= self._requests
                large = self._tokens is not None and total + tokens > self._tokens
                if not many and not large:
                    break
                number, total, last = number - 1, total - size, at
            if number < len(made):
                return max(last + self._minute - now, 0.001)
            connection.execute("INSERT INTO requests VALUES (?, ?, ?)", (self._name, now, tokens))
            return 0.0
