"""A file as JSON records, whatever its ending says, with what was wrong with it. Nothing readable is dropped."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.types import BenchError

_AROUND = " \t\r\n\ufeff\x00"  # what may stand around a JSON value: blanks, marks of joined files, zeros of a crashed disk
_SURROGATE = re.compile("[\ud800-\udfff]")
_EVENT = re.compile(r"event-\d+.*\.json")  # a recorder that keeps every event in a file of its own names them so
_STATE = "base_state.json"
# Takes control characters and lone surrogates, as real files hold them; numbers that JSON has no form for stay as text,
# and a whole number over 64 bits becomes a float, as orjson reads it.
_TOLERANT = json.JSONDecoder(
    strict=False, parse_constant=str, parse_float=lambda text: _finite(text), parse_int=lambda text: _whole(text)
)


@dataclass
class Document:
    """`records` are the JSON values in file order: one for a JSON file, one a line for JSON lines.

    `lines` gives each record's line number (1-based) for messages, or in a folder the number of its file; `problems`
    are sentences for `Session.problems`.
    """

    path: Path
    sha256: str
    records: list[Any] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the file or folder without its endings, for session ids."""
        name = self.path.name.split(".")[0] or self.path.name
        return clean(name, [])  # a file name may hold bytes that are no text


def folder_of(path: Path) -> Path | None:
    """The folder that is one document together with the file `path`, which holds one event of it or its state."""
    if _EVENT.fullmatch(path.name):
        return path.parent.parent if path.parent.name == "events" else path.parent
    return path.parent if path.name == _STATE and (path.parent / "events").is_dir() else None


def open_document(path: Path) -> Document:
    """Read `path`. An unreadable file, or one without a single JSON value, is a BenchError that names it.

    A folder is read as one document: its state and then its events in the order of their names.
    """
    if path.is_dir():
        return _open_folder(path)
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
        _read_tolerantly(text, document)
    if not document.records:
        raise BenchError(f"{path} holds no JSON: neither one JSON value nor JSON lines")
    return document


def _open_folder(path: Path) -> Document:
    events = path / "events" if (path / "events").is_dir() else path
    files = [*path.glob(_STATE), *sorted(file for file in events.iterdir() if _EVENT.fullmatch(file.name))]
    document, digest = Document(path, ""), hashlib.sha256()
    for number, file in enumerate(files, 1):
        try:
            part = open_document(file)
        except BenchError as error:
            document.problems.append(f"{error}; it is left out")
            continue
        digest.update(bytes.fromhex(part.sha256))
        document.records += part.records
        document.lines += [number] * len(part.records)
        document.problems += [f"{file.name}: {problem}" for problem in part.problems]
    if not document.records:
        raise BenchError(f"folder {path} holds no event that can be read")
    document.sha256 = digest.hexdigest()
    return document


def _decode(data: bytes, document: Document) -> str:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="replace")
        read_as = text.count("\ufffd") - data.count("\ufffd".encode())  # a file may hold U+FFFD of its own
        document.problems.append(f"{read_as} pieces that are not UTF-8, each read as U+FFFD")
        return text


def _read_tolerantly(text: str, document: Document) -> None:
    """One JSON value with what strict JSON forbids in it, or JSON lines, or a list whose end is missing."""
    whole = text.strip(_AROUND)
    found, complete = _tolerant(whole, at_most=1)
    if complete:
        document.records, document.lines = found, [1]
        return
    lines = Document(document.path, document.sha256)
    _read_lines(text, lines)
    if not found and whole.startswith("[") and not any(isinstance(record, list) for record in lines.records):
        _read_cut_array(whole, document)
    if not document.records:
        document.records, document.lines = lines.records, lines.lines
        document.problems += lines.problems


def _read_lines(text: str, document: Document) -> None:
    broken: list[int] = []
    values: list[tuple[int, Any]] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(_AROUND)
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


def _tolerant(line: str, at_most: int | None = None) -> tuple[list[Any], bool]:
    """All JSON values on one line (or the first `at_most`), and whether they make up the whole of it."""
    values, at = [], 0
    while at < len(line) and len(values) != at_most:
        try:
            value, at = _TOLERANT.raw_decode(line, at)
        except (ValueError, RecursionError):
            return values, False
        values.append(value)
        while at < len(line) and line[at] in " \t\r\n":
            at += 1
    return values, at >= len(line)


def _read_cut_array(text: str, document: Document) -> None:
    """A JSON array whose end is missing: read the elements that are whole."""
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


def _finite(text: str) -> float | str:
    return number if math.isfinite(number := float(text)) else text


def _whole(text: str) -> int | float | str:
    return int(text) if len(text) < 20 else _finite(text)


def clean(text: Any, problems: list[str]) -> str:
    """`text` as a string that can be stored: a lone surrogate becomes U+FFFD, and that is noted."""
    if text is None:
        return ""
    if not isinstance(text, str):
        return json_text(clean_value(text, problems))
    if text.isascii() or not _SURROGATE.search(text):
        return text
    problems.append(f"{len(_SURROGATE.findall(text))} lone surrogates, read as U+FFFD")
    return _SURROGATE.sub("\ufffd", text)


def json_text(value: Any) -> str:
    """The JSON text of a cleaned value, however deep it is nested."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # orjson stops at 254 levels
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def number(value: Any, problems: list[str]) -> int:
    """A recorded count; what cannot be one is 0, and that is noted."""
    if value is None:
        return 0
    if isinstance(value, int | float) and 0 <= value < 2**63:
        return int(value)
    problems.append(f"{str(value)[:80]!r} stands where a count should; read as 0")
    return 0


def clean_value(value: Any, problems: list[str]) -> Any:
    """`clean` for every string inside a JSON value (keys too)."""
    if isinstance(value, str):
        return clean(value, problems)
    if isinstance(value, dict):
        return {clean(key, problems): clean_value(item, problems) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_value(item, problems) for item in value]
    return value
