"""Intervals agree with other implementations, and cover what they say.

Coverage is counted in 2,000 seeded repetitions. An interval that covers with probability 0.95 misses in 100 of them on
average; more than 150 misses would come with probability below 1e-6.
"""

import math

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from threea.evaluate.areas import area, area_figure, places, weights
from threea.evaluate.intervals import (
    LEVEL,
    clopper_pearson,
    clustered_share,
    excess,
    normal_quantile,
    quantile,
    risk,
    share,
    wilson,
)

REPETITIONS, MOST_MISSES = 2000, 150


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
    assert (
        misses(one - other, lambda rng: excess(*((rng.random(300) < p).astype(float) for p in (one, other))))
        <= MOST_MISSES
    )


def test_risk_is_what_is_won_of_what_control_leaves():
    train, control = ((np.arange(1000) < hits).astype(float) for hits in (900, 600))
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
    assert risk(np.zeros(100), np.ones(100))[0] == 0.0


def persons(rng, mean, count=80):
    """Return persons' scores: means of one to nine rows that hang together."""
    likely = rng.beta(2 * mean, 2 * (1 - mean), count)
    rows = rng.integers(1, 10, count)
    return rng.binomial(rows, likely) / rows


@pytest.mark.parametrize("mean", [0.5, 0.1])
def test_shares_and_excesses_of_persons_with_many_rows_are_covered(mean):
    assert misses(mean, lambda rng: share(persons(rng, mean))) <= MOST_MISSES
    assert misses(0.0, lambda rng: excess(persons(rng, mean), persons(rng, mean))) <= MOST_MISSES


@pytest.mark.parametrize("middle", [0.5, 0.05])
def test_quantiles_are_covered(middle):
    assert misses(middle, lambda rng: quantile(rng.random(400), middle)) <= MOST_MISSES


def area_of(train, control):
    """Return the area where every row is a person; as many on both sides."""
    one, other = places(train, control, np.full(len(train), 1 / len(train)))
    return area(one[:, 1], other[:, 0])


def test_area_agrees_with_sklearn_ties_included():
    rng = np.random.default_rng(0)
    train, control = rng.integers(0, 9, 80).astype(float), rng.integers(0, 7, 80).astype(float)
    labels = np.repeat([1, 0], 80)
    assert area_of(train, control)[0] == pytest.approx(roc_auc_score(labels, np.concatenate([train, control])))


def test_area_counts_persons_alike_however_many_rows_they_have():
    """As sklearn does if a row weighs what its person's other rows leave."""
    rng = np.random.default_rng(0)
    pair = np.repeat(np.arange(20), rng.integers(1, 9, 20))
    train, control = rng.integers(0, 9, len(pair)).astype(float), rng.integers(0, 7, len(pair)).astype(float)
    weight = np.tile(weights(pair), 2)
    expected = roc_auc_score(np.repeat([1, 0], len(pair)), np.concatenate([train, control]), sample_weight=weight)
    found = area_figure("", (train, control), pair, rng)
    assert found["value"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_area_is_covered(shift):
    truth = 0.5 * (1 + math.erf(shift / 2))
    assert misses(truth, lambda rng: area_of(rng.normal(shift, 1, 150), rng.normal(0, 1, 150))) <= MOST_MISSES


def test_scores_without_difference_say_nothing():
    value, (low, high) = area_of(np.ones(30), np.ones(30))
    assert value == pytest.approx(0.5)
    assert low < 0.5 < high


@pytest.mark.parametrize("order", [1.0, -1.0])
def test_complete_separation_keeps_an_interval_of_positive_width(order):
    value, (low, high) = area_of(order * np.arange(50, 100), order * np.arange(50))
    assert value == (order > 0)
    assert 0 < high - low < 0.15


def test_votes_for_one_person_count_once():
    """A hundred votes for two real people carry the weight of two."""
    assert clustered_share(np.array([50.0]), np.array([50.0])) == (0.5, clopper_pearson(1, 2))
    assert clustered_share(np.ones(50), np.ones(50)) == (0.5, clopper_pearson(50, 100))


def test_clustered_votes_are_covered():
    """People of 1 to 9 votes, each on one side with probability one half."""

    def draw(rng):
        votes, train = rng.integers(1, 10, 60).astype(float), rng.random(60) < 0.5
        return clustered_share(votes[train], votes[~train])

    assert misses(0.5, draw) <= MOST_MISSES


def test_no_votes_leave_everything_open():
    assert clustered_share(np.zeros(3), np.zeros(3)) == (0.5, (0.0, 1.0))
