"""Offline token counts. Each message is counted once: strategies move messages, they rarely rewrite them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import orjson

from bench.types import BenchError, Message

DEFAULT_ENCODING = "o200k_base"
PIECE = 400_000  # characters encoded at once
MESSAGE_OVERHEAD = 4  # role and separators of one chat message, the usual estimate for OpenAI's chat format


class TokenCounter:
    """Counts with one tiktoken encoding; remembers the count of every message it has seen, by content."""

    def __init__(self, name: str) -> None:
        _find_encodings()
        import tiktoken

        try:
            self._encoding = tiktoken.get_encoding(name)
        except (ValueError, OSError) as error:
            raise BenchError(f"token encoding {name!r} is not available here; o200k_base and cl100k_base are") from error
        self.name = name
        self._seen: dict[tuple[object, ...], int] = {}

    def encode(self, text: str) -> list[int]:
        # Transcripts contain strings such as "<|endoftext|>": they are text here, never control tokens. A million
        # spaces in a row are too much for tiktoken, so long texts are encoded in pieces.
        pieces = (text[n : n + PIECE] for n in range(0, len(text), PIECE))
        return [token for piece in pieces for token in self._encoding.encode_ordinary(piece)]

    def text(self, text: str) -> int:
        return len(self.encode(text))

    def message(self, message: Message) -> int:
        """Tokens of text, thinking, call names and arguments, plus 4 for the message itself. Images count nothing."""
        key = (message.text, message.thinking, tuple((call.name, str(call.arguments)) for call in message.calls))
        known = self._seen.get(key)
        if known is None:
            known = MESSAGE_OVERHEAD + self.text(message.text) + self.text(message.thinking)
            for call in message.calls:
                arguments = call.arguments if isinstance(call.arguments, str) else orjson.dumps(dict(call.arguments)).decode()
                known += self.text(call.name) + self.text(arguments)
            self._seen[key] = known
        return known

    def messages(self, messages: Iterable[Message]) -> int:
        return sum(self.message(message) for message in messages)


@cache
def counter(name: str = DEFAULT_ENCODING) -> TokenCounter:
    return TokenCounter(name)


def _find_encodings() -> None:
    """Point tiktoken at the encodings that litellm's wheel carries; a user's own `TIKTOKEN_CACHE_DIR` wins.

    tiktoken checks their sha256 itself. `find_spec` looks litellm up without importing it, which would cost seconds.
    """
    if "TIKTOKEN_CACHE_DIR" in os.environ:
        return
    spec = importlib.util.find_spec("litellm")
    if spec and spec.origin:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(spec.origin).parent / "litellm_core_utils" / "tokenizers")
