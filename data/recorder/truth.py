"""What a scenario's author says of his session, and what its tool calls did. Checked against the recording."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.types import Message, ToolCall

TEST_COMMAND = re.compile(r"\b(pytest|unittest|make (test|check)|run_tests|tests?\.sh)\b")


@dataclass
class Truth:
    """The first seven are declared by the scenario with verbatim strings; the rest is observed."""

    facts: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    decisions: list[dict[str, str]] = field(default_factory=list)
    updates: list[dict[str, str]] = field(default_factory=list)
    beliefs: list[dict[str, str]] = field(default_factory=list)
    used_later: list[str] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    modified: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    renamed: set[str] = field(default_factory=set)
    tests_failed: int = 0
    tests_passed: int = 0

    def fact(self, *values: str) -> None:
        """Exact facts: strings that stand in tool output or user text (a port, path, version, hash, error, id)."""
        self.facts += values

    def constraint(self, words: str) -> None:
        """A standing constraint, in the user's own words; they stand in exactly one message."""
        self.constraints.append(words)

    def decision(self, chosen: str, rejected: str, reason: str) -> None:
        """Three verbatim strings from assistant or user text."""
        self.decisions.append({"chosen": chosen, "rejected": rejected, "reason": reason})

    def update(self, key: str, old: str, new: str) -> None:
        """A value that changes: `old` stands before `new`."""
        self.updates.append({"key": key, "old": old, "new": new})

    def belief(self, wrong: str, corrected: str) -> None:
        """A wrong belief (verbatim, assistant, first 40 % of the messages) and where it is given up (verbatim, later)."""
        self.beliefs.append({"wrong": wrong, "corrected": corrected})

    def later(self, value: str) -> None:
        """Something learned in the first half of the messages and used by the agent in the last fifth."""
        self.used_later.append(value)

    def observe(self, call: ToolCall, failed: bool, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Note what one executed call did to the files of the workspace, and whether it ran tests."""
        arguments: Mapping[str, Any] = call.arguments if not isinstance(call.arguments, str) else {}
        gone = {path: digest for path, digest in before.items() if path not in after}
        new = {path: digest for path, digest in after.items() if path not in before}
        moved = {old for old, digest in gone.items() if digest in new.values()}
        self.renamed |= moved
        self.deleted |= set(gone) - moved
        if call.name in ("Write", "Bash"):
            self.created |= {path for path, digest in new.items() if digest not in gone.values()}
        self.modified |= {path for path in before.keys() & after.keys() if before[path] != after[path]}
        if call.name == "Read" and not failed:
            self.read.add(str(arguments["file_path"]))
        if call.name == "Bash" and TEST_COMMAND.search(str(arguments["command"])):
            self.tests_failed += failed
            self.tests_passed += not failed

    def problems(self, messages: Sequence[Message], tokens: int) -> list[str]:
        """Every promise of the data card that the recording does not keep, a sentence each."""
        wrong: list[str] = []
        spoken = [m for m in messages if m.role in ("assistant", "user")]
        users = [m.text for m in messages if m.role == "user"][1:]
        shown = [m.text for m in messages if m.role == "tool"] + users

        def need(condition: bool, sentence: str) -> None:
            if not condition:
                wrong.append(sentence)

        def first(text: str, role: str | None = None) -> int:
            found = (n for n, m in enumerate(messages) if text in m.text and role in (None, m.role))
            return next(found, -1)

        need(10_000 <= tokens <= 80_000, f"{tokens} tokens, wanted 10,000 to 80,000")
        need(len(set(self.facts)) >= 12, f"{len(set(self.facts))} facts, wanted 12")
        for value in self.facts:
            need(any(value in text for text in shown), f"fact not in tool output or user text: {value!r}")
        need(len(self.constraints) >= 3, f"{len(self.constraints)} constraints, wanted 3")
        for words in self.constraints:
            holders = sum(words in m.text for m in messages)
            need(
                holders == 1 and sum(words in text for text in users) == 1,
                f"constraint not in exactly one user message: {words!r}",
            )
        need(len({first(words) for words in self.constraints}) == len(self.constraints), "two constraints stand in one message")
        need(len(self.decisions) >= 2, f"{len(self.decisions)} decisions, wanted 2")
        for words in (value for item in self.decisions for value in item.values()):
            need(any(words in m.text for m in spoken), f"decision words not in what anybody said: {words!r}")
        need(len(self.updates) >= 2, f"{len(self.updates)} changed values, wanted 2")
        everything = [_whole(m) for m in messages]
        for item in self.updates:
            old, new = (next((n for n, t in enumerate(everything) if item[k] in t), -1) for k in ("old", "new"))
            need(0 <= old < new, f"changed value is not old before new: {item}")
        need(len(self.beliefs) >= 1, "no wrong belief")
        for item in self.beliefs:
            early, late = first(item["wrong"], "assistant"), first(item["corrected"], "assistant")
            need(0 <= early < 0.4 * len(messages), f"wrong belief not in an early assistant message: {item['wrong']!r}")
            need(late > early, f"belief not given up later: {item['corrected']!r}")
        need(len(self.used_later) >= 3, f"{len(self.used_later)} things used later, wanted 3")
        for value in self.used_later:
            early = next((n for n, t in enumerate(everything) if value in t), len(messages))
            last = next(
                (n for n in range(len(messages) - 1, -1, -1) if messages[n].role == "assistant" and value in everything[n]), -1
            )
            need(early < 0.5 * len(messages) and last >= 0.8 * len(messages), f"not learned early and used late: {value!r}")
        for name in ("created", "modified", "read", "deleted", "renamed"):
            need(bool(getattr(self, name)), f"no file {name}")
        need(self.tests_failed >= 1, "no failing test run")
        need(self.tests_passed >= 1, "no passing test run")
        need(sum(len(m.calls) > 1 for m in messages) >= 2, "fewer than 2 messages with parallel calls")
        todos = [str(c.arguments) for m in messages for c in m.calls if c.name == "TodoWrite"]
        need(len(set(todos)) >= 3, f"{len(set(todos))} states of the todo list, wanted 3")
        need(len(users) >= 7, f"{len(users)} user messages, wanted 7")
        need(messages[0].role == "system" and messages[1].role == "user", "does not start with system and instructions")
        return wrong


def _whole(message: Message) -> str:
    return "\n".join([message.text, *(str(call.arguments) for call in message.calls)])
