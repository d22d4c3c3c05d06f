"""How much data a question needs: what a study of this size can see, and how many sessions a finer one takes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.clustered import codes, t_quantile

POWER = 0.8
ONE_SIDED, TWO_SIDED = 0.95, 0.975  # quantiles of the two 5 % tests


@dataclass(frozen=True)
class Components:
    """Spread of paired differences: `variance` v of one, `correlation` rho inside a session, `size` m pairs a session.

    `unevenness` is the squared coefficient of variation of the sessions' sizes, 0 when all have `size` pairs.
    """

    variance: float
    correlation: float
    size: float
    clusters: int
    unevenness: float = 0.0


def components(differences: Sequence[float], clusters: Sequence[Hashable]) -> Components:
    """The data's own v, rho, m and G. rho is the intraclass correlation of a one-way analysis of variance, at least 0:

        rho = (MSB - MSW) / (MSB + (n0 - 1) MSW),   n0 = (N - sum m_g^2 / N) / (G - 1)

    (Donner and Koval 1980.) It is 0 where no session has two pairs. Raises ValueError for fewer than two clusters.
    """
    y = np.asarray(differences, dtype=float)
    cluster, count = codes(clusters)
    if count < 2:
        raise ValueError("the spread between clusters takes at least two")
    n, sizes = len(y), np.bincount(cluster)
    means = np.bincount(cluster, weights=y) / sizes
    between = float((sizes * (means - y.mean()) ** 2).sum()) / (count - 1)
    within = float(((y - means[cluster]) ** 2).sum()) / (n - count) if n > count else 0.0
    n0 = (n - (sizes**2).sum() / n) / (count - 1)
    below = between + (n0 - 1) * within
    rho = (between - within) / below if n > count and below > 0 else 0.0
    return Components(float(y.var(ddof=1)), max(0.0, float(rho)), n / count, count, float(sizes.var() / sizes.mean() ** 2))


def planned_error(of: Components) -> float:
    """SE of a paired difference: sqrt( v (1 + (m (1 + cv^2) - 1) rho) / (G m) ).

    With equal sizes (cv = 0) the formula of the measurement specification, section 3.2; the factor for unequal ones is
    that of Eldridge, Ashby and Kerry 2006. To plan, replace `clusters` or `size`.
    """
    inflation = 1 + (of.size * (1 + of.unevenness) - 1) * of.correlation
    return math.sqrt(of.variance * inflation / (of.clusters * of.size))


def detectable(se: float, clusters: int) -> float:
    """Smallest difference found with 80 % power by a two-sided test at 5 %: (t_.975 + t_.8) SE, t with G - 1."""
    return (t_quantile(TWO_SIDED, clusters) + t_quantile(POWER, clusters)) * se


def provable_margin(se: float, clusters: int) -> float:
    """Smallest margin at which equal strategies pass a one-sided 5 % non-inferiority test with 80 % power:
    (t_.95 + t_.8) SE, t with G - 1."""
    return (t_quantile(ONE_SIDED, clusters) + t_quantile(POWER, clusters)) * se


def questions_needed(difference: float, between: float = 1 / 9, within: float = 0.0) -> int:
    """Independent questions that show a paired difference with 80 % power at two-sided 5 %.

        n = (z_.975 + z_.8)^2 (omega^2 + sigma_A^2/K_A + sigma_B^2/K_B) / delta^2

    Miller, arXiv:2411.00640, section 5. `between` is omega^2, the variance of the questions' true differences; `within`
    is the rest, the sampling variance of both answers. delta .03, omega^2 1/9, no sampling variance -> 969.
    """
    from scipy.special import ndtri

    return math.ceil((ndtri(TWO_SIDED) + ndtri(POWER)) ** 2 * (between + within) / difference**2)
