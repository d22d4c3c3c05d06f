from __future__ import annotations

import numpy as np
import pytest

from bench.stats import bootstrap, mean


def test_mean_equals_the_cluster_robust_regression_of_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(7)
    clusters = np.repeat(np.arange(12), rng.integers(3, 9, 12))
    values = rng.normal(size=len(clusters)) + rng.normal(size=12)[clusters]
    found = mean(list(values), [str(c) for c in clusters])
    fit = api.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False, "df_correction": True}, use_t=True
    )
    factor = np.sqrt(12 / 11)
    assert found.value == pytest.approx(fit.params[0])
    assert found.se == pytest.approx(fit.bse[0] * factor, rel=1e-9)
    assert (found.n, found.clusters) == (len(values), 12)


def test_mean_by_hand():
    found = mean([1, 0, 1, 1], ["a", "a", "b", "b"])
    # deviations from .75 summed by cluster: -.5 and .5; sqrt(2/1 * .5) / 4
    assert found.value == 0.75
    assert found.se == pytest.approx(0.25)
    assert found.ci is None


def test_interval_is_t_with_one_degree_of_freedom_less_than_clusters():
    values = [0, 1, 0, 1, 0, 1, 0, 1]
    found = mean(values, list("abcdefgh"))
    assert found.ci == pytest.approx((0.5 - 2.364624 * found.se, 0.5 + 2.364624 * found.se), abs=1e-5)


def test_macro_mean_weighs_groups_equally_and_its_error_is_that_of_the_mean_of_means():
    values, clusters, groups = [1, 1, 1, 0], list("abcd"), ["x", "x", "x", "y"]
    assert mean(values, clusters, groups).value == 0.5
    one_group = mean([1, 0, 1], list("abc"), ["x"] * 3)
    assert one_group == mean([1, 0, 1], list("abc"))


@pytest.mark.parametrize("values", [[], [1.0]])
def test_no_interval_without_data(values):
    found = mean(values, ["a"] * len(values))
    assert found.ci is None
    assert found.value == (1.0 if values else None)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(1)
    hits, trials = 0, 600
    for _ in range(trials):
        effects = rng.normal(scale=0.3, size=16)
        values = (rng.random((16, 10)) < np.clip(0.5 + effects, 0, 1)[:, None]).astype(float)
        truth = 0.5
        found = mean(list(values.ravel()), [str(c) for c in np.repeat(np.arange(16), 10)])
        hits += found.ci[0] <= truth <= found.ci[1]
    assert 0.92 <= hits / trials <= 0.98


def test_bootstrap_of_a_mean_agrees_with_its_cluster_error():
    rng = np.random.default_rng(3)
    sums = rng.normal(size=20)
    se, (low, high) = bootstrap(lambda weights: weights @ sums / 20, 20, seed=5)
    assert se == pytest.approx(sums.std(ddof=0) / np.sqrt(20), rel=0.05)
    assert low < sums.mean() < high
    assert bootstrap(lambda weights: weights @ sums[:5], 5, seed=5) is None
