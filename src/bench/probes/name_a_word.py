"""The check this project grew from (seed 003): after the compaction, name a word and a file of the compacted part.

The agent is not told which: any word and any file count that stand in the span only, and in no other project's
sessions, the word in no dictionary of common English either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from bench.atoms import extract, normal
from bench.atoms import words as words_of
from bench.probes.soundness import Background
from bench.probes.view import Candidate, CutView
from bench.types import Probe

_WORD = re.compile(r"(?<![\w/.-])[A-Za-z][A-Za-z_]{5,39}(?![\w/])")
MAX_FILES = 200


class NameAWord:
    name = "name_a_word"
    version = "1"
    form = "free"
    stratified = False
    per_cut = 1
    exempt = frozenset({"P3", "P6", "P7", "P8"})

    def propose(self, view: CutView) -> Iterator[Candidate]:
        kept = set(words_of(view.kept.text)) | set(words_of(view.marker))
        words = sorted(set(_words(view.span.text)) - kept - common_words())
        paths = {
            normal(a.text, "path", view.of.session.cwd)
            for line in view.span.text.split("\n")
            for a in extract(line[:400])
            if a.type == "path"
        }
        files = sorted(p for p in paths if re.search(r"\.\w{1,5}$", p) and not view.kept.gives_away(p, "path"))[:MAX_FILES]
        yield Candidate(
            Probe(
                id="",
                category=self.name,
                question=(
                    f"The oldest message that was kept after the compacted part begins with “{view.marker}”. Name one distinctive word "
                    "and one file from the part before it. Answer with the word, then the file."
                ),
                answer_type="word_and_file",
                gold=(*(f"word:{word}" for word in words), *(f"file:{file}" for file in files)),
            ),  # fmt: skip
            secrets=(),
        )

    def without_background(self, probe: Probe, background: Background, cluster: str) -> Probe | None:
        """The probe without words and files that other projects' sessions hold too; None when nothing is left to name."""
        common = background.words(cluster)
        gold = [g for g in probe.gold if g.startswith("word:") and g[5:] not in common]
        words = len(gold)
        gold += [g for g in probe.gold if g.startswith("file:") and not background.frequency(g[5:], "path", cluster)]
        if not words or words == len(gold):
            return None
        return Probe(
            **{name: getattr(probe, name) for name in probe.__dataclass_fields__} | {"gold": tuple(gold), "atoms": tuple(gold)}
        )


def _words(text: str) -> Iterator[str]:
    return (match[0].lower() for match in _WORD.finditer(text))


@cache
def common_words() -> frozenset[str]:
    """Common English words, from the dictionary that pyspellchecker carries."""
    from spellchecker import SpellChecker

    return frozenset(SpellChecker(language="en", distance=1).word_frequency.dictionary)
