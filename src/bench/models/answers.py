"""What comes back through litellm, in our terms: a completion as Output, a failure as ModelError."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from bench.types import FinishReason, ModelError, ModelErrorKind, Output, Usage

LONGEST = 200  # characters of a provider's words
_FINISH: dict[str, FinishReason] = {"stop": "stop", "tool_calls": "stop", "length": "length", "content_filter": "refusal"}
_KINDS: dict[int, ModelErrorKind] = {401: "key", 402: "key", 403: "key", 408: "timeout", 429: "rate_limit"}
_TOKENS = re.compile(r"(\d[\d,]{2,})(?=\)|\s*(?:tokens|maximum))")  # the two numbers in a provider's "too long"


def read(completion: Any) -> Output:
    """A completion without its price and seconds. ModelError("answer") when it has no usable form."""
    if not completion.choices:
        raise ModelError("answer", "the answer has no choices")
    choice, message = completion.choices[0], completion.choices[0].message
    if message.role != "assistant":
        raise ModelError("answer", f"the answer has the role {message.role}")
    text, refusal = message.content, getattr(message, "refusal", None)
    finish = _FINISH.get(choice.finish_reason, "other")
    if refusal:
        text, finish = text or refusal, "refusal"
    elif message.tool_calls and not text:
        finish = "tool_calls"
    elif text is None and finish not in ("refusal", "length"):
        raise ModelError("answer", "the answer has no content")
    return Output(text or "", finish, _usage(getattr(completion, "usage", None)))


def _usage(counted: Any) -> Usage:
    """litellm counts what was read from or written to a prompt cache as part of the prompt, for every provider."""
    if counted is None:
        return Usage()
    details = counted.prompt_tokens_details
    cache_read = getattr(details, "cached_tokens", None) or 0
    cache_write = getattr(details, "cache_creation_tokens", None) or getattr(counted, "cache_creation_input_tokens", None) or 0
    prompt = max(0, (counted.prompt_tokens or 0) - cache_read - cache_write)
    return Usage(prompt, counted.completion_tokens or 0, cache_read, cache_write)


def problem(error: Exception, endpoint: str, seconds: float, hide: Callable[[str], str]) -> ModelError:
    """The ModelError that `error`, raised by litellm, stands for.

    litellm calls a broken connection and an unreadable answer "HTTP 500" too, so what the HTTP client met is looked up
    in the chain of causes. `hide` takes the keys out of a provider's words.
    """
    import httpx
    import litellm

    def words(text: object) -> str:
        line = " ".join(hide(str(text)).split())
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"

    links = list(_chain(error))
    met = next((link for link in links if isinstance(link, httpx.HTTPStatusError | httpx.TransportError)), None)
    if isinstance(met, httpx.HTTPStatusError):
        status, (said, code) = met.response.status_code, _said(met.response)
        message = f"HTTP {status}: {words(said)}"
        if isinstance(error, litellm.ContextWindowExceededError):
            return ModelError("window", message, status=status, gap=_gap(said))
        if isinstance(error, litellm.ContentPolicyViolationError) or code in ("content_policy_violation", "content_filter"):
            return ModelError("answer", f"the model refused ({message})", status=status)
        return ModelError(_kind(status), message, status=status)
    if isinstance(met, httpx.TimeoutException):
        return ModelError("timeout", f"no answer within {seconds:g} s from {endpoint}")
    if met is not None:
        return ModelError("connection", f"the connection to {endpoint} failed: {words(met)}")
    inside = next((link for link in links if type(link) is Exception and hasattr(link, "status_code")), None)
    if inside is not None:  # an error in the body of an answer with status 200, as routers of many providers send it
        code = inside.status_code if isinstance(inside.status_code, int) else 200
        return ModelError("answer" if code < 400 else _kind(code), f"error {code}: {words(getattr(inside, 'message', ''))}")
    code = getattr(error, "status_code", None)
    if code is None or code >= 500:
        return ModelError("answer", f"the answer cannot be read: {words(error)}")
    return ModelError(_kind(code), words(error))


def _kind(status: int) -> ModelErrorKind:
    return _KINDS.get(status, "unavailable" if status >= 500 else "request")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it came from, up to an earlier failed call that was being handled meanwhile."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen and not isinstance(error, ModelError):
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _said(response: Any) -> tuple[str, object]:
    """A provider's words and its code for the error, from the body that it sent."""
    try:
        body = response.json()
    except ValueError:
        return response.text or response.reason_phrase, None
    body = body[0] if isinstance(body, list) and body else body
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return str(inner), None
    text = inner.get("message") or inner.get("detail") or (body.get("message") if isinstance(body, dict) else None)
    return str(text or response.text), inner.get("code")


def _gap(said: str) -> int | None:
    numbers = [int(number.replace(",", "")) for number in _TOKENS.findall(said)]
    return abs(numbers[0] - numbers[1]) or None if len(numbers) > 1 else None
