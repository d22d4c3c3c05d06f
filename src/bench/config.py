"""One frozen schema for a run: what Hydra composed, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bench.types import BenchError


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Named(BaseModel):
    """A strategy or an agent: its registered name, and its own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class StrategyConfig(Named):
    """`wrap`: wrappers by name, or `{name: ..., parameter: ...}`; `instructions`: what a user says with the compaction."""

    wrap: tuple[Named, ...] = ()
    instructions: str = ""

    @field_validator("wrap", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return [{"name": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


class SessionsConfig(_Frozen):
    path: str | None = None
    format: str | None = None
    split: Literal["all", "tuning", "held_out"] = "all"
    limit: int | None = Field(default=None, ge=1)


class ReplayConfig(_Frozen):
    name: Literal["cuts", "recorded"] = "cuts"
    number: int = Field(default=5, ge=1, le=100)
    first: float = Field(default=0.35, gt=0, lt=1)
    last: float = Field(default=0.90, gt=0, lt=1)
    tail: int = Field(default=6, ge=1)
    target_ratio: float = Field(default=0.5, gt=0, le=1)
    window: int = Field(default=200_000, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> ReplayConfig:
        if self.first > self.last:
            raise ValueError("replay.first must not be greater than replay.last")
        return self


class ProbesConfig(_Frozen):
    categories: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _once(self) -> ProbesConfig:
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("a category stands twice in probes.categories")
        return self


class ChecksConfig(_Frozen):
    """Checks of the harness itself, in the place of a run. `path`: the folder with the public data of external checks."""

    name: Literal["calibration", "external"] | None = None
    path: str = "../shared"


class ExecutorConfig(_Frozen):
    name: Literal["local"] = "local"
    workers: int = Field(default=1, ge=1, le=256)


class RunConfig(_Frozen):
    strategy: StrategyConfig
    model: Named = Named(name="none")
    sessions: SessionsConfig
    replay: ReplayConfig
    probes: ProbesConfig
    agent: Named
    executor: ExecutorConfig
    checks: ChecksConfig = ChecksConfig()
    seed: int = Field(default=0, ge=0, lt=2**63)
    tokenizer: str = "o200k_base"
    results_dir: str = Field(default="results/runs", min_length=1)
    overwrite: Literal["only-missing", "always", "never"] = "only-missing"
    fail_on_error: float = Field(default=0, ge=0)
    max_usd: float | None = Field(default=None, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _recorded(cls, values: Any) -> Any:
        """What a product left is known where it compacted: strategy=recorded implies replay=recorded."""
        if isinstance(values, dict) and isinstance(values.get("strategy"), dict) and values["strategy"].get("name") == "recorded":
            return values | {"replay": {**(values.get("replay") or {}), "name": "recorded"}}
        return values

    def identity(self) -> dict[str, Any]:
        """What can change a number: everything but operational keys and the place of the sessions (their hashes count).

        The model counts by its own `identity`, and only under a strategy that asks it.
        """
        whole = self.model_dump(exclude={"results_dir", "overwrite", "fail_on_error", "executor", "model", "max_usd", "checks"})
        whole["sessions"] = {key: whole["sessions"][key] for key in ("format", "split", "limit")}
        return whole


def validate(values: Mapping[str, Any]) -> RunConfig:
    """The RunConfig of composed values; what is wrong is a BenchError with one sentence for each key."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise BenchError(f"configuration: {wrong}") from None
