"""List prices: the pinned file, our arithmetic, and litellm's own as an oracle."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.models.litellm import library
from bench.models.prices import Prices, entry, snapshot, table
from bench.types import Usage

SIZES = {"small": Usage(900, 150, 60, 40), "large": Usage(270_000, 4_000, 30_000, 20_000), "plain": Usage(5_000, 10)}


def test_the_pinned_file_says_where_its_prices_come_from():
    found = table()
    assert found["source"].startswith("litellm ")
    assert len(found["sha256"]) == 64
    assert len(found["models"]) > 1_000
    assert {len(found["date"]), found["date"][4]} == {10, "-"}


def test_writing_the_file_anew_imports_no_litellm():
    code = "import sys; from bench.models.prices import snapshot; snapshot(); print('litellm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("usage", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-4o",
        "openai/gpt-4o-mini",
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-haiku-4-5",
        "gemini/gemini-2.5-pro",  # dearer above 200k tokens
        "gemini/gemini-2.5-flash",
        "deepseek/deepseek-chat",
        "mistral/mistral-large-latest",
    ],
)
def test_our_arithmetic_agrees_with_litellms(model, usage):
    litellm = library()
    prompt = usage.input + usage.cache_read + usage.cache_write
    counted = litellm.Usage(
        prompt_tokens=prompt,
        completion_tokens=usage.output,
        total_tokens=prompt + usage.output,
        prompt_tokens_details={"cached_tokens": usage.cache_read},
        cache_creation_input_tokens=usage.cache_write,
        cache_read_input_tokens=usage.cache_read,
    )
    provider = model.partition("/")[0]
    theirs = sum(litellm.cost_calculator.cost_per_token(model=model, custom_llm_provider=provider, usage_object=counted))
    assert Prices.of(entry(model)).usd(usage) == pytest.approx(theirs, rel=1e-9)


def test_tokens_of_a_cache_have_their_own_price_or_that_of_the_others():
    usage = Usage(input=1, output=10, cache_read=100, cache_write=1_000)
    assert Prices.per_million({"input": 3.0, "output": 15.0}).usd(usage) == pytest.approx((1_101 * 3 + 10 * 15) / 1e6)
    whole = Prices.per_million({"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75})
    assert whole.usd(usage) == pytest.approx((3 + 150 + 30 + 3_750) / 1e6)


def test_the_highest_price_is_never_passed():
    prices = Prices({"input": 1.0, "output": 2.0, "cache_read": 0.1, "cache_write": 1.25}, ((1_000, {"input": 3.0}),))
    assert prices.highest(100, 10) == 100 * 1.25 + 20
    assert prices.highest(2_000, 10) == 2_000 * 3 + 20
    for usage in (Usage(100, 10), Usage(0, 10, 0, 100), Usage(50, 5, 25, 25)):
        assert prices.usd(usage) <= prices.highest(100, 10)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-4o", True),
        ("openai/gpt-4o", True),
        ("lm_studio/gpt-4o", False),  # a name of somebody else
        ("openai/no-such-model", False),
        ("", False),
    ],
)
def test_a_model_is_known_by_its_name_and_its_provider(model, known):
    assert (Prices.of(entry(model)) is not None) == known


def test_a_snapshot_keeps_chat_models_and_what_a_price_needs():
    made = snapshot()
    assert set(made["models"]["gpt-4o"]) == {
        "input_cost_per_token",
        "output_cost_per_token",
        "cache_read_input_token_cost",
        "max_input_tokens",
        "max_output_tokens",
        "litellm_provider",
    }
    assert "text-embedding-3-small" not in made["models"]
