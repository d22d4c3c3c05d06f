from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import orjson

from bench.registry import load_object
from bench.sessions.document import Document
from bench.sessions.openai import Reader, export
from bench.strategies.isolated import Stopped, Worker
from bench.types import BenchError, Compaction, CompactionRequest, Message

Call = Callable[[list[dict[str, Any]]], list[dict[str, Any]] | None]


@dataclass(frozen=True)
class Custom:
    """Anybody's compactor: `target` is `file.py:callable` or `package.module:callable`.

    The callable takes a list of OpenAI chat messages and returns one. A returned message that equals a given one counts
    as that message, kept; any other is new. Its code runs in this process: name only code you trust. With `isolate=True`
    it runs in a process of its own, which lives until we end: when that crashes, exits or is killed, the outcome is
    `failed`, and the next compaction starts another one. That is no sandbox. The version is a hash of the file that holds
    the callable, so that an edited compactor is another run.
    """

    target: str = ""
    isolate: bool = False
    version: str = field(init=False, default="")
    name: ClassVar[str] = "custom"
    source: ClassVar[str] = "your own code"
    needs_model: ClassVar[bool] = False
    _call: Call = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        place, _, function = self.target.partition(":")
        if not place or not function:
            raise BenchError("strategy=custom needs strategy.target=my_file.py:function or package.module:function")
        if self.isolate:
            call = Worker(self.target)
            version = call.version
        else:
            call, version = in_process(self.target)
        object.__setattr__(self, "_call", call)
        object.__setattr__(self, "version", version)

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        given = export(context)
        originals: dict[bytes, list[Message]] = {}
        for item, message in zip(given, context):
            originals.setdefault(_key(item), []).append(message)
        try:
            returned = self._call(given)
        except Stopped as error:
            return Compaction(tuple(context), "failed", str(error), error=error.details)
        if returned is None:
            return Compaction(tuple(context), "invalid", f"{self.target} did not return a list of chat messages")
        messages: list[Message] = []
        for number, item in enumerate(returned):
            known = originals.get(_key(item))
            messages.append(known.pop(0) if known else _new(item, number))
        unchanged = tuple(messages) == tuple(context)
        return Compaction(tuple(messages), "noop" if unchanged else "applied")


def in_process(target: str) -> tuple[Call, str]:
    """The compactor that `target` names, called right here, and its version. It returns None for what is no list of messages."""
    function = _load(target)

    def call(messages: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        returned = function(messages)
        if not isinstance(returned, list) or not all(isinstance(item, dict) and "role" in item for item in returned):
            return None
        return orjson.loads(orjson.dumps(returned))  # what JSON cannot hold is an error here as it is in a process apart

    return call, _version(function)


def _key(item: dict[str, Any]) -> bytes:
    return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)


def _new(item: dict[str, Any], number: int) -> Message:
    document = Document(Path("custom"), "", [[item]], [1])
    made = Reader().read(document)[0].messages
    message = made[0] if made else Message(item["role"] if item["role"] in ("system", "user", "assistant", "tool") else "user")
    return Message(message.role, message.text, message.calls, message.call_id, id=f"new{number}")


def _version(function: Callable[..., Any]) -> str:
    try:
        return hashlib.sha256(Path(inspect.getfile(inspect.unwrap(function))).read_bytes()).hexdigest()[:10]
    except (OSError, TypeError):
        return "unknown"


def _load(target: str) -> Callable[..., Any]:
    place, _, name = target.partition(":")
    if not place.endswith(".py"):
        return _callable(load_object(target), target)
    path = Path(place).expanduser()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise BenchError(f"no file {place} for strategy.target={target}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return _callable(getattr(module, name), target)
    except (Exception, SystemExit) as error:
        raise BenchError(f"cannot load {target}: {type(error).__name__}: {error}") from error


def _callable(found: Any, target: str) -> Callable[..., Any]:
    if not callable(found):
        raise BenchError(f"strategy.target={target} is a {type(found).__name__}, not a function")
    return found
