"""Recorded sessions: find the files, know each by its content, read it, and say what was wrong with it."""

from __future__ import annotations

import glob
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.paths import data_dir
from bench.registry import FORMATS
from bench.sessions.document import Document, clean, folder_of, open_document
from bench.types import BenchError, Message, RecordedCompaction, Session


@dataclass
class Loaded:
    """`sessions` in path order; `left_out` are sentences about files and copies that were not used."""

    sessions: list[Session] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def load(path: str | Path | None = None, *, format: str | None = None, split: str = "all") -> Loaded:
    """Load sessions from a file, a folder or a glob; without a path the bundled ones.

    `format` overrides detection. `split` (tuning, held_out, all) selects among the bundled families. In a folder, a
    file that no reader knows is named in `left_out`; a file named directly is a BenchError, and so is finding none.
    """
    if format:
        FORMATS.get(format)  # an unknown name is one error, not one for every file
    if path is None and format:
        raise BenchError("sessions.format names the format of sessions.path; the bundled sessions need none")
    if path is None:
        return _bundled(split)
    if split != "all":
        raise BenchError("sessions.split selects among the bundled sessions; it has no meaning with sessions.path")
    loaded = Loaded()
    files, in_folder = _files(str(path))
    for file in files:
        try:
            read = _read(file, format)
            loaded.sessions += [session for session in read if session.messages]
            loaded.left_out += [f"{file}: {session.id} holds no message" for session in read if not session.messages]
        except BenchError as error:
            if not in_folder:
                raise
            loaded.left_out.append(clean(str(error), []))
    if not loaded.sessions:
        reasons = "".join(f"\n  {reason}" for reason in loaded.left_out[:10])
        raise BenchError(f"no session in {path}{':' if reasons else ''}{reasons}")
    return _without_copies(loaded)


def _bundled(split: str) -> Loaded:
    families = json.loads((data_dir() / "split.json").read_text())
    wanted = families["tuning"] + families["held_out"] if split == "all" else families.get(split)
    if wanted is None:
        raise BenchError(f"unknown sessions.split {split!r}; there are: all, tuning, held_out")
    files = sorted((data_dir() / "sessions").glob("*.jsonl.gz"))
    return Loaded([session for file in files for session in _read(file, "canonical") if session.project in wanted])


def _files(path: str) -> tuple[list[Path], bool]:
    if not path:
        raise BenchError("sessions.path is empty")
    try:
        place = Path(path).expanduser()
        if place.is_file():
            return [place], False
        if place.is_dir():
            files = sorted(
                f for f in place.rglob("*") if f.is_file() and not any(p.startswith(".") for p in f.relative_to(place).parts)
            )
            if not files:
                raise BenchError(f"folder {path} holds no file")
            return _whole(files), True
        matches = sorted(Path(match) for match in glob.glob(str(place), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    except (OSError, ValueError, RuntimeError) as error:
        raise BenchError(f"cannot look at {path!r}: {error}") from error
    files = _whole([match for match in matches if match.is_file()])
    if not files:
        raise BenchError(f"no file at sessions.path={path}")
    return files, len(files) > 1


def _whole(files: Sequence[Path]) -> list[Path]:
    """The files, and for those that hold one event each the folder that is one document."""
    return sorted({folder_of(file) or file for file in files})


def _read(path: Path, format: str | None) -> list[Session]:
    document = open_document(path)
    reader = FORMATS.get(format)() if format else _detect(document)
    if format and (missing := reader.missing(document)):
        raise BenchError(f"{path} cannot be read as {format}: {missing}")
    try:
        sessions = [_checked(session) for session in reader.read(document)]
    except RecursionError as error:
        raise BenchError(f"{path} is nested too deeply to be read") from error
    if not any(session.messages for session in sessions):
        raise BenchError(f"{path} was read as {reader.name} and holds no message")
    return sessions


def _detect(document: Document):
    missed = []
    for name in FORMATS.names():
        reader = FORMATS.get(name)()
        missing = reader.missing(document)
        if not missing:
            return reader
        missed.append(f"\n  {name}: {missing}")
    raise BenchError(f"{document.path} is in no format that is known here:{''.join(missed)}")


def _checked(session: Session) -> Session:
    """Note calls without a result and results without a call; equal problems are counted once."""
    problems = list(session.problems)
    messages = _with_unique_calls(session.messages, problems)
    compactions = session.compactions if messages is session.messages else _renamed(session, messages)
    calls = [call.id for message in messages for call in message.calls]
    results = Counter(message.call_id for message in messages if message.role == "tool")
    called = set(calls)
    problems += [f"call {call} has no result" for call in calls if call not in results]
    problems += [f"a result for {call!r} has no call" for call in results.elements() if call not in called]
    problems += [f"call {call} has {number} results" for call, number in results.items() if call in called and number > 1]
    counted = Counter(clean(problem, []) for problem in problems)
    return replace(
        session,
        messages=messages,
        compactions=compactions,
        source=replace(session.source, path=clean(session.source.path, [])),
        problems=tuple(text if n == 1 else f"{text} ({n} times)" for text, n in counted.items()),
    )


def _with_unique_calls(messages: tuple[Message, ...], problems: list[str]) -> tuple[Message, ...]:
    """Calls with ids of their own: some providers count anew in every answer (`call_0`), old logs have no ids at all.

    A result belongs to the newest call with its id, results of parallel calls with one id to these calls in their order.
    """
    every = [call.id for message in messages for call in message.calls]
    if len(set(every)) == len(every) and "" not in every:
        return messages
    problems.append("ids of calls are missing or stand twice; each call was given one of its own")
    taken, made = set(every), []
    waiting: dict[str | None, list[str]] = {}
    last: dict[str | None, str] = {}
    used: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if waiting.get(message.call_id):
                last[message.call_id] = waiting[message.call_id].pop(0)
            message = replace(message, call_id=last.get(message.call_id, message.call_id))
        elif message.calls:
            named: dict[str | None, list[str]] = {}
            for call in message.calls:
                name, number = call.id, 1
                while not name or name in used or (number > 1 and name in taken):
                    number += 1
                    name = f"{call.id or 'call'}~{number}"
                used.add(name)
                named.setdefault(call.id, []).append(name)
            waiting |= named
            last |= {recorded: names[0] for recorded, names in named.items()}
            again = {recorded: iter(names) for recorded, names in named.items()}
            message = replace(message, calls=tuple(replace(call, id=next(again[call.id])) for call in message.calls))
        made.append(message)
    return tuple(made)


def _renamed(session: Session, messages: Sequence[Message]) -> tuple[RecordedCompaction, ...]:
    """The recorded compactions with the ids of calls that `messages` were given."""
    given = {old.id: (old, new) for old, new in zip(session.messages, messages)}

    def item(message: Message) -> Message:
        old, new = given.get(message.id, (message, message))
        names = dict(zip((call.id for call in old.calls), (call.id for call in new.calls)))
        calls = new.calls if message.calls == old.calls else tuple(replace(c, id=names.get(c.id, c.id)) for c in message.calls)
        return replace(message, calls=calls, call_id=new.call_id)

    return tuple(
        compaction if compaction.left is None else replace(compaction, left=tuple(map(item, compaction.left)))
        for compaction in session.compactions
    )


def _without_copies(loaded: Loaded) -> Loaded:
    """Of growing copies of one session keep the longest; give sessions that only share an id names of their own."""
    prefixes: dict[str, int] = {}
    ends: list[str] = []
    for number, session in enumerate(loaded.sessions):
        running = hashlib.sha256()
        for digest in _digests(session.messages):
            running.update(digest)
            end = running.hexdigest()
            longest = prefixes.get(end)
            if longest is None or len(loaded.sessions[longest].messages) < len(session.messages):
                prefixes[end] = number
        ends.append(end if session.messages else "")
    holders = [prefixes.get(end, number) for number, end in enumerate(ends)]
    holders = [_grown(number, loaded.sessions) if holder == number else holder for number, holder in enumerate(holders)]
    kept, names = [], Counter()
    for number, session in enumerate(loaded.sessions):
        holder = holders[number]
        while holders[holder] != holder:
            holder = holders[holder]
        if holder != number:
            other = loaded.sessions[holder]
            sentence = f"{session.source.path}: {session.id} is the beginning of {other.id} in {other.source.path}"
            loaded.left_out.append(clean(sentence, []))
            continue
        names[session.id] += 1
        kept.append(replace(session, id=f"{session.id}~{names[session.id]}") if names[session.id] > 1 else session)
    return Loaded(kept, loaded.left_out)


def _grown(number: int, sessions: Sequence[Session]) -> int:
    """The session that goes on where this one stops inside an answer: a copy was made before the answer was whole."""
    session = sessions[number]
    *before, last = session.messages
    for holder, other in enumerate(sessions):
        if holder == number or other.id != session.id or len(other.messages) < len(session.messages):
            continue
        whole = other.messages[len(before)]
        if (
            last.role == whole.role == "assistant"
            and whole.text.startswith(last.text)
            and whole.calls[: len(last.calls)] == last.calls
            and (len(other.messages), whole.text, whole.calls) != (len(session.messages), last.text, last.calls)
            and list(_digests(other.messages[: len(before)])) == list(_digests(before))
        ):
            return holder
    return number


def _digests(messages: Sequence[Message]) -> Iterator[bytes]:
    for message in messages:
        calls = [(call.name, str(call.arguments)) for call in message.calls]
        yield hashlib.sha256(f"{message.role}\0{message.text}\0{calls}".encode()).digest()
