"""Typed atoms of text (a path, a version, a hash ...): found, put into normal form, and looked for in other text.

The types and their normal forms are those of the measurement specification, section 1.4.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from packaging.utils import canonicalize_version


class Atom(NamedTuple):
    """`text[start:end]` is the atom as it stands in the line it was found in."""

    type: str
    text: str
    start: int
    end: int


# Order is priority: a URL holds paths, a path holds versions, a version holds numbers.
_PATTERNS = (
    ("url", r"https?://[^\s\"'`<>)\]}|\\]+[^\s\"'`<>)\]}|\\.,;:!?]"),
    ("error", r"\b[A-Z]\w*(?:Error|Exception|Failure|Fault)\b: [^\n]{3,}"),
    ("date", r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"),
    ("path", r"(?<![\w/.~-])(?:~?/|\.{1,2}/)?(?:[\w.@+-]+/)+[\w.@+-]*\w|(?<![\w/.-])[\w-]+\.(?:py|json|ya?ml|toml|md|txt|csv|sql|sh|log|cfg|ini|js|ts|tsx|go|rs|c|h|html|css|lock|db|conf|mk)\b(?![\w./-])"),
    ("hash", r"(?<![\w.-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?![\w-])"),
    ("version", r"(?<![\w.:-])v?\d+\.\d+\.\d+(?:[-.]?(?:rc|alpha|beta|dev|post)\.?\d+)?(?![\w:]|\.\d|-\w)"),
    ("identifier", r"(?<![\w./:-])(?=[\w.:-]*\d)(?=[\w.:-]*[A-Za-z_])[A-Za-z0-9]\w*(?:[-:._]\w+)+(?![\w/])|(?<![\w./:-])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.])|(?<![\w./:-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w/])"),
    ("number", r"(?<![\w.:/#-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w:]|\.\d)|(?<![\w.:/#-])-?\d+(?:\.\d+)?(?![:/]|\.\d|-\d)(?=\b|[a-zA-Zµ%])"),
)  # fmt: skip
_ANY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS))

NOUNS = {
    "url": "URL", "error": "error", "date": "date or time", "path": "path", "hash": "hash", "version": "version",
    "identifier": "identifier", "number": "number", "command": "command",
}  # fmt: skip


def extract(text: str) -> list[Atom]:
    """The typed atoms of one line, left to right, none inside another."""
    return [Atom(str(m.lastgroup), m[0], m.start(), m.end()) for m in _ANY.finditer(text)]


def normal(value: str, type: str, cwd: str = "") -> str:
    """The normal form N_tau of a value. Text that is not of the type comes back stripped of quotes and spaces."""
    value = value.strip().strip("`\"'“”‘’ ").strip()
    if type == "path":
        return _path(value, cwd)
    if type == "number":
        return _number(value)
    if type == "version":
        return _version(value)
    if type == "url":
        return _url(value)
    if type == "error":
        return _error(value)
    if type == "date":
        return value.replace(" ", "T", 1) if re.match(r"\d{4}-\d\d-\d\d \d", value) else value
    if type == "quote":
        return " ".join(value.split())
    return value


def _path(value: str, cwd: str) -> str:
    value = re.sub(r"(?<=\w):\d+(?::\d+)?$", "", value)
    if not value:
        return ""
    value = posixpath.normpath(value)
    if cwd and value.startswith(cwd.rstrip("/") + "/"):
        value = value[len(cwd.rstrip("/")) + 1 :]
    return value


def _number(value: str) -> str:
    match = re.match(r"[-+]?[\d,]*\.?\d+", value)
    if not match:
        return value
    try:
        number = Decimal(match[0].replace(",", ""))
    except InvalidOperation:
        return value
    return format(number, "f")


def _version(value: str) -> str:
    return canonicalize_version(value.removeprefix("v"))  # 1.2 == 1.2.0; text that is no version stays as it is


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return value
    host = (parts.hostname or "").lower()
    if port and (parts.scheme.lower(), port) not in (("http", 80), ("https", 443)):
        host = f"{host}:{port}"
    return urlunsplit((parts.scheme.lower(), host, parts.path.rstrip("/"), parts.query, ""))


_MASKS = ((r"0x[0-9a-f]+", "0x"), (r"\bline \d+", "line"), (r":\d+(?::\d+)?\b", ""), (r"\d\d:\d\d:\d\d(?:\.\d+)?", "time"))


def _error(value: str) -> str:
    for pattern, replacement in _MASKS:
        value = re.sub(pattern, replacement, value)
    return " ".join(re.sub(r"(?:[\w.~-]*/)+([\w.-]+)", r"\1", value).split())


def variants(value: str, type: str) -> tuple[str, ...]:
    """The spellings under which a value still stands in a text: all count as its survival."""
    if type == "number":
        plain = _number(value)
        whole = plain.split(".")[0].lstrip("-")
        grouped = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", whole)
        return tuple(dict.fromkeys((value, plain, plain.replace(whole, grouped, 1))))
    if type == "path":
        parts = value.lstrip("/").split("/")
        return tuple(dict.fromkeys((value, "/".join(parts[-2:])))) if len(parts) > 2 else (value,)
    if type == "version":
        plain = value.removeprefix("v")
        return (plain, f"v{plain}")
    return (value,)


def aliases(value: str, type: str) -> tuple[str, ...]:
    """Everything that would give the value away: its variants, and the base name of a path, the short form of a hash."""
    found = list(variants(value, type))
    if type == "path":
        found.append(value.rstrip("/").rsplit("/", 1)[-1])
    if type == "hash":
        found.append(value[:7])
    return tuple(dict.fromkeys(found))


class Haystack:
    """A text to look values up in, at word boundaries. Its words are indexed: most look-ups end without a search."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", self.text))

    @cached_property
    def _folded(self) -> str:
        return folded(self.text)

    def found(self, needle: str) -> bool:
        # Every word of a bounded occurrence is a whole word of the text; so most look-ups end here.
        words = re.findall(r"\w+", needle)
        if _numeric(needle):
            words = words[:-1]  # its unit can follow without a space
        return all(word in self._words for word in words) and found(needle, self.text)

    def occurs(self, value: str, type: str) -> bool:
        """Whether a value stands here under any of its variants; a quote is compared with white space folded."""
        if type == "quote":
            return value in self._folded
        return any(self.found(spelling) for spelling in variants(value, type))

    def gives_away(self, value: str, type: str) -> bool:
        """Whether the value or any alias of it stands here. The first seven digits of a hash give it away."""
        if type == "hash" and value[:7] in self.text:
            return True
        if type == "quote":
            return value in self._folded
        return any(self.found(alias) for alias in aliases(value, type))


def found(needle: str, text: str) -> bool:
    """Whether `needle` stands in `text` at word boundaries: not inside a longer word, number or decimal.

    A number may be followed by its unit, and a comma beside it separates (a row of a CSV file, a list). (`str.find` and a look at the neighbours: a pattern that begins with a
    look-behind is a hundred times slower.)
    """
    at = text.find(needle) if needle else -1
    numeric = _numeric(needle)
    while at >= 0:
        end = at + len(needle)
        if _free(text[max(0, at - 2) : at][::-1], needle[0], numeric, before=True) and _free(
            text[end : end + 2], needle[-1], numeric
        ):
            return True
        at = text.find(needle, at + 1)
    return False


def _numeric(needle: str) -> bool:
    return needle.replace(".", "").replace(",", "").isdigit()


def _free(beside: str, edge: str, numeric: bool, *, before: bool = False) -> bool:
    """Whether a value whose outer character is `edge` ends where `beside` (nearest character first) goes on."""
    if not beside or not (edge.isalnum() or edge == "_"):
        return True
    if beside[0].isalnum() or beside[0] == "_":
        return numeric and not before and not beside[0].isdigit()
    return not (numeric and beside[0] == "." and beside[1:].isdigit())


def folded(text: str) -> str:
    """White space folded to single spaces, for looking up quotes."""
    return " ".join(text.split())


def bits(value: str) -> float:
    """A rough size of the space a value was drawn from, in bits: log2 of its alphabet times its length."""
    digits = sum(c.isdigit() for c in value)
    if digits == len(value.replace(".", "").replace(",", "").replace("-", "")):
        return 3.32 * digits
    if re.fullmatch(r"[0-9a-f]+", value):
        return 4.0 * len(value)
    return 3.32 * digits + 2.5 * sum(c.isalpha() for c in value)  # letters of words carry less than random ones


def words(text: str) -> Iterable[str]:
    """Lower-case words of letters, digits and underscores, for overlap."""
    return re.findall(r"[a-z0-9_]+", text.lower())
