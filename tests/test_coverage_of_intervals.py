"""Do 95 % intervals hold the truth 95 % of the time? Paired 0/1 differences with session effects, as in the specification, F7.

Right with chance .7 + x and .8 - x, x uniform in +-.17 and one for each session: the true difference is -.1, its variance
.37, the correlation inside a session .10, and with 15 probes a session the design effect about 2.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bench.stats import corrected, mean, ratio
from bench.types import Estimate

TRUTH = -0.1
EVEN, MIXED, UNEVEN = (15, 15), (10, 20), (5, 25)  # the fewest and the most probes of a session


def paired(rng: np.random.Generator, sessions: int, sizes: tuple[int, int]) -> tuple[np.ndarray, list[int]]:
    session = np.repeat(np.arange(sessions), rng.integers(sizes[0], sizes[1] + 1, sessions))
    lean = rng.uniform(-0.17, 0.17, sessions)[session]
    a, b = rng.random(len(session)) < 0.7 + lean, rng.random(len(session)) < 0.8 - lean
    return a.astype(float) - b, session.tolist()


def covered(interval: Callable, sessions: int, sizes: tuple[int, int], replications: int) -> float:
    rng = np.random.default_rng([sessions, *sizes])
    hits = 0
    for number in range(replications):
        low, high = interval(*paired(rng, sessions, sizes), number)
        hits += low <= TRUTH <= high
    return hits / replications


def by_t(d: np.ndarray, clusters: list[int], number: int) -> tuple[float, float]:
    return mean(d, clusters).ci


def by_bootstrap(d: np.ndarray, clusters: list[int], number: int, interval: str = "studentised") -> tuple[float, float]:
    return ratio(d, np.ones(len(d)), clusters, seed=number, resamples=999, interval=interval).ci


def as_if_independent(d: np.ndarray, clusters: list[int], number: int) -> tuple[float, float]:
    half = 1.96 * d.std(ddof=1) / math.sqrt(len(d))
    return d.mean() - half, d.mean() + half


def chance(replications: int) -> float:
    """What a simulation of a true 95 % may be off: 3.3 standard errors of a binomial."""
    return 3.3 * math.sqrt(0.95 * 0.05 / replications)


@pytest.mark.parametrize("sessions", [15, 30, 60])
@pytest.mark.parametrize(("interval", "replications"), [(by_t, 1000), (by_bootstrap, 300)])
def test_clustered_intervals_hold_the_truth(interval, replications, sessions):
    assert covered(interval, sessions, EVEN, replications) == pytest.approx(0.95, abs=chance(replications))


@pytest.mark.parametrize("sessions", [15, 60])
def test_intervals_that_take_probes_for_independent_do_not(sessions):
    assert 0.74 <= covered(as_if_independent, sessions, EVEN, 1000) <= 0.84


def test_corrected_shares_hold_the_truth():
    """A judge of sensitivity .9 and specificity .85, known from 50 labels each; 30 sessions of 10, the truth .3."""
    rng = np.random.default_rng(6)
    hits, replications = 0, 600
    for _ in range(replications):
        right = rng.random((30, 10)) < np.clip(0.3 + rng.uniform(-0.2, 0.2, (30, 1)), 0, 1)
        said = rng.random((30, 10)) < np.where(right, 0.9, 0.15)
        judged: Estimate = mean(said.ravel().astype(float), np.repeat(np.arange(30), 10).tolist())
        low, high = corrected(judged, (int(rng.binomial(50, 0.9)), 50), (int(rng.binomial(50, 0.85)), 50)).ci
        hits += low <= 0.3 <= high
    assert hits / replications == pytest.approx(0.95, abs=chance(replications))


@pytest.mark.nightly
@pytest.mark.parametrize("sessions", [15, 30, 60])
@pytest.mark.parametrize("sizes", [EVEN, MIXED])
def test_t_intervals_hold_the_truth_in_94_to_96_of_100(sizes, sessions):
    assert 0.94 <= covered(by_t, sessions, sizes, 8000) <= 0.96


@pytest.mark.nightly
@pytest.mark.parametrize("sessions", [15, 30, 60])
@pytest.mark.parametrize("sizes", [EVEN, MIXED])
def test_studentised_intervals_hold_the_truth_in_94_to_96_of_100(sizes, sessions):
    """With 15 sessions the method itself is a little cautious, 95.9 in 20,000: 4,000 would be too few to tell it from 96."""
    assert 0.94 <= covered(by_bootstrap, sessions, sizes, 10_000) <= 0.96


@pytest.mark.nightly
def test_percentile_intervals_are_too_narrow_with_few_sessions():
    def percentile(d, clusters, number):
        return by_bootstrap(d, clusters, number, "percentile")

    assert covered(percentile, 15, EVEN, 2000) < 0.94


@pytest.mark.nightly
@pytest.mark.parametrize("sessions", [8, 15, 30, 60])
def test_sessions_of_very_different_size_cost_t_intervals_two_points_at_most(sessions):
    """A known limit: few clusters, sizes that differ fivefold. No better rule is promised than what comes out."""
    assert 0.925 <= covered(by_t, sessions, UNEVEN, 8000) <= 0.955


@pytest.mark.nightly
@pytest.mark.parametrize("sessions", [15, 30, 60])
def test_intervals_of_retention_hold_the_truth(sessions):
    """Ceiling .9 and floor .1 in two categories, kept .5 give or take the session: retention is .5."""
    rng = np.random.default_rng(sessions)
    hits, replications = 0, 2000
    clusters, categories = np.repeat(np.arange(sessions), 14), np.tile([0] * 10 + [1] * 4, sessions)
    for number in range(replications):
        lean = rng.uniform(-0.3, 0.3, sessions)[clusters]
        full, floor, kept = (rng.random(len(clusters)) < chance_of for chance_of in (0.9, 0.1, 0.5 + lean))
        above, below = kept.astype(float) - floor, full.astype(float) - floor
        low, high = ratio(above, below, clusters.tolist(), categories.tolist(), seed=number, resamples=999).ci
        hits += low <= 0.5 <= high
    assert hits / replications == pytest.approx(0.95, abs=0.01 + chance(replications) / 3.3)
