"""The pilot of future-reference coverage again: write its tables into docs/measurement.md.

    python results/coverage_pilot.py PATH

PATH is a file of tau-bench results. The five strategies are the pilot's; the cuts are those of `replay=cuts`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.analysis.table import markdown
from bench.content import joined, message_text
from bench.measures.coverage import Coverage, CutCoverage, coverage, frc
from bench.measures.future import Units, units_of
from bench.replay import Cuts
from bench.sessions import load
from bench.stats import difference
from bench.tokens import counter
from bench.types import Cut, Estimate, Message, Session

DOCUMENT = Path(__file__).parents[1] / "docs" / "measurement.md"
Span = Sequence[Message]


def users_only(span: Span) -> list[Message]:
    return [message for message in span if message.role == "user"]


def mask_results(span: Span) -> list[Message]:
    return [replace(message, text="[masked]") if message.role == "tool" else message for message in span]


def drop_middle_half(span: Span, dropped: int | None = None) -> list[Message]:
    dropped = len(span) // 2 if dropped is None else dropped
    first = (len(span) - dropped) // 2
    return [*span[:first], *span[first + dropped :]]


def drop_larger_middle(span: Span) -> list[Message]:
    """What remains are two quarters, rounded down: in a short span a message or two fewer, which shows in the figure."""
    return drop_middle_half(span, len(span) - 2 * (len(span) // 4))


def truncate_results(span: Span) -> list[Message]:
    return [replace(message, text=message.text[:300]) if message.role == "tool" else message for message in span]


def drop_oldest_half(span: Span) -> list[Message]:
    return list(span[len(span) // 2 :])


# Name, strategy, and the pilot's share of characters kept and coverage (200 sessions, 269 cuts, 1,350 units).
STRATEGIES: tuple[tuple[str, Callable[[Span], list[Message]], float | None, float | None], ...] = (
    ("users only", users_only, 0.109, 0.141),
    ("mask results", mask_results, 0.406, 0.487),
    ("drop middle half", drop_middle_half, 0.478, 0.582),
    ("truncate results to 300", truncate_results, 0.618, 0.620),
    ("drop oldest half", drop_oldest_half, 0.641, 0.779),
    ("drop middle half, rounded up", drop_larger_middle, None, None),
)
PILOT_RATES = {"identifier": (0.244, 0.0008), "code": (0.216, 0.0024), "date": (0.177, 0.023), "number": (0.084, 0.011)}


@dataclass
class Study:
    """The units of every cut, and what each strategy left of them."""

    sessions: list[Session]
    cuts: list[Cut]
    units: list[Units]
    left: dict[str, list[CutCoverage]]

    def figures(self, name: str, of: Sequence[str] | None = None) -> Coverage:
        """The coverage of a strategy, over all sessions or those named."""
        return frc([(u, c) for u, c in zip(self.units, self.left[name]) if of is None or u.session in of])

    def difference(self, a: str, b: str, of: Sequence[str] | None = None) -> Estimate:
        """Coverage of `a` minus that of `b`, over all units, paired."""
        scores: list[dict[tuple[str, int], float]] = [{}, {}]
        cluster = {}
        for name, table in zip((a, b), scores):
            for units, covered in zip(self.units, self.left[name]):
                if of is None or units.session in of:
                    for number, survived in enumerate(covered.survived):
                        table[units.cut, number] = float(survived)
                        cluster[units.cut, number] = units.cluster
        return difference(*scores, cluster).estimate

    def thirds(self) -> list[list[str]]:
        """The names of the sessions in three groups of equal number, by length."""
        size = {s.id: sum(map(len, map(message_text, s.messages))) for s in self.sessions}
        names = sorted(size, key=lambda name: (size[name], name))
        return [names[len(names) * n // 3 : len(names) * (n + 1) // 3] for n in range(3)]


def study(path: str | Path) -> Study:
    sessions = load(path, format="tau_bench").sessions
    cuts = [cut for session in sessions for cut in Cuts().of(session, counter())[0]]
    units = units_of(cuts)
    left = {name: [coverage(of, rewrite(cut.span)) for cut, of in zip(cuts, units)] for name, rewrite, _, _ in STRATEGIES}
    return Study(sessions, cuts, units, left)


def shown(found: Estimate) -> str:
    if found.value is None:
        return "–"
    interval = f" [{found.ci[0]:.3f}, {found.ci[1]:.3f}]" if found.ci else ""
    return f"{found.value:.3f}{interval}"


def published(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def strategies(made: Study) -> str:
    whole = sum(len(joined(cut.span)) for cut in made.cuts)
    body = []
    for name, _, kept, pilot in STRATEGIES:
        found = made.figures(name)
        share = sum(covered.characters for covered in made.left[name]) / whole
        every, headline = found.every, found.unrecoverable
        body.append(
            [
                name, published(kept), f"{share:.3f}", published(pilot), shown(every), shown(headline),
                f"{found.random:.3f}", f"{found.oracle:.3f}", shown(found.skill), shown(found.dead_weight),
            ]
        )  # fmt: skip
    headings = [
        "strategy", "characters kept, pilot", "here", "FRC, pilot", "FRC here, all units", "FRC, unrecoverable units",
        "random lines", "best lines (greedy)", "skill", "dead weight",
    ]  # fmt: skip
    caption = (
        f"{len(made.sessions)} sessions, {len(made.cuts)} cuts, {every.n} units in {every.clusters} clusters (tasks), of them"
        f" {headline.n} unrecoverable in {headline.clusters}; 95 % intervals. Bounds and skill are of the unrecoverable units."
    )
    return f"{markdown(headings, body)}\n\n{caption}"


def lengths(made: Study) -> str:
    body = []
    for label, names in (("all", None), *zip(("shortest third", "middle third", "longest third"), made.thirds())):
        every = [made.figures(name, names).every for name, *_ in STRATEGIES]
        gap = shown(made.difference("truncate results to 300", "drop middle half", names))
        body.append([label, *(f"{found.value:.3f}" for found in every), gap, str(every[0].n), str(every[0].clusters)])
    body.append(["pilot", *(published(pilot) for *_, pilot in STRATEGIES), "0.038", "1350", "44"])
    headings = ["sessions", *(name for name, *_ in STRATEGIES), "truncate minus middle", "n", "clusters"]
    return markdown(headings, body)


def rates(made: Study) -> str:
    body = []
    for name, found in made.figures(STRATEGIES[0][0]).by_type.items():
        if found.used:
            pilot = PILOT_RATES.get(name)
            own = [f"{found.use_rate:.3f}", f"{found.unrelated_rate:.4f}", f"{found.false_need:.3f}"]
            body.append([name, str(found.used), str(found.candidates), *own, *(map(str, pilot) if pilot else ("–", "–"))])
    headings = ["type", "used", "candidates", "u", "q", "false need q/u", "u, pilot", "q, pilot"]
    return markdown(headings, body)


PARTS = {"pilot": strategies, "lengths": lengths, "rates": rates}


def main(path: str) -> None:
    made, text = study(path), DOCUMENT.read_text()
    for name, part in PARTS.items():
        table = part(made)
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{DOCUMENT} has no part <!-- {name} -->")
        text = pattern.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)
        print(table, end="\n\n")
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
