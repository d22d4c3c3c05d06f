"""Survival: is the evidence of a probe still in what a strategy left of the span?"""

from __future__ import annotations

from collections.abc import Sequence

from bench.atoms import Haystack, words
from bench.content import joined
from bench.types import Cut, Message, Probe

SET_SHARE = 2 / 3  # of a set's members that must survive: with no false ones, F1 is then .8, a right answer


def remainder(messages: Sequence[Message], cut: Cut) -> tuple[Message, ...]:
    """What is left of the span: the returned context without the messages of head and tail, by id."""
    pinned = {message.id for message in (*cut.head, *cut.tail)}
    return tuple(message for message in messages if message.id not in pinned)


class Remains:
    """The text of what is left of a span, to look atoms up in."""

    def __init__(self, messages: Sequence[Message]) -> None:
        text = joined(messages)
        self._text = Haystack(text)
        self._lower_words = frozenset(words(text))

    def share(self, probe: Probe) -> float | None:
        """Share of the probe's atoms that survive, 0 to 1; None where survival is not defined (a foil)."""
        if not probe.atoms:
            return None
        if probe.answer_type == "word_and_file":
            return sum(self.holds(atom[5:], atom[:4]) for atom in probe.atoms) / len(probe.atoms)
        return sum(self.holds(atom, probe.answer_type) for atom in probe.atoms) / len(probe.atoms)

    def survives(self, probe: Probe) -> bool | None:
        """Whether enough is left to answer: every atom, or for a set the share that a right answer needs.

        A probe that asks for any one word and one file survives when one of each is left.
        """
        if probe.answer_type == "word_and_file":
            return all(
                any(self.holds(atom[5:], kind[:-1]) for atom in probe.atoms if atom.startswith(kind))
                for kind in ("word:", "file:")
            )
        share = self.share(probe)
        if share is None:
            return None
        return share >= (SET_SHARE if probe.answer_type == "paths" else 1.0)

    def holds(self, atom: str, type: str) -> bool:
        if type == "word":
            return atom in self._lower_words
        return self._text.occurs(atom, "path" if type in ("paths", "file", "yes_no", "state") else type)
