"""What probe makers look at: a session and a cut of it, with the texts and positions that they all need, made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from bench.atoms import Haystack
from bench.content import joined, message_text
from bench.probes.files import FileEvent, file_events
from bench.tokens import TokenCounter
from bench.types import Cut, Message, Probe, Session, ToolCall


class SessionView:
    """One session, with what is the same for all its cuts."""

    def __init__(self, session: Session, counter: TokenCounter) -> None:
        self.session = session
        self.starts = [0, *accumulate(counter.message(message) for message in session.messages)]
        self.calls: dict[str, ToolCall] = {call.id: call for m in session.messages for call in m.calls}
        self._made: dict[str, object] = {}

    @cached_property
    def text(self) -> Haystack:
        return Haystack(joined(self.session.messages))

    @cached_property
    def files(self) -> list[FileEvent]:
        return file_events(self.session)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """`make()`, remembered under `name` for the other cuts of this session."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


class CutView:
    """One cut: its texts (with thinking where a leak could hide in it) and the depth of its messages."""

    def __init__(self, of: SessionView, cut: Cut) -> None:
        self.of = of
        self.cut = cut

    @cached_property
    def span(self) -> Haystack:
        return Haystack(joined(self.cut.span))

    @cached_property
    def kept(self) -> Haystack:
        """Head and tail, thinking included: what stands here is no loss and gives answers away."""
        kept = (*self.cut.head, *self.cut.tail)
        return Haystack("\n".join([joined(kept), *(m.thinking for m in kept if m.thinking)]))

    def in_span(self, index: int) -> bool:
        return self.cut.head_end <= index < self.cut.tail_start

    def depth(self, index: int) -> float:
        """Tokens between a message and the end of the span, as a share of the span: near 0 is newest, near 1 oldest."""
        first, last = self.of.starts[self.cut.head_end], self.of.starts[self.cut.tail_start]
        return (last - self.of.starts[index + 1]) / max(1, last - first)

    def id(self, index: int) -> str:
        return self.of.session.messages[index].id

    @cached_property
    def marker(self) -> str:
        """The first words of the oldest message kept after the span, to point at it in a question."""
        oldest = self.cut.tail[0]
        text = " ".join((oldest.text or message_text(oldest)).split()[:8])
        return text.replace("“", '"').replace("”", '"')


@dataclass(frozen=True)
class Candidate:
    """A probe that may be kept. `live_values` and `matches` are what P3 and P7 look at; `line` is what P8 looks at.

    `secrets` are the (value, type) pairs that must stand in the span only (P1, P2, P4).
    """

    probe: Probe
    secrets: tuple[tuple[str, str], ...]
    live_values: int = 1
    matches: tuple[str, ...] = ()
    line: str = ""


def is_user_request(message: Message) -> bool:
    """A message typed by the user, not text that a harness put in a user message (reminders, command output)."""
    return (
        message.role == "user"
        and bool(message.text.strip())
        and message.text.lstrip()[0] not in "<["
        and not message.text.startswith("Caveat:")
    )
