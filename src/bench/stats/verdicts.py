"""Is the new one not worse than the old one by more than a margin? At the end of a run, or while it goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.stats.clustered import NOTHING, t_quantile, t_tail
from bench.types import Estimate

ALPHA, BETA = 0.05, 0.2
STAKE = 0.75  # the largest bet, as a share of what could ruin it


@dataclass(frozen=True)
class Verdict:
    """`lower` and `upper` are one-sided 95 % bounds of new - baseline, None without an interval.

    `p` is that of "worse by the margin or more": a family of gates is adjusted by `holm` on it.
    """

    outcome: Literal["pass", "regressed", "inconclusive"]
    lower: float | None
    upper: float | None
    p: float | None


def non_inferiority(change: Estimate, margin: float, alpha: float = ALPHA) -> Verdict:
    """Verdict on `change` = new - baseline, paired, higher is better, against a margin M > 0 in its units.

    pass: lower bound > -M. regressed: upper bound < 0 and point < -M. Everything else is inconclusive, and so is a
    change without an interval. Bounds: value -+ t_{1-alpha, G-1} SE. (Measurement specification, section 3.3.) `alpha`
    is smaller than 5 % where the gate is one of a family.
    """
    if change.value is None or change.se is None or change.ci is None:
        return Verdict("inconclusive", None, None, None)
    half = t_quantile(1 - alpha, change.clusters) * change.se
    lower, upper = change.value - half, change.value + half
    if change.se > NOTHING:
        p = t_tail((change.value + margin) / change.se, change.clusters)
    else:
        p = 0.0 if change.value > -margin else 1.0
    if lower > -margin:
        return Verdict("pass", lower, upper, p)
    return Verdict("regressed" if upper < 0 and change.value < -margin else "inconclusive", lower, upper, p)


def wealth(changes: Sequence[float], margin: float) -> np.ndarray:
    """Wealth after each session of a bet against "worse by the margin or more": 20 (1/alpha) or more at any time is a pass.

        W_n = prod_{g <= n} ( 1 + lambda_g (X_g + M) ),   0 <= lambda_g < 1 / (1 - M)

    `changes` are the sessions' mean changes X in [-1, 1], in random order. Valid at any stopping time, since the stake
    lambda_g is made from the sessions before g only: mean / (variance + mean^2) of X + M so far, at most .75 of what
    could ruin the bet (Waudby-Smith and Ramdas, arXiv:2010.09686, who call it aGRAPA). `wealth(-changes, -margin)` is the mirror:
    20 or more there says that it is worse by more than the margin. Small margins take many sessions: at .05 at least 77.
    """
    gains = np.asarray(changes, dtype=float) + margin
    highest = STAKE / (1 - margin)
    path, total, n, first, second = [], 1.0, 0, 0.0, 0.25  # .25: a session's worth of variance, before there is any
    for gain in gains.tolist():
        average = first / max(n, 1)
        variance = second / (n + 1)
        total *= 1 + min(max(average / (variance + average**2), 0.0), highest) * gain
        path.append(total)
        n, first = n + 1, first + gain
        second += (gain - first / n) ** 2
    return np.array(path)


def sprt(losses: Sequence[bool]) -> tuple[Literal["regressed", "pass", "go on"], float]:
    """Wald's sequential test on discordant sessions, True where the new one lost: (decision, log likelihood ratio).

    Share of losses .5 against .7, alpha .05, beta .2: a loss adds ln 1.4, a win ln .6; regressed from ln 16 up, pass
    from ln(.2/.95) down: 9 losses or 4 wins in a row. One sign a session, never a probe: probes are not independent.
    (Wald 1945; measurement specification, section 3.3.)
    """
    upper, lower = math.log((1 - BETA) / ALPHA), math.log(BETA / (1 - ALPHA))
    total = 0.0
    for lost in losses:
        total += math.log(0.7 / 0.5) if lost else math.log(0.3 / 0.5)
        if total >= upper:
            return "regressed", total
        if total <= lower:
            return "pass", total
    return "go on", total
