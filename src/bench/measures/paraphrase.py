"""Does a text still state a rule, in whatever words? Windowed stem coverage, for constraints and reasons.

Against 50 blind human labels (COMPINT, arXiv:2608.11242) it agrees with kappa .96; `bench.experiment.external_checks`
repeats that. Window and share were chosen on the same labels. A rate near 10 % still wants `bench.stats.corrected`.
(Measurement specification, F9 and section 2.2.)
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from bench.atoms import words

VERSION = "1"
WINDOW = 60  # words in which a rule must stand together
SHARE = 0.4  # of the rule's content stems
_ENDINGS = ("ing", "ed", "es", "s", "ly", "e")
_SHORTEST = 3  # letters that a stem keeps


def states(rule: str, text: str) -> bool:
    """Whether some window of `text` holds enough of what `rule` is about. Negation is not looked at."""
    return coverage(rule, text) >= SHARE


def coverage(rule: str, text: str) -> float:
    """The largest share, 0 to 1, of the content stems of `rule` inside any 60 words of `text` in a row."""
    wanted = {stem(word) for word in words(rule) if word not in _stop_words()}
    if not wanted:
        return 0.0
    stems = [stem(word) for word in words(text)]
    inside: Counter[str] = Counter()
    best = 0
    for place, entering in enumerate(stems):
        if entering in wanted:
            inside[entering] += 1
        if place >= WINDOW and (leaving := stems[place - WINDOW]) in wanted:
            inside[leaving] -= 1
        best = max(best, sum(count > 0 for count in inside.values()))
    return best / len(wanted)


def stem(word: str) -> str:
    """The word without the first of a few English endings that it has: enough to join "asking" and "asked"."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


@cache
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)
