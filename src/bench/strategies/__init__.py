"""Strategies: each rewrites the context at a cut. One file each; `make` builds one by name with its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.registry import STRATEGIES, WRAPPERS, build
from bench.strategies.wrappers import Wrapped
from bench.types import BenchError, Strategy


def make(name: str, parameters: Mapping[str, Any], wrap: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> Strategy:
    """The strategy `name` with `parameters`, inside the wrappers `wrap`, which act on its result in their order.

    A name that is unknown or of the other kind, a parameter it does not have, and a bad value are BenchErrors.
    """
    if name not in STRATEGIES.names() and name in WRAPPERS.names():
        raise BenchError(f"{name} is a wrapper: strategy=NAME strategy.wrap=[{name}]")
    strategy = build("strategy", name, STRATEGIES.get(name), parameters)
    wrappers = []
    for wrapper, given in wrap:
        if wrapper not in WRAPPERS.names() and wrapper in STRATEGIES.names():
            raise BenchError(f"{wrapper} is a strategy: strategy={wrapper} strategy.wrap=[WRAPPER]")
        wrappers.append(build("wrapper", wrapper, WRAPPERS.get(wrapper), given))
    return Wrapped(strategy, tuple(wrappers)) if wrappers else strategy
