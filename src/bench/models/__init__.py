"""Models: what stands behind a summariser or a judge. One file each; `make` builds one by name with its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.registry import MODELS, build
from bench.types import Model


def make(name: str, parameters: Mapping[str, Any]) -> Model | None:
    """The model `name` with `parameters`, None for `none`; a bad value, or no key, is a BenchError."""
    return None if name == "none" else build("model", name, MODELS.get(name), parameters)
