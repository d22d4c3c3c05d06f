"""The files of a run. Lines are appended and synced, never rewritten; a killed run is legible and goes on where it was.

`header.json` (what it is, status), `probes.jsonl.gz` (the frozen bank), `records.jsonl` (one line for each probe and
arm), `compactions.jsonl` (one line for each finished cut, written after its records), `contexts.jsonl.gz` (every
message once by its hash, every context as a list of hashes), `summary.json` (last).
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import orjson

from bench.sessions.canonical import message_from_record, message_record
from bench.types import BenchError, Message

SYNC_SECONDS = 1.0


class Store:
    """Writes one run folder. Only one process may: the folder is locked."""

    def __init__(self, folder: Path, overwrite: str) -> None:
        self.folder = folder
        if folder.exists() and any(folder.iterdir()):
            if overwrite == "never":
                raise BenchError(f"{folder} is there already and overwrite=never")
            if overwrite == "always":
                shutil.rmtree(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / ".lock").open("w")
        except OSError as error:
            raise BenchError(f"cannot write to {folder}: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BenchError(f"another process is writing to {folder}") from None
        self.finished = {line["cut"] for line in read_lines(folder / "compactions.jsonl")}
        self._stored = set(_objects(folder / "contexts.jsonl.gz"))
        self._files = {name: _open(folder / f"{name}.jsonl") for name in ("records", "compactions")}
        self._synced = time.monotonic()

    def header(self, values: Mapping[str, Any]) -> None:
        _replace(self.folder / "header.json", values)

    def summary(self, values: Mapping[str, Any]) -> None:
        _replace(self.folder / "summary.json", values)

    def probes(self, data: bytes) -> None:
        (self.folder / "probes.jsonl.gz").write_bytes(gzip.compress(data, 6, mtime=0))

    def cell(
        self, compaction: Mapping[str, Any], records: Iterable[Mapping[str, Any]], contexts: Iterable[Mapping[str, Any]]
    ) -> None:
        """Append one finished cut: its contexts, its records, then the line that says it is finished."""
        new = [item for item in contexts if item["sha256"] not in self._stored]
        if new:
            self._stored.update(item["sha256"] for item in new)
            with (self.folder / "contexts.jsonl.gz").open("ab") as file:
                file.write(gzip.compress(b"".join(orjson.dumps(item) + b"\n" for item in new), 6, mtime=0))
        self._files["records"].write(b"".join(orjson.dumps(record) + b"\n" for record in records))
        self._files["records"].flush()
        self._files["compactions"].write(orjson.dumps(compaction) + b"\n")
        self._files["compactions"].flush()
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def replace(self, compactions: Iterable[Mapping[str, Any]], records: Iterable[Mapping[str, Any]]) -> None:
        """Put rescored lines in the place of the old ones; the old file stands until the new one is whole."""
        for name, lines in (("records", records), ("compactions", compactions)):
            self._files[name].close()
            path = self.folder / f"{name}.jsonl"
            part = path.with_suffix(".part")
            part.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
            part.replace(path)
            self._files[name] = _open(path)

    def sync(self) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        self.sync()
        for file in self._files.values():
            file.close()
        self._lock.close()
        (self.folder / ".lock").unlink(missing_ok=True)


class Run:
    """Reads one run folder, finished or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "header.json"
        try:
            self.header: dict[str, Any] = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise BenchError(f"{folder} is not a run folder: {error}") from error
        self.compactions = {line["cut"]: line for line in read_lines(folder / "compactions.jsonl")}
        self.records = [
            record
            for (cut, _, _), record in {(r["cut"], r["arm"], r["probe"]): r for r in read_lines(folder / "records.jsonl")}.items()
            if cut in self.compactions
        ]

    @property
    def summary(self) -> dict[str, Any]:
        try:
            return orjson.loads((self.folder / "summary.json").read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise BenchError(
                f"{self.folder} has no summary yet (status {self.header.get('status')}): run it again to finish it"
            ) from error

    def contexts(self) -> dict[str, tuple[Message, ...]]:
        """Every stored context by its hash."""
        objects = _objects(self.folder / "contexts.jsonl.gz")
        messages = {name: message_from_record(item["message"], []) for name, item in objects.items() if "message" in item}
        return {name: tuple(messages[m] for m in item["messages"]) for name, item in objects.items() if "messages" in item}


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
    """The whole lines of a JSON-lines file; a line cut by a kill is passed over."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        if line:
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                continue


def _objects(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    data, lines = path.read_bytes(), []
    while data:
        decoder = zlib.decompressobj(wbits=31)
        try:
            lines += decoder.decompress(data).split(b"\n")
        except zlib.error:
            break
        data = decoder.unused_data if decoder.eof else b""
    return {item["sha256"]: item for item in (orjson.loads(line) for line in lines if line.endswith(b"}"))}


def _open(path: Path) -> IO[bytes]:
    """Open for appending, on a line of its own even after a kill in the middle of one."""
    torn = path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
    file = path.open("ab")
    if torn:
        file.write(b"\n")
    return file


def _replace(path: Path, values: Mapping[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2) + b"\n")
    part.replace(path)
