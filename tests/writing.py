"""Made sessions as files of products that record their own compactions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.sessions import canonical, openai
from bench.types import Message, Session
from making import write_lines

TIME = "2026-03-01T10:00:00"


def write_canonical(made: Session, path: Path) -> Path:
    canonical.write(made, path)
    return path


def action(number: int, name: str, call: Any, text: str = "", **fields: Any) -> dict[str, Any]:
    made = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
    thought = [{"type": "text", "text": text}] if text else []
    return {
        "kind": "ActionEvent", "id": name, "timestamp": TIME, "source": "agent", "thought": thought, "tool_name": call.name,
        "tool_call_id": call.id, "tool_call": made, "llm_response_id": f"answer-{number}",
    } | fields  # fmt: skip


def openhands_events(made: Session) -> list[dict[str, Any]]:
    """SDK events e0, e1, ...: one of each message, but one of each call of an answer."""
    events: list[dict[str, Any]] = []

    def add(kind: str, **fields: Any) -> None:
        events.append({"kind": kind, "id": f"e{len(events)}", "timestamp": TIME} | fields)

    for number, message in enumerate(made.messages):
        content = [{"type": "text", "text": message.text}]
        if message.role == "system":
            add("SystemPromptEvent", source="agent", system_prompt=content[0], tools=[])
        elif message.role == "tool":
            observation = {"kind": "ExecuteBashObservation", "output": message.text, "error": message.is_error}
            add("ObservationEvent", tool_call_id=message.call_id, observation=observation)
        elif message.calls:
            for place, call in enumerate(message.calls):
                events.append(action(number, f"e{len(events)}", call, "" if place else message.text))
        else:
            add("MessageEvent", source=message.role, llm_message={"role": message.role, "content": content})
    return events


def write_openhands(made: Session, path: Path) -> Path:
    return write_lines(path, openhands_events(made))


def write_folder(events: list[dict[str, Any]], folder: Path, **state: Any) -> Path:
    """A conversation folder: every event in a file of its own, and the state beside them."""
    (folder / "events").mkdir(parents=True)
    for number, event in enumerate(events):
        (folder / "events" / f"event-{number:05}-{event['id']}.json").write_text(json.dumps(event))
    if state:
        (folder / "base_state.json").write_text(json.dumps(state))
    return folder


def pi_message(message: Message) -> dict[str, Any]:
    text = [{"type": "text", "text": message.text}] if message.text else []
    if message.role == "tool":
        return {"role": "toolResult", "toolCallId": message.call_id, "content": text, "isError": message.is_error}
    calls = [{"type": "toolCall", "id": c.id, "name": c.name, "arguments": c.arguments} for c in message.calls]
    return {"role": message.role, "content": text + calls}


def pi_entries(made: Session, *, version: int = 3) -> list[dict[str, Any]]:
    """A header and an entry of each message, with ids p0, p1, ... from version 2 on; a system prompt is never recorded."""
    entries: list[dict[str, Any]] = [{"type": "session", "id": made.id, "timestamp": f"{TIME}Z", "cwd": "/srv/app"}]
    if version > 1:
        entries[0]["version"] = version
    for number, message in enumerate(m for m in made.messages if m.role != "system"):
        tree = {"id": f"p{number}", "parentId": f"p{number - 1}" if number else None} if version > 1 else {}
        entries.append({"type": "message", "timestamp": f"{TIME}Z", "message": pi_message(message)} | tree)
    return entries


def write_pi(made: Session, path: Path) -> Path:
    return write_lines(path, pi_entries(made))


def cline_message(message: Message, id: str) -> dict[str, Any]:
    if message.role == "tool":
        blocks = [{"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}]
    else:
        blocks = [{"type": "text", "text": message.text}] if message.text else []
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in message.calls]
    return {"id": id, "role": "assistant" if message.role == "assistant" else "user", "content": blocks, "ts": 1772359200000}


def cline_record(made: Session, **fields: Any) -> dict[str, Any]:
    """The object of a session, with message ids c0, c1, ..."""
    said = [cline_message(m, f"c{n}") for n, m in enumerate(m for m in made.messages if m.role != "system")]
    system = "".join(m.text for m in made.messages if m.role == "system")
    return {"version": 1, "agent": "lead", "sessionId": made.id, "messages": said, "system_prompt": system} | fields


def write_cline(made: Session, path: Path) -> Path:
    path.write_text(json.dumps(cline_record(made)))
    return path


def write_tau_bench(made: Session, path: Path) -> Path:
    path.write_text(json.dumps([{"task_id": 0, "trial": 0, "reward": 1.0, "info": {}, "traj": openai.export(made.messages)}]))
    return path
