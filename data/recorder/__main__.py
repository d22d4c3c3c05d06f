"""Record scenarios: `PYTHONPATH=src:data python -m recorder [FAMILY ...] [--seed N] [--check] [--print]`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

from bench.sessions import canonical
from bench.tokens import counter
from bench.types import Session
from recorder import card, scenarios
from recorder.recording import Recording
from recorder.truth import Truth

DATA = Path(__file__).resolve().parents[1]


def families() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__))


def record(family: str, seed: int = 1, truth: Truth | None = None) -> tuple[Session, Truth]:
    """Play one scenario and return its session with what its author declares of it (kept in `truth`, when given)."""
    module = importlib.import_module(f"recorder.scenarios.{family}")
    recording = Recording(family, module.PROJECT, seed, truth=truth or Truth())
    try:
        module.play(recording)
    finally:
        session = recording.session()
    return session, recording.truth


def main() -> int:
    parser = argparse.ArgumentParser(prog="recorder", description=__doc__)
    parser.add_argument("families", nargs="*", help="default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="record and check, write nothing")
    parser.add_argument("--card", action="store_true", help="write the data card, data/README.md, too")
    parser.add_argument("--print", action="store_true", help="print the recorded session as text")
    options = parser.parse_args()
    failed, recorded = False, []
    for family in options.families or families():
        session, truth = record(family, options.seed)
        tokens = counter().messages(session.messages)
        problems = truth.problems(session.messages, tokens)
        print(f"{session.id}: {len(session.messages)} messages, {tokens:,} tokens, {len(problems)} problems")
        for problem in problems:
            print(f"  {problem}")
        if options.print:
            for message in session.messages:
                calls = "".join(f"\n  -> {call.name} {dict(call.arguments)}" for call in message.calls)
                print(f"--- {message.id} {message.role}\n{message.text}{calls}")
        if not options.check and not problems:
            canonical.write(session, DATA / "sessions" / f"{session.id}.jsonl.gz")
        failed |= bool(problems)
        recorded.append((session, truth))
    if options.card and not failed:
        card.write(recorded, DATA)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
