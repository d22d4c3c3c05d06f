"""Names to things: `name -> "package.module:Object"`, imported on first use, so that listing names costs nothing."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import math
from collections.abc import Mapping
from typing import Any

from bench.types import BenchError


class Registry:
    """Built-in names, plus those that installed packages add through the entry-point group `group`."""

    def __init__(self, kind: str, group: str, targets: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._targets = dict(targets)
        self._complete = False

    def names(self) -> list[str]:
        """Every known name: the built-in ones in their order, then those of installed packages by name."""
        if not self._complete:
            from importlib.metadata import entry_points

            for entry in sorted(entry_points(group=self.group), key=lambda entry: entry.name):
                if self._targets.setdefault(entry.name, entry.value) != entry.value:
                    raise BenchError(
                        f"{self.kind} {entry.name!r} is registered twice: {self._targets[entry.name]} and {entry.value}"
                    )
            self._complete = True
        return list(self._targets)

    def get(self, name: str) -> Any:
        """The object registered under `name`; an unknown name is a BenchError that lists what there is."""
        if name not in self._targets and name not in self.names():
            close = difflib.get_close_matches(name, self._targets, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise BenchError(f"unknown {self.kind} {name!r}{hint}; there are: {', '.join(self._targets)}")
        return load_object(self._targets[name])


def build(kind: str, name: str, factory: Any, parameters: Mapping[str, Any]) -> Any:
    """`factory(**parameters)`; a parameter that a dataclass does not have, or of a wrong type, is a BenchError.

    A list, which is what a configuration holds, arrives as a tuple.
    """
    if dataclasses.is_dataclass(factory):
        _check(kind, name, factory, parameters)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()}
    try:
        return factory(**values)
    except (TypeError, ValueError) as error:
        raise BenchError(f"{kind} {name!r} cannot be made with {dict(parameters)}: {error}") from error


def _check(kind: str, name: str, factory: Any, parameters: Mapping[str, Any]) -> None:
    fields = {
        field.name: str(field.type) for field in dataclasses.fields(factory) if field.init and not field.name.startswith("_")
    }
    for key, value in parameters.items():
        if key not in fields:
            raise BenchError(f"{kind} {name!r} has no parameter {key!r}; it has: {', '.join(fields) or 'none'}")
        if not any(_fits(value, kind_of_value) for kind_of_value in fields[key].split(" | ")):
            raise BenchError(f"{kind}.{key} is {value!r}; {name} wants {fields[key]}")
        if isinstance(value, float) and not math.isfinite(value):
            raise BenchError(f"{kind}.{key} is {value!r}; {name} wants a finite number")


def _fits(value: Any, annotation: str) -> bool:
    """Whether a value from a configuration may be what `annotation` says; one that is not known here takes anything."""
    if annotation == "tuple[str, ...]":
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    wanted = _TYPES.get(annotation)
    return wanted is None or (isinstance(value, wanted) and (not isinstance(value, bool) or bool in wanted))


_TYPES = {
    "int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "None": (type(None),), "Mapping[str, str]": (Mapping,)
}  # fmt: skip


def load_object(target: str) -> Any:
    """Import `package.module:Object`."""
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BenchError(f"cannot import {target!r}: {error}") from error


STRATEGIES = Registry(
    "strategy",
    "bench.strategies",
    {
        "none": "bench.strategies.none:Identity",
        "reset": "bench.strategies.reset:Reset",
        "oldest": "bench.strategies.oldest:Oldest",
        "middle": "bench.strategies.middle:Middle",
        "hybrid": "bench.strategies.hybrid:Hybrid",
        "trim_tools": "bench.strategies.trim_tools:TrimTools",
        "prune": "bench.strategies.prune:Prune",
        "mask_observations": "bench.strategies.mask_observations:MaskObservations",
        "clear_tool_uses": "bench.strategies.clear_tool_uses:ClearToolUses",
        "opencode_prune": "bench.strategies.opencode_prune:OpencodePrune",
        "cline_truncate": "bench.strategies.cline_truncate:ClineTruncate",
        "claude_code": "bench.strategies.claude_code:ClaudeCode",
        "kode": "bench.strategies.kode:Kode",
        "gemini_cli": "bench.strategies.gemini_cli:GeminiCli",
        "gemini_compact": "bench.strategies.gemini_compact:GeminiCompact",
        "gemini_prune": "bench.strategies.gemini_prune:GeminiPrune",
        "jev_prune": "bench.strategies.jev_prune:JevPrune",
        "codex": "bench.strategies.codex:Codex",
        "anchored": "bench.strategies.anchored:Anchored",
        "handoff": "bench.strategies.handoff:Handoff",
        "recorded": "bench.strategies.recorded:Recorded",
        "custom": "bench.strategies.custom:Custom",
    },
)
WRAPPERS = Registry(
    "wrapper",
    "bench.wrappers",
    {
        "reinject": "bench.strategies.wrappers.reinject:Reinject",
        "history_pointer": "bench.strategies.wrappers.history_pointer:HistoryPointer",
        "notes": "bench.strategies.wrappers.notes:Notes",
        "restore_files": "bench.strategies.wrappers.restore_files:RestoreFiles",
    },
)
MODELS = Registry(
    "model",
    "bench.models",
    {
        "scripted": "bench.models.scripted:Scripted",
        "litellm": "bench.models.litellm:LiteLLM",
    },
)
FORMATS = Registry(
    "session format",
    "bench.sessions",
    {
        "canonical": "bench.sessions.canonical:Reader",
        "claude_code": "bench.sessions.claude_code:Reader",
        "openhands": "bench.sessions.openhands:Reader",
        "pi": "bench.sessions.pi:Reader",
        "cline": "bench.sessions.cline:Reader",
        "anthropic": "bench.sessions.anthropic:Reader",
        "tau_bench": "bench.sessions.tau_bench:Reader",
        "openai": "bench.sessions.openai:Reader",
    },
)
AGENTS = Registry(
    "agent",
    "bench.agents",
    {
        "reader": "bench.agents.reader:Reader",
        "oracle": "bench.agents.oracle:Oracle",
        "scripted": "bench.agents.scripted:Scripted",
    },
)
PROBES = Registry(
    "probe category",
    "bench.probes",
    {
        "facts": "bench.probes.facts:Facts",
        "artifacts": "bench.probes.artifacts:Artifacts",
        "file_state": "bench.probes.file_state:FileState",
        "user_messages": "bench.probes.user_messages:UserMessages",
        "work_done": "bench.probes.work_done:WorkDone",
        "name_a_word": "bench.probes.name_a_word:NameAWord",
    },
)
