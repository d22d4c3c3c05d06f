"""Proportions: without clusters, as an imperfect judge sees them, and agreement of two raters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.clustered import MIN_CLUSTERS, t_quantile
from bench.types import Estimate


def wilson(right: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of one proportion of independent trials, such as planted needles. Raises ValueError for `of` 0.

    18 of 20 -> [.699, .972], 0 of 20 -> [0, .161]. (Wilson 1927; scipy's `proportion_ci(method="wilson")`.)
    """
    from scipy.stats import binomtest

    if of < 1:
        raise ValueError("a proportion of nothing has no interval")
    found = binomtest(right, of).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def corrected(judged: Estimate, sensitivity: tuple[int, int], specificity: tuple[int, int]) -> Estimate:
    """The share that is really right, from the share that a judge calls right (Rogan and Gladen 1978).

        theta = (p + q0 - 1) / (q0 + q1 - 1)
        SE^2  = ( SE_p^2 + (1 - theta)^2 q0 (1 - q0) / m0 + theta^2 q1 (1 - q1) / m1 ) / (q0 + q1 - 1)^2

    `sensitivity` (q1) and `specificity` (q0) are counts on human-labelled items: (judged as the human did, m). The
    interval is the delta method of Lee et al., arXiv:2511.21140: q0 and q1 enter it as (k + 1) / (m + 2), so that a
    judge without an error on few items is not held for perfect, and its centre moves by their second-order term
    2 z^2 (theta q1 (1 - q1) / m1 - (1 - theta) q0 (1 - q0) / m0). Two deviations: SE_p is the clustered one of `judged`
    instead of the smoothed binomial one, and z is the quantile of t with G - 1. Value and interval are clipped to
    [0, 1]. Raises ValueError when the judge is no better than a coin (q0 + q1 <= 1).
    """
    q1, q0 = (right / of for right, of in (sensitivity, specificity))
    if q0 + q1 <= 1:
        raise ValueError(f"a judge with sensitivity {q1:.2f} and specificity {q0:.2f} tells nothing")
    if judged.value is None:
        return judged
    value = float(np.clip((judged.value + q0 - 1) / (q0 + q1 - 1), 0, 1))
    if judged.se is None:
        return Estimate(value, None, None, judged.n, judged.clusters)
    (s1, m1), (s0, m0) = (((right + 1) / (of + 2), of + 2) for right, of in (sensitivity, specificity))
    scale = s0 + s1 - 1
    if scale <= 0:  # too few labelled items to say that the judge is better than a coin
        return Estimate(value, None, None, judged.n, judged.clusters)
    theta = (judged.value + s0 - 1) / scale
    error0, error1 = s0 * (1 - s0) / m0, s1 * (1 - s1) / m1
    se = float(np.sqrt(judged.se**2 + (1 - theta) ** 2 * error0 + theta**2 * error1) / scale)
    if judged.clusters < MIN_CLUSTERS or judged.ci is None:
        return Estimate(value, se, None, judged.n, judged.clusters)
    z = t_quantile(0.975, judged.clusters)
    centre = theta + 2 * z**2 * (theta * error1 - (1 - theta) * error0)
    low, high = np.clip([centre - z * se, centre + z * se], 0, 1)
    return Estimate(value, se, (float(low), float(high)), judged.n, judged.clusters)


@dataclass(frozen=True)
class Agreement:
    """`kappa` is None when chance alone would agree always; `raw` is the share of equal labels, `prevalence` the first rater's."""

    kappa: float | None
    raw: float
    prevalence: float


def agreement(first: Sequence[bool], second: Sequence[bool]) -> Agreement:
    """Cohen's kappa of two raters' yes/no labels, with what it must be read beside.

    kappa = (raw - chance) / (1 - chance), chance = a b + (1 - a)(1 - b) (Cohen 1960; statsmodels `cohens_kappa`).
    """
    x, y = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    raw, a, b = float(np.mean(x == y)), float(x.mean()), float(y.mean())
    chance = a * b + (1 - a) * (1 - b)
    return Agreement((raw - chance) / (1 - chance) if chance < 1 else None, raw, a)
