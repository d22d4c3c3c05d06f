"""Where the configuration and the bundled sessions lie: in an installed wheel inside the package, else in the checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]


def config_dir() -> Path:
    return _place("configs")


def data_dir() -> Path:
    return _place("data")


def _place(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _CHECKOUT / name
