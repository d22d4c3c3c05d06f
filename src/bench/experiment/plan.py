"""What a run will do: its sessions, cuts and frozen probes, and the name that says what it is."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench import grading, prompts
from bench.agents import make as make_agent
from bench.config import RunConfig
from bench.measures.future import Units, units_of
from bench.models import make as make_model
from bench.probes.bank import Bank, build
from bench.registry import FORMATS, PROBES, STRATEGIES
from bench.replay import Cuts, Recorded
from bench.sessions import Loaded, load
from bench.strategies import make as make_strategy
from bench.tokens import TokenCounter, counter
from bench.types import Agent, BenchError, Cut, Model, Session, Strategy

SCHEMA = 1  # of the files of a run
MEASURES_VERSION = "2"


@dataclass
class Plan:
    """Everything a run needs. `notes` are sentences for the user: files left out, sessions too short, short categories."""

    config: RunConfig
    run_id: str
    strategy: Strategy
    label: str  # how tables call the strategy
    model: Model | None
    agent: Agent
    counter: TokenCounter
    sessions: list[Session]
    cuts: list[Cut]
    bank: Bank
    units: Mapping[str, Units]  # by cut: what its future used, for coverage
    notes: list[str] = field(default_factory=list)

    @property
    def versions(self) -> dict[str, str]:
        return _versions(self.strategy, self.agent)

    @property
    def families(self) -> int:
        return len({cut.session.cluster for cut in self.cuts})


Prepared = tuple[list[Session], list[Cut], Bank, dict[str, Units], list[str]]
_BANKS: dict[object, Prepared] = {}  # the jobs of one multirun share their probes


def make(config: RunConfig, progress: Callable[[str], None] = lambda text: None) -> Plan:
    """Resolve names, load the sessions, cut them, and freeze the probes. Set-up errors are BenchErrors."""
    tokens = counter(config.tokenizer)
    wrap = [(wrapper.name, wrapper.parameters) for wrapper in config.strategy.wrap]
    strategy = make_strategy(config.strategy.name, config.strategy.parameters, wrap)
    model = _model(config, strategy)
    agent = make_agent(config.agent.name, config.agent.parameters)
    for name in config.probes.categories:
        PROBES.get(name)
    sessions, cuts, bank, units, notes = _prepared(config, tokens, progress)
    identity = {
        "schema": SCHEMA,
        "config": config.identity(),
        "model": model.identity if model else None,
        "versions": _versions(strategy, agent),
        "sessions": [(s.id, s.source.sha256, s.source.format, FORMATS.get(s.source.format).version) for s in sessions],
        "bank": bank.sha256,
    }
    digest = hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
    run_id, label = f"{strategy.name}-{agent.name}-{digest}", _label(config, strategy, model)
    return Plan(config, run_id, strategy, label, model, agent, tokens, sessions, cuts, bank, units, list(notes))


def _model(config: RunConfig, strategy: Strategy) -> Model | None:
    """The model that the strategy asks; None, whatever is configured, for one that asks none."""
    if not strategy.needs_model:
        return None
    model = make_model(config.model.name, config.model.parameters)
    if model is None:
        raise BenchError(
            f"strategy={strategy.name} asks a model and there is none: model=litellm model.model=PROVIDER/NAME takes any"
            " provider (its key from the environment), with model.api_base=URL any OpenAI-compatible server, and"
            " model=scripted needs nothing but measures sizes only"
        )
    return model


def _label(config: RunConfig, strategy: Strategy, model: Model | None) -> str:
    """The strategy's name, what sets its parameters apart from their defaults, its wrappers, and the model it asks."""
    factory = STRATEGIES.get(config.strategy.name)
    defaults = {field.name: field.default for field in dataclasses.fields(factory)} if dataclasses.is_dataclass(factory) else {}
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in config.strategy.parameters.items()}
    parts = [_part(key, value) for key, value in given.items() if value != defaults.get(key)]
    label = config.strategy.name + (f" ({', '.join(parts)})" if parts else "")
    for wrapper in config.strategy.wrap:
        parts = [_part(*item) for item in wrapper.parameters.items()]
        label += f" + {wrapper.name}" + (f" ({', '.join(parts)})" if parts else "")
    if getattr(strategy, "privileged", False):
        label += " [privileged]"
    return f"{label} / {model.name}" if model else label


def _part(key: str, value: Any) -> str:
    if value is True:
        return key
    text = str(value)
    return f"{key}={text if len(text) <= 40 else '…' + text[-39:]}"


def _versions(strategy: Strategy, agent: Agent) -> dict[str, str]:
    """The versions of everything that has a part in the numbers; a strategy's stand-in and their prompts too."""
    stand_in = getattr(getattr(strategy, "strategy", strategy), "fallback", "")
    acting = {"strategy": strategy, **({"fallback": make_strategy(stand_in, {})} if stand_in else {})}
    return {
        **{part: acted.version for part, acted in acting.items()},
        "agent": agent.version, "grader": grading.VERSION, "measures": MEASURES_VERSION,
        **{f"probes.{name}": PROBES.get(name).version for name in PROBES.names()},
        **{f"prompts.{name}": prompts.version(name) for acted in acting.values() for name in getattr(acted, "prompts", ())},
    }  # fmt: skip


def _prepared(config: RunConfig, tokens: TokenCounter, progress: Callable[[str], None]) -> Prepared:
    """Sessions are read for every plan, for their files may have changed since; the rest is made once for the same sessions."""
    progress("reading sessions")
    place = config.sessions
    loaded = load(place.path, format=place.format, split=place.split)
    key = (
        config.model_dump_json(include={"sessions", "replay", "probes", "seed", "tokenizer"}),
        tuple((session.id, session.source) for session in loaded.sessions),
        tuple(loaded.left_out),
    )
    if key not in _BANKS:
        _BANKS.clear()
        _BANKS[key] = _prepare(config, loaded, tokens, progress)
    return _BANKS[key]


def _prepare(config: RunConfig, loaded: Loaded, tokens: TokenCounter, progress: Callable[[str], None]) -> Prepared:
    place = config.sessions
    sessions, notes = loaded.sessions[: place.limit], [f"left out: {sentence}" for sentence in loaded.left_out]
    asked = config.replay
    replay = Recorded(asked.tail) if asked.name == "recorded" else Cuts(asked.number, asked.first, asked.last, asked.tail)
    cuts: list[Cut] = []
    for session in sessions:
        made, shortage = replay.of(session, tokens)
        cuts += made
        notes += [shortage] if shortage else []
        if session.problems:
            more = f" and {len(session.problems) - 1} more kinds of problem" if len(session.problems) > 1 else ""
            notes.append(f"{session.id}: {session.problems[0]}{more}")
    troubled = [session for session in sessions if session.problems]
    if troubled:
        kinds = sum(len(session.problems) for session in troubled)
        notes.insert(
            0, f"{kinds} kinds of problem inside {len(troubled)} of {len(sessions)} sessions; header.json has all of them"
        )
    if not cuts:
        raise BenchError(f"no session of {place.path or 'the bundled ones'} can be cut: {notes[0] if notes else 'there is none'}")
    others = load().sessions if place.path else []
    bank = build(cuts, others, tokens, config.probes.categories, config.seed, lambda cut: progress(f"probes for {cut}"))
    if not any(bank.probes.values()):
        raise BenchError(f"no probe can be made from {place.path or 'the bundled sessions'}: nothing in them can be asked about")
    notes += bank.shortages()
    progress("what the futures used")
    units = {made.cut: made for made in units_of(cuts, others, config.seed, progress)}
    return sessions, cuts, bank, units, notes
