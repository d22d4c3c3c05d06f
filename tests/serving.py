"""An OpenAI-compatible HTTP server on loopback that behaves as a test tells it, and a LiteLLM model that calls it.

    with serve(status(503, "busy"), answer("A summary.")) as server:
        output = model_for(server).generate([user("Hello")], purpose="summary")
    assert server.requests[0].texts == ["Hello"]

A behaviour is a function of the request to a Reply: a test may write its own. One is used for each request, in order; the
last one repeats.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from typing import Any

from bench.models.litellm import LiteLLM


@dataclass(frozen=True)
class Request:
    """What a client sent. `key` is what stood in its authorization."""

    path: str
    headers: Mapping[str, str]
    json: Mapping[str, Any]
    key: str = field(repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.json.get("messages", [])

    @property
    def texts(self) -> list[str]:
        """The text of each message, parts joined."""
        return [_text(message.get("content")) for message in self.messages]


@dataclass(frozen=True)
class Reply:
    """`sent`: how many bytes of the body go out before the connection is closed, None for all. `delay`: in seconds."""

    status: int
    body: bytes
    sent: int | None = None
    delay: float = 0.0


Behaviour = Callable[[Request], Reply]


@dataclass
class Server:
    """`url` is the api_base; `requests` are those that came, in order; `folder` is for what a client keeps."""

    url: str
    folder: str
    requests: list[Request] = field(default_factory=list)


@contextmanager
def serve(*behaviours: Behaviour) -> Iterator[Server]:
    """Serve until the block ends. Without behaviours every request is answered with the text `ok`."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    http.block_on_close = False  # a client's open keep-alive connection must not hold a test up
    folder = TemporaryDirectory()
    server = Server(f"http://127.0.0.1:{http.server_address[1]}/v1", folder.name)
    http.script, http.made, http.order, http.ending = behaviours or (answer("ok"),), server, threading.Lock(), threading.Event()
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.ending.set()
        http.shutdown()
        http.server_close()
        thread.join()
        folder.cleanup()


def model_for(server: Server, **parameters: Any) -> LiteLLM:
    """A model that calls `server`: no response cache, and waits between attempts too short to notice."""
    usual = {"model": "openai/test-model", "api_base": server.url, "cache": False, "cache_dir": server.folder, "wait": 0.01}
    return LiteLLM(**usual | parameters)


# --- behaviours -----------------------------------------------------------------------------------------------


def answer(
    text: str | None, *, finish: str = "stop", usage: tuple[int, int] = (100, 20), cached: int = 0, **message: Any
) -> Behaviour:
    """A chat completion. `usage` is (prompt, completion) tokens, of which `cached` were read from a prompt cache.

    `message` replaces fields of the message; a field that is `...` is left out.
    """
    fields = {"role": "assistant", "content": text} | message
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "test-model",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {name: value for name, value in fields.items() if value is not ...},
            }
        ],
        "usage": {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }
    return raw(200, body)


def echo() -> Behaviour:
    """Answers with the text of the last message."""
    return lambda request: answer(request.texts[-1])(request)


def status(code: int, message: str = "", /, **error: Any) -> Behaviour:
    """An HTTP error in OpenAI's form; `error` adds to its fields, such as `code`."""
    return raw(code, {"error": {"message": message, "type": "error", "param": None, "code": None} | error})


def raw(code: int, body: Any) -> Behaviour:
    """Any status with any body: bytes as they are, anything else as JSON."""
    return lambda request: Reply(code, body if isinstance(body, bytes) else json.dumps(body).encode())


def slow(seconds: float, then: Behaviour) -> Behaviour:
    return lambda request: replace(then(request), delay=seconds)


def half_closed() -> Behaviour:
    """The connection ends in the middle of the body."""
    return lambda request: replace(answer("half of an answer" * 20)(request), sent=100)


def not_json() -> Behaviour:
    return raw(200, b"<html><body>It works!</body></html>")


def tool_call(name: str = "search", arguments: str = "{}") -> Behaviour:
    """A call of a tool in place of a text."""
    calls = [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}]
    return answer(None, finish="tool_calls", tool_calls=calls)


def wrong_role() -> Behaviour:
    return answer("I am you.", role="user")


def missing_content() -> Behaviour:
    return answer(None, content=...)


def no_choices() -> Behaviour:
    return raw(200, {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test-model", "choices": []})


def refusal(text: str = "I cannot help with that.") -> Behaviour:
    return answer(None, refusal=text)


def by_key(behaviours: Mapping[str, Behaviour]) -> Behaviour:
    """What is done with each key; any other key is refused with 401."""
    return lambda request: behaviours.get(request.key, status(401, "Incorrect API key provided."))(request)


# --- the server -----------------------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        key = headers.pop("authorization", "").removeprefix("Bearer ") or headers.pop("x-api-key", "")
        request = Request(self.path, headers, json.loads(body or b"{}"), key)
        with self.server.order:
            script, requests = self.server.script, self.server.made.requests
            behaviour = script[min(len(requests), len(script) - 1)]
            requests.append(request)
        reply = behaviour(request)
        if self.server.ending.wait(reply.delay):
            return
        try:
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body[: reply.sent])
        except OSError:  # the client did not wait
            self.close_connection = True
        if reply.sent is not None:
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing is printed: a line for each request would bury what a failing test says."""


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
