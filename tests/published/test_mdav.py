"""MDAV: clusters of k to 2k - 1 rows, near ones together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.published.mdav import mdav


@settings(deadline=None, max_examples=60)
@given(rows=st.integers(1, 60), k=st.integers(1, 70), equal=st.booleans(), seed=st.integers(0, 99))
def test_every_row_is_in_one_cluster_of_k_to_2k_minus_1(rows, k, equal, seed):
    values = np.zeros((rows, 2)) if equal else np.random.default_rng(seed).normal(size=(rows, 2)).round(1)
    clusters = mdav(values, k)
    assert sorted(np.concatenate(clusters).tolist()) == list(range(rows))
    sizes = [len(cluster) for cluster in clusters]
    assert sizes == [rows] if rows < k else all(k <= size <= 2 * k - 1 for size in sizes)


def test_all_but_the_last_have_exactly_k():
    values = np.random.default_rng(0).normal(size=(107, 3))
    assert [len(cluster) for cluster in mdav(values, 10)] == [10] * 9 + [17]


def test_it_is_the_algorithm_worked_by_hand():
    """The mean is 4.3; 10 is farthest and takes 9; 0 is farthest from it and takes 1; the rest are a cluster."""
    clusters = mdav(np.array([[0.0], [1.0], [4.0], [10.0], [5.0], [9.0], [1.5]]), 2)
    assert [cluster.tolist() for cluster in clusters] == [[3, 5], [0, 1], [2, 4, 6]]


def test_between_2k_and_3k_rows_the_farthest_takes_k_and_the_rest_are_one():
    clusters = mdav(np.array([[0.0], [0.1], [0.2], [5.0], [0.3]]), 2)
    assert [cluster.tolist() for cluster in clusters] == [[3, 4], [0, 1, 2]]


def test_groups_that_are_apart_are_found():
    values = np.random.default_rng(0).normal(np.repeat([[0, 0], [9, 0], [0, 9], [9, 9]], 25, axis=0), 0.3)
    assert {tuple(cluster.tolist()) for cluster in mdav(values, 25)} == {
        tuple(range(start, start + 25)) for start in (0, 25, 50, 75)
    }


def test_one_row_can_move_half_of_the_others():
    """Why the published proof is wrong: one row in the middle decides which end is by itself."""
    shared = [0.0] * 20 + [0.5] * 9 + [1.0] * 20
    left, right = (mdav(np.array([[*shared, further]]).T, 20) for further in (0.45, 0.55))
    means = [
        sorted(np.array([*shared, further])[c].mean() for c in clusters)
        for further, clusters in ((0.45, left), (0.55, right))
    ]
    # What one row of 20 can do to a mean with the clusters held fixed is 1/20.
    assert abs(means[0][0] - means[1][0]) > 3 / 20
    assert means[0][0] == pytest.approx((9 * 0.5 + 0.45) / 30)
    assert means[1][0] == 0.0
