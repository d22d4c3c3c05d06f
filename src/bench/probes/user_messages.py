"""E7, user messages: quote the user's n-th message."""

from __future__ import annotations

from collections.abc import Iterator

from bench.atoms import folded
from bench.probes.view import Candidate, CutView, is_user_request
from bench.types import Probe

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
MIN_WORDS, MAX_WORDS = 4, 80


class UserMessages:
    name = "user_messages"
    version = "1"
    form = "free"
    stratified = False
    per_cut = 3
    exempt = frozenset({"P4", "P6", "P8"})  # an ordinal shares no word with a message on purpose

    def propose(self, view: CutView) -> Iterator[Candidate]:
        messages = view.of.session.messages
        asked = [n for n, m in enumerate(messages) if view.cut.head_end <= n < view.cut.at and is_user_request(m)]
        for number, index in enumerate(asked):
            text = folded(messages[index].text)
            if not view.in_span(index) or not MIN_WORDS <= len(text.split()) <= MAX_WORDS or number >= len(_ORDINALS):
                continue
            if view.kept.occurs(text, "quote"):
                continue
            probe = Probe(
                id="", category=self.name,
                question=f"Quote the user's {_ORDINALS[number]} message of this session exactly (project instructions not counted).",
                answer_type="quote", gold=(text,), evidence=(view.id(index),), atoms=(text,), depth=view.depth(index),
            )  # fmt: skip
            same = tuple(view.id(other) for other in asked if folded(messages[other].text) == text)
            yield Candidate(probe, (), 1, same)
