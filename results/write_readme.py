"""Write the generated parts of README.md from results/baseline and the commands' own help (`make readme`).

`--check` writes nothing and exits 1 when README.md is not what would be written.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from bench.analysis.table import caption, estimate, markdown, rows
from bench.commands.run import HELP
from keep_baseline import STRATEGIES

RESULTS = Path(__file__).parent
README = RESULTS.parent / "README.md"
FREE = ("facts", "artifacts", "user_messages", "name_a_word")


def load(name: str) -> dict:
    return json.loads((RESULTS / "baseline" / f"{name}.json").read_text())


def table() -> str:
    summaries = [load(strategy) for strategy in STRATEGIES]
    return f"{markdown(*rows(summaries))}\n\n{caption(summaries[0])}"


def categories() -> str:
    """Survival and recall of each strategy by category of probe."""
    summaries = {strategy: load(strategy) for strategy in STRATEGIES}
    names = list(summaries["none"]["by_category"])
    body = [
        [strategy, *(f"{_two(s['by_category'][name]['survival'])} / {_two(s['by_category'][name]['recall'])}" for name in names)]
        for strategy, s in summaries.items()
    ]
    return markdown(["strategy", *names], body)


def _two(value: dict) -> str:
    return "–" if value["value"] is None else f"{value['value']:.2f}"


def reader() -> str:
    """Ceiling and floor of the reader on both halves, and on hand-worded questions."""
    body = []
    for half in ("tuning", "held_out"):
        summary = load(f"reader_{half}")
        for name in FREE:
            row = summary["by_category"][name]
            body.append(
                [
                    half,
                    name,
                    estimate(row["ceiling"]),
                    estimate(row["floor"]),
                    str(row["ceiling"]["n"]),
                    str(row["ceiling"]["clusters"]),
                ]
            )
    hand = load("reader_hand_worded")
    by_session = ", ".join(f"{name} {right:.0f}" for name, right in hand["by_session"].items())
    text = f"On {hand['n']} hand-worded questions over {hand['clusters']} sessions it answers {hand['right']:.0f} right ({by_session} of 10 each)."
    headings = ["half", "category", "right with the full context", "right with head and tail only", "n", "clusters"]
    return f"{markdown(headings, body)}\n\n{text}"


def output() -> str:
    lines = (RESULTS / "baseline" / "make_run.txt").read_text().rstrip().splitlines()
    return "\n".join(["```", *(line.rstrip() for line in lines), "```"])


PARTS = {
    "output": output,
    "table": table,
    "categories": categories,
    "reader": reader,
    "help": lambda: f"```\n{HELP.rstrip()}\n```",
}


def written(text: str) -> str:
    """`text` with everything between `<!-- NAME -->` and `<!-- end -->` made anew."""
    for name, part in PARTS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"README.md has no part <!-- {name} -->")
        made = part()
        text = pattern.sub(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)
    return text


def main() -> int:
    old = README.read_text()
    new = written(old)
    if "--check" in sys.argv:
        return int(old != new)
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
