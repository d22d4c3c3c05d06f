"""`run`: Hydra composes the configuration, the experiment does the work, a table closes it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.paths import config_dir
from bench.types import BenchError

if TYPE_CHECKING:
    from bench.experiment.plan import Plan
    from bench.types import Cut

HELP = """\
usage: python -m bench run [-m] [key=value ...]

Runs a strategy over recorded sessions and reports what it loses. The same command again goes on where it stopped.

  python -m bench run strategy=prune
  python -m bench run -m strategy=none,reset,oldest,middle,trim_tools,prune
  python -m bench run strategy=prune sessions.path=~/.claude/projects/my-app
  python -m bench run strategy=custom strategy.target=my_compactor.py:compact
  python -m bench run strategy=claude_code model=litellm model.model=PROVIDER/NAME
  python -m bench run -m strategy=recorded,prune replay=recorded sessions.path=~/.claude/projects/my-app

keys
  strategy=NAME               without a model: none, reset, oldest, middle, hybrid, trim_tools, prune, mask_observations,
                              clear_tool_uses, opencode_prune, cline_truncate, recorded, custom; with one: claude_code,
                              kode, gemini_cli, gemini_compact, gemini_prune, jev_prune, codex, anchored, handoff;
                              strategy.KEY=VALUE sets a parameter (`python -m bench list strategies` has them all)
  strategy.wrap=[NAME,...]    wrappers: reinject, history_pointer, notes, restore_files ('{name: reinject, file: F.md}')
  strategy.instructions=TEXT  what a user says with the compaction; reaches every summariser
  model=NAME                  none (default), scripted (measures sizes only), litellm with model.model=PROVIDER/NAME and
                              model.api_base=URL for any OpenAI-compatible server; keys come from the environment only
  experiment=NAME             calibration: planted needles, is exactly what must be left found?
                              external_checks: public figures made anew from public data (checks.path=FOLDER)
  max_usd=X                   stop before a model call that could bring what the run spent over this
  sessions.path=PATH          file, folder or glob of recorded sessions; default: the bundled ones
  sessions.format=NAME        canonical, claude_code, openhands, pi, cline, tau_bench, anthropic, openai; default: by content
  sessions.split=NAME         of the bundled families: all, tuning, held_out
  replay=NAME                 cuts (default), recorded: where the recorded product itself compacted
  replay.number=N             cuts a session (5), replay.target_ratio=X share of tokens to keep (0.5)
  agent=NAME                  reader (default), oracle (calibration only), scripted
  executor.workers=N          processes (1)
  overwrite=WORD              only-missing (default), always, never
  results_dir=PATH            default results/runs
  seed=N, tokenizer=NAME, fail_on_error=N

options
  -m, --multirun              run every combination of comma-separated values, then one table of all
  --cfg job                   print the composed configuration and stop
  --config-dir DIR            a folder with YAML files of your own
  --hydra-help                what Hydra itself takes

exit codes: 0 done, 1 done with more failed cells than fail_on_error, 2 usage or set-up
"""

_FREE_TEXT = (
    "sessions.path",
    "results_dir",
    "strategy.target",
    "strategy.instructions",
    "model.api_base",
    "model.model",
    "checks.path",
)


def main(arguments: Sequence[str]) -> int:
    if set(arguments) & {"-h", "--help"}:
        print(HELP, end="")
        return 0
    return with_hydra("run", arguments, _job, _finish)


def with_hydra(
    command: str, arguments: Sequence[str], job: Callable[[dict[str, Any]], Any], finish: Callable[[list[Any]], int]
) -> int:
    """Compose the configuration of `arguments` with Hydra, call `job` on each, then `finish` on what they returned.

    A job's BenchError is printed when it happens, lets the other jobs of a multirun finish, and makes the exit code 2.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come to us as exceptions, to be said in one sentence
    import hydra
    import yaml
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    done: list[Any] = []
    failed: list[str] = []
    crashed: list[Exception] = []

    @hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="run")
    def composed(config: DictConfig) -> None:
        values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        try:
            done.append(job(values))
        except BenchError as error:
            failed.append(str(error))
        except Exception as error:
            crashed.append(error)
            raise

    sys.argv = [f"python -m bench {command}", *_arranged(arguments)]
    try:
        composed()
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError) as error:
        if crashed:
            raise  # ours, not a wrong configuration
        raise BenchError(_sentence(error)) from None
    for sentence in dict.fromkeys(failed):
        print(f"error: {sentence}", file=sys.stderr)
    code = finish(done) if done else 0
    return 2 if failed else code


def _arranged(arguments: Sequence[str]) -> list[str]:
    """Flags first (Hydra 1.3 refuses them after the first override), and free text quoted for Hydra's grammar."""
    flags, overrides, takes_value = [], [], False
    for argument in arguments:
        if takes_value or argument.startswith("-"):
            flags.append(argument)
            takes_value = argument in (
                "--cfg",
                "-c",
                "--config-dir",
                "-cd",
                "--config-name",
                "-cn",
                "--config-path",
                "-cp",
                "--package",
                "-p",
            )
        else:
            overrides.append(_quoted(argument))
    return flags + overrides


def _quoted(override: str) -> str:
    """Free text as Hydra's quoted string, in which a backslash means itself unless it stands before a quote or the end."""
    key, sign, value = override.partition("=")
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if key.lstrip("+") not in _FREE_TEXT or not sign or value == "null" or quoted:
        return override
    escaped = re.sub(r"(\\*)('|\Z)", lambda end: end[1] * 2 + end[2].replace("'", "\\'"), value)
    return f"{key}='{escaped}'"


def _sentence(error: Exception) -> str:
    """Hydra's message in one sentence, without its search path and its advice to append keys."""
    text = str(error).split("Config search path")[0]
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return f"unknown key {unknown[1]!r}; python -m bench run --help lists the keys"
    missing = re.search(r"Could not find '([^'/]+)/([^']+)'\s+Available options in '[^']*':\s*(.*)", text, re.DOTALL)
    if missing:
        return f"unknown {missing[1]} {missing[2]!r}; there are: {', '.join(missing[3].split())}"
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not re.match(r"full_key|object_type|reference_type", line.strip())
    ]
    return "; ".join(lines) or type(error).__name__


def _job(values: dict[str, Any]) -> Path:
    from bench.commands.screen import reporter
    from bench.config import validate
    from bench.experiment import checks, plan, runner

    values.pop("experiment", None)
    config = validate(values)
    with reporter() as report:
        if config.checks.name:
            return checks.run(config, report.stage)
        made = plan.make(config, report.stage)
        if made.model and (ahead := runner.pending(made)):
            report.say(announcement(made, ahead))
        report.stage(made.label)
        return runner.run(made, report.cells)


def announcement(made: Plan, cuts: Sequence[Cut]) -> str:
    """What is about to leave this machine for the cuts that are not done yet: where to, how much, at what price."""
    from bench.experiment.forecast import forecast

    model = made.model
    assert model is not None
    if not model.endpoint:
        return f"note: {model.warning}"
    ahead = forecast(made, cuts)
    price = "no price is known" if ahead.usd is None else f"about ${ahead.usd:.2f} at most"
    text = f"{made.label}: sends to {model.endpoint}: {ahead} ({price}; what the response cache holds is not sent again)"
    return f"{text}\nwarning: {model.warning}" if model.warning else text


def _finish(folders: list[Path]) -> int:
    from bench.commands.results import exceeded, print_checks, print_runs
    from bench.experiment.store import Run

    checked = [folder for folder in dict.fromkeys(folders) if (folder / "checks.json").is_file()]
    failed = [folder for folder in checked if not print_checks(folder)]
    runs = [Run(folder) for folder in dict.fromkeys(folders) if folder not in checked]
    if runs:
        print_runs(runs)
    return int(bool(failed) or any(exceeded(run) for run in runs))
