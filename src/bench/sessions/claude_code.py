"""Claude Code transcripts: `~/.claude/projects/<folder>/<sessionId>.jsonl`, one entry a line.

Every block of one model answer is its own line; the lines share `message.id` and are merged here, their last usage
counting once. The top-level `toolUseResult` repeats a result in another form and is not read. What the product's own
compaction wrote (boundary and summary) goes to `Session.compactions`, not into the messages: the session is what
happened, uncompacted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bench.sessions.blocks import assistant_parts, user_messages
from bench.sessions.document import Document, clean, number
from bench.types import Message, RecordedCompaction, Session, Source, Usage


class Reader:
    """Version 2.1 files and those of 1.0 with their side chains inline."""

    name = "claude_code"
    version = "1"
    description = "Claude Code transcript, JSON lines with type, message and uuid"

    def missing(self, document: Document) -> str:
        for record in document.records:  # hundreds of progress lines may stand before the first message
            if (
                isinstance(record, dict)
                and record.get("type") in ("user", "assistant")
                and isinstance(record.get("message"), dict)
                and ("sessionId" in record or "uuid" in record)
            ):
                return ""
        return "no line with type user or assistant, a message object and a uuid or sessionId"

    def read(self, document: Document) -> list[Session]:
        chains: dict[str, _Chain] = {}
        seen: set[str] = set()
        for record in document.records:
            if not isinstance(record, dict):
                document.problems.append(f"a line holds {type(record).__name__}, not an entry")
                continue
            uuid = str(record.get("uuid") or "")
            if uuid in seen:  # a second /compact appends the old history once more
                continue
            if uuid:
                seen.add(uuid)
            name = (clean(record.get("agentId"), document.problems) or "sidechain") if record.get("isSidechain") else ""
            chains.setdefault(name, _Chain()).add(record)
        sessions = []
        for name, chain in chains.items():
            if not chain.messages:
                continue
            base = chain.session_id or document.name
            sessions.append(
                Session(
                    id=f"{base}/{name}" if name else base,
                    messages=tuple(replace(m, id=f"m{n}") for n, m in enumerate(chain.messages)),
                    source=Source(self.name, str(document.path), document.sha256),
                    project=chain.cwd,
                    cwd=chain.cwd,
                    model=chain.model,
                    compactions=tuple(chain.compactions),
                    problems=tuple(document.problems + chain.problems),
                )
            )
        return sessions


class _Chain:
    """Builds one session, or one side chain of it, from its entries in file order."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.compactions: list[RecordedCompaction] = []
        self.problems: list[str] = []
        self.session_id = self.cwd = self.model = ""
        self._by_answer: dict[str, int] = {}

    def add(self, entry: Mapping[str, Any]) -> None:
        self.session_id = self.session_id or clean(entry.get("sessionId"), self.problems)
        self.cwd = self.cwd or clean(entry.get("cwd"), self.problems)
        kind, message = entry.get("type"), entry.get("message")
        if kind == "system" and entry.get("subtype") == "compact_boundary":
            metadata = entry.get("compactMetadata")
            self._boundary(metadata if isinstance(metadata, dict) else {})
        elif kind in ("user", "assistant"):
            if not isinstance(message, dict):
                self.problems.append(f"entry {entry.get('uuid')!r} of type {kind} holds no message")
            elif kind == "user":
                self._user(entry, message)
            else:
                self._assistant(entry, message)

    def _boundary(self, metadata: Mapping[str, Any]) -> None:
        def tokens(recorded: Any) -> int | None:
            return None if recorded is None else number(recorded, self.problems)

        self.compactions.append(
            RecordedCompaction(
                before=len(self.messages),
                trigger=clean(metadata.get("trigger"), self.problems),
                tokens_before=tokens(metadata.get("preTokens")),
                tokens_after=tokens(metadata.get("postTokens")),
            )
        )

    def _user(self, entry: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        made = user_messages(message.get("content"), self.problems, at=_seconds(entry.get("timestamp")))
        if entry.get("isCompactSummary"):
            summary = "\n".join(part.text for part in made)
            if self.compactions and self.compactions[-1].before == len(self.messages) and not self.compactions[-1].summary:
                self.compactions[-1] = replace(self.compactions[-1], summary=summary)
            else:
                self.compactions.append(RecordedCompaction(before=len(self.messages), summary=summary))
                self.problems.append("a compaction summary without its boundary")
            return
        self.messages += made

    def _assistant(self, entry: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        if entry.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            text = clean(str(assistant_parts(message.get("content"), [])[0])[:80], self.problems)
            self.problems.append(f"a line the product wrote itself, not the model, is left out: {text!r}")
            return
        text, thinking, calls = assistant_parts(message.get("content"), self.problems)
        self.model = self.model or clean(message.get("model"), self.problems)
        usage = _usage(message.get("usage"), self.problems)
        key = str(message.get("id") or entry.get("requestId") or "")
        if key in self._by_answer:
            at = self._by_answer[key]
            old = self.messages[at]
            known = {call.id for call in old.calls}
            self.messages[at] = replace(
                old,
                text="\n".join(filter(None, (old.text, text))),
                thinking="\n".join(filter(None, (old.thinking, thinking))),
                calls=old.calls + tuple(call for call in calls if call.id not in known),
                usage=usage or old.usage,
            )
        elif text or thinking or calls:
            if key:
                self._by_answer[key] = len(self.messages)
            at = _seconds(entry.get("timestamp"))
            self.messages.append(Message("assistant", text, calls, thinking=thinking, at=at, usage=usage))


def _usage(usage: Any, problems: list[str]) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Usage(*(number(usage.get(name), problems) for name in names))


def _seconds(timestamp: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(str(timestamp))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
