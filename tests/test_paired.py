from __future__ import annotations

import numpy as np
import pytest

from bench.stats import cochran_q, difference, holm, mcnemar, mean, sign_flip


def two(seed: int, sessions: int, probes: int = 6, gain: float = 0.1):
    """(scores of a, scores of b, cluster, category) by probe; both find the same probes easy."""
    rng = np.random.default_rng(seed)
    keys = [(f"s{s:02}#0", f"p{p}") for s in range(sessions) for p in range(probes)]
    ease = rng.random(len(keys))
    a = {key: float(e < 0.5 + gain) for key, e in zip(keys, ease)}
    b = {key: float((e + rng.normal(scale=0.1)) < 0.5) for key, e in zip(keys, ease)}
    return a, b, {key: key[0][:3] for key in keys}, {key: f"k{int(key[1][1:]) % 2}" for key in keys}


def test_a_difference_is_the_clustered_mean_of_the_pairs():
    a, b, cluster, category = two(1, 20)
    d = [a[key] - b[key] for key in a]
    found = difference(a, b, cluster, category)
    assert found.estimate == mean(d, list(cluster.values()), list(category.values()))
    assert (found.test, found.unpaired) == ("t", 0)
    assert found.by_cluster["s00"] == pytest.approx(np.mean(d[:6]))


def test_pairing_pays():
    a, b, cluster, _ = two(1, 40)
    unpaired = np.hypot(*(mean(list(side.values()), list(cluster.values())).se for side in (a, b)))
    assert difference(a, b, cluster).estimate.se < 0.6 * unpaired


def test_order_does_not_matter_and_the_other_way_round_is_the_opposite():
    a, b, cluster, _ = two(2, 12)
    there, back = difference(a, b, cluster), difference(b, dict(reversed(a.items())), cluster)
    assert there.estimate.value == pytest.approx(-back.estimate.value)
    assert there.estimate.ci == pytest.approx((-back.estimate.ci[1], -back.estimate.ci[0]))
    assert there.p == pytest.approx(back.p)


def test_p_and_interval_say_the_same():
    from scipy.stats import t

    for seed in range(20):
        a, b, cluster, _ = two(seed, 10, gain=0.06)
        found = difference(a, b, cluster)
        low, high = found.estimate.ci
        assert (found.p < 0.05) == (not low <= 0 <= high)
        assert found.p == pytest.approx(2 * t.sf(abs(found.estimate.value) / found.estimate.se, 9))


def test_probes_of_one_side_only_are_left_out_and_counted():
    a, b, cluster, _ = two(3, 10)
    gone = next(iter(a))
    found = difference({k: v for k, v in a.items() if k != gone}, b, cluster)
    assert (found.unpaired, found.estimate.n) == (1, 59)
    assert difference({}, b, cluster).estimate.value is None


def test_below_eight_clusters_there_is_no_interval_but_an_exact_test():
    a = {(f"s{n}", "p"): 1.0 for n in range(7)}
    b = dict.fromkeys(a, 0.0)
    found = difference(a, b, {key: key[0] for key in a})
    assert found.estimate.ci is None
    assert (found.test, found.p) == ("sign-flip", 2 / 2**7)
    assert found.by_cluster == {f"s{n}": 1.0 for n in range(7)}


def test_a_difference_without_spread_is_tested_by_signs():
    """t would divide by nothing: 8 clusters that all differ by 1 cannot say more than 2 of 256 assignments."""
    a = {(f"s{n}", "p"): 1.0 for n in range(8)}
    cluster = {key: key[0] for key in a}
    found = difference(a, dict.fromkeys(a, 0.0), cluster)
    assert (found.test, found.p) == ("sign-flip", 2 / 256)
    assert difference(a, a, cluster).p == 1.0


@pytest.mark.parametrize(
    ("sums", "expected"),
    [([1.0], 1.0), ([1, 1], 0.5), ([1, 1, 1, 1, 1, 1], 2 / 64), ([3, 1, -1], 6 / 8), ([0, 0, 0], 1.0), ([5, 2, -1], 4 / 8)],
)
def test_sign_flips_by_hand(sums, expected):
    assert sign_flip(sums) == expected


@pytest.mark.parametrize("clusters", [5, 9, 13])
def test_exact_sign_flips_equal_scipy(clusters):
    from scipy.stats import permutation_test

    sums = np.random.default_rng(clusters).normal(0.4, 1, clusters)
    expected = permutation_test((sums,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=True, axis=-1)
    assert sign_flip(sums) == pytest.approx(expected.pvalue, abs=1e-10)


def test_drawn_sign_flips_come_near_the_exact_ones_and_are_never_zero():
    sums = np.random.default_rng(1).normal(0.4, 1, 20)
    padded = np.concatenate([sums, np.zeros(5)])  # clusters without a difference change nothing but the way it is computed
    assert sign_flip(padded) == pytest.approx(sign_flip(sums), abs=0.02)
    assert sign_flip(np.ones(40)) == 1 / 10_001
    assert sign_flip(padded, seed=1) == sign_flip(padded, seed=1)


@pytest.mark.parametrize(("only_a", "only_b", "expected"), [(7 - 4, 6 - 4, 1.0), (0, 0, 1.0), (6, 0, 2 / 64), (0, 5, 2 / 32)])
def test_mcnemar_by_hand(only_a, only_b, expected):
    assert mcnemar(only_a, only_b) == pytest.approx(expected)


@pytest.mark.parametrize(("only_a", "only_b"), [(26, 2), (3, 2), (10, 10), (1, 0), (40, 61)])
def test_mcnemar_equals_statsmodels(only_a, only_b):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    expected = tables.mcnemar([[9, only_a], [only_b, 9]], exact=True).pvalue
    assert mcnemar(only_a, only_b) == pytest.approx(expected, abs=1e-10)


def test_more_questions_in_a_prompt_help_at_high_density():
    """Recomputed from published raw data: discordant 26:2 is below 1e-4, 3:2 is nothing."""
    assert mcnemar(26, 2) < 1e-4
    assert mcnemar(3, 2) == 1.0


@pytest.mark.parametrize("strategies", [3, 5])
def test_cochrans_q_equals_statsmodels(strategies):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    rng = np.random.default_rng(strategies)
    right = (rng.random((60, strategies)) < np.linspace(0.4, 0.7, strategies)).astype(int)
    expected = tables.cochrans_q(right)
    assert cochran_q(right) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-10)


def test_of_two_strategies_cochrans_q_is_mcnemars_chi_square():
    right = [[1, 0]] * 9 + [[0, 1]] * 3 + [[1, 1]] * 5
    assert cochran_q(right)[0] == pytest.approx((9 - 3) ** 2 / 12)


def test_strategies_that_agree_everywhere_do_not_differ():
    assert cochran_q([[1, 1, 1], [0, 0, 0]]) == (0.0, 1.0)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("tests", [1, 2, 6, 30])
def test_holm_equals_statsmodels(tests):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(tests).random(tests) ** 3
    p[-1] = p[0]  # a tie
    assert holm(p) == pytest.approx(multitest.multipletests(p, method="holm")[1], abs=1e-10)
