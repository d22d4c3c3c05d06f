"""What OpenHands shows its model while events come in: messages of events, and the view that condensations leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from bench.sessions.document import clean
from bench.types import Message, RecordedCompaction


class View:
    """Builds the messages of a session from its events, and beside them the list of events in view.

    Events of one answer become one message. Offsets of summaries count events, as in the product.
    """

    def __init__(self, problems: list[str]) -> None:
        self.messages: list[Message] = []
        self._problems = problems
        self._compactions: list[tuple[RecordedCompaction, list[str]]] = []
        self._in_view: list[str] = []
        self._known: set[str] = set()
        self._of_event: dict[str, str] = {}  # event -> id of its message
        self._of_answer: dict[str, int] = {}  # answer -> place of its message
        self._events_of: dict[str, set[str]] = {}  # id of a message -> its events
        self._summaries: dict[str, Message] = {}

    def add(self, event: str, message: Message | None, *, answer: str = "") -> None:
        """An event that counts in the view, with what the model sees of it (None for nothing)."""
        if event in self._known:  # written twice
            return
        self._known.add(event)
        self._in_view.append(event)
        if message is None:
            return
        place = self._of_answer.get(answer) if answer else None
        if place is not None and message.role == "assistant":
            old = self.messages[place]
            text = old.text if message.text in old.text else "\n".join(filter(None, (old.text, message.text)))
            self.messages[place] = replace(
                old, text=text, thinking=old.thinking or message.thinking, calls=old.calls + message.calls
            )
        else:
            if not (message.text.strip() or message.calls or message.images or message.role == "tool"):
                return
            place = len(self.messages)
            self.messages.append(replace(message, id=f"m{place}"))
            if answer:
                self._of_answer[answer] = place
        name = self.messages[place].id
        self._of_event[event] = name
        self._events_of.setdefault(name, set()).add(event)

    def condense(self, event: str, forgotten: Iterable[str], summary: Any, offset: Any, *, trigger: str = "auto") -> None:
        """A condensation. Without an offset its summary stands at the end.

        The first versions gave summaries ids that stand nowhere else: an unknown id among the forgotten is one of them.
        """
        gone = set(forgotten)
        unknown = gone - self._known
        if unknown:
            gone |= self._summaries.keys()
        self._in_view = [item for item in self._in_view if item not in gone]
        text = clean(summary, self._problems)
        if text.strip():
            name = f"{event}-summary"
            at = offset if isinstance(offset, int) and 0 <= offset <= len(self._in_view) else len(self._in_view)
            self._in_view.insert(at, name)
            self._known.add(name)
            self._summaries[name] = Message("user", text, id=f"summary-{len(self._compactions) + 1}")
        self._drop_torn()
        compaction = RecordedCompaction(len(self.messages), trigger, summary=text)
        self._compactions.append((compaction, list(self._in_view)))

    def compactions(self) -> tuple[RecordedCompaction, ...]:
        return tuple(
            replace(compaction, left=tuple(self._shown(events, compaction.before))) for compaction, events in self._compactions
        )

    def _shown(self, events: Iterable[str], before: int) -> Iterable[Message]:
        by_name = {message.id: message for message in self.messages[:before]}
        seen: set[str] = set()
        for event in events:
            message = self._summaries.get(event) or by_name.get(self._of_event.get(event, ""))
            if message and message.id not in seen:
                seen.add(message.id)
                yield message

    def _drop_torn(self) -> None:
        """Leave out answers that lost an event or a result of theirs, and results without their call."""
        events = set(self._in_view)
        by_name = {message.id: message for message in self.messages}
        shown = [by_name[name] for event in self._in_view if (name := self._of_event.get(event))]
        answered = {message.call_id for message in shown if message.role == "tool"}
        had_result = {message.call_id for message in self.messages if message.role == "tool"}
        torn = {
            message.id
            for message in shown
            if not self._events_of[message.id] <= events
            or any(call.id in had_result and call.id not in answered for call in message.calls)
        }
        calls = {call.id for message in shown if message.id not in torn for call in message.calls}
        torn |= {message.id for message in shown if message.role == "tool" and message.call_id not in calls}
        self._in_view = [event for event in self._in_view if self._of_event.get(event) not in torn]
