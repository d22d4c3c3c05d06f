"""Run every strategy that needs no model on the bundled sessions and keep the summaries in results/baseline (`make baseline`).

Beside them: what `make run` prints, and how well the reader reads, on the tuning half, on the held-out half, and on
questions that no template made.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench import registry
from bench.agents import make
from bench.experiment.store import Run
from bench.grading import RuleGrader
from bench.paths import data_dir
from bench.sessions import load
from bench.stats import mean
from bench.types import Probe

STRATEGIES = tuple(
    name
    for name in registry.STRATEGIES.names()
    if not registry.STRATEGIES.get(name).needs_model and name not in ("recorded", "custom")
)
BASELINE = Path(__file__).parent / "baseline"
REPOSITORY = Path(__file__).parents[1]


def bench(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return done.stdout


def summaries_of(output: str) -> list[dict]:
    """The summaries of the runs whose folders the output names last, without their timing."""
    folders = [REPOSITORY / line for line in output.splitlines() if line.startswith("results/runs/")]
    return [{name: value for name, value in Run(folder).summary.items() if name != "seconds"} for folder in folders]


def hand_worded() -> dict:
    """The reader on the hand-worded questions, each asked of its whole session: share right, with n and clusters."""
    sessions = {session.id: session for session in load().sessions}
    reader, grader = make("reader", {}), RuleGrader()
    scores, clusters, outcomes = [], [], []
    for line in (data_dir() / "questions" / "hand_worded.jsonl").read_text().splitlines():
        item = json.loads(line)
        session = sessions[item["session"]]
        probe = Probe(item["question"], "facts", item["question"], item["answer_type"], tuple(item["gold"]))
        score = grader.grade(probe, reader.answer(session.messages, probe.ask()))
        scores.append(score.value)
        outcomes.append(score.outcome)
        clusters.append(session.cluster)
    found = mean(scores, clusters)
    by_session = {name: sum(s for s, c in zip(scores, clusters) if c == name) for name in dict.fromkeys(clusters)}
    return {
        "right": sum(scores), "n": found.n, "clusters": found.clusters, "by_session": by_session,
        "outcomes": {name: outcomes.count(name) for name in sorted(set(outcomes))},
    }  # fmt: skip


def keep(name: str, values: dict | str) -> None:
    text = values if isinstance(values, str) else json.dumps(values, indent=1, sort_keys=True) + "\n"
    (BASELINE / name).write_text(text)


def main() -> None:
    for summary in summaries_of(bench("run", "-m", f"strategy={','.join(STRATEGIES)}")):
        keep(f"{summary['strategy']['name']}.json", summary)
    keep("make_run.txt", bench("run", "strategy=prune"))
    for half in ("tuning", "held_out"):
        keep(f"reader_{half}.json", summaries_of(bench("run", "strategy=reset", f"sessions.split={half}"))[0])
    keep("reader_hand_worded.json", hand_worded())


if __name__ == "__main__":
    main()
