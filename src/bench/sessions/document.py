"""A file as JSON records, whatever its ending says, with what was wrong with it. Nothing readable is dropped."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.types import BenchError

_SURROGATE = re.compile("[\ud800-\udfff]")
_TOLERANT = json.JSONDecoder(strict=False)  # takes control characters and lone surrogates, as real files hold them


@dataclass
class Document:
    """`records` are the JSON values in file order: one for a JSON file, one a line for JSON lines.

    `lines` gives each record's line number (1-based) for messages; `problems` are sentences for `Session.problems`.
    """

    path: Path
    sha256: str
    records: list[Any] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file's name without its endings, for session ids."""
        return self.path.name.split(".")[0] or self.path.name


def open_document(path: Path) -> Document:
    """Read `path`. An unreadable file, or one without a single JSON value, is a BenchError that names it."""
    try:
        data = path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise BenchError(f"cannot read {path}: {error}") from error
    document = Document(path, sha256)
    text = _decode(data, document)
    if not text.strip():
        raise BenchError(f"{path} is empty")
    try:
        document.records, document.lines = [orjson.loads(text)], [1]
    except orjson.JSONDecodeError:
        _read_lines(text, document)
    if not document.records:
        _read_cut_array(text, document)
    if not document.records:
        raise BenchError(f"{path} holds no JSON: neither one JSON value nor JSON lines")
    return document


def _decode(data: bytes, document: Document) -> str:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="replace")
        document.problems.append(f"{text.count('�')} bytes that are not UTF-8, read as U+FFFD")
        return text


def _read_lines(text: str, document: Document) -> None:
    broken: list[int] = []
    values: list[tuple[int, Any]] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r\ufeff\x00")
        if not line:
            continue
        try:
            values.append((number, orjson.loads(line)))
        except orjson.JSONDecodeError:
            found, complete = _tolerant(line)
            if len(found) > 1:
                document.problems.append(f"line {number} holds {len(found)} JSON values; each was read")
            if not complete:
                broken.append(number)
            values += [(number, value) for value in found if isinstance(value, dict | list)]
    document.lines = [number for number, _ in values]
    document.records = [value for _, value in values]
    if document.records:
        document.problems += [
            f"line {number} is cut or is not JSON; what could not be read of it is left out" for number in broken
        ]


def _tolerant(line: str) -> tuple[list[Any], bool]:
    """All JSON values on one line, and whether they make up the whole of it."""
    values, at = [], 0
    while at < len(line):
        try:
            value, at = _TOLERANT.raw_decode(line, at)
        except (ValueError, RecursionError):
            return values, False
        values.append(value)
        while at < len(line) and line[at] in " \t\r":
            at += 1
    return values, True


def _read_cut_array(text: str, document: Document) -> None:
    """A JSON array whose end is missing: read the elements that are whole."""
    text = text.lstrip()
    if not text.startswith("["):
        return
    at, elements = 1, []
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            value, at = _TOLERANT.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        elements.append(value)
    if elements:
        document.records, document.lines = [elements], [1]
        document.problems.append(f"the file is cut: {len(elements)} whole elements of its list were read")


def clean(text: Any, problems: list[str]) -> str:
    """`text` as a string that can be stored: a lone surrogate becomes U+FFFD, and that is noted."""
    if not isinstance(text, str):
        return "" if text is None else orjson.dumps(text, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    if text.isascii() or not _SURROGATE.search(text):
        return text
    problems.append(f"{len(_SURROGATE.findall(text))} lone surrogates, read as U+FFFD")
    return _SURROGATE.sub("\ufffd", text)


def clean_value(value: Any, problems: list[str]) -> Any:
    """`clean` for every string inside a JSON value (keys too)."""
    if isinstance(value, str):
        return clean(value, problems)
    if isinstance(value, dict):
        return {clean(key, problems): clean_value(item, problems) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_value(item, problems) for item in value]
    return value
