"""Events of OpenHands V0: an action of the agent is a call, the observation that it caused is its result.

Newer files hold the model's own answer with each action (`tool_call_metadata`); older ones hold the action only, flat or
in pairs with its observation, and the call is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.sessions.blocks import content_text, seconds
from bench.sessions.canonical import parsed_arguments
from bench.sessions.document import clean, number
from bench.sessions.openhands_view import View
from bench.types import Message, ToolCall, Usage

_ABOUT_THE_RUN = {"null", "change_agent_state", "agent_state_changed", "condensation_request", "recall", "pause", "resume"}
_NO_ARGUMENT = {
    "action", "args", "source", "id", "timestamp", "message", "thought", "cause", "wait_for_response", "keep_prompt",
    "is_confirmed", "action_risk", "confirmation_state", "security_risk", "blocking", "hidden", "kernel_init_code", "llm_metrics",
}  # fmt: skip


def history(record: Any) -> list[Mapping[str, Any]]:
    """The events of a record with a `history`, or of a bare list of events; empty when it has none."""
    items = record.get("history") if isinstance(record, dict) else record
    if not isinstance(items, list):
        return []
    flat = [event for item in items for event in (item if isinstance(item, list) else [item]) if isinstance(event, dict)]
    events = [event for event in flat if _kind(event, "action") or _kind(event, "observation")]
    return [] if any("role" in event for event in flat[:3]) or not events else events


def read(events: Sequence[Mapping[str, Any]], view: View, problems: list[str]) -> None:
    calls: dict[str, str] = {}  # event -> id of its call
    waiting: list[str] = []  # calls without a result
    for place, event in enumerate(events):
        name = clean(event["id"], problems) if event.get("id") is not None else f"event-{place}"
        action = _kind(event, "action")
        if action == "condensation":
            _condense(name, _arguments(event), events, view)
        elif action == "system" or action == "message":
            view.add(name, _said(event, problems))
        elif action and action not in _ABOUT_THE_RUN:
            message = _answer(event, name, problems)
            calls[name] = message.calls[0].id
            waiting.append(message.calls[0].id)
            view.add(name, message, answer=_answer_id(event))
        elif action:
            view.add(name, None)
        else:
            view.add(name, _observation(event, calls, waiting, problems))


def _kind(event: Mapping[str, Any], key: str) -> str:
    return event[key] if isinstance(event.get(key), str) else ""


def _arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return event["args"] if isinstance(event.get("args"), dict) else event


def _said(event: Mapping[str, Any], problems: list[str]) -> Message:
    arguments, at = _arguments(event), seconds(event.get("timestamp"))
    text, _ = content_text(arguments.get("content"), problems)
    images = arguments.get("image_urls") or arguments.get("images_urls")
    images = len(images) if isinstance(images, list) else 0
    if event["action"] == "system":
        return Message("system", text, at=at)
    by_agent = event.get("source") == "agent" if event.get("source") else arguments.get("wait_for_response") is True
    return Message("assistant" if by_agent else "user", text, images=images, at=at)


def _metadata(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return event["tool_call_metadata"] if isinstance(event.get("tool_call_metadata"), dict) else {}


def _response(event: Mapping[str, Any]) -> Mapping[str, Any]:
    response = _metadata(event).get("model_response")
    return response if isinstance(response, dict) else {}


def _answer_id(event: Mapping[str, Any]) -> str:
    return str(_response(event).get("id") or "")


def _answer(event: Mapping[str, Any], name: str, problems: list[str]) -> Message:
    """The model's answer that an action came from, with the call of this action alone."""
    metadata, arguments = _metadata(event), _arguments(event)
    choices = _response(event).get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    said = choice.get("message") if isinstance(choice.get("message"), dict) else {}
    made = said.get("tool_calls") if isinstance(said.get("tool_calls"), list) else []
    id = clean(metadata.get("tool_call_id"), problems) or f"call-{name}"
    functions = [c["function"] for c in made if isinstance(c, dict) and c.get("id") == id and isinstance(c.get("function"), dict)]
    if functions:
        call = ToolCall(id, clean(functions[0].get("name"), problems), parsed_arguments(functions[0].get("arguments"), problems))
    else:
        given = {key: value for key, value in arguments.items() if key not in _NO_ARGUMENT and value is not None}
        call = ToolCall(id, clean(metadata.get("function_name") or event["action"], problems), parsed_arguments(given, problems))
    text = content_text(said.get("content") or arguments.get("thought"), problems)[0]
    return Message(
        "assistant",
        text,
        (call,),
        thinking=clean(said.get("reasoning_content"), problems),
        at=seconds(event.get("timestamp")),
        usage=_usage(_response(event).get("usage"), problems),
    )


def _usage(usage: Any, problems: list[str]) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = number(details.get("cached_tokens"), problems) if isinstance(details, dict) else 0
    prompt, completion = (number(usage.get(name), problems) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(max(0, prompt - cached), completion, cache_read=cached)


def _observation(event: Mapping[str, Any], calls: Mapping[str, str], waiting: list[str], problems: list[str]) -> Message | None:
    """The result of the call that caused it, or what the run put before the model by itself."""
    kind, at = event["observation"], seconds(event.get("timestamp"))
    text, images = content_text(event.get("content"), problems)
    if kind == "recall":
        extras = event.get("extras") if isinstance(event.get("extras"), dict) else {}
        knowledge = extras.get("microagent_knowledge")
        learned = [item.get("content") for item in knowledge if isinstance(item, dict)] if isinstance(knowledge, list) else []
        told = [clean(item, problems) for item in (extras.get("repo_instructions"), *learned) if item]
        return Message("user", "\n\n".join(told), at=at) if told else None
    if kind in _ABOUT_THE_RUN:
        return None
    call = clean(_metadata(event).get("tool_call_id"), problems) or calls.get(clean(event.get("cause"), problems), "")
    if not call and event.get("cause") is None and waiting:
        call = waiting[-1]
    if not call:
        return Message("user", text, images=images, at=at) if text.strip() or images else None
    if call in waiting:
        waiting.remove(call)
    return Message("tool", text, call_id=call, is_error=kind == "error", images=images, at=at)


def _condense(name: str, arguments: Mapping[str, Any], events: Sequence[Mapping[str, Any]], view: View) -> None:
    """Forgets the events it lists, or all from a first to a last one (ids count up)."""
    listed = arguments.get("forgotten_event_ids")
    start, end = arguments.get("forgotten_events_start_id"), arguments.get("forgotten_events_end_id")
    if isinstance(listed, list):
        gone = [str(item) for item in listed]
    elif isinstance(start, int) and isinstance(end, int):
        ids = [event.get("id") for event in events]
        gone = [str(id) for id in ids if isinstance(id, int) and start <= id <= end]
    else:
        gone = []
    view.condense(name, gone, arguments.get("summary"), arguments.get("summary_offset"))
