"""Continued agents: each answers a question in a fork of the context, which nothing is ever added to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.registry import AGENTS, build
from bench.types import Agent


def make(name: str, parameters: Mapping[str, Any]) -> Agent:
    """The agent `name` with `parameters`; a parameter it does not have, or a bad value, is a BenchError."""
    return build("agent", name, AGENTS.get(name), parameters)
