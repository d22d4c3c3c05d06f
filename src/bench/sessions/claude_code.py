"""Claude Code transcripts: `~/.claude/projects/<folder>/<sessionId>.jsonl`, one entry a line.

Every block of one model answer is its own line; the lines share `message.id` and are merged here, their last usage
counting once. The top-level `toolUseResult` repeats a result in another form and is not read. What the product's own
compaction wrote (boundary and summary) goes to `Session.compactions`, not into the messages: the session is what
happened, uncompacted.

What a compaction left is its summary, the messages it says it preserved (2.1.2xx on) and the files it attached again
(recorded from then on, too); the system prompt and the root instruction file are never in a transcript. A
microcompaction says which results it cleared; the stub it put in their place is not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.sessions.blocks import assistant_parts, seconds, user_messages
from bench.sessions.document import Document, clean, number
from bench.types import Message, RecordedCompaction, Session, Source, Usage

CLEARED = "[result cleared]"  # stands for the stub of a microcompaction


class Reader:
    """Version 2.1 files and those of 1.0 with their side chains inline."""

    name = "claude_code"
    version = "2"
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
                    messages=tuple(chain.messages),
                    source=Source(self.name, str(document.path), document.sha256),
                    project=chain.cwd,
                    cwd=chain.cwd,
                    model=chain.model,
                    compactions=chain.recorded(),
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
        self._by_uuid: dict[str, range] = {}  # the messages that an entry became, or became part of
        self._preserved: list[str] = []  # by the compaction whose summary comes next

    def add(self, entry: Mapping[str, Any]) -> None:
        self.session_id = self.session_id or clean(entry.get("sessionId"), self.problems)
        self.cwd = self.cwd or clean(entry.get("cwd"), self.problems)
        kind, message, start = entry.get("type"), entry.get("message"), len(self.messages)
        became = range(start, start)
        if kind == "system" and entry.get("subtype") in ("compact_boundary", "microcompact_boundary"):
            metadata = entry.get("compactMetadata") or entry.get("microcompactMetadata")
            self._boundary(metadata if isinstance(metadata, dict) else {}, micro=entry["subtype"] == "microcompact_boundary")
        elif kind == "attachment":
            self._attachment(entry.get("attachment"))
        elif kind in ("user", "assistant"):
            if not isinstance(message, dict):
                self.problems.append(f"entry {entry.get('uuid')!r} of type {kind} holds no message")
            elif kind == "user":
                self._user(entry, message)
            else:
                became = self._assistant(entry, message)
        if uuid := str(entry.get("uuid") or ""):
            self._by_uuid[uuid] = became or range(start, len(self.messages))

    def recorded(self) -> tuple[RecordedCompaction, ...]:
        """The compactions; messages that they left are those of the session, whole, however late their last line came."""
        whole = {message.id: message for message in self.messages}
        return tuple(
            replace(c, left=tuple(m if m.text == CLEARED else whole.get(m.id, m) for m in c.left)) if c.left is not None else c
            for c in self.compactions
        )

    def _boundary(self, metadata: Mapping[str, Any], *, micro: bool) -> None:
        def tokens(name: str) -> int | None:
            return None if metadata.get(name) is None else number(metadata[name], self.problems)

        before, after = tokens("preTokens"), tokens("postTokens")
        compaction = RecordedCompaction(len(self.messages), clean(metadata.get("trigger"), self.problems), before, after)
        self._preserved = self._kept(metadata)
        if micro:
            cleared = metadata.get("compactedToolIds")
            cleared = set(map(str, cleared)) if isinstance(cleared, list) else set()
            saved = tokens("tokensSaved")
            after = before - saved if before is not None and saved is not None else after
            left = (replace(m, text=CLEARED) if m.call_id in cleared else m for m in self._context())
            compaction = replace(compaction, trigger="microcompact", tokens_after=after, left=tuple(left) if cleared else None)
        self.compactions.append(compaction)

    def _context(self) -> list[Message]:
        """What the product showed its model up to here: what the last compaction left, and what came since."""
        known = [compaction for compaction in self.compactions if compaction.left is not None]
        return [*(known[-1].left or ()), *self.messages[known[-1].before :]] if known else list(self.messages)

    def _kept(self, metadata: Mapping[str, Any]) -> list[str]:
        """The uuids of the entries that a compaction says it preserved."""
        preserved, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
        if isinstance(preserved, dict) and isinstance(preserved.get("uuids"), list):
            return [str(uuid) for uuid in preserved["uuids"]]
        if not isinstance(segment, dict):
            return []
        head, tail = str(segment.get("headUuid")), str(segment.get("tailUuid"))
        order = list(self._by_uuid)
        if head in self._by_uuid and tail in self._by_uuid:
            return order[order.index(head) : order.index(tail) + 1]
        return [head, tail]

    def _user(self, entry: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        made = user_messages(message.get("content"), self.problems, at=seconds(entry.get("timestamp")))
        if not entry.get("isCompactSummary"):
            self.messages += [replace(m, id=f"m{n}") for n, m in enumerate(made, len(self.messages))]
            return
        summary = "\n".join(part.text for part in made)
        last = self.compactions[-1] if self.compactions else None
        if last is None or last.before != len(self.messages) or last.left is not None:
            self.problems.append("a compaction summary without its boundary")
            self.compactions.append(RecordedCompaction(len(self.messages)))
        name = f"summary-{len(self.compactions)}"
        left = [Message("user", summary, id=name, at=seconds(entry.get("timestamp"))), *self._preserved_messages()]
        self.compactions[-1] = replace(self.compactions[-1], summary=summary, left=tuple(left))

    def _preserved_messages(self) -> list[Message]:
        missing = sum(uuid not in self._by_uuid for uuid in self._preserved)
        if missing:
            self.problems.append(f"compaction {len(self.compactions)} preserved {missing} entries that are not in the file")
        kept = {self.messages[index].id: index for uuid in self._preserved for index in self._by_uuid.get(uuid, ())}
        self._preserved = []
        shown = {message.id: message for message in self._context()}
        return [shown.get(name, self.messages[index]) for name, index in kept.items()]

    def _attachment(self, attachment: Any) -> None:
        """A file that the product attached again directly after the summary; other attachments are no messages."""
        last = self.compactions[-1] if self.compactions else None
        if last is None or last.left is None or last.before != len(self.messages) or not last.summary:
            return
        if not isinstance(attachment, dict):
            return
        content = attachment.get("content")
        file = content.get("file") if isinstance(content, dict) else None
        if attachment.get("type") != "file" or not isinstance(file, dict):
            return
        text = f"{clean(attachment.get('filename'), self.problems)}\n{clean(file.get('content'), self.problems)}"
        name = f"file-{len(self.compactions)}-{len(last.left)}"
        self.compactions[-1] = replace(last, left=(*last.left, Message("user", text, id=name)))

    def _assistant(self, entry: Mapping[str, Any], message: Mapping[str, Any]) -> range:
        """Adds an answer or a further part of it; returns the place of its message, empty when there is none."""
        if entry.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            text = clean(str(assistant_parts(message.get("content"), [])[0])[:80], self.problems)
            self.problems.append(f"a line the product wrote itself, not the model, is left out: {text!r}")
            return range(0)
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
            return range(at, at + 1)
        if text or thinking or calls:
            if key:
                self._by_answer[key] = len(self.messages)
            at, name = seconds(entry.get("timestamp")), f"m{len(self.messages)}"
            self.messages.append(Message("assistant", text, calls, thinking=thinking, id=name, at=at, usage=usage))
        return range(0)


def _usage(usage: Any, problems: list[str]) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Usage(*(number(usage.get(name), problems) for name in names))
