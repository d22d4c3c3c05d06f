"""README.md and the committed baseline say what the program says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.config import validate
from bench.experiment import plan, runner
from bench.experiment.store import Run
from keep_baseline import STRATEGIES

ROOT = Path(__file__).parents[1]


def test_the_generated_parts_of_the_readme_are_what_the_baseline_gives():
    done = subprocess.run([sys.executable, ROOT / "results" / "write_readme.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "README.md is behind results/baseline: make readme"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_baseline_is_what_a_run_gives(tmp_path, strategy):
    """Deterministic, so every figure must be the same to the last digit; a change is a diff to review."""
    import yaml

    groups = {
        "strategy": strategy,
        "sessions": "bundled",
        "replay": "cuts",
        "probes": "default",
        "agent": "reader",
        "executor": "local",
    }
    values = {group: yaml.safe_load((ROOT / "configs" / group / f"{name}.yaml").read_text()) for group, name in groups.items()}
    made = plan.make(validate(values | {"results_dir": str(tmp_path)}))
    found = Run(runner.run(made)).summary
    expected = json.loads((ROOT / "results" / "baseline" / f"{strategy}.json").read_text())
    assert {name: value for name, value in found.items() if name != "seconds"} == expected
