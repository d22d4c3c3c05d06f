from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("litellm", "datasets", "matplotlib", "pandas", "scipy", "hydra", "pydantic", "tiktoken")


@pytest.mark.parametrize("code", ["import bench", "import bench.__main__", "import bench.sessions, bench.types, bench.registry"])
def test_importing_the_package_imports_nothing_heavy(code):
    found = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print([name for name in {HEAVY} if name in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [["run", "--help"], ["estimate", "-h"], ["list", "strategies"], ["--help"]], ids=" ".join)
def test_help_is_answered_before_hydra_is_imported(arguments):
    code = (
        "import sys; from bench.__main__ import main; code = main(sys.argv[1:]); "
        f"print([name for name in {HEAVY} if name in sys.modules]); sys.exit(code)"
    )
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert found.stdout.strip().splitlines()[-1] == "[]"
    assert len(found.stdout.splitlines()) > 4
