"""Independent feature sets: 2n(1 - corr), the Davies-Bouldin index, and blocks that are found."""

import numpy as np
import pytest

from threea.published.feature_sets import davies_bouldin, feature_distances, independent_feature_sets


def blocks(sizes, rows=400, noise=0.3, seed=0):
    """Return features that go together within each block, and not across."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.normal(size=(rows, 1)) + noise * rng.normal(size=(rows, size)) for size in sizes])


def test_distances_are_those_of_eq_5():
    values = np.random.default_rng(0).normal(size=(50, 4))
    expected = 2 * 50 * (1 - np.corrcoef(values.T))
    np.testing.assert_allclose(feature_distances(values), expected, atol=1e-9)


def test_a_constant_feature_is_as_far_as_one_that_does_not_correlate():
    values = np.column_stack([np.ones(10), np.arange(10.0), np.arange(10.0)])
    assert feature_distances(values)[0].tolist() == [0.0, 20.0, 20.0]
    assert feature_distances(values)[1, 2] == pytest.approx(0.0, abs=1e-12)


def test_the_index_is_that_of_its_formula():
    distances = np.array([[0, 1, 6, 8], [1, 0, 7, 9], [6, 7, 0, 3], [8, 9, 3, 0]], float)
    # Sets are as wide as 1 and 3, and on average (6 + 8 + 7 + 9) / 4 apart.
    assert davies_bouldin(distances, np.array([0, 0, 1, 1])) == pytest.approx((1 + 3) / 7.5)
    # A single feature has no width; the pair is 6.5 and 8.5 from them.
    expected = np.mean([max(1 / 6.5, 1 / 8.5), max(1 / 6.5, 0), max(1 / 8.5, 0)])
    assert davies_bouldin(distances, np.array([0, 0, 1, 2])) == pytest.approx(expected)


def test_sets_that_are_not_apart_are_as_bad_as_can_be():
    assert davies_bouldin(np.zeros((2, 2)), np.array([0, 1])) == np.inf


def test_two_correlated_blocks_are_found_by_the_index():
    values = blocks([4, 3])[:, [0, 4, 1, 5, 2, 6, 3]]
    assert [features.tolist() for features in independent_feature_sets(values)] == [[0, 2, 4, 6], [1, 3, 5]]


def test_the_number_has_the_least_index_of_all():
    values = blocks([3, 2, 4, 1], noise=0.8)
    distances = feature_distances(values)

    def index(count):
        sets = np.empty(values.shape[1], int)
        for number, features in enumerate(independent_feature_sets(values, count)):
            sets[features] = number
        return davies_bouldin(distances, sets)

    scores = {count: index(count) for count in range(2, values.shape[1])}
    assert len(independent_feature_sets(values)) == min(scores, key=scores.get)


@pytest.mark.parametrize(
    ("width", "count", "expected"), [(0, 0, 0), (1, 0, 1), (2, 0, 1), (2, 2, 2), (5, 1, 1), (5, 3, 3), (3, 9, 3)]
)
def test_every_feature_is_in_one_of_so_many_sets(width, count, expected):
    sets = independent_feature_sets(np.random.default_rng(0).normal(size=(30, width)), count)
    assert len(sets) == expected
    assert sorted(feature for features in sets for feature in features.tolist()) == list(range(width))


def test_equal_and_opposite_features_do_no_harm():
    one = np.random.default_rng(0).normal(size=30)
    values = np.column_stack([one, one, -one, np.random.default_rng(1).normal(size=30)])
    sets = [features.tolist() for features in independent_feature_sets(values)]
    assert [0, 1] in [features[:2] for features in sets]
