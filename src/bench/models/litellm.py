from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.models import prices as pricing
from bench.models.answers import problem, read
from bench.models.budget import Budget
from bench.models.cache import ResponseCache, cache_folder
from bench.models.keys import PLACEHOLDER, hide, without_login
from bench.models.limits import Rates, Slots
from bench.models.retry import again, exponential
from bench.sessions.openai import export
from bench.tokens import counter
from bench.types import BenchError, Message, ModelError, Output, Retry, Usage

# What a call sets itself; a key in `parameters` would stand in the header of every run.
_OWN = {
    "model", "messages", "api_base", "base_url", "api_key", "temperature", "max_tokens", "max_completion_tokens",
    "response_format", "timeout", "num_retries", "max_retries", "stream", "n", "mock_response",
}  # fmt: skip


@dataclass(frozen=True)
class LiteLLM:
    """Any model that litellm reaches: `model` is PROVIDER/NAME, `api_base` the URL of an OpenAI-compatible server.

    configs/model/litellm.yaml explains the parameters. `tier`, `timeout`, `retries`, `wait`, `concurrency`, the limits a
    minute and the two of the cache change no answer and are not part of `identity`; `keys` are names of environment
    variables, their values are never kept in a file. A request over the window is refused before it is sent.
    """

    model: str = ""
    api_base: str | None = None
    keys: Sequence[str] = ()
    temperature: float | None = 0.0
    parameters: Mapping[str, Any] | None = None
    schema: bool = True
    prompt_cache: bool = True
    window: int | None = None
    max_output: int | None = None
    prices: Mapping[str, float] | None = None
    tier: str = "paid"
    timeout: float = 300.0
    retries: int = 3
    wait: float = 2.0
    concurrency: int = 4
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    cache: bool = True
    cache_dir: str | None = None
    _budget: Budget | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.model:
            raise BenchError("model=litellm needs model.model=PROVIDER/NAME, such as anthropic/claude-sonnet-4-5")
        self._check()
        known = pricing.entry(self.model)
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "window", self.window or known.get("max_input_tokens"))
        object.__setattr__(self, "max_output", self.max_output or known.get("max_output_tokens"))
        if not self._keys:
            raise BenchError(self._no_key())
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # answers are as private as sessions
        except OSError as error:
            raise BenchError(f"{self._folder} cannot be made ({error.strerror}): set model.cache_dir") from None

    def _check(self) -> None:
        # BenchErrors where a value may hold a secret: the text of a ValueError repeats all parameters.
        if self.api_base is not None:
            if urlsplit(self.api_base).scheme not in ("http", "https") or self.api_base != without_login(self.api_base):
                raise BenchError("model.api_base is an http or https URL without a user name; keys come from the environment")
            if "/" not in self.model:
                raise BenchError(
                    f"with api_base, model.model is PROVIDER/NAME: openai/{self.model} for an OpenAI-compatible server"
                )
        if own := _OWN & set(self.parameters or ()):
            raise BenchError(f"model.parameters cannot set {', '.join(sorted(own))}")
        if self.tier not in ("paid", "free"):
            raise ValueError(f"tier is paid or free: {self.tier!r}")
        if self.timeout <= 0 or self.retries < 0 or self.wait < 0 or self.concurrency < 1:
            raise ValueError("timeout is over 0, retries and wait are 0 or more, concurrency is 1 or more")
        for name in ("window", "max_output", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} is 1 or more, or null")
        if self.prices:
            pricing.Prices.per_million(self.prices)

    # --- what it is -------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.model

    @property
    def identity(self) -> Mapping[str, Any]:
        """What can change an answer, or the price of one."""
        return {
            "name": "litellm",
            "version": "1",
            "model": self.model,
            "endpoint": self.endpoint,
            "temperature": self.temperature,
            "parameters": dict(self.parameters or {}),
            "schema": self.schema,
            "prompt_cache": self.prompt_cache,
            "window": self.window,
            "max_output": self.max_output,
            "prices": dict(self._prices.base) if self._prices else None,
        }

    @cached_property
    def endpoint(self) -> str:
        """Where a request goes: a URL, or the name of a provider at its own address."""
        provider = self.model.partition("/")[0] if "/" in self.model else pricing.entry(self.model).get("litellm_provider")
        provider = provider or self.model
        named = (os.environ.get(f"{provider.upper()}_{suffix}") for suffix in ("BASE_URL", "API_BASE"))
        return self.api_base or next((without_login(url) for url in named if url), provider)

    @property
    def warning(self) -> str:
        if self.tier == "paid":
            return ""
        return "on a free tier, what is sent may be used by the provider for training and read by people"

    def price(self, usage: Usage) -> float | None:
        """USD of a call; None when no price is known, or the provider counted nothing."""
        return self._prices.usd(usage) if self._prices and usage != Usage() else None

    def limit(self, folder: Path, max_usd: float) -> None:
        """From now on, no call is made that could bring what the run in `folder` spent over `max_usd`."""
        if self._prices is None:
            raise BenchError(
                f"max_usd needs the price of {self.model}, and it is not known: set model.prices={{input: X, output: Y}},"
                " in USD a million tokens"
            )
        if self.max_output is None:
            raise BenchError(f"max_usd needs the longest answer of {self.model}, and it is not known: set model.max_output")
        object.__setattr__(self, "_budget", Budget(folder, max_usd))

    # --- asking it --------------------------------------------------------------------------------------------

    def generate(
        self,
        messages: Sequence[Message],
        *,
        purpose: str,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        retry: Retry | None = None,
    ) -> Output:
        """Answer `messages`. Raises ModelError, and OverBudget under a `limit`. `purpose` changes nothing."""
        size = counter().messages(messages)
        if self.window is not None and size > self.window:
            text = f"the request has {size} tokens and the window of {self.model} is {self.window}: it was not sent"
            raise ModelError("window", text, gap=size - self.window)
        if max_tokens is not None and self.max_output is not None:
            max_tokens = min(max_tokens, self.max_output)
        request = self._request(messages, schema, max_tokens)
        parts = {"endpoint": self.endpoint, **request}
        if self.cache and (known := self._responses.get(parts)):
            return known
        with self._slots.one():
            output = again(lambda: self._attempt(request, size), retry or exponential(self.retries, self.wait))
        if self.cache and output.finish in ("stop", "length") and output.text.strip():
            self._responses.put(parts, output)
        return output

    def _request(self, messages: Sequence[Message], schema: Mapping[str, Any] | None, max_tokens: int | None) -> dict[str, Any]:
        sent = export(messages)
        if self.prompt_cache and "claude" in self.model.lower() and len(sent) > 1 and sent[-2]["content"]:
            # One marker on the last message but one keeps everything before the newest for the next call.
            sent[-2]["content"] = [{"type": "text", "text": sent[-2]["content"], "cache_control": {"type": "ephemeral"}}]
        request: dict[str, Any] = {"model": self.model, "messages": sent, **(self.parameters or {})}
        if self.temperature is not None:
            request["temperature"] = self.temperature
        if max_tokens is not None:
            request["max_tokens"] = max_tokens
        if schema is not None and self.schema and (self.api_base or library().supports_response_schema(self.model)):
            form = {"name": "answer", "schema": schema, "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        return request

    def _attempt(self, request: Mapping[str, Any], size: int) -> Output:
        """One answer with the first key that is let in: a key that is refused, or used up, is followed by the next at once."""
        longest = request.get("max_tokens") or 0
        problems = []
        for key in self._keys:
            self._rates.wait(size + longest)
            try:
                return self._ask(request, size, key)
            except ModelError as error:
                if error.kind not in ("rate_limit", "key"):
                    raise
                problems.append(error)
        raise next((error for error in problems if error.kind == "rate_limit"), problems[-1])

    def _ask(self, request: Mapping[str, Any], size: int, key: str | None) -> Output:
        complete, budget = library().completion, self._budget
        if budget:
            assert self._prices is not None
            reserved = budget.reserve(self._prices.highest(size, request.get("max_tokens") or self.max_output or 0))
        began = time.perf_counter()
        try:
            output = read(
                complete(**request, api_base=self.api_base, api_key=key, timeout=self.timeout, num_retries=0, max_retries=0)
            )
        except ModelError:
            raise
        except Exception as error:
            found = problem(error, self.endpoint, self.timeout, lambda text: hide(text, self._keys))
            if budget and found.kind in ("key", "rate_limit", "unavailable", "window", "request"):
                budget.settle(reserved, 0.0)  # it was refused; in any other case it may have been billed
            raise found from None
        usd = self.price(output.usage)
        if budget and usd is not None:
            budget.settle(reserved, usd)
        return replace(output, usd=usd, seconds=time.perf_counter() - began)

    # --- what it needs ----------------------------------------------------------------------------------------

    @cached_property
    def _keys(self) -> tuple[str | None, ...]:
        """The keys to try in order; None leaves it to litellm to find what the provider wants in the environment."""
        if self.keys:
            return tuple(value for name in self.keys if (value := os.environ.get(name)))
        if self.api_base:
            return (PLACEHOLDER,)
        return () if self._missing else (None,)

    @cached_property
    def _missing(self) -> list[str]:
        litellm = library()
        try:
            litellm.get_llm_provider(self.model)
        except litellm.BadRequestError:
            raise BenchError(f"litellm knows no provider of {self.model!r}: model.model is PROVIDER/NAME") from None
        return litellm.validate_environment(self.model)["missing_keys"]

    def _no_key(self) -> str:
        if self.keys:
            return f"{self.model} needs a key in one of the environment variables {', '.join(self.keys)}"
        return (
            f"{self.model} needs its key in the environment ({', '.join(self._missing)});"
            " model.keys names another variable, model.api_base a server of your own"
        )

    @cached_property
    def _prices(self) -> pricing.Prices | None:
        return pricing.Prices.per_million(self.prices) if self.prices else pricing.Prices.of(pricing.entry(self.model))

    @property
    def _folder(self) -> Path:
        return cache_folder(self.cache_dir)

    @cached_property
    def _responses(self) -> ResponseCache:
        return ResponseCache(self._folder)

    @cached_property
    def _slots(self) -> Slots:
        return Slots(self._folder / "slots", self.endpoint, self.concurrency)

    @cached_property
    def _rates(self) -> Rates:
        name = f"{self.endpoint} {self.model}"
        return Rates(self._folder, name, requests=self.requests_per_minute, tokens=self.tokens_per_minute)


@cache
def library() -> Any:
    """litellm, imported on first use (seconds), quiet, and calling nobody but the endpoint that is asked."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_OFFLINE_MODE"] = "true"  # its other catalogues
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads a .env file into the environment
    with warnings.catch_warnings():  # of pydantic, about types inside litellm
        warnings.simplefilter("ignore")
        import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm
