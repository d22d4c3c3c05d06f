"""Cline SDK sessions: `<id>.messages.json` with its compactions beside it in `*.compaction.json`.

The session file keeps every message; a sidecar holds the context that a compaction left. A sidecar in the same folder
belongs to the session that it names, or else shares messages with. Of alternative compactions each is recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.sessions.blocks import assistant_parts, content_text, milliseconds, user_messages
from bench.sessions.document import Document, clean, number, open_document
from bench.types import BenchError, Message, RecordedCompaction, Session, Source, Usage

_SIDECAR = ".compaction.json"


class Reader:
    """Files of the SDK (2026); the older `api_conversation_history.json` is an Anthropic history without its system text."""

    name = "cline"
    version = "1"
    description = "Cline SDK session: object with messages and system_prompt, compactions beside it"

    def missing(self, document: Document) -> str:
        """A sidecar is a BenchError: other readers would take it for a session of its own."""
        record = document.records[0]
        if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
            return "no object with a list of messages"
        if document.path.name.endswith(_SIDECAR) and ("system_prompt" in record or "source_message_count" in record):
            raise BenchError(f"{document.path} is what a compaction left; it is read together with its session")
        if "system_prompt" in record and ("sessionId" in record or "agent" in record):
            return ""
        return "no sessionId and system_prompt beside messages"

    def read(self, document: Document) -> list[Session]:
        record, problems = document.records[0], list(document.problems)
        system = clean(record.get("system_prompt"), problems)
        messages = [Message("system", system, id="m0")] if system.strip() else []
        places: dict[str, int] = {}  # id of a recorded message -> number of messages after it
        ends: list[int] = []  # the same by its place
        named: dict[str, tuple[str, ...]] = {}  # id of a recorded message -> ids of the messages that it became
        for recorded in record["messages"]:
            made = _messages(recorded, problems)
            made = [replace(m, id=f"m{n}") for n, m in enumerate(made, len(messages))]
            messages += made
            ends.append(len(messages))
            if isinstance(recorded, dict) and recorded.get("id"):
                places[str(recorded["id"])] = len(messages)
                named[str(recorded["id"])] = tuple(message.id for message in made)
        digest = hashlib.sha256(bytes.fromhex(document.sha256))
        compactions = []
        for sidecar in _sidecars(document.path, record, places, problems):
            digest.update(bytes.fromhex(sidecar.sha256))
            left = sidecar.records[0]
            count = left.get("source_message_count")
            if isinstance(count, int) and 0 < count <= len(ends):
                before = ends[count - 1]
            else:
                before = max((places.get(str(m.get("id")), 0) for m in left["messages"] if isinstance(m, dict)), default=0)
            compactions.append(_compaction(left, before, messages, named, len(compactions) + 1, problems))
        models = (m.get("modelInfo") for m in record["messages"] if isinstance(m, dict))
        return [
            Session(
                id=clean(record.get("sessionId"), problems) or document.name,
                messages=tuple(messages),
                source=Source(self.name, str(document.path), digest.hexdigest() if compactions else document.sha256),
                model=next((clean(model.get("id"), problems) for model in models if isinstance(model, dict)), ""),
                compactions=tuple(sorted(compactions, key=lambda compaction: compaction.before)),
                problems=tuple(problems),
            )
        ]


def _sidecars(path: Path, record: Mapping[str, Any], ids: Mapping[str, Any], problems: list[str]) -> list[Document]:
    found = []
    for file in sorted(path.parent.glob(f"*{_SIDECAR}")):
        try:
            document = open_document(file)
        except BenchError as error:
            problems.append(clean(str(error), []))
            continue
        left = document.records[0]
        if not isinstance(left, dict) or not isinstance(left.get("messages"), list):
            continue
        name = left.get("conversation_id") or left.get("sessionId")
        shared = any(isinstance(m, dict) and str(m.get("id")) in ids for m in left["messages"])
        if shared or (name and name == record.get("sessionId")):
            found.append(document)
    return found


def _compaction(
    recorded: Mapping[str, Any],
    before: int,
    messages: Sequence[Message],
    named: Mapping[str, Sequence[str]],
    n: int,
    problems: list[str],
) -> RecordedCompaction:
    """Kept messages have the ids they have in the session, changed or not; what the compaction wrote has one of its own."""
    known = {message.id: message for message in messages[:before]}
    system = clean(recorded.get("system_prompt"), problems)
    head = messages[:1] if messages and messages[0].role == "system" else ()
    left = [replace(message, text=system or message.text) for message in head]
    summary, tokens, made_new = "", None, 0
    for item in recorded["messages"]:
        made = _messages(item, problems)
        ids = list(named.get(str(item.get("id")), ())) if isinstance(item, dict) else []
        if len(ids) != len(made) or not all(id in known for id in ids):
            ids = [f"summary-{n}" + (f"-{made_new + k}" if made_new + k else "") for k in range(len(made))]
            made_new += len(made)
        same = (
            replace(m, id=id, at=known[id].at, usage=known[id].usage) if id in known else replace(m, id=id)
            for m, id in zip(made, ids)
        )
        left += same
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if isinstance(metadata, dict) and metadata.get("kind") in ("compaction", "compaction_summary"):
            summary = clean(metadata.get("summary"), problems) or "\n".join(message.text for message in made)
            tokens = metadata.get("tokensBefore")
    before_tokens = None if tokens is None else number(tokens, problems)
    return RecordedCompaction(before, tokens_before=before_tokens, summary=summary, left=tuple(left))


def _messages(recorded: Any, problems: list[str]) -> list[Message]:
    if not isinstance(recorded, dict) or recorded.get("role") not in ("user", "assistant"):
        problems.append(f"an item of messages is no user or assistant message: {str(recorded)[:80]!r}")
        return []
    at = milliseconds(recorded.get("ts"))
    if recorded["role"] == "user":
        return user_messages(_with_files(recorded.get("content"), problems), problems, at=at)
    text, thinking, calls = assistant_parts(recorded.get("content"), problems)
    if not (text or thinking or calls):
        return []
    return [Message("assistant", text, calls, thinking=thinking, at=at, usage=_usage(recorded.get("metrics"), problems))]


def _with_files(content: Any, problems: list[str]) -> Any:
    """A file that was attached to a message is text of it: its path, then what stood in it."""
    if not isinstance(content, list):
        return content

    def part(block: Any) -> Any:
        if not isinstance(block, dict) or block.get("type") != "file":
            return block
        text, _ = content_text(block.get("content"), problems)
        return {"type": "text", "text": f"{clean(block.get('path'), problems)}\n{text}"}

    return [part(block) for block in content]


def _usage(metrics: Any, problems: list[str]) -> Usage | None:
    """`inputTokens` counts cached ones too."""
    if not isinstance(metrics, dict):
        return None
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    whole, output, read, written = (number(metrics.get(name), problems) for name in names)
    return Usage(max(0, whole - read - written), output, cache_read=read, cache_write=written)
