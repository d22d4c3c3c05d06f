"""Prompts, stubs and notes: one Jinja2 template a file, worded for this project. `{# version: N #}` is its first line.

Values are put in as they are: text of a session is data, and is never read as a template.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from bench.types import BenchError

_VERSION = re.compile(r"\A\{# version: (\d+) #\}\n")


def render(name: str, /, **values: object) -> str:
    """The text of prompt `name`; a value it asks for and does not get is an error (StrictUndefined)."""
    return _environment().from_string(_source(name)[1]).render(**values).strip()


def version(name: str) -> str:
    """`2-1f0c9a7e`: the number that the template gives itself, and a hash of its text."""
    number, text = _source(name)
    return f"{number}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@cache
def _source(name: str) -> tuple[str, str]:
    path = Path(__file__).parent / f"{name}.j2"
    if not path.is_file():
        raise BenchError(f"there is no prompt {name!r}")
    text = path.read_text(encoding="utf-8")
    stated = _VERSION.match(text)
    if not stated:
        raise BenchError(f"prompt {name!r} does not begin with its version")
    return stated[1], text[stated.end() :]


@cache
def _environment():
    import jinja2

    return jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
