"""Which candidates are sound: the predicates P1, P2, P3, P4, P6, P7 and P8 of the measurement specification, section 1.1.

P9 (frozen before any strategy runs, hashed) is the bank's. A category can be exempt from a predicate that has no
meaning for it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence

from bench.atoms import Haystack, bits, words
from bench.probes.view import Candidate, CutView

PREDICATES = ("P1", "P2", "P3", "P4", "P6", "P7", "P8")
MIN_BITS = 20.0  # P4: a value from a smaller space, but not smaller than ...
LEAST_BITS = 13.0  # ... this (four digits), must stand among ...
MIN_ALTERNATIVES = 8  # ... this many others of its type in the session
MAX_FREQUENCY = 0.02  # P4: share of other projects' sessions that may hold the value

_BOILERPLATE = re.compile(
    r"\b(passed|failed) in \d|^diff --git|^index [0-9a-f]|[-=_*#~.]{6,}|\b\d{1,3}%|\[[#=>. ]{4,}\]|\b(integrity|resolved|sha512-|lockfileVersion)\b|^\s*(Downloading|Collecting|Requirement already)\b"
)


class Background:
    """The texts of sessions of other projects: what stands there too could have been guessed."""

    def __init__(self, texts: dict[str, tuple[str, Haystack]]) -> None:
        """`texts`: session id -> (its cluster, its whole text)."""
        self._texts = texts
        self._holders: dict[tuple[str, str], frozenset[str]] = {}
        self._words: dict[str, frozenset[str]] = {}

    def frequency(self, value: str, type: str, cluster: str, without: Collection[str] = ()) -> float:
        """Share of the sessions of other clusters than `cluster`, `without` left out, whose text holds the value."""
        key = (value, type)
        if key not in self._holders:
            self._holders[key] = frozenset(name for name, (_, text) in self._texts.items() if text.occurs(value, type))
        others = [name for name, (other, _) in self._texts.items() if other != cluster and name not in without]
        return len(self._holders[key].intersection(others)) / len(others) if others else 0.0

    def words(self, cluster: str) -> frozenset[str]:
        """Every word of the sessions of other clusters."""
        found_words: set[str] = set()
        for name, (other, text) in self._texts.items():
            if other != cluster:
                if name not in self._words:
                    self._words[name] = frozenset(words(text.text))
                found_words |= self._words[name]
        return frozenset(found_words)


def first_failure(candidate: Candidate, view: CutView, exempt: Collection[str], alternatives: Counter[str]) -> str | None:
    """The first predicate but P4 that a candidate fails, in the order of `PREDICATES`; None when it is sound.

    `alternatives` counts the distinct values of each type in the session. P4's search in other projects is the bank's,
    done last, since it costs most; its test of size is here.
    """
    probe = candidate.probe
    # A question that has to name the thing itself (was this file deleted?) is exempt from P6 and from P2's look at it.
    texts = (view.kept,) if "P6" in exempt else (view.kept, Haystack(probe.question))
    tests = {
        "P1": lambda: all(view.span.occurs(value, type) for value, type in candidate.secrets),
        "P2": lambda: not any(text.gives_away(value, type) for value, type in candidate.secrets for text in texts),
        "P3": lambda: candidate.live_values == 1,
        "P4": lambda: all(unguessable(value, alternatives[type]) for value, type in candidate.secrets),
        "P6": lambda: not leaks(candidate.secrets, probe.question),
        "P7": lambda: bool(probe.evidence) and set(candidate.matches) == set(probe.evidence),
        "P8": lambda: not _BOILERPLATE.search(candidate.line),
    }
    return next((name for name in PREDICATES if name not in exempt and not tests[name]()), None)


def unguessable(value: str, alternatives: int) -> bool:
    """P4's test of size, and of names that anybody knows (modules of the standard library)."""
    size = bits(value)
    known = "/" not in value and value.split(".")[0] in sys.stdlib_module_names
    return not known and (size >= MIN_BITS or (size >= LEAST_BITS and alternatives >= MIN_ALTERNATIVES))


def leaks(secrets: Sequence[tuple[str, str]], question: str) -> bool:
    """P6: whether any token of a gold value (3 characters or more) stands in the question."""
    asked = set(words(question))
    return any(len(token) >= 3 and token in asked for value, _ in secrets for token in words(value))
