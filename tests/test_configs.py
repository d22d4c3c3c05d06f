"""Every YAML composes, validates and names something that is registered; nothing registered is without one."""

from __future__ import annotations

from dataclasses import fields

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from bench.agents import make as make_agent
from bench.commands.run import HELP
from bench.config import RunConfig, validate
from bench.paths import config_dir
from bench.registry import AGENTS, FORMATS, PROBES, STRATEGIES
from bench.strategies import make as make_strategy
from bench.types import BenchError

FILES = sorted(config_dir().rglob("*.yaml"))
OPTIONS = sorted((file.parent.name, file.stem) for file in FILES if file.parent != config_dir())
GROUPS = sorted({group for group, _ in OPTIONS})


@pytest.fixture
def composed():
    """Composes `run` with overrides, as the command does: plain values."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield lambda *overrides: OmegaConf.to_container(compose("run", list(overrides)), resolve=True, throw_on_missing=True)
    GlobalHydra.instance().clear()


def options(group: str) -> list[str]:
    return [name for g, name in OPTIONS if g == group]


@pytest.mark.parametrize(("group", "name"), OPTIONS, ids=str)
def test_every_option_composes_and_validates(composed, group, name):
    values = composed(f"{group}={name}")
    values.pop("experiment", None)
    config = validate(values)
    if group in ("strategy", "agent"):
        assert getattr(config, group).name == name


@pytest.mark.parametrize("name", options("strategy"))
def test_every_strategy_option_is_a_registered_strategy_with_all_its_parameters(composed, name):
    parameters = validate(composed(f"strategy={name}")).strategy.parameters
    if name == "custom":
        with pytest.raises(BenchError, match="needs strategy.target="):
            make_strategy(name, parameters)
        parameters |= {"target": "bench.content:joined"}
    made = make_strategy(name, parameters)
    assert made.name == name
    assert set(parameters) == {field.name for field in fields(made) if field.init}
    if name != "custom":
        assert made == type(made)()  # the YAML's values are the class's own


@pytest.mark.parametrize("name", options("agent"))
def test_every_agent_option_is_a_registered_agent(composed, name):
    assert make_agent(name, validate(composed(f"agent={name}")).agent.parameters).name == name


def test_everything_registered_has_an_option():
    assert sorted(options("strategy")) == sorted(STRATEGIES.names())
    assert sorted(options("agent")) == sorted(AGENTS.names())


def test_the_default_categories_are_all_there_are(composed):
    assert composed()["probes"]["categories"] == PROBES.names()


def leaves(values: dict, prefix: str = "") -> dict[str, object]:
    found = {}
    for key, item in values.items():
        found |= leaves(item, f"{prefix}{key}.") if isinstance(item, dict) else {f"{prefix}{key}": item}
    return found


def test_every_key_of_a_run_stands_in_the_files_with_the_value_it_has_without_them(composed):
    values = composed()
    assert values.pop("experiment", None) is None
    whole = validate(values)
    bare = validate(
        {key: values[key] for key in ("strategy", "probes", "agent")} | {"sessions": {}, "replay": {}, "executor": {}}
    )
    assert leaves(values).keys() == leaves(whole.model_dump()).keys()
    assert leaves(whole.model_dump()) == leaves(bare.model_dump())
    assert set(values) == set(RunConfig.model_fields)


def test_every_group_is_in_the_defaults_and_every_default_is_there():
    defaults = yaml.safe_load((config_dir() / "run.yaml").read_text(encoding="utf-8"))["defaults"]
    named = {group: name for item in defaults if isinstance(item, dict) for group, name in item.items() if "/" not in group}
    assert {group for group in named if named[group]} <= set(GROUPS) <= set(named)
    assert all(name is None or (group, name) in OPTIONS for group, name in named.items())


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(config_dir())))
def test_every_file_says_what_it_is_and_its_keys_too(file):
    text = file.read_text(encoding="utf-8")
    assert "# " in text.splitlines()[0]
    for line in text.splitlines():
        key, sign, rest = line.partition(":")
        if sign and not line.startswith((" ", "#")) and rest.strip() and key not in ("name", "categories"):
            assert "#" in rest, f"{key} is not explained"


@pytest.mark.parametrize("name", [*STRATEGIES.names(), *AGENTS.names(), *FORMATS.names()])
def test_the_help_of_run_names_everything(name):
    assert name in HELP
