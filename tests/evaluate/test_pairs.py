"""Pairs are as many persons, with as many rows, on both sides; and swapping them accuses nobody too often."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.evaluate.pairs import (
    SWAPS,
    Pairs,
    by_person,
    chance,
    chance_of_hits,
    chance_of_sum,
    holm,
    one_row_each,
)

UNITS = st.lists(st.integers(0, 12), min_size=1, max_size=60).map(np.array)


@given(UNITS, UNITS, st.integers(1, 40), st.integers(0, 9))
@settings(deadline=None)
def test_both_sides_of_a_pair_are_one_person_each_with_as_many_rows(train, holdout, most, seed):
    pairs = Pairs.of(train, holdout, np.random.default_rng(seed), most)
    assert len(pairs.train) == len(pairs.holdout) == len(pairs.pair) <= most
    assert len(set(pairs.train)) == len(set(pairs.holdout)) == len(pairs.train)
    assert sorted(set(pairs.pair.tolist())) == list(range(pairs.count))
    for units, rows in ((train, pairs.train), (holdout, pairs.holdout)):
        people = {number: set(units[rows[pairs.pair == number]].tolist()) for number in range(pairs.count)}
        assert all(len(person) == 1 for person in people.values())
        assert len(set.union(set(), *people.values())) == pairs.count
    both = np.intersect1d(train, holdout)
    for one, other in zip(train[pairs.train], holdout[pairs.holdout], strict=True):
        assert one == other if one in both or other in both else one != other


@given(UNITS, UNITS, st.integers(1, 40), st.integers(0, 9))
@settings(deadline=None)
def test_the_first_pairs_are_pairs(train, holdout, count, seed):
    pairs = Pairs.of(train, holdout, np.random.default_rng(seed), 40)
    first = pairs.first(count)
    assert first.count == min(count, pairs.count)
    assert (first.train == pairs.train[pairs.pair < count]).all()


def test_all_persons_of_the_smaller_side_are_paired():
    train, holdout = np.repeat(np.arange(100), 3), np.repeat(np.arange(200, 220), 5)
    pairs = Pairs.of(train, holdout, np.random.default_rng(0), 1000)
    assert pairs.count == 20
    assert set(Counter(pairs.pair.tolist()).values()) == {3}
    assert Pairs.of(train, holdout, np.random.default_rng(0), 41).pair.tolist() == [*np.repeat(np.arange(20), 2)]


@given(UNITS, UNITS, st.integers(0, 9))
@settings(deadline=None)
def test_every_person_has_one_row_on_one_side(train, holdout, seed):
    one, other = one_row_each(train, holdout, np.random.default_rng(seed))
    people = [*train[one], *holdout[other]]
    assert len(people) == len(set(people))
    assert set(people) == {*train, *holdout}


def test_a_chance_is_as_small_as_it_says():
    """Of 1,000 sums of scores that swapping leaves alike, 50 have a chance of 5% or less; 90 come once in a million."""
    rng = np.random.default_rng(0)
    low = sum(chance_of_sum(rng.exponential(1, 15) - rng.exponential(1, 15), rng) <= 0.05 for _ in range(1000))
    assert 20 < low < 90


def test_a_chance_of_hits_is_as_small_as_it_says():
    rng = np.random.default_rng(0)
    low = sum(chance_of_hits(rng.random(200) < 0.3, rng.random(50) < 0.3) <= 0.05 for _ in range(1000))
    assert low < 90


@pytest.mark.parametrize("pairs", [8, 1000])
def test_a_difference_in_every_pair_is_as_unlikely_as_tails_only(pairs):
    p = chance_of_sum(np.ones(pairs), np.random.default_rng(0))
    assert p == pytest.approx(max(0.5**pairs, 1 / (SWAPS + 1)), rel=0.5)
    assert chance_of_sum(-np.ones(pairs), np.random.default_rng(0)) == 1.0


def test_where_nothing_differs_anything_is_by_chance():
    assert chance_of_sum(np.zeros(9), np.random.default_rng(0)) == 1.0
    assert chance(lambda swapped: np.zeros(len(swapped)), 3, 3, np.random.default_rng(0)) == 1.0


def test_chances_of_many_attacks_are_adjusted_as_statsmodels_does():
    # multipletests([.01, .04, .03, .005], method="holm") of statsmodels 0.14.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_a_person_counts_once_however_many_rows():
    assert by_person(np.array([1.0, 0.0, 0.0, 1.0]), np.array([0, 0, 0, 1])).tolist() == pytest.approx([1 / 3, 1.0])
