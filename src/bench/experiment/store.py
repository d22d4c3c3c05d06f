"""The files of a run. Lines are appended and synced; a killed run is legible and goes on where it was.

`header.json` (what it is, status), `probes.jsonl.gz` (the frozen bank), `units.jsonl.gz` (what each cut's future used),
`records.jsonl` (one line for each probe and
arm), `compactions.jsonl` (one line for each finished cut, written after its records), `contexts.jsonl.gz` (every
message once by its hash; every context, every request to a model and its answer as a list of hashes), `summary.json`
(last). What a kill left of an unfinished
cut is taken away when the run goes on, so its files are the same bytes as those of a run that nobody stopped.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import orjson

from bench.measures.future import Units, restored
from bench.probes.bank import Bank
from bench.probes.bank import read as read_bank
from bench.sessions.canonical import message_from_record, message_record
from bench.types import BenchError, Message

SYNC_SECONDS = 1.0


class Store:
    """Writes one run folder. Only one process may: the folder is locked."""

    def __init__(self, folder: Path, overwrite: str) -> None:
        self.folder = folder
        try:
            if overwrite == "never" and folder.exists() and any(folder.iterdir()):
                raise BenchError(f"{folder} is there already and overwrite=never")
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder / ".lock")
            if overwrite == "always":
                for file in folder.iterdir():
                    if file.name != ".lock":
                        shutil.rmtree(file) if file.is_dir() else file.unlink()
            self._stored = _settled_contexts(folder / "contexts.jsonl.gz")
            self.finished = self._settled_lines()
            self._files = {
                name: (folder / name).open("ab") for name in ("contexts.jsonl.gz", "records.jsonl", "compactions.jsonl")
            }
        except OSError as error:
            raise BenchError(f"cannot write to {folder}: {error}") from error
        self._synced = time.monotonic()

    def _settled_lines(self) -> set[str]:
        """Leave only whole lines of finished cuts, those with all their records and contexts; returns the ids of these cuts."""
        records = Counter(line["cut"] for line in read_lines(self.folder / "records.jsonl"))
        finished = {
            line["cut"]
            for line in read_lines(self.folder / "compactions.jsonl")
            if line.get("records", records[line["cut"]]) == records[line["cut"]]
            and {line["context_before"], line["context_after"], *(call["request"] for call in line["calls"])} <= self._stored
        }
        for path in (self.folder / "compactions.jsonl", self.folder / "records.jsonl"):
            kept = b"".join(raw + b"\n" for raw, line in _lines(path) if line["cut"] in finished)
            if path.exists() and kept != path.read_bytes():
                _replace(path, kept)
        return finished

    def header(self, values: Mapping[str, Any]) -> None:
        write_json(self.folder / "header.json", values)

    def summary(self, values: Mapping[str, Any]) -> None:
        write_json(self.folder / "summary.json", values)

    @property
    def seconds(self) -> float:
        """What the stored summary says the run took; 0 without one."""
        try:
            return float(orjson.loads((self.folder / "summary.json").read_bytes())["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0.0

    def probes(self, data: bytes) -> None:
        _replace(self.folder / "probes.jsonl.gz", gzip.compress(data, 6, mtime=0))

    def units(self, units: Mapping[str, Units]) -> None:
        lines = b"".join(orjson.dumps(made) + b"\n" for made in units.values())
        _replace(self.folder / "units.jsonl.gz", gzip.compress(lines, 6, mtime=0))

    def cell(
        self, compaction: Mapping[str, Any], records: Iterable[Mapping[str, Any]], contexts: Iterable[Mapping[str, Any]]
    ) -> None:
        """Append one finished cut: its contexts, its records, then the line that says it is finished."""
        new = {item["sha256"]: item for item in contexts if item["sha256"] not in self._stored}
        if new:
            self._stored.update(new)
            lines = b"".join(orjson.dumps(item) + b"\n" for item in new.values())
            self._append("contexts.jsonl.gz", gzip.compress(lines, 6, mtime=0))
        self._append("records.jsonl", b"".join(orjson.dumps(record) + b"\n" for record in records))
        self._append("compactions.jsonl", orjson.dumps(compaction) + b"\n")
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def _append(self, name: str, data: bytes) -> None:
        self._files[name].write(data)
        self._files[name].flush()

    def replace(self, compactions: Iterable[Mapping[str, Any]], records: Iterable[Mapping[str, Any]]) -> None:
        """Put rescored lines in the place of the old ones; the old file stands until the new one is whole."""
        for name, lines in (("records.jsonl", records), ("compactions.jsonl", compactions)):
            self._files[name].close()
            _replace(self.folder / name, b"".join(orjson.dumps(line) + b"\n" for line in lines))
            self._files[name] = (self.folder / name).open("ab")

    def sync(self) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        self.sync()
        for file in self._files.values():
            file.close()
        (self.folder / ".lock").unlink(missing_ok=True)
        self._lock.close()


class Run:
    """Reads one run folder, finished or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "header.json"
        try:
            self.header: dict[str, Any] = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise BenchError(f"{folder} is not a run folder: {error}") from error
        if not isinstance(self.header, dict) or not {"run_id", "config", "versions", "strategy"} <= self.header.keys():
            raise BenchError(f"{path} is no header of a run: run it again to mend it")
        self.compactions = {line["cut"]: line for line in read_lines(folder / "compactions.jsonl")}
        records = {(r["cut"], r["arm"], r["probe"]): r for r in read_lines(folder / "records.jsonl")}
        self.records = [record for (cut, _, _), record in records.items() if cut in self.compactions]

    @property
    def summary(self) -> dict[str, Any]:
        try:
            summary = orjson.loads((self.folder / "summary.json").read_bytes())
        except (OSError, orjson.JSONDecodeError):
            summary = None
        if not isinstance(summary, dict) or "metrics" not in summary:
            raise BenchError(f"{self.folder} has no summary yet (status {self.header.get('status')}): run it again to finish it")
        return summary

    def bank(self) -> Bank:
        path = self.folder / "probes.jsonl.gz"
        try:
            return read_bank(path.read_bytes())
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            raise BenchError(f"cannot read the probes in {path}: {error}") from error

    def units(self) -> dict[str, Units]:
        """What each cut's future used, by cut."""
        path = self.folder / "units.jsonl.gz"
        try:
            made = [restored(orjson.loads(line)) for line in gzip.decompress(path.read_bytes()).splitlines()]
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            raise BenchError(f"cannot read the units in {path}: {error}") from error
        return {units.cut: units for units in made}

    def contexts(self) -> dict[str, tuple[Message, ...]]:
        """Every stored context by its hash."""
        objects, _ = _objects(self.folder / "contexts.jsonl.gz")
        messages = {name: message_from_record(item["message"], []) for name, item in objects.items() if "message" in item}
        whole = {
            name: tuple(messages[m] for m in item["messages"])
            for name, item in objects.items()
            if "messages" in item and all(m in messages for m in item["messages"])
        }
        named = {line[key] for line in self.compactions.values() for key in ("context_before", "context_after")}
        named |= {call["request"] for line in self.compactions.values() for call in line.get("calls", ())}
        if lost := named - set(whole):
            raise BenchError(f"{self.folder} lacks {len(lost)} of {len(named)} contexts: run it again to make them anew")
        return whole


def context_objects(context: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """(hash of a context, its objects for the store: each message, then the context as a list of their hashes)."""
    objects, names = [], []
    for message in context:
        record = message_record(message)
        name = hashlib.sha256(orjson.dumps(record)).hexdigest()
        names.append(name)
        objects.append({"sha256": name, "message": record})
    whole = hashlib.sha256("".join(names).encode()).hexdigest()
    return whole, [*objects, {"sha256": whole, "messages": names}]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a run's JSON-lines file; one that is cut or of another shape is passed over."""
    return (line for _, line in _lines(path))


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    shape = _SHAPES[path.name]
    for raw in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            line = orjson.loads(raw)
        except orjson.JSONDecodeError:
            continue
        if isinstance(line, dict) and all(isinstance(line.get(key), type) for key, type in shape.items()) and _calls_whole(line):
            yield raw, line


def _calls_whole(line: Mapping[str, Any]) -> bool:
    return all(isinstance(call, dict) and isinstance(call.get("request"), str) for call in line.get("calls", ()))


# What is read of a line; one that lacks any of it counts as not there, like one that a kill cut short.
_SHAPES: dict[str, dict[str, type]] = {
    "records.jsonl": dict.fromkeys(("cut", "probe", "arm", "category", "form", "status", "outcome"), str) | {"answer": list},
    "compactions.jsonl": dict.fromkeys(("cut", "session", "cluster", "outcome", "note", "context_before", "context_after"), str)
    | dict.fromkeys(("head", "tail", "tokens_before", "tokens_after", "turns_before", "turns_after", "target_tokens"), int)
    | {"violations": dict, "calls": list, "coverage": dict},
}


def _objects(path: Path) -> tuple[dict[str, dict[str, Any]], int]:
    """The objects in the whole gzip members of a file by their hash, and where the last whole member ends."""
    found: dict[str, dict[str, Any]] = {}
    data = path.read_bytes() if path.exists() else b""
    end = 0
    while end < len(data):
        decoder = zlib.decompressobj(wbits=31)
        try:
            lines = decoder.decompress(data[end:]).split(b"\n")
        except zlib.error:
            break
        if not decoder.eof:
            break
        for raw in filter(None, lines):
            try:
                item = orjson.loads(raw)
                found[item["sha256"]] = item
            except (orjson.JSONDecodeError, KeyError, TypeError):
                continue  # not ours: what it stood for is made anew
        end = len(data) - len(decoder.unused_data)
    return found, end


def _settled_contexts(path: Path) -> set[str]:
    """Cut off a member that a kill left half written, for nothing could be read after it; returns the hashes stored."""
    found, end = _objects(path)
    if path.exists() and path.stat().st_size > end:
        with path.open("r+b") as file:
            file.truncate(end)
    return set(found)


def _locked(path: Path) -> IO[str]:
    """The lock file, locked, and still the one of that name: its last holder may have removed it in between."""
    while True:
        lock = path.open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise BenchError(f"another process is writing to {path.parent}") from None
        if path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            return lock
        lock.close()


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    _replace(path, orjson.dumps(values, option=orjson.OPT_INDENT_2) + b"\n")


def _replace(path: Path, data: bytes) -> None:
    """The old file stands until the new one is whole."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)
