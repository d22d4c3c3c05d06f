"""`rescore`: recompute grades, survival, structure and the summary of finished runs from what they stored."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.types import BenchError


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench rescore", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder")
    options = parser.parse_args(arguments)
    from bench.experiment.rescore import rescore

    for name in options.runs:
        folder = Path(name)
        if not folder.is_dir():
            raise BenchError(f"no run folder {name}")
        changed = rescore(folder)
        print(f"{folder}: {'changed: ' + ', '.join(changed) if changed else 'every figure as it was'}")
    return 0
