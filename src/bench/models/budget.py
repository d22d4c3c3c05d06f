from __future__ import annotations

from pathlib import Path

from bench.models.database import transaction
from bench.types import OverBudget


class Budget:
    """What the calls of a run cost so far, in its folder, shared by its worker processes.

    A call is written down at the highest price it can have before it is made, and corrected after. What a killed run
    had reserved stays reserved: nobody knows whether it was billed.
    """

    def __init__(self, folder: Path, max_usd: float) -> None:
        self._path = folder / "spending.sqlite"
        self._max_usd = max_usd

    def reserve(self, usd: float) -> int:
        """The number of a call that may cost up to `usd`; OverBudget when it could pass the limit."""
        with self._transaction() as connection:
            (spent,) = connection.execute("SELECT TOTAL(usd) FROM calls").fetchone()
            if spent + usd > self._max_usd:
                raise OverBudget(
                    f"the next call of the model could cost ${usd:.4f} and ${spent:.4f} of max_usd={self._max_usd:g} are spent"
                    " or reserved: stopped before it"
                )
            return connection.execute("INSERT INTO calls (usd) VALUES (?)", (usd,)).lastrowid

    def settle(self, call: int, usd: float) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE calls SET usd = ? WHERE id = ?", (usd, call))

    def _transaction(self):
        return transaction(self._path, "calls (id INTEGER PRIMARY KEY, usd REAL NOT NULL)")
