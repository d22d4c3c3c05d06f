"""OpenHands recordings: events of the SDK (V1), as lines or as a folder of files, and `output.jsonl` of V0.

The product keeps every event; a condensation only says which of them its model no longer sees, and what stands for them.
What it left is therefore computed as the SDK does: the events so far without the forgotten ones, the summary at its
offset, and no call without its result or result without its call (the SDK drops what a condensation tore apart).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.sessions import openhands_v0
from bench.sessions.blocks import content_text, seconds
from bench.sessions.canonical import parsed_arguments
from bench.sessions.document import Document, clean
from bench.sessions.openhands_view import View
from bench.types import Message, Session, Source, ToolCall

_KINDS = {"SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "Condensation"}


class Reader:
    """Events of the SDK (2025-09 to 1.58) and `history` lists of V0 (2024 to 0.5x)."""

    name = "openhands"
    version = "1"
    description = "OpenHands: SDK events as JSON lines or a conversation folder, or output.jsonl with history"

    def missing(self, document: Document) -> str:
        for record in document.records:
            if _is_event(record) or openhands_v0.history(record):
                return ""
        return "no event with kind and id, and no history of events with action or observation"

    def read(self, document: Document) -> list[Session]:
        sessions = list(_instances(document))
        events = [record for record in document.records if isinstance(record, dict) and isinstance(record.get("kind"), str)]
        if events:
            sessions.insert(0, _conversation(document, events))
        return sessions


def _is_event(record: Any) -> bool:
    return isinstance(record, dict) and str(record.get("kind")) in _KINDS and "id" in record


def _conversation(document: Document, events: Sequence[Mapping[str, Any]]) -> Session:
    problems = list(document.problems)
    state = next(
        (r for r in document.records if isinstance(r, dict) and "kind" not in r and isinstance(r.get("agent"), dict)), {}
    )
    model = state["agent"].get("llm") if state else None
    view = View(problems)
    requested = False
    for place, event in enumerate(events):
        name, kind = clean(event.get("id"), problems) or f"event-{place}", event["kind"]
        if kind == "CondensationRequest":
            requested = True
        elif kind == "Condensation":
            forgotten = event.get("forgotten_event_ids")
            view.condense(
                name,
                [str(item) for item in forgotten] if isinstance(forgotten, list) else [],
                event.get("summary"),
                event.get("summary_offset"),
                trigger="requested" if requested else "auto",
            )
            requested = False
        elif message := _message(event, problems):
            view.add(name, message, answer=clean(event.get("llm_response_id"), problems))
    return Session(
        id=clean(state.get("id"), problems) or document.name,
        messages=tuple(view.messages),
        source=Source(Reader.name, str(document.path), document.sha256),
        model=clean(model.get("model"), problems) if isinstance(model, dict) else "",
        compactions=view.compactions(),
        problems=tuple(problems),
    )


def _message(event: Mapping[str, Any], problems: list[str]) -> Message | None:
    """The message that the model sees of an event; None for events about the run itself."""
    kind, at = event["kind"], seconds(event.get("timestamp"))
    if kind == "SystemPromptEvent":
        parts = [event.get("system_prompt"), event.get("dynamic_context")]
        return Message("system", _text([part for part in parts if part], problems)[0], at=at)
    if kind == "MessageEvent":
        said = event.get("llm_message") if isinstance(event.get("llm_message"), dict) else {}
        text, images = _text([*_parts(said.get("content")), *_parts(event.get("extended_content"))], problems)
        role = said.get("role") if said.get("role") in ("system", "assistant") else "user"
        return Message(role, text, thinking=clean(said.get("reasoning_content"), problems), images=images, at=at)
    if kind == "ActionEvent":
        text, _ = _text(_parts(event.get("thought")), problems)
        return Message("assistant", text, (_call(event, problems),), thinking=_thinking(event, problems), at=at)
    result = {"ObservationEvent": "observation", "AgentErrorEvent": "error", "UserRejectObservation": "rejection_reason"}.get(
        kind
    )
    if result is None:
        return None
    text, images = observed(event.get(result), problems)
    content = event.get(result)
    failed = bool(content.get("is_error") or content.get("error")) if isinstance(content, dict) else kind != "ObservationEvent"
    call = clean(event.get("tool_call_id"), problems)
    return Message("tool", text, call_id=call, is_error=failed, images=images, at=at)


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content] if content else []


def _text(parts: Sequence[Any], problems: list[str]) -> tuple[str, int]:
    """Text and number of images; an image part of the SDK may hold several."""
    images = [part.get("image_urls") for part in parts if isinstance(part, dict) and part.get("type") == "image"]
    text, counted = content_text(list(parts), problems)
    return text, counted + sum(len(urls) - 1 for urls in images if isinstance(urls, list) and urls)


def _thinking(event: Mapping[str, Any], problems: list[str]) -> str:
    blocks = [block.get("thinking") for block in _parts(event.get("thinking_blocks")) if isinstance(block, dict)]
    return clean(event.get("reasoning_content"), problems) or "\n".join(clean(block, problems) for block in blocks if block)


def _call(event: Mapping[str, Any], problems: list[str]) -> ToolCall:
    """The call as the model made it; its first form had a `function` inside."""
    call = event.get("tool_call") if isinstance(event.get("tool_call"), dict) else {}
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    action = event.get("action") if isinstance(event.get("action"), dict) else {}
    arguments = function.get("arguments", {key: value for key, value in action.items() if key != "kind"})
    return ToolCall(
        clean(event.get("tool_call_id") or call.get("id"), problems),
        clean(event.get("tool_name") or function.get("name"), problems),
        parsed_arguments(arguments, problems),
    )


def observed(observation: Any, problems: list[str]) -> tuple[str, int]:
    """Text and images of a result: the tools name its text differently, and a shell command has marks around it."""
    if not isinstance(observation, dict):
        return clean(observation, problems), 0
    content = next((observation[key] for key in ("content", "output", "message") if observation.get(key)), "")
    error = observation.get("error")
    parts = [error if isinstance(error, str) else "", *_parts(content)]
    if not any(parts):
        left = {key: value for key, value in observation.items() if key not in ("kind", "command", "metadata", "path")}
        parts = [] if not any(left.values()) else [left]
    metadata = observation.get("metadata")
    if isinstance(metadata, dict):
        parts = [metadata.get("prefix") or "", *parts, metadata.get("suffix") or ""]
    return _text([part for part in parts if part], problems)


def _instances(document: Document) -> Iterator[Session]:
    """A session of each record with a V0 history."""
    for number, record in enumerate(document.records):
        events = openhands_v0.history(record)
        if not events:
            continue
        view = View(problems := list(document.problems))
        openhands_v0.read(events, view, problems)
        fields = record if isinstance(record, dict) else {}
        metadata = fields.get("metadata") if isinstance(fields.get("metadata"), dict) else {}
        settings = metadata.get("llm_config") if isinstance(metadata.get("llm_config"), dict) else {}
        yield Session(
            id=clean(fields.get("instance_id"), problems) or document.name + (f"#{number}" if number else ""),
            messages=tuple(view.messages),
            source=Source(Reader.name, str(document.path), document.sha256),
            model=clean(settings.get("model"), problems),
            compactions=view.compactions(),
            problems=tuple(problems),
        )
