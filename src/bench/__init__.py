"""Measure what context compaction of LLM agents loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from bench.types import Session

__version__ = "0.1.0"


def load_sessions(path: str | Path | None = None, *, format: str | None = None) -> list[Session]:
    """Recorded sessions from a file, a folder or a glob, in any known format; without a path the bundled ones.

    Raises `bench.types.BenchError` when nothing can be read; what was wrong inside a file is in `Session.problems`.
    """
    from bench.sessions import load

    return load(path, format=format).sessions
