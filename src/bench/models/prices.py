"""List prices and sizes of models, pinned by date. `python -m bench.models.prices` writes today's file in configs/pricing.

They come from the map that the installed litellm carries, so that a run needs no network and says which prices it used.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.paths import config_dir
from bench.types import Usage

MILLION = 1_000_000
_FIELDS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}
_SIZES = ("max_input_tokens", "max_output_tokens", "litellm_provider")
_TIER = re.compile(rf"(?:{'|'.join(_FIELDS.values())})_above_(\d+)k_tokens")  # dearer when the prompt is longer


@dataclass(frozen=True)
class Prices:
    """USD a token by `input`, `output`, `cache_read`, `cache_write`; `tiers` replace some of them above so many prompt tokens."""

    base: Mapping[str, float]
    tiers: tuple[tuple[int, Mapping[str, float]], ...] = ()

    @classmethod
    def per_million(cls, prices: Mapping[str, float]) -> Prices:
        """From USD a million tokens; cached tokens cost what others cost unless they have a price. Raises ValueError."""
        if not {"input", "output"} <= set(prices) <= set(_FIELDS):
            raise ValueError(f"prices has input and output, and may have cache_read and cache_write: {sorted(prices)}")
        if not all(isinstance(price, int | float) and price >= 0 for price in prices.values()):
            raise ValueError("prices are USD a million tokens, 0 or more")
        return cls({name: price / MILLION for name, price in prices.items()})

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Prices | None:
        """From an entry of the map; None when it has no price."""
        base = {name: entry[field] for name, field in _FIELDS.items() if field in entry}
        if not {"input", "output"} <= set(base):
            return None
        limits = sorted({int(found[1]) for field in entry if (found := _TIER.fullmatch(field))})
        tiers = (
            (
                limit * 1_000,
                {name: entry[key] for name, field in _FIELDS.items() if (key := f"{field}_above_{limit}k_tokens") in entry},
            )
            for limit in limits
        )
        return cls(base, tuple(tiers))

    def usd(self, usage: Usage) -> float:
        prompt = usage.input + usage.cache_read + usage.cache_write
        prices = self._at(prompt)
        return (
            usage.input * prices["input"]
            + usage.output * prices["output"]
            + usage.cache_read * prices.get("cache_read", prices["input"])
            + usage.cache_write * prices.get("cache_write", prices["input"])
        )

    def highest(self, prompt: int, output: int) -> float:
        """What a request can cost at most: every token of its prompt at the dearest of its prices."""
        prices = self._at(prompt)
        return prompt * max(prices["input"], prices.get("cache_write", 0.0)) + output * prices["output"]

    def _at(self, prompt: int) -> dict[str, float]:
        prices = dict(self.base)
        for limit, dearer in self.tiers:
            if prompt > limit:
                prices |= dearer
        return prices


def entry(model: str) -> Mapping[str, Any]:
    """What the newest file knows about a model string such as `openai/gpt-4o`; empty when it does not know it."""
    models = table()["models"]
    provider, _, bare = model.partition("/")
    if model not in models and bare in models and models[bare]["litellm_provider"].startswith(provider):
        return models[bare]
    return models.get(model, {})


@cache
def table(file: Path | None = None) -> Mapping[str, Any]:
    """A file of prices, the newest by default: `source`, `sha256` of what it was made from, `date`, `models`."""
    file = file or max((config_dir() / "pricing").glob("*.json.gz"))
    return json.loads(gzip.decompress(file.read_bytes()))


def snapshot() -> dict[str, Any]:
    """The chat models of litellm's bundled map, with their list prices and sizes; litellm itself is not imported."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    whole = (Path(spec.origin).parent / "model_prices_and_context_window_backup.json").read_bytes()
    models = {
        name: {key: value for key, value in fields.items() if value is not None and _wanted(key)}
        for name, fields in json.loads(whole).items()
        if fields.get("mode") in ("chat", "completion", "responses") and isinstance(fields.get("litellm_provider"), str)
    }
    return {
        "source": f"litellm {version('litellm')}",
        "sha256": hashlib.sha256(whole).hexdigest(),
        "date": datetime.now(UTC).date().isoformat(),
        "models": models,
    }


def _wanted(key: str) -> bool:
    return key in _SIZES or key in _FIELDS.values() or _TIER.fullmatch(key) is not None


def main() -> None:
    made = snapshot()
    path = config_dir() / "pricing" / f"{made['date']}.json.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(made, sort_keys=True, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{path}: {len(made['models'])} models of {made['source']}")


if __name__ == "__main__":
    main()
