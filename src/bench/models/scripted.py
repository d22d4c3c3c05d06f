from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bench.tokens import counter
from bench.types import Message, Output, Retry, Usage


@dataclass(frozen=True)
class Scripted:
    """No language model: a pure function of the request, for tests and where only the size rules matter.

    Asked for text, it gives the last `characters` characters of the request. Asked for JSON, it gives one item for each
    value of an enumeration named `id`, with the other fields drawn from a hash of that id, so that judgements differ
    from call to call and are the same in every run; `choice` is taken instead wherever an enumeration has it (keep,
    truncate, drop: the bounds of what a judge can do). What it writes is no summary: a row made with it measures sizes
    and rules, and says so.
    """

    characters: int = 4_000
    choice: str = ""
    name: ClassVar[str] = "scripted"
    window: ClassVar[int | None] = None
    max_output: ClassVar[int | None] = None
    endpoint: ClassVar[str] = ""
    warning: ClassVar[str] = "model=scripted writes no summary: its rows measure sizes and rules, not what a model would keep"

    def __post_init__(self) -> None:
        if self.characters < 1:
            raise ValueError("characters is 1 or more")

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, "version": "1", "characters": self.characters, "choice": self.choice}

    def price(self, usage: Usage) -> float | None:
        return 0.0

    def limit(self, folder: Path, max_usd: float) -> None:
        """Nothing is spent here."""

    def generate(
        self,
        messages: Sequence[Message],
        *,
        purpose: str,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        retry: Retry | None = None,
    ) -> Output:
        whole = "\n".join(message.text for message in messages)
        text = whole[-self.characters :] if schema is None else json.dumps(_instance(schema, "", self.choice))
        tokens = counter()
        return Output(text, usage=Usage(input=tokens.messages(messages), output=tokens.text(text)), usd=0.0)


def _instance(schema: Mapping[str, Any], salt: str, choice: str) -> Any:
    """Something that a JSON schema allows, the same for the same `salt`."""
    if "enum" in schema:
        return choice if choice in schema["enum"] else schema["enum"][_number(salt) % len(schema["enum"])]
    match schema.get("type"):
        case "object":
            return {name: _instance(part, f"{salt}.{name}", choice) for name, part in schema.get("properties", {}).items()}
        case "array":
            item = schema["items"]
            names = item.get("properties", {}).get("id", {}).get("enum")
            return [_instance(item, name, choice) | {"id": name} for name in names or ()] or [_instance(item, salt, choice)]
        case "number":
            return _number(salt) % 101 / 100
        case "integer":
            return _number(salt) % 101
        case "boolean":
            return bool(_number(salt) % 2)
    return salt


def _number(salt: str) -> int:
    return int.from_bytes(hashlib.sha256(salt.encode()).digest()[:4])
