"""Real recordings against counts made here from their raw JSON. Needs the folder of samples beside the checkout."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from bench.sessions import load

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "sessions"
CLAUDE_CODE = [
    "claude-code/entire-a6e4c2a0-slice-compact1.jsonl",
    "claude-code/entire-b6f735fb-compact2.jsonl",
    "claude-code/cipherbox-e89fb6a2-compact1.jsonl",
    "claude-code/omp-45d88f94-post-compact-1M.jsonl",
]
LOG, LINES = "openai-chat/openhands-django-11149-last-call.json", "openai-chat/tau2-sft-test.jsonl"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recordings in {FOLDER}")


@cache
def entries(name):
    """Entries of the main chain, each uuid once, without the API errors that the product writes as answers."""
    seen, kept = set(), []
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        entry = json.loads(line) if line.strip() else {}
        if entry.get("isSidechain") or (entry.get("uuid") and entry["uuid"] in seen):
            continue
        seen.add(entry.get("uuid"))
        message = entry.get("message")
        if isinstance(message, dict) and message.get("model") == "<synthetic>":
            continue
        kept.append(entry)
    return kept


@cache
def made(name):
    return load(FOLDER / name).sessions


def blocks(name, role, kind):
    """Blocks of `kind` in entries of type `role`, the summaries of compactions left out."""
    return [
        block
        for entry in entries(name)
        if entry.get("type") == role and not entry.get("isCompactSummary")
        for block in (entry["message"]["content"] if isinstance(entry["message"]["content"], list) else [])
        if block["type"] == kind
    ]


@pytest.mark.parametrize("name", CLAUDE_CODE)
def test_answers_and_calls_of_claude_code(name):
    answers, empty = {}, set()
    for entry in entries(name):
        if entry.get("type") == "assistant":
            answers.setdefault(entry["message"]["id"], []).extend(entry["message"]["content"])
    for id, content in answers.items():
        if not any(b["type"] == "tool_use" or (b.get("text") or b.get("thinking") or "").strip() for b in content):
            empty.add(id)
    loaded = made(name)[0]
    assert sum(m.role == "assistant" for m in loaded.messages) == len(answers) - len(empty)
    calls = {block["id"] for block in blocks(name, "assistant", "tool_use")}
    assert len(calls) > 5
    assert {call.id for m in loaded.messages for call in m.calls} == calls
    assert sum(len(m.calls) for m in loaded.messages) == len(calls)


@pytest.mark.parametrize("name", CLAUDE_CODE)
def test_results_and_unanswered_calls_of_claude_code(name):
    results = [block["tool_use_id"] for block in blocks(name, "user", "tool_result")]
    calls = {block["id"] for block in blocks(name, "assistant", "tool_use")}
    loaded = made(name)[0]
    assert [m.call_id for m in loaded.messages if m.role == "tool"] == results
    assert sum("has no result" in p for p in loaded.problems) == len(calls - set(results))
    assert sum("has no call" in p for p in loaded.problems) == len(set(results) - calls)


@pytest.mark.parametrize("name", CLAUDE_CODE)
def test_user_messages_of_claude_code(name):
    said = 0
    for entry in entries(name):
        if entry.get("type") != "user" or entry.get("isCompactSummary"):
            continue
        content = entry["message"]["content"]
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        said += any(part["type"] == "image" or (part["type"] == "text" and part["text"].strip()) for part in parts)
    assert sum(m.role == "user" for m in made(name)[0].messages) == said


@pytest.mark.parametrize("name", CLAUDE_CODE)
def test_compactions_of_claude_code(name):
    metadata = [entry.get("compactMetadata") or {} for entry in entries(name) if entry.get("subtype") == "compact_boundary"]
    summaries = [entry for entry in entries(name) if entry.get("isCompactSummary")]
    compactions = made(name)[0].compactions
    assert [c.tokens_before for c in compactions] == [m.get("preTokens") for m in metadata]
    assert [c.trigger for c in compactions] == [m.get("trigger") for m in metadata]
    assert sum(bool(c.summary) for c in compactions) == len(summaries) == len(metadata) > 0


@pytest.mark.parametrize("name", CLAUDE_CODE)
def test_tokens_of_an_answer_are_counted_once(name):
    last = {}
    for entry in entries(name):
        if entry.get("type") == "assistant":
            last[entry["message"]["id"]] = entry["message"]["usage"]["output_tokens"]
    assert sum(m.usage.output for m in made(name)[0].messages if m.usage) == sum(last.values())


def test_a_litellm_log():
    raw = json.loads((FOLDER / LOG).read_text(encoding="utf-8"))
    items = [*raw["messages"], raw["response"]["choices"][0]["message"]]
    loaded = made(LOG)
    assert len(loaded) == 1
    assert [m.role for m in loaded[0].messages] == [item["role"] for item in items]
    calls = [call["id"] for item in items for call in item.get("tool_calls") or ()]
    results = {item["tool_call_id"] for item in items if item["role"] == "tool"}
    assert [call.id for m in loaded[0].messages for call in m.calls] == calls
    assert sum("has no result" in p for p in loaded[0].problems) == len(set(calls) - results) == 1


def test_lines_of_conversations():
    rows = [json.loads(line) for line in (FOLDER / LINES).read_text(encoding="utf-8").splitlines()]
    loaded = made(LINES)
    assert len(loaded) == len(rows)
    assert [len(s.messages) for s in loaded] == [len(row["messages"]) for row in rows]
    assert [sum(len(m.calls) for m in s.messages) for s in loaded] == [
        sum(len(item.get("tool_calls") or ()) for item in row["messages"]) for row in rows
    ]
    assert sum(len(s.problems) for s in loaded) == 0
