from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest

from bench.measures.efficiency import seed_efficiency
from bench.stats import (
    RESAMPLES,
    agreement,
    bootstrap,
    components,
    corrected,
    design_effect,
    detectable,
    mean,
    non_inferiority,
    planned_error,
    provable_margin,
    questions_needed,
    rank_distribution,
    ratio,
    sprt,
    wealth,
    wilson,
)
from bench.stats.planning import Components
from bench.types import Estimate


def clustered(seed: int, sessions: int, most: int = 9):
    """(values, clusters, categories) of sessions of 3 to `most` probes with session effects."""
    rng = np.random.default_rng(seed)
    session = np.repeat(np.arange(sessions), rng.integers(3, most + 1, sessions))
    values = rng.normal(size=len(session)) + rng.normal(size=sessions)[session]
    return values, [f"s{n:03}" for n in session], [f"k{n}" for n in rng.integers(0, 3, len(session))]


# --- means


@pytest.mark.parametrize("sessions", [8, 12, 60])
def test_mean_equals_the_cluster_robust_regression_of_statsmodels(sessions):
    api = pytest.importorskip("statsmodels.api")
    values, clusters, _ = clustered(7, sessions)
    found = mean(list(values), clusters)
    fit = api.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster",
        cov_kwds={"groups": np.unique(clusters, return_inverse=True)[1], "use_correction": False, "df_correction": True},
        use_t=True,
    )
    factor = math.sqrt(sessions / (sessions - 1))
    assert found.value == pytest.approx(fit.params[0], rel=1e-10)
    assert found.se == pytest.approx(fit.bse[0] * factor, rel=1e-10)
    centre, half = np.mean(fit.conf_int()), np.diff(fit.conf_int()).item() / 2 * factor
    assert found.ci == pytest.approx((centre - half, centre + half), rel=1e-10)
    assert (found.n, found.clusters) == (len(values), sessions)


def test_mean_equals_the_clustered_error_of_inspect_ai():
    """Cluster names that inspect_ai reads from each sample's metadata; optional, since it is no dependency."""
    metrics = pytest.importorskip("inspect_ai.scorer")
    values, clusters, _ = clustered(3, 20)
    samples = [
        metrics.SampleScore(score=metrics.Score(value=value), sample_metadata={"session": cluster})
        for value, cluster in zip(values.tolist(), clusters)
    ]
    assert mean(list(values), clusters).se == pytest.approx(metrics.stderr(cluster="session")(samples), rel=1e-12)


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


def test_a_group_of_few_clusters_takes_the_interval_from_the_whole():
    values, clusters = [1, 0] * 10, [f"s{n // 2}" for n in range(20)]
    assert mean(values, clusters, ["x", "y"] * 10).ci is not None
    lone = mean(values, clusters, ["x", "y"] * 7 + ["x", "x"] * 3)
    assert lone.ci is None
    assert lone.se > 0


@pytest.mark.parametrize("values", [[], [1.0]])
def test_no_interval_without_data(values):
    found = mean(values, ["a"] * len(values))
    assert found.ci is None
    assert found.value == (1.0 if values else None)


def test_the_design_effect_of_probes_that_repeat_their_session_is_their_number():
    values, clusters = np.repeat([0.0, 1, 1, 0, 0, 1, 1, 1, 0, 1], 5), np.repeat(np.arange(10), 5)
    # Kish's 1 + (m - 1) rho with rho = 1, but for the two small-sample factors G/(G-1) and n/(n-1)
    assert design_effect(values, clusters.tolist()) == pytest.approx(5 * (10 / 9) * (49 / 50))


def test_the_design_effect_is_that_of_the_tau_bench_figures():
    naive, clustered_error = 0.0136, 0.0477  # 1,350 units of 44 tasks: 12.3
    assert (clustered_error / naive) ** 2 == pytest.approx(12.3, abs=0.05)
    values, clusters, _ = clustered(5, 40)
    unclustered = values.std(ddof=1) / math.sqrt(len(values))
    assert design_effect(list(values), clusters) == pytest.approx((mean(list(values), clusters).se / unclustered) ** 2)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0]])
def test_no_design_effect_without_spread(values):
    assert design_effect(values, list("ab")[: len(values)]) is None


# --- ratios and ranks


def test_a_ratio_to_ones_is_the_mean_with_its_clustered_error():
    values, clusters, groups = clustered(2, 200)
    for by in (None, groups):
        found, expected = ratio(values, np.ones(len(values)), clusters, by, seed=1), mean(list(values), clusters, by)
        assert found.value == pytest.approx(expected.value, rel=1e-12)
        assert found.se == pytest.approx(expected.se, rel=1e-12)
        assert found.ci == pytest.approx(expected.ci, abs=0.15 * expected.se)


def test_the_error_of_a_ratio_is_that_of_the_linear_regression_through_the_origin():
    """R = sum u / sum v is the slope of u on v weighted by 1 / v; its clustered error is the same sandwich."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(4)
    session = np.repeat(np.arange(25), 6)
    v = rng.uniform(0.5, 1.5, 150)
    u = 0.6 * v + rng.normal(scale=0.2, size=150) + rng.normal(scale=0.2, size=25)[session]
    fit = api.WLS(u, v, weights=1 / v).fit(
        cov_type="cluster", cov_kwds={"groups": session, "use_correction": False, "df_correction": True}
    )
    found = ratio(u, v, [f"s{n:02}" for n in session], seed=1)
    assert found.value == pytest.approx(fit.params[0], rel=1e-10)
    assert found.se == pytest.approx(fit.bse[0] * math.sqrt(25 / 24), rel=1e-10)


def test_effective_retention_of_the_specification():
    """c_none .55, c_a .62, c_restated .90 -> .07 / .35 = .20."""
    none, kept, restated = (np.arange(800) % 100 < share for share in (55, 62, 90))
    found = ratio(1.0 * kept - none, 1.0 * restated - none, [f"s{n % 8}" for n in range(800)], seed=1)
    assert found.value == pytest.approx(0.20)
    assert found.ci[0] < 0.20 < found.ci[1]


def test_a_loss_in_two_clusters_of_sixteen_has_the_t_interval():
    """One resample in eight draws neither of the two (.875^16 = .12) and has no spread to divide by."""
    losses, clusters = [1.0] * 14 + [0.5] * 2, [f"s{n:02}" for n in range(16)]
    found = ratio(losses, [1.0] * 16, clusters, seed=1)
    assert found.ci == pytest.approx(mean(losses, clusters).ci)


def test_retention_over_categories_is_the_ratio_of_macro_means():
    full, floor, kept = [1, 1, 1, 1], [0, 0, 0, 1], [1, 1, 0, 1]
    above, below = np.subtract(kept, floor), np.subtract(full, floor)
    # means by category: kept - floor 2/3 and 0, full - floor 1 and 0
    found = ratio(above, below, list("abcd"), ["x", "x", "x", "y"], seed=0)
    assert found.value == pytest.approx(2 / 3)
    assert found.ci is None


def test_a_ratio_does_not_depend_on_the_order_of_the_records():
    values, clusters, groups = clustered(2, 12)
    order = np.random.default_rng(1).permutation(len(values))
    ones = np.ones(len(values))
    mixed = ratio(values[order], ones, [clusters[n] for n in order], [groups[n] for n in order], seed=1)
    assert mixed.ci == pytest.approx(ratio(values, ones, clusters, groups, seed=1).ci, rel=1e-12)


@pytest.mark.parametrize("interval", ["studentised", "percentile"])
def test_a_ratio_that_is_the_same_in_every_cluster_has_no_width(interval):
    v = np.linspace(0.5, 1, 40)
    found = ratio(v, v, [f"s{n % 10}" for n in range(40)], seed=1, interval=interval)
    assert (found.value, found.se, found.ci) == (1.0, 0.0, (1.0, 1.0))


def test_a_ratio_to_nothing_is_not_defined():
    clusters = [f"s{n}" for n in range(10)]
    assert ratio([1.0] * 10, [0.0] * 10, clusters, seed=1) == Estimate(None, None, None, 10, 10)
    assert ratio([], [], [], seed=1) == Estimate(None, None, None, 0, 0)
    # defined here, but in .9^10 + ... = 35 % of the resamples no cluster with a denominator is drawn
    once = ratio([1.0] * 10, [1.0] + [0.0] * 9, clusters, seed=1)
    assert (once.value, once.ci) == (10.0, None)


def test_below_eight_clusters_a_ratio_has_no_interval():
    values, clusters, _ = clustered(1, 7)
    assert ratio(values, np.ones(len(values)), clusters, seed=1).ci is None


def test_bootstrap_of_a_mean_agrees_with_its_cluster_error():
    rng = np.random.default_rng(3)
    sums = rng.normal(size=20)
    se, (low, high) = bootstrap(lambda weights: weights @ sums / 20, 20, seed=5)
    assert se == pytest.approx(sums.std(ddof=0) / np.sqrt(20), rel=0.05)
    assert low < sums.mean() < high
    assert bootstrap(lambda weights: weights @ sums[:5], 5, seed=5) is None


def test_the_percentile_interval_of_a_ratio_is_that_of_the_bootstrap():
    values, clusters, _ = clustered(9, 30)
    sums = np.array([[values[np.array(clusters) == name].sum(), clusters.count(name)] for name in sorted(set(clusters))])
    _, expected = bootstrap(lambda weights: (weights @ sums[:, 0]) / (weights @ sums[:, 1]), 30, seed=5)
    found = ratio(values, np.ones(len(values)), clusters, seed=1, interval="percentile")
    assert found.ci == pytest.approx(expected, abs=0.05 * found.se)


def test_ranks_by_hand():
    """With the better strategy better in every cluster there is one order; twins share first and second place."""
    clusters = [f"s{n}" for n in range(10)]
    scores = {"low": [0.0] * 10, "a": [1.0] * 10, "b": [1.0] * 10}
    assert rank_distribution(scores, clusters, seed=1) == {"low": (0, 0, 1), "a": (0.5, 0.5, 0), "b": (0.5, 0.5, 0)}


def test_the_probability_of_being_best_is_that_of_the_draws():
    """a wins in 6 of 9 clusters by 1, b in 3: a is first when more than half of 9 draws fall on its clusters."""
    from scipy.stats import binom

    scores = {"a": [1.0] * 6 + [0.0] * 3, "b": [0.0] * 6 + [1.0] * 3}
    found = rank_distribution(scores, [f"s{n}" for n in range(9)], seed=1)
    expected = binom.sf(4, 9, 6 / 9)
    assert found["a"][0] == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / RESAMPLES))
    assert sum(found["a"]) == pytest.approx(1)
    assert found["a"][0] == pytest.approx(found["b"][1])


def test_ten_thousand_resamples_of_sixty_clusters_take_no_time():
    values, clusters, groups = clustered(1, 60, most=40)

    def seconds(call) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    for call in (
        lambda: ratio(values, np.ones(len(values)), clusters, groups, seed=1),
        lambda: rank_distribution({"a": values, "b": -values, "c": values**2}, clusters, groups, seed=1),
    ):
        call()
        assert min(seconds(call) for _ in range(5)) <= 0.05


# --- proportions and judges


@pytest.mark.parametrize(("right", "of", "expected"), [(18, 20, (0.699, 0.972)), (0, 20, (0.0, 0.161))])
def test_wilson_of_the_specification(right, of, expected):
    assert wilson(right, of) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("right", "of"), [(0, 1), (1, 1), (7, 30), (99, 100), (500, 1000)])
def test_wilson_equals_statsmodels(right, of):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    assert wilson(right, of) == pytest.approx(proportion.proportion_confint(right, of, method="wilson"), abs=1e-10)


def test_a_proportion_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="nothing"):
        wilson(0, 0)


def judged(p: float, se: float = 0.02, clusters: int = 40) -> Estimate:
    return Estimate(p, se, (p - 2 * se, p + 2 * se), 400, clusters)


def test_the_correction_of_the_specification():
    """p .70, sensitivity .90, specificity .85 -> .7333."""
    assert corrected(judged(0.70), (90, 100), (85, 100)).value == pytest.approx(0.7333, abs=5e-5)


def test_the_corrected_interval_is_the_published_one_with_the_clustered_error():
    """The published formulas with q0 .9, q1 .9 of 5,000 each, p .5: hardly anything is left of their smoothing."""
    from scipy.stats import t

    found = corrected(judged(0.5, se=0.005, clusters=200), (4500, 5000), (4500, 5000))
    half = t.ppf(0.975, 199) * math.sqrt(0.005**2 + 2 * 0.25 * 0.09 / 5000) / 0.8
    assert found.ci == pytest.approx((0.5 - half, 0.5 + half), rel=1e-3)


def test_a_judge_without_an_error_on_few_items_is_not_held_for_perfect():
    few, many = (corrected(judged(0.5), (m, m), (m, m)) for m in (10, 100_000))
    assert few.value == many.value == 0.5
    assert many.se == pytest.approx(0.02, rel=1e-3)
    assert few.se > 2 * many.se


def test_a_correction_stays_among_the_proportions():
    low = corrected(judged(0.04), (90, 100), (90, 100))
    assert (low.value, low.ci[0]) == (0.0, 0.0)
    assert corrected(judged(0.99), (90, 100), (90, 100)).value == 1.0


def test_a_judge_no_better_than_a_coin_is_an_error():
    with pytest.raises(ValueError, match="tells nothing"):
        corrected(judged(0.5), (50, 100), (50, 100))


def test_kappa_equals_statsmodels():
    rater = pytest.importorskip("statsmodels.stats.inter_rater")
    rng = np.random.default_rng(1)
    first = rng.random(80) < 0.3
    second = np.where(rng.random(80) < 0.2, ~first, first)
    table = [[int(((first == a) & (second == b)).sum()) for b in (False, True)] for a in (False, True)]
    found = agreement(first.tolist(), second.tolist())
    assert found.kappa == pytest.approx(rater.cohens_kappa(table).kappa, abs=1e-10)
    assert (found.raw, found.prevalence) == (np.mean(first == second), first.mean())


def test_kappa_is_not_defined_where_both_always_say_the_same():
    assert agreement([True, True], [True, True]).kappa is None


# --- planning


@pytest.mark.parametrize(
    ("size", "clusters", "error", "seen", "margin"),
    [
        (10, 20, 0.0534, 15.8, 13.8),
        (30, 20, 0.0442, 13.0, 11.4),
        (30, 50, 0.0279, 8.0, 7.1),
        (30, 100, 0.0197, 5.6, 5.0),
        (30, 200, 0.0140, 3.9, 3.5),
    ],
)
def test_the_table_of_power(size, clusters, error, seen, margin):
    """v .30, rho .10; half a unit of the last printed digit, and a sixth of it for the table's own rounding."""
    se = planned_error(Components(0.30, 0.10, size, clusters))
    assert se == pytest.approx(error, abs=6e-5)
    assert 100 * detectable(se, clusters) == pytest.approx(seen, abs=0.06)
    assert 100 * provable_margin(se, clusters) == pytest.approx(margin, abs=0.06)


def test_more_sessions_buy_more_than_more_probes():
    def error(size: int, clusters: int) -> float:
        return planned_error(Components(0.30, 0.10, size, clusters))

    assert 1 - error(30, 20) / error(10, 20) == pytest.approx(0.18, abs=0.01)
    assert 1 - error(30, 50) / error(30, 20) == pytest.approx(0.37, abs=0.01)


def test_millers_number_of_questions():
    assert questions_needed(0.03) == 969


@pytest.mark.parametrize("most", [10, 40], ids=["even", "uneven"])
def test_the_components_of_data_give_back_its_clustered_error(most):
    """Sessions with a known variance (.5 + .1) and correlation (.1 / .6)."""
    rng = np.random.default_rng(8)
    session = np.repeat(np.arange(2000), rng.integers(10, most + 1, 2000))
    values = rng.normal(scale=math.sqrt(0.5), size=len(session)) + rng.normal(scale=math.sqrt(0.1), size=2000)[session]
    found = components(values, session.tolist())
    assert found.variance == pytest.approx(0.6, rel=0.05)
    assert found.correlation == pytest.approx(1 / 6, rel=0.1)
    assert (found.size, found.clusters) == (len(session) / 2000, 2000)
    assert planned_error(found) == pytest.approx(mean(values, session.tolist()).se, rel=0.05)


def test_components_of_independent_values():
    assert components([0, 1, 0, 1], list("abcd")).correlation == 0.0  # one a session
    assert components([0, 1, 0, 1], list("aabb")).correlation == 0.0  # sessions more alike than chance
    with pytest.raises(ValueError, match="at least two"):
        components([0, 1], list("aa"))


# --- verdicts


@pytest.mark.parametrize(
    ("value", "se", "outcome"),
    [
        (0.0, 0.005, "pass"),
        (-0.01, 0.005, "pass"),
        (-0.015, 0.005, "inconclusive"),  # lower bound -.0236
        (-0.019, 0.0, "pass"),
        (-0.05, 0.005, "regressed"),
        (-0.05, 0.05, "inconclusive"),  # upper bound above 0
        (-0.019, 0.005, "inconclusive"),  # surely worse, but by less than the margin
        (-0.03, 0.0, "regressed"),
    ],
)
def test_verdicts_at_a_margin_of_two_points(value, se, outcome):
    found = non_inferiority(Estimate(value, se, (value - 2.09 * se, value + 2.09 * se), 400, 20), 0.02)
    assert found.outcome == outcome
    assert found.lower == pytest.approx(value - 1.7291328 * se)
    assert (found.p < 0.05) == (outcome == "pass")


def test_a_change_without_an_interval_is_inconclusive():
    found = non_inferiority(Estimate(0.5, 0.01, None, 40, 5), 0.02)
    assert (found.outcome, found.lower, found.p) == ("inconclusive", None, None)


def test_a_stricter_level_needs_more():
    change = Estimate(0.0, 0.01, (-0.021, 0.021), 400, 20)
    assert non_inferiority(change, 0.02).outcome == "pass"
    assert non_inferiority(change, 0.02, alpha=0.01).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("losses", "decision", "total"),
    [
        ([True] * 8, "go on", 8 * 0.3365),
        ([True] * 9, "regressed", 9 * 0.3365),
        ([False] * 3, "go on", -3 * 0.5108),
        ([False] * 4, "pass", -4 * 0.5108),
        ([True, False] * 10, "pass", 9 * 0.3365 - 9 * 0.5108),
    ],
)
def test_the_sequential_test_of_the_specification(losses, decision, total):
    """Bounds ln(.8/.05) = 2.7726 and ln(.2/.95) = -1.5581; +.3365 for a loss, -.5108 for a win."""
    found, ratio_of_likelihoods = sprt(losses)
    assert found == decision
    assert ratio_of_likelihoods == pytest.approx(total, abs=1e-3)


def test_wealth_grows_only_when_the_new_one_is_not_worse():
    same = np.random.default_rng(1).normal(scale=0.05, size=100)
    assert wealth(same, 0.05)[-1] >= 20
    assert wealth(np.zeros(77), 0.05)[-1] < 20  # at the best the stakes allow: 1.039 a session
    assert wealth(same - 0.2, 0.05).max() < 20
    assert wealth(-(same - 0.2), -0.05)[-1] >= 20  # the mirror sees the harm
    assert (wealth([-1.0] * 50, 0.05) > 0).all()  # no bet can be ruined


def test_wealth_is_a_fair_game_at_the_margin():
    """Worse by exactly the margin: in no more than 5 % of runs does it ever reach 20, whenever one looks."""
    rng = np.random.default_rng(2)
    changes = np.where(rng.random((2000, 60)) < 0.35, -1.0, np.where(rng.random((2000, 60)) < 0.25 / 0.65, 1.0, 0.0))
    assert changes.mean() == pytest.approx(-0.10, abs=0.01)
    false = np.mean([(wealth(run, 0.10) >= 20).any() for run in changes])
    assert 0 < false <= 0.05


# --- elsewhere


@pytest.mark.parametrize(("before", "after", "expected"), [((9000, 15), (6200, 12), 0.506667), ((9000, 15), (5800, 10), 0.48)])
def test_the_efficiency_that_the_specification_explains(before, after, expected):
    assert seed_efficiency(before[0], after[0], before[1], after[1]) == pytest.approx(expected, abs=5e-7)


def test_statistics_import_scipy_only_when_they_need_it():
    code = "import sys, bench.stats; print([name for name in ('scipy', 'statsmodels', 'pandas') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
