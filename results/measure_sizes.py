"""What seed 003 left open: how large a long session is after each of its two modes, and after every other strategy.

    python results/measure_sizes.py PATH     # recorded sessions, cut where the recorded product itself compacted

Writes docs/sizes.md. No model is asked: `gemini_compact` and the other summarisers are given a text of 4,000 and of
16,000 characters for their summary, so that their sizes follow from their rules and that number; the two judges are
given the same answer for every call, which are the bounds of what they can decide.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

from bench.analysis.table import markdown
from bench.experiment.store import Run

LONG = 50_000  # tokens of a context that counts as long
REPOSITORY = Path(__file__).parents[1]
OFFLINE = "recorded,reset,oldest,middle,hybrid,trim_tools,prune,mask_observations,clear_tool_uses,opencode_prune,cline_truncate"
JOBS = (
    (f"strategy={OFFLINE}",),
    ("strategy=gemini_compact", "model=scripted", "model.characters=4000,16000"),
    ("strategy=gemini_prune", "strategy.fallback=none", "model=scripted", "model.choice=truncate,drop"),
    ("strategy=claude_code,kode,gemini_cli,codex,anchored,handoff", "model=scripted", "model.characters=4000"),
)  # fmt: skip


def bench(*arguments: str) -> list[Run]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True
    )
    return [Run(REPOSITORY / line) for line in done.stdout.splitlines() if line.startswith("results/runs/")]


def row(run: Run) -> list[str]:
    """Sizes over the long contexts of a run: median and range of what is left, in tokens and as a share."""
    lines = [line for line in run.compactions.values() if line["tokens_before"] >= LONG]
    left = sorted(line["tokens_after"] for line in lines)
    shares = sorted(line["tokens_after"] / line["tokens_before"] for line in lines)
    model = run.header["model"] or {}
    given = "–" if not model else f"every call: {model['choice']}" if model["choice"] else f"{model['characters']:,} characters"
    outcomes = {
        name: sum(line["outcome"] == name for line in lines) for name in ("applied", "noop", "fallback", "invalid", "failed")
    }
    return [
        run.header["strategy"]["label"].removesuffix(" / scripted"), given, f"{median(left):,.0f}", f"{left[0]:,} to {left[-1]:,}",
        f"{median(shares):.0%}", f"{shares[0]:.0%} to {shares[-1]:.0%}", " ".join(f"{n} {name}" for name, n in outcomes.items() if n),
    ]  # fmt: skip


def main(path: str) -> None:
    runs = [run for job in JOBS for run in bench("run", "-m", *job, "replay=recorded", f"sessions.path={path}")]
    long = [line for line in runs[0].compactions.values() if line["tokens_before"] >= LONG]
    before = sorted(line["tokens_before"] for line in long)
    headings = ["strategy", "summary or answer given", "tokens left, median", "range", "share left, median", "range", "outcomes"]
    text = TEXT.format(
        cuts=len(long), sessions=len({line["session"].split("@")[0] for line in long}), clusters=len({line["cluster"] for line in long}),
        low=before[0], high=before[-1], middle=median(before), floor=LONG, table=markdown(headings, [row(run) for run in runs]),
    )  # fmt: skip
    (REPOSITORY / "docs" / "sizes.md").write_text(text, encoding="utf-8")


TEXT = """\
# How large is a long session after a compaction?

The article on gemini-compact says of its two modes that "the sizes were not measured on a long session". Here they are,
with every other strategy beside them, at the {cuts} places of {sessions} public Claude Code sessions ({clusters} projects)
where Claude Code itself compacted a context of {floor:,} o200k tokens or more ({low:,} to {high:,}, median {middle:,.0f}; visible
transcript only, system prompt and tool schemas are in no file).

Written by `python results/measure_sizes.py PATH`, with PATH a folder of Claude Code transcripts that hold compactions;
those behind this page are the MIT-licensed session files that github.com/entireio/cli, github.com/FSM1/cipher-box and
github.com/JanDeDobbeleer/oh-my-posh keep in their checkpoint branches.

No model is asked. A summariser is given a text of the stated length as its summary: what is left is then what its rules
keep, plus that text. A judge's answer is "drop", or "truncate", for every call that it may decide about: a real one lies
between dropping all of them and keeping all of them, which leaves the size as it was. With so few projects no interval
is given: medians and ranges only.

{table}

`recorded` is what Claude Code itself left; the large ones are its microcompactions, which only clear tool results.
"""


if __name__ == "__main__":
    main(sys.argv[1])
