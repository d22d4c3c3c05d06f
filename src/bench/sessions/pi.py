"""pi sessions: `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`, a header line, then one entry a line.

Version 1 is a list; from version 2 on entries form a tree, and the session is the branch that ends at the last entry. A
compaction leaves its summary and the entries from the first kept one on, which version 1 names by its place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.sessions.blocks import content_text, milliseconds, seconds
from bench.sessions.canonical import parsed_arguments
from bench.sessions.document import Document, clean, number
from bench.types import Message, RecordedCompaction, Session, Source, ToolCall, Usage

Entry = Mapping[str, Any]


class Reader:
    """Versions 1 to 3 of the session file."""

    name = "pi"
    version = "1"
    description = "pi session, JSON lines: header of type session, then entries of type message"

    def missing(self, document: Document) -> str:
        entries = [record for record in document.records if isinstance(record, dict)]
        header = any(entry.get("type") == "session" and "schema" not in entry for entry in entries[:3])
        said = (entry["message"].get("role") for entry in entries if _holds_message(entry))
        if header and any(role in ("user", "assistant", "toolResult") for role in said):
            return ""
        return "no header line of type session followed by entries of type message with a role"

    def read(self, document: Document) -> list[Session]:
        problems = list(document.problems)
        header = next((r for r in document.records if isinstance(r, dict) and r.get("type") == "session"), {})
        messages: list[Message] = []
        compactions: list[RecordedCompaction] = []
        starts: dict[int, int] = {}  # place of an entry in the file -> number of messages before it
        model = clean(header.get("modelId"), problems)
        for place, entry in _branch(document, problems):
            starts[place] = len(messages)
            if entry.get("type") == "compaction":
                compactions.append(_compaction(entry, document, starts, messages, len(compactions) + 1, problems))
            elif message := _message(entry, problems):
                messages.append(replace(message, id=f"m{len(messages)}"))
                model = model or clean(entry.get("message", {}).get("model"), problems)
        cwd = clean(header.get("cwd"), problems)
        source = Source(self.name, str(document.path), document.sha256)
        name = clean(header.get("id"), problems) or document.name
        return [Session(name, tuple(messages), source, cwd, cwd, model, tuple(compactions), tuple(problems))]


def _holds_message(entry: Entry) -> bool:
    return entry.get("type") == "message" and isinstance(entry.get("message"), dict)


def _branch(document: Document, problems: list[str]) -> list[tuple[int, Entry]]:
    """(place in the file, entry) of the branch that ends at the last entry; all entries when they name no parents."""
    entries = [(place, entry) for place, entry in enumerate(document.records) if isinstance(entry, dict)]
    entries = [(place, entry) for place, entry in entries if entry.get("type") != "session"]
    if not any(isinstance(entry.get("parentId"), str) for _, entry in entries):
        return entries
    by_id = {str(entry.get("id")): (place, entry) for place, entry in entries}
    branch: list[tuple[int, Entry]] = []
    at: tuple[int, Entry] | None = entries[-1]
    while at and (not branch or at[0] < branch[-1][0]):  # a parent stands before its child; anything else would go round
        branch.append(at)
        at = by_id.get(str(at[1].get("parentId")))
    aside = sum(_holds_message(entry) for _, entry in entries) - sum(_holds_message(entry) for _, entry in branch)
    if aside:
        problems.append(f"{aside} messages stand on branches that the session did not end on; they are left out")
    return branch[::-1]


def _compaction(
    entry: Entry, document: Document, starts: Mapping[int, int], messages: Sequence[Message], n: int, problems: list[str]
) -> RecordedCompaction:
    """`left` is None when the first kept entry is not on the branch."""
    summary, first = clean(entry.get("summary"), problems), entry.get("firstKeptEntryIndex")
    if "firstKeptEntryId" in entry:
        wanted = entry["firstKeptEntryId"]
        first = next((p for p in starts if document.records[p].get("id") == wanted), None) if wanted is not None else None
    kept = starts.get(first) if isinstance(first, int) else None
    if kept is None:
        problems.append(f"the first entry that compaction {n} kept is not in the session")
    said = Message("user", summary, id=f"summary-{n}", at=seconds(entry.get("timestamp")))
    tokens = entry.get("tokensBefore")
    return RecordedCompaction(
        before=len(messages),
        tokens_before=None if tokens is None else number(tokens, problems),
        summary=summary,
        left=None if kept is None else (said, *messages[kept:]),
    )


def _message(entry: Entry, problems: list[str]) -> Message | None:
    """The message that the model is shown of an entry; None for settings, labels and what was kept from the model."""
    at = seconds(entry.get("timestamp"))
    if entry.get("type") == "custom_message":
        return _user(entry.get("content"), at, problems)
    if entry.get("type") == "branch_summary":
        return _user(entry.get("summary"), at, problems)
    if not _holds_message(entry):
        return None
    said = entry["message"]
    at = milliseconds(said.get("timestamp")) or at
    role = said.get("role")
    if role == "assistant":
        return _answer(said, at, problems)
    if role == "toolResult":
        text, images = content_text(said.get("content"), problems)
        call = clean(said.get("toolCallId"), problems)
        return Message("tool", text, call_id=call, is_error=bool(said.get("isError")), images=images, at=at)
    if role == "bashExecution":
        return None if said.get("excludeFromContext") else _user(_command(said, problems), at, problems)
    if role not in ("user", "custom", "hookMessage"):
        problems.append(f"role {role!r} is unknown; its text is kept as a user message")
    return _user(said.get("content"), at, problems)


def _user(content: Any, at: float | None, problems: list[str]) -> Message | None:
    text, images = content_text(content, problems)
    return Message("user", text, images=images, at=at) if text.strip() or images else None


def _command(said: Entry, problems: list[str]) -> str:
    """A command that the user ran, with what came out of it."""
    code = said.get("exitCode")
    lines = [f"$ {clean(said.get('command'), problems)}", clean(said.get("output"), problems)]
    if said.get("cancelled"):
        lines.append("(cancelled)")
    elif code:
        lines.append(f"(exit code {clean(code, problems)})")
    return "\n".join(filter(None, lines))


def _answer(said: Entry, at: float | None, problems: list[str]) -> Message | None:
    blocks = said.get("content") if isinstance(said.get("content"), list) else [said.get("content")]
    texts, thinking, calls = [], [], []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "toolCall":
            arguments = parsed_arguments(block.get("arguments"), problems)
            calls.append(ToolCall(clean(block.get("id"), problems), clean(block.get("name"), problems), arguments))
        elif kind == "thinking":
            thinking.append(clean(block.get("thinking"), problems))
        elif block:
            texts.append(block)
    text, _ = content_text(texts, problems)
    if not (text.strip() or any(thinking) or calls):
        return None
    usage = said.get("usage")
    names = ("input", "output", "cacheRead", "cacheWrite")
    counted = Usage(*(number(usage.get(name), problems) for name in names)) if isinstance(usage, dict) else None
    return Message("assistant", text, tuple(calls), thinking="\n".join(filter(None, thinking)), at=at, usage=counted)
