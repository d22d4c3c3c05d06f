"""Real recordings against counts made here from their raw JSON. Needs the folder of samples beside the checkout."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from bench.sessions import load
from bench.sessions.claude_code import CLEARED
from bench.types import BenchError

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


FORMAT_OF = {"claude-code": "claude_code", "openhands": "openhands", "pi": "pi", "cline": "cline", "openai-chat": "openai"}


def test_every_recording_is_known_by_its_content_and_no_reader_takes_those_of_another():
    read, left_out = {}, []
    for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        try:
            loaded = load(folder)
        except BenchError:  # a format that is not read here
            continue
        left_out += loaded.left_out
        read[folder.name] = {session.source.format for session in loaded.sessions}
    assert {name: formats for name, formats in read.items() if name in FORMAT_OF} == {
        name: {format} for name, format in FORMAT_OF.items()
    }
    own = {"openhands", "pi", "cline", "claude_code"}
    assert not [name for name, formats in read.items() if name not in FORMAT_OF and formats & own]
    assert sum("is what a compaction left" in sentence for sentence in left_out) == 2


OPENHANDS = {
    "v1-events-0535c419.jsonl": 7, "v1-events-3f3d5850.jsonl": 3, "v1-events-6e578294.jsonl": 1, "v1-events-a27a4099.jsonl": 1,
    "v1-events-ca1fc6c1.jsonl": 1, "v1-conversation-dir-3fa64a60": 1,
}  # fmt: skip


def events(name):
    place = FOLDER / "openhands" / name
    files = sorted((place / "events").iterdir()) if place.is_dir() else [place]
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", OPENHANDS)
def test_views_of_openhands(name):
    """The condenser's own arithmetic: from 4 + forgotten + tail events it leaves 4, the summary and the tail."""
    raw = events(name)
    condensations = [place for place, event in enumerate(raw) if event["kind"] == "Condensation"]
    loaded = made(f"openhands/{name}")[0]
    assert len(loaded.compactions) == len(condensations) == OPENHANDS[name]
    assert len(loaded.messages) == len(raw) - len(condensations)
    size, since = 0, 0
    for place, compaction in zip(condensations, loaded.compactions):
        event, shown = raw[place], size + place - since  # what its model saw when it condensed
        left = compaction.left
        assert [m.role for m in left[:5]] == ["system", "user", "assistant", "tool", "user"]
        assert left[4].text == compaction.summary == event["summary"]
        torn = shown - len(event["forgotten_event_ids"]) + 1 - len(left)
        assert torn in (0, 1)  # the result whose call the condenser forgot
        assert {m.call_id for m in left if m.role == "tool"} == {call.id for m in left for call in m.calls}
        assert left[5 - len(left) :] == loaded.messages[compaction.before - (len(left) - 5) : compaction.before]
        size, since = len(left), place + 1


def test_what_pi_kept():
    raw = (FOLDER / "pi" / "before-compaction.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in raw if line.strip()]
    loaded = made("pi/before-compaction.jsonl")[0]
    found = [entry for entry in entries if entry["type"] == "compaction"]
    assert len(loaded.compactions) == len(found) == 2
    for entry, compaction in zip(found, loaded.compactions):
        first = entries[entry["firstKeptEntryIndex"]]["message"]["content"][0]["text"]
        assert [m.text for m in compaction.left[:2]] == [entry["summary"], first]
        assert compaction.left[1:] == loaded.messages[compaction.before - len(compaction.left) + 1 : compaction.before]
        assert compaction.tokens_before == entry["tokensBefore"]


@pytest.mark.parametrize("name", ["basic", "agentic"])
def test_what_cline_left(name):
    left = json.loads((FOLDER / "cline" / f"sdk-{name}.compaction.json").read_text(encoding="utf-8"))
    loaded = made("cline/sdk-session.messages.json")[0]
    compaction = loaded.compactions[["agentic", "basic"].index(name)]
    assert compaction.before == len(loaded.messages)
    assert len(compaction.left) == 1 + len(left["messages"])
    shared = {m.id for m in loaded.messages}
    assert sum(m.id not in shared for m in compaction.left) == (1 if name == "agentic" else 0)


def test_what_a_microcompaction_cleared():
    loaded = made("claude-code/entire-b0dc55b3-compact1-micro2.jsonl")[0]
    first, second, whole = loaded.compactions
    cleared = [sum(m.text == CLEARED for m in compaction.left) for compaction in (first, second)]
    assert cleared == [9, 27]
    assert [m.id for m in second.left] == [m.id for m in loaded.messages[: second.before]]
    assert [m.id for m in whole.left] == ["summary-3"]


def test_what_claude_code_preserved_but_the_file_does_not_hold():
    loaded = made("claude-code/omp-45d88f94-post-compact-1M.jsonl")[0]
    (compaction,) = loaded.compactions
    assert (compaction.before, compaction.tokens_before, compaction.tokens_after) == (0, 998659, 18101)
    assert [m.id for m in compaction.left] == ["summary-1", *(f"file-1-{n}" for n in range(1, 5))]
    assert "compaction 1 preserved 16 entries that are not in the file" in loaded.problems
