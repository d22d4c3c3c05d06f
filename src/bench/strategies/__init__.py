"""Strategies: each rewrites the context at a cut. One file each; `make` builds one by name with its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.registry import STRATEGIES, build
from bench.types import Strategy


def make(name: str, parameters: Mapping[str, Any]) -> Strategy:
    """The strategy `name` with `parameters`; a parameter it does not have, or a bad value, is a BenchError."""
    return build("strategy", name, STRATEGIES.get(name), parameters)
