"""Cluster bootstrap: intervals of ratios, and how stable a ranking is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from bench.stats.clustered import MIN_CLUSTERS, NOTHING, codes, t_interval
from bench.types import Estimate

RESAMPLES = 10_000
DEFINED = 0.95  # share of the resamples in which a statistic must be defined; with fewer nobody can say


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray], clusters: int, seed: int
) -> tuple[float, tuple[float, float]] | None:
    """Standard error and 95 % percentile interval of any statistic under resampling of clusters.

    `statistic` takes weights of shape (resamples, clusters), how often each cluster was drawn, and returns one value a
    resample. None below 8 clusters, or when a resample leaves it undefined too often to say. Percentile intervals are
    too narrow with few clusters (91 % at 15): for a ratio use `ratio`.
    """
    if clusters < MIN_CLUSTERS:
        return None
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES).astype(float)
    values = statistic(drawn)
    values = values[np.isfinite(values)]
    if len(values) < DEFINED * RESAMPLES:
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(values.std(ddof=1)), (float(low), float(high))


def ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    clusters: Sequence[str],
    groups: Sequence[str] | None = None,
    *,
    seed: int,
    interval: Literal["studentised", "percentile"] = "studentised",
    resamples: int = RESAMPLES,
) -> Estimate:
    """Macro mean of `numerators` / macro mean of `denominators` over the same probes, with a cluster-bootstrap interval.

    Retention is ratio(kept - floor, full - floor), effective retention ratio(kept - none, restated - none). The SE is
    that of the linearised ratio: with z_i = (u_i - ubar_k - R (v_i - vbar_k)) / (n_k sum_k vbar_k) for probe i of group k,

        SE = sqrt( G/(G-1) * sum_g ( sum_i z_gi )^2 ),   interval = [ R - q.975 SE, R - q.025 SE ]

    where q are quantiles of (R* - R) / SE* over resampled clusters, SE* being made anew in every resample (the
    bootstrap-t of Efron and Tibshirani 1993, section 12.5). `interval="percentile"` is a check: the
    quantiles of R* themselves. Where more than 2.5 % of the resamples have no spread to divide by (a loss in only two or
    three clusters), the interval is R -+ t_{.975, G-1} SE. `value` is None where the denominator is not positive; `ci` is None as it is in `mean`,
    and when too many resamples leave the ratio undefined.
    """
    n = len(numerators)
    if not n:
        return Estimate(None, None, None, 0, 0)
    cluster, count = codes(clusters, sorted(set(clusters)))  # sorted: the draws must not depend on the records' order
    groups = groups if groups is not None else [""] * n
    group, group_count = codes(groups, sorted(set(groups)))
    place = cluster * group_count + group
    u, v, sizes = (
        np.bincount(place, weights=weights, minlength=count * group_count).reshape(count, group_count)
        for weights in (np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float), np.ones(n))
    )
    (value,), (se,) = _ratios(np.ones((1, count)), u, v, sizes)
    if not np.isfinite(value):
        return Estimate(None, None, None, n, count)
    if count < 2:
        return Estimate(float(value), None, None, n, count)
    found = Estimate(float(value), float(se), None, n, count)
    if (sizes > 0).sum(axis=0).min() < MIN_CLUSTERS:
        return found
    if se < NOTHING:
        return Estimate(found.value, 0.0, (found.value, found.value), n, count)
    values, errors = _ratios(draws(count, seed, resamples), u, v, sizes)
    if interval == "studentised":
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(np.abs(values - value) < NOTHING, 0.0, (values - value) / errors)
    values = values[~np.isnan(values)]
    if len(values) < DEFINED * resamples:
        return found
    low, high = np.quantile(values, [0.025, 0.975], method="inverted_cdf")  # never between a number and an infinity
    if interval == "percentile":
        ci = low, high
    elif np.isfinite([low, high]).all():
        ci = value - high * se, value - low * se
    else:
        ci = t_interval(value, se, count)
    return Estimate(found.value, found.se, (float(ci[0]), float(ci[1])), n, count)


def rank_distribution(
    scores: Mapping[str, Sequence[float]], clusters: Sequence[str], groups: Sequence[str] | None = None, *, seed: int
) -> dict[str, tuple[float, ...]]:
    """How often each strategy comes first, second, ... when clusters are drawn anew; higher scores are better.

    `scores`: for each strategy its scores on the same probes in the same order. The first figure of a strategy is its
    probability of being best. Strategies that tie share the places they hold. (Measurement specification, section 3.1.)
    """
    n = len(clusters)
    cluster, count = codes(clusters, sorted(set(clusters)))
    groups = groups if groups is not None else [""] * n
    group, group_count = codes(groups, sorted(set(groups)))
    place = cluster * group_count + group
    weights = draws(count, seed, RESAMPLES)
    sizes = np.bincount(place, minlength=count * group_count).reshape(count, group_count).astype(float)
    totals = _product(weights, sizes.T)
    share = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    means = []
    for values in scores.values():
        sums = np.bincount(place, weights=np.asarray(values, dtype=float), minlength=count * group_count)
        means.append((_product(weights, sums.reshape(count, group_count).T) * share).sum(axis=1))
    table = np.round(np.stack(means), 12)  # (strategies, resamples); what differs by rounding alone is a tie
    better = (table[None] > table[:, None]).sum(axis=1)
    tied = (table[None] == table[:, None]).sum(axis=1)
    places = np.arange(len(table))[:, None, None]
    held = ((places >= better) & (places < better + tied)) / tied
    return {name: tuple(held[:, number].mean(axis=1).tolist()) for number, name in enumerate(scores)}


def draws(clusters: int, seed: int, resamples: int) -> np.ndarray:
    """How often each cluster was drawn, shape (resamples, clusters)."""
    drawn = np.random.default_rng(seed).integers(clusters, size=(resamples, clusters))
    drawn += np.arange(resamples)[:, None] * clusters
    return np.bincount(drawn.ravel(), minlength=resamples * clusters).reshape(resamples, clusters).astype(float)


def _ratios(weights: np.ndarray, u: np.ndarray, v: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ratio, its linearised SE) for each row of `weights`, from sums of shape (clusters, groups); NaN where undefined.

    A group of which a resample drew no cluster is left out of that resample.
    """
    sums = np.concatenate([u, v, sizes], axis=1)
    u_sums, v_sums, totals = np.split(_product(weights, sums.T), 3, axis=1)
    share = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    u_means, v_means = u_sums * share, v_sums * share
    bottom = v_means.sum(axis=1)
    bottom = np.where(bottom > NOTHING, bottom, np.nan)
    values = u_means.sum(axis=1) / bottom
    slopes = [share, -values[:, None] * share, -share * (u_means - values[:, None] * v_means)]
    z = _product(np.concatenate(slopes, axis=1), sums)
    count = len(sizes)
    return values, np.sqrt(count / max(count - 1, 1) * np.einsum("rg,rg,rg->r", weights, z, z)) / bottom


def _product(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """rows times the transpose of columns, without BLAS: its last digits depend on the machine, and a run's must not."""
    return np.einsum("rc,nc->rn", rows, np.ascontiguousarray(columns))
