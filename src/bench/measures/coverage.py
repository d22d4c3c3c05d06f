"""Future-reference coverage (FRC): of what the recorded future really used from the span, the share that is left.

Measurement specification, section 5.2. `coverage` reads what one strategy left at one cut, `frc` is the figure over
many. Bounds stand beside it: random lines and the best lines (greedy) of as many characters as are left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bench.atoms import Haystack, found
from bench.content import joined
from bench.measures.future import DRAWS, Unit, Units, pieces
from bench.stats import mean, ratio
from bench.types import Estimate, Message

HORIZONS = (None, 5, 20, 50)  # turns after the cut; None is to the session's end
MAX_FALSE_NEED = 0.25  # q/u above which a type says more about vocabulary than about what was read
LEAST_PER_SESSION = 10  # units of a session, below which it has no figure of its own
LEAST_HEADROOM = 0.20  # between the bounds, below which skill is a ratio of noise


@dataclass(frozen=True, slots=True)
class CutCoverage:
    """What is left at one cut: whether each unit is, how many characters, and how many lines with and without a unit."""

    cut: str
    survived: tuple[bool, ...]
    characters: int
    lines: int
    dead_lines: int


@dataclass(frozen=True, slots=True)
class TypeCoverage:
    """One type of atom. `used` of `candidates` is the rate u, `unrelated_rate` the rate q, `false_need` q/u.

    `coverage` is empty for a refused type. Rates are None when nothing could be counted.
    """

    coverage: Estimate
    used: int
    candidates: int
    use_rate: float | None
    unrelated_rate: float | None
    false_need: float | None
    weight: float
    refused: bool


@dataclass(frozen=True)
class Coverage:
    """The figures of one strategy. `unrecoverable` is the headline; `weighted`, the bounds and `skill` are of the same units.

    `by_cut` are the minimum, quartiles and maximum of the cuts with a unit, `by_session` holds sessions with 10 units or more.
    `skill`: 0 is as good as random lines of as many characters, 1 as the best lines; None without headroom.
    """

    unrecoverable: Estimate
    recoverable: Estimate
    every: Estimate
    weighted: Estimate
    random: float | None
    oracle: float | None
    skill: Estimate
    dead_weight: Estimate
    by_type: Mapping[str, TypeCoverage]
    by_cut: tuple[float, ...]
    by_session: Mapping[str, float]
    horizon: int | None = None


def coverage(units: Units, left: Sequence[Message]) -> CutCoverage:
    """What is left of the units in `left`, the messages of a returned context without those of head and tail."""
    text = joined(left)
    haystack, lines = Haystack(text), pieces(text)
    survived, live = [], set()
    for unit in units.units:
        ways = [way for way in unit.spellings() if haystack.found(way)]
        survived.append(bool(ways))
        live |= {number for number, line in enumerate(lines) for way in ways if way in line and found(way, line)}
    return CutCoverage(units.cut, tuple(survived), len(text), len(lines), len(lines) - len(live))


def random_bound(units: Units, chosen: Iterable[int], characters: int) -> float:
    """R(b): how many of the chosen units random whole lines of `characters` hold, on average over `DRAWS` orders."""
    return sum(bisect_right(units.units[number].random, characters) for number in chosen) / DRAWS


def oracle_bound(units: Units, chosen: Iterable[int], characters: int) -> int:
    """O(b): how many of the chosen units lines of `characters` can hold, by greedy choice (most new units a character).

    At least what the best single line holds: with both, greedy choice is within a constant factor of the best.
    """
    wanted = set(chosen)
    lines = [(cost, wanted.intersection(held)) for cost, held in units.lines if cost <= characters]
    best = max((len(held) for _, held in lines), default=0)
    total = len(wanted)
    while lines:
        gain = max(lines, key=lambda line: len(line[1]) / line[0])
        if not gain[1]:
            break
        characters -= gain[0]
        wanted -= gain[1]
        lines = [(cost, held & wanted) for cost, held in lines if cost <= characters]
    return max(best, total - len(wanted))


class _Use(NamedTuple):
    """One unit at one cut, numbered within the cut, and whether it survived."""

    cluster: str
    session: str
    cut: int
    number: int
    unit: Unit
    survived: bool


def frc(measured: Sequence[tuple[Units, CutCoverage]], horizon: int | None = None, seed: int = 0) -> Coverage:
    """The figures over all cuts of one strategy; units that the agent used later than `horizon` turns are left out.

    Sessions of one project are one cluster. Which types are refused, and their weights, is read from the whole futures.
    """
    types = _types(measured)
    uses = [
        _Use(units.cluster, units.session, cut, number, unit, covered.survived[number])
        for cut, (units, covered) in enumerate(measured)
        for number, unit in enumerate(units.units)
        if (horizon is None or unit.after <= horizon) and not types[unit.type].refused
    ]
    headline = [use for use in uses if not use.unit.recoverable]
    of_cut, of_session = _grouped(headline, "cut"), _grouped(headline, "session")
    shares = [_share(group) for group in of_cut.values()]
    random, oracle, skill = _bounds(measured, of_cut, seed)
    weights = [types[use.unit.type].weight for use in headline]
    return Coverage(
        unrecoverable=_mean(headline),
        recoverable=_mean([use for use in uses if use.unit.recoverable]),
        every=_mean(uses),
        weighted=_ratio([(use.cluster, w * use.survived, w) for use, w in zip(headline, weights)], seed),
        random=random,
        oracle=oracle,
        skill=skill,
        dead_weight=_ratio([(units.cluster, covered.dead_lines, covered.lines) for units, covered in measured], seed),
        by_type={name: replace(type, coverage=_mean([u for u in uses if u.unit.type == name])) for name, type in types.items()},
        by_cut=tuple(np.quantile(shares, (0, 0.25, 0.5, 0.75, 1)).tolist()) if shares else (),
        by_session={name: _share(group) for name, group in of_session.items() if len(group) >= LEAST_PER_SESSION},
        horizon=horizon,
    )


def _types(measured: Sequence[tuple[Units, CutCoverage]]) -> dict[str, TypeCoverage]:
    """Rates, weight and refusal of every type that has a candidate, over all cuts."""
    used, candidates, unrelated, usable = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for units, _ in measured:
        used.update(unit.type for unit in units.units)
        for rate in units.rates:
            candidates[rate.type] += rate.candidates
            unrelated[rate.type] += rate.unrelated_used
            usable[rate.type] += rate.unrelated_candidates
    types = {}
    for name in sorted(name for name, number in candidates.items() if number):
        use_rate = used[name] / candidates[name]
        unrelated_rate = unrelated[name] / usable[name] if usable[name] else None
        false_need = unrelated_rate / use_rate if use_rate and unrelated_rate is not None else None
        types[name] = TypeCoverage(
            coverage=_mean([]),
            used=used[name],
            candidates=candidates[name],
            use_rate=use_rate,
            unrelated_rate=unrelated_rate,
            false_need=false_need,
            weight=1.0 if false_need is None else max(0.0, 1 - false_need),
            refused=false_need is not None and false_need > MAX_FALSE_NEED,
        )
    return types


def _bounds(
    measured: Sequence[tuple[Units, CutCoverage]], of_cut: Mapping[int, Sequence[_Use]], seed: int
) -> tuple[float | None, float | None, Estimate]:
    """R and O as shares of the headline units, and skill = (FRC - R) / (O - R) from their sums over all cuts."""
    uses, randoms, oracles, parts = 0, 0.0, 0, []
    for cut, group in of_cut.items():
        units, covered = measured[cut]
        numbers = [use.number for use in group]
        random, oracle = (bound(units, numbers, covered.characters) for bound in (random_bound, oracle_bound))
        parts.append((units.cluster, sum(use.survived for use in group) - random, oracle - random))
        uses, randoms, oracles = uses + len(group), randoms + random, oracles + oracle
    if not uses:
        return None, None, _mean([])
    headroom = (oracles - randoms) / uses >= LEAST_HEADROOM
    return randoms / uses, oracles / uses, _ratio(parts, seed) if headroom else _mean([])


def _ratio(parts: Sequence[tuple[str, float, float]], seed: int) -> Estimate:
    """Sum of numerators over sum of denominators of (cluster, numerator, denominator); n is the number of parts."""
    clusters, above, below = zip(*parts) if parts else ((), (), ())
    return ratio(above, below, clusters, seed=seed)


def _mean(uses: Sequence[_Use]) -> Estimate:
    return mean([float(use.survived) for use in uses], [use.cluster for use in uses])


def _share(uses: Sequence[_Use]) -> float:
    return sum(use.survived for use in uses) / len(uses)


def _grouped(uses: Sequence[_Use], by: str) -> dict[Any, list[_Use]]:
    groups: dict[Any, list[_Use]] = defaultdict(list)
    for use in uses:
        groups[getattr(use, by)].append(use)
    return groups
