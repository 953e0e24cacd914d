"""Intervals agree with other implementations, and cover what they say.

Coverage is counted in 2,000 seeded repetitions. An interval that covers with probability 0.995 misses in 10 of them on
average; more than 30 misses would come with probability below 1e-6.
"""

import math

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from threea.evaluate.intervals import (
    LEVEL,
    area,
    clopper_pearson,
    clustered_share,
    excess,
    normal_quantile,
    quantile,
    risk,
    wilson,
)

REPETITIONS, MOST_MISSES = 2000, 30


def misses(truth, draw):
    rng = np.random.default_rng(0)
    found = [draw(rng)[1] for _ in range(REPETITIONS)]
    return sum(not low <= truth <= high for low, high in found)


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (500, 1000)])
def test_shares_agree_with_scipy(successes, trials):
    test = binomtest(successes, trials)
    exact, score = test.proportion_ci(LEVEL, "exact"), test.proportion_ci(LEVEL, "wilson")
    assert clopper_pearson(successes, trials) == pytest.approx(tuple(exact))
    middle, half = wilson(successes, trials)
    assert (middle - half, middle + half) == pytest.approx(tuple(score), abs=1e-12)


def test_no_trials_leave_everything_open():
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    middle, half = wilson(0, 0)
    assert (middle, half) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.02, 0.01), (0.9, 0.6), (0.0, 0.0)])
def test_excess_covers_the_difference(one, other):
    assert misses(one - other, lambda rng: excess(rng.random(300) < one, rng.random(300) < other)) <= MOST_MISSES


def test_risk_is_what_is_won_of_what_control_leaves():
    train, control = np.arange(1000) < 900, np.arange(1000) < 600
    z = normal_quantile()
    (attack, width), (base, other) = (
        ((hits + z**2 / 2) / (1000 + z**2), z / (1000 + z**2) * math.sqrt(hits * (1000 - hits) / 1000 + z**2 / 4))
        for hits in (900, 600)
    )
    value, (low, high) = risk(train, control)
    assert value == pytest.approx((attack - base) / (1 - base))
    error = math.sqrt((width / (1 - base)) ** 2 + (other * (attack - 1) / (1 - base) ** 2) ** 2)
    assert (low, high) == pytest.approx((value - error, value + error))


def test_risk_is_never_below_nought():
    assert risk(np.zeros(100, bool), np.ones(100, bool))[0] == 0.0


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_quantiles_are_covered(share):
    assert misses(share, lambda rng: quantile(rng.random(400), share)) <= MOST_MISSES


def test_area_agrees_with_sklearn_ties_included():
    rng = np.random.default_rng(0)
    train, control = rng.integers(0, 9, 80).astype(float), rng.integers(0, 7, 50).astype(float)
    labels = np.repeat([1, 0], [80, 50])
    assert area(train, control)[0] == pytest.approx(roc_auc_score(labels, np.concatenate([train, control])))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_area_is_covered(shift):
    truth = 0.5 * (1 + math.erf(shift / 2))
    assert misses(truth, lambda rng: area(rng.normal(shift, 1, 150), rng.normal(0, 1, 150))) <= MOST_MISSES


def test_scores_without_difference_say_nothing():
    assert area(np.ones(30), np.ones(40)) == (0.5, (0.5, 0.5))


@pytest.mark.parametrize("order", [1.0, -1.0])
def test_complete_separation_keeps_an_interval_of_positive_width(order):
    value, (low, high) = area(order * np.arange(50, 100), order * np.arange(50))
    assert value == (order > 0)
    assert 0 < high - low < 0.15


def test_votes_of_one_cluster_count_once():
    """A hundred votes that two real rows cast carry the weight of two."""
    hits, clusters = np.repeat([True, False], 50), np.repeat([7, 8], 50)
    assert clustered_share(hits, clusters) == (0.5, clopper_pearson(1, 2))
    assert clustered_share(hits, np.arange(100)) == (0.5, clopper_pearson(50, 100))


def test_clustered_votes_are_covered():
    """Clusters of 1 to 9 votes, each for one side with probability one half."""

    def draw(rng):
        sizes = rng.integers(1, 10, 60)
        return clustered_share(np.repeat(rng.random(60) < 0.5, sizes), np.repeat(np.arange(60), sizes))

    assert misses(0.5, draw) <= MOST_MISSES


def test_no_votes_leave_everything_open():
    assert clustered_share(np.empty(0, bool), np.empty(0, np.int64)) == (0.5, (0.0, 1.0))
