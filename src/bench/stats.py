"""Statistics with sessions as the sample: cluster-robust standard errors, t intervals, cluster bootstrap.

Sessions of one project are one cluster. Formulas: measurement specification, section 3 (Miller 2024, appendix A, with
the finite-cluster factor G/(G-1)).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from bench.types import Estimate

MIN_CLUSTERS = 8  # below it an interval would promise more than it holds; the clusters are shown one by one
RESAMPLES = 10_000


def mean(values: Sequence[float], clusters: Sequence[str], groups: Sequence[Hashable] | None = None) -> Estimate:
    """Mean with cluster-robust SE and 95 % interval (t with G - 1 degrees of freedom).

    With `groups` it is the macro mean: the mean over groups of each group's mean; a group of fewer than 8 clusters then
    leaves the whole without an interval, since nobody knows how far that group's mean is off. Without values it is empty.
    """
    n = len(values)
    if not n:
        return Estimate(None, None, None, 0, 0)
    y = np.asarray(values, dtype=float)
    labels = list(groups) if groups is not None else [0] * n
    names = list(dict.fromkeys(labels))
    member = np.array([names.index(label) for label in labels])
    sizes = np.bincount(member)
    group_means = np.bincount(member, weights=y) / sizes
    value = float(group_means.mean())
    residuals = (y - group_means[member]) / (sizes[member] * len(names))
    sums: dict[str, float] = defaultdict(float)
    for cluster, residual in zip(clusters, residuals):
        sums[cluster] += float(residual)
    count = len(sums)
    if count < 2:
        return Estimate(value, None, None, n, count)
    se = float(np.sqrt(count / (count - 1) * sum(total**2 for total in sums.values())))
    spread = [len({c for c, m in zip(clusters, member) if m == number}) for number in range(len(names))]
    ci = _interval(value, se, count) if min(spread) >= MIN_CLUSTERS else None
    return Estimate(value, se, ci, n, count)


def _interval(value: float, se: float, clusters: int) -> tuple[float, float]:
    from scipy.stats import t

    half = float(t.ppf(0.975, clusters - 1)) * se
    return value - half, value + half


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray], clusters: int, seed: int
) -> tuple[float, tuple[float, float]] | None:
    """Standard error and 95 % percentile interval of a statistic under resampling of clusters.

    `statistic` takes weights of shape (resamples, clusters), how often each cluster was drawn, and returns one value a
    resample. None below 8 clusters, or when a resample leaves it undefined too often to say.
    """
    if clusters < MIN_CLUSTERS:
        return None
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES).astype(float)
    values = statistic(drawn)
    values = values[np.isfinite(values)]
    if len(values) < 0.95 * RESAMPLES:
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(values.std(ddof=1)), (float(low), float(high))
