"""Two or more strategies on the same probes: paired differences, exact tests, correction for many tests."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.stats.clustered import NOTHING, codes, design_effect, mean, t_tail
from bench.types import Estimate

EXACT_CLUSTERS = 20  # up to here a sign-flip test looks at all 2^G assignments
FLIPS = 10_000  # beyond, it draws this many


@dataclass(frozen=True)
class Difference:
    """Strategy a minus strategy b over the pairs that both have.

    `estimate`: mean difference, n pairs, clusters; without an interval below 8 clusters. `p`: two-sided, from the t of
    the estimate, or from the exact sign-flip test where there is no interval; `test` says which. `sign_flip`: the p of
    the sign-flip test always, as a check. `by_cluster`: the mean difference inside each cluster, for where an average
    over few clusters would claim too much. `unpaired`: probes that only one of the two has, which are left out.
    """

    estimate: Estimate
    p: float | None
    test: Literal["t", "sign-flip"]
    sign_flip: float | None
    by_cluster: Mapping[str, float]
    design_effect: float | None
    unpaired: int


def difference(
    a: Mapping[Hashable, float],
    b: Mapping[Hashable, float],
    cluster: Mapping[Hashable, str],
    group: Mapping[Hashable, Hashable] | None = None,
    *,
    seed: int = 0,
) -> Difference:
    """a - b, paired by key (a cut and a probe), with the error of `mean` on the differences.

        delta = sum_g sum_i d_gi / N,   d_gi = a_gi - b_gi

    `cluster` and `group` give each key its cluster and, for a macro mean, its category. Pairing removes what makes a
    probe easy or hard for both (measurement specification, section 3.1; Miller, arXiv:2411.00640, section 4).
    """
    keys = [key for key in a if key in b]
    unpaired = len(a) + len(b) - 2 * len(keys)
    d = [float(a[key]) - float(b[key]) for key in keys]
    clusters = [cluster[key] for key in keys]
    groups = [group[key] for key in keys] if group is not None else None
    found = mean(d, clusters, groups)
    if found.value is None:
        return Difference(found, None, "sign-flip", None, {}, None, unpaired)
    flips = sign_flip(_shares(d, clusters, groups), seed)
    by_t = found.ci is not None and found.se is not None and found.se > NOTHING
    p = min(1.0, 2 * t_tail(abs(found.value) / found.se, found.clusters)) if by_t else flips
    sums: dict[str, list[float]] = {}
    for name, value in zip(clusters, d):
        sums.setdefault(name, []).append(value)
    by_cluster = {name: float(np.mean(values)) for name, values in sums.items()}
    return Difference(found, p, "t" if by_t else "sign-flip", flips, by_cluster, design_effect(d, clusters, groups), unpaired)


def _shares(d: Sequence[float], clusters: Sequence[str], groups: Sequence[Hashable] | None) -> np.ndarray:
    """What each cluster adds to the (macro) mean difference; the shares sum to it."""
    cluster, count = codes(clusters)
    group, group_count = codes(groups if groups is not None else [0] * len(d))
    weights = 1 / (np.bincount(group)[group] * group_count)
    return np.bincount(cluster, weights=np.asarray(d) * weights, minlength=count)


def sign_flip(sums: Sequence[float] | np.ndarray, seed: int = 0) -> float:
    """Two-sided p of the sum of per-cluster differences when every cluster's sign is as likely as its opposite.

    Exact up to 20 clusters (all 2^G assignments), else the share of 10,000 drawn ones, counting the observed one, so
    that it is never 0 (Phipson and Smyth 2010). Equals `scipy.stats.permutation_test(permutation_type="samples")`. The
    smallest p that G clusters can give is 2^(1-G): fewer than 6 never reach 5 %.
    """
    values = np.asarray(sums, dtype=float)
    observed = abs(values.sum()) - NOTHING
    if len(values) <= EXACT_CLUSTERS:
        flipped = np.zeros(1)
        for value in values:
            flipped = np.concatenate([flipped + value, flipped - value])
        return float(np.mean(np.abs(flipped) >= observed))
    signs = 2.0 * np.random.default_rng(seed).integers(2, size=(FLIPS, len(values)), dtype=np.int8) - 1.0
    return float((np.sum(np.abs((signs * values).sum(axis=1)) >= observed) + 1) / (FLIPS + 1))


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p of McNemar's test: `only_a` probes that only a got right, `only_b` that only b did.

    Under no difference only_a is Binomial(only_a + only_b, 1/2). For one probe a cluster; equals
    `statsmodels.stats.contingency_tables.mcnemar(exact=True)`.
    """
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def cochran_q(right: Sequence[Sequence[float]] | np.ndarray) -> tuple[float, float]:
    """Cochran's Q and its p (chi-square, k - 1): do k strategies get equally many right? `right`: (probes, k) of 0 and 1.

        Q = (k-1) ( k sum_j C_j^2 - N^2 ) / ( k N - sum_i R_i^2 )    C columns, R rows, N their total

    For one probe a cluster. (0, 1) when all strategies agree on every probe. Equals statsmodels' `cochrans_q`.
    """
    from scipy.stats import chi2

    table = np.asarray(right, dtype=float)
    k, total = table.shape[1], table.sum()
    below = k * total - (table.sum(axis=1) ** 2).sum()
    if below == 0:
        return 0.0, 1.0
    q = (k - 1) * (k * (table.sum(axis=0) ** 2).sum() - total**2) / below
    return float(q), float(chi2.sf(q, k - 1))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p, in the order given: the chance of one false finding in the family stays at its level.

    adjusted_(i) = max_{j <= i} min(1, (m - j + 1) p_(j))      Holm 1979; statsmodels `multipletests(method="holm")`
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(np.minimum(1.0, values[order] * np.arange(len(values), 0, -1)))
    adjusted = np.empty_like(stepped)
    adjusted[order] = stepped
    return adjusted.tolist()
