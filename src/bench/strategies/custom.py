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
from bench.types import BenchError, Compaction, CompactionRequest, Message


@dataclass(frozen=True)
class Custom:
    """Anybody's compactor: `target` is `file.py:callable` or `package.module:callable`.

    The callable takes a list of OpenAI chat messages and returns one. A returned message that equals a given one counts
    as that message, kept; any other is new. Its code runs in this process: name only code you trust. The version is a
    hash of the file that holds the callable, so that an edited compactor is another run.
    """

    target: str = ""
    version: str = field(init=False, default="")
    name: ClassVar[str] = "custom"
    needs_model: ClassVar[bool] = False
    _function: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        function = _load(self.target)
        object.__setattr__(self, "_function", function)
        object.__setattr__(self, "version", _version(function))

    def compact(self, context: Sequence[Message], request: CompactionRequest) -> Compaction:
        given = export(context)
        originals: dict[bytes, list[Message]] = {}
        for item, message in zip(given, context):
            originals.setdefault(_key(item), []).append(message)
        returned = self._function(given)
        if not isinstance(returned, list) or not all(isinstance(item, dict) and "role" in item for item in returned):
            return Compaction(tuple(context), "invalid", f"{self.target} did not return a list of chat messages")
        messages: list[Message] = []
        for number, item in enumerate(returned):
            known = originals.get(_key(item))
            messages.append(known.pop(0) if known else _new(item, number))
        unchanged = tuple(messages) == tuple(context)
        return Compaction(tuple(messages), "noop" if unchanged else "applied")


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


def _load(target: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    place, _, name = target.partition(":")
    if not place or not name:
        raise BenchError("strategy=custom needs strategy.target=my_file.py:function or package.module:function")
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
