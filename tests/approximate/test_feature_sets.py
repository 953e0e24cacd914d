"""Independent feature sets: features that go together are in one set, by correlations alone."""

import itertools

import numpy as np
import pytest

from threea.approximate.feature_sets import davies_bouldin, feature_sets, pieces


def blocks(*sizes, inside=0.8, sign=1):
    matrix = np.zeros((sum(sizes),) * 2)
    start = 0
    for size in sizes:
        matrix[start : start + size, start : start + size] = inside * sign
        start += size
    np.fill_diagonal(matrix, 1.0)
    return matrix


@pytest.mark.parametrize("sizes", [(2, 3), (4, 4), (2, 2, 2), (5, 2, 3)])
@pytest.mark.parametrize("sign", [1, -1])
def test_blocks_are_found_whatever_the_sign(sizes, sign):
    ends = np.cumsum([0, *sizes])
    expected = {tuple(range(start, end)) for start, end in itertools.pairwise(ends)}
    assert set(feature_sets(blocks(*sizes, sign=sign))) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_feature_is_in_one_set(count):
    noise = np.random.default_rng(count).normal(0, 5, (count, count))
    sets = feature_sets(noise + noise.T)
    assert sorted(member for part in sets for member in part) == list(range(count))
    assert len(sets) <= (1 if count < 3 else max(count // 2, 2))


def test_features_that_are_the_same_have_an_index_nonetheless():
    assert feature_sets(np.ones((4, 4)))
    assert np.isfinite(davies_bouldin(np.zeros((4, 4)), np.array([1, 1, 2, 2])))
    assert davies_bouldin(np.zeros((4, 4)), np.ones(4)) == np.inf


def test_large_sets_are_cut():
    assert pieces(((0, 1, 2, 3, 4), (5,)), 2) == ((0, 1), (2, 3), (4,), (5,))
