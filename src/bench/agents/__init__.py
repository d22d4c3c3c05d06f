"""Continued agents: each answers a question in a fork of the context, which nothing is ever added to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.registry import AGENTS
from bench.types import Agent, BenchError


def make(name: str, parameters: Mapping[str, Any]) -> Agent:
    """The agent `name` with `parameters`; a parameter it does not have, or a bad value, is a BenchError."""
    try:
        return AGENTS.get(name)(**parameters)
    except (TypeError, ValueError) as error:
        raise BenchError(f"agent {name!r} cannot be made with {dict(parameters)}: {error}") from error
