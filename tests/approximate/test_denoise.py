"""From noisy counts to distributions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from threea.approximate.denoise import _places, draw, fitted, grouped, shrunk, without_phantoms
from threea.table.cells import Bins, Categories

NUMBERS = Bins(column="x", edges=tuple(float(edge) for edge in range(11)), special=(-1.0,), missing=True)
WORDS = Categories(column="w", count=6, missing=False)


def test_counts_that_noise_explains_become_what_is_expected() -> None:
    expected = np.full(100, 50.0)
    noisy = expected + np.random.default_rng(1).normal(0, 5.0, 100)
    assert np.abs(shrunk(noisy, expected, stddev=6.0) - expected).max() == 0


def test_counts_far_from_what_is_expected_stay() -> None:
    counts = np.array([1000.0, 0.0, 0.0])
    assert shrunk(counts, np.full(3, 333.0), stddev=1.0) == pytest.approx(counts, abs=0.1)


@given(
    arrays.arrays(float, (4, 3), elements=st.floats(-50, 500)),
    arrays.arrays(float, 4, elements=st.floats(0.05, 1)),
    arrays.arrays(float, 3, elements=st.floats(0.05, 1)),
    st.floats(0.0, 100.0),
)
def test_a_fitted_table_has_the_given_margins(
    counts: np.ndarray, left: np.ndarray, right: np.ndarray, stddev: float
) -> None:
    left, right = left / left.sum(), right / right.sum()
    joint = fitted(counts, left, right, stddev)
    assert joint.min() >= 0
    assert joint.sum(axis=0) == pytest.approx(right, abs=1e-9)
    # The last margin fitted is exact; the first nearly, unless zeros leave no room.
    if counts.min() > 1:
        assert joint.sum(axis=1) == pytest.approx(left, abs=0.05)


def test_a_fitted_table_finds_dependence_and_ignores_noise() -> None:
    half = np.array([0.5, 0.5])
    strong = fitted(np.array([[450.0, 50.0], [50.0, 450.0]]), half, half, stddev=5.0)
    assert strong == pytest.approx(np.array([[0.45, 0.05], [0.05, 0.45]]), abs=0.005)
    drowned = fitted(np.array([[260.0, 240.0], [245.0, 255.0]]), half, half, stddev=50.0)
    assert drowned == pytest.approx(np.full((2, 2), 0.25), abs=1e-6)


@given(arrays.arrays(float, NUMBERS.size, elements=st.floats(-10, 100)), st.integers(2, 12), st.floats(0, 0.5))
def test_groups_are_numbered_without_gaps_and_bins_stay_in_order(mass: np.ndarray, most: int, least: float) -> None:
    groups = grouped(NUMBERS, mass, most, least)
    assert sorted(set(groups)) == list(range(max(groups) + 1))
    if least == 0:
        assert list(groups[1:11]) == sorted(groups[1:11])
        assert len({groups[0], groups[11]} & set(groups[1:11])) == 0


def test_bins_are_put_together_by_mass() -> None:
    mass = np.array([0.0, 100, 1, 1, 1, 1, 1, 1, 1, 1, 92, 0])
    groups = grouped(NUMBERS, mass, most=4)
    assert groups[1] != groups[10]
    assert len(set(groups[2:9])) <= 2


def test_a_heavy_bin_takes_no_room_from_others() -> None:
    mass = np.array([0.0, 3, 3, 3, 3, 70, 3, 3, 3, 3, 6, 0])
    groups = grouped(NUMBERS, mass, most=10)
    assert groups.count(groups[5]) == 1
    assert np.sort(np.bincount(groups, weights=mass)).tolist() == [0, 0, 6, 6, 6, 6, 6, 70]


def test_missing_and_other_values_of_noise_alone_are_none() -> None:
    cells = Categories(column="w", count=3, missing=True, other=True)
    noise = np.array([[700.0, 500.0, 8.0, -4.0]])
    assert without_phantoms(cells, noise, 1200.0, 4.0)[0].tolist() == [700.0, 500.0, 0.0, 0.0]
    clear = np.array([[700.0, 500.0, 60.0, 40.0]])
    assert (without_phantoms(cells, clear, 1200.0, 4.0) == clear).all()
    assert (without_phantoms(cells, noise, 1200.0, 40.0) == noise).all(), "noise may hide many"
    closed = Categories(column="w", count=3, missing=False)
    assert (without_phantoms(closed, noise[:, :3], 1200.0, 4.0) == noise[:, :3]).all(), "all three are listed"


def test_of_listed_values_the_lightest_go_together() -> None:
    groups = grouped(WORDS, np.array([50.0, 1, 30, 2, 1, 40]), most=4)
    assert groups[1] == groups[3] == groups[4]
    assert len(set(groups)) == 4


def test_light_groups_go_together() -> None:
    assert len(set(grouped(WORDS, np.array([50.0, 1, 30, 2, 1, 40]), most=6, least=0.05))) == 4


def test_draws_follow_the_weights() -> None:
    """False-alarm rate below 1e-9: 20,000 draws, five standard deviations and more of slack."""
    weights = np.array([[1.0, 3.0], [0.0, 5.0], [0.0, 0.0]])
    rows = np.repeat([0, 1, 2], 20_000)
    drawn = draw(weights, rows, np.random.default_rng(3)).reshape(3, -1)
    assert drawn[0].mean() == pytest.approx(0.75, abs=0.02)
    assert drawn[1].min() == 1
    assert drawn[2].mean() == pytest.approx(0.5, abs=0.03)


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 8), st.integers(0, 500))
def test_draws_are_as_many_as_the_weights_say_but_for_two(seed: int, rows: int, cells: int, count: int) -> None:
    """For every seed: of equal parts of the unit, each holds one point, and a cell cuts at most two parts."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(cells), rows)
    row = rng.integers(0, rows, count)
    drawn = draw(weights, row, rng)
    for place in range(rows):
        own = row == place
        often = np.bincount(drawn[own], minlength=cells)
        assert (np.abs(often - own.sum() * weights[place]) < 2 + 1e-9).all()


def test_which_of_equal_entries_gets_what_is_left_to_chance() -> None:
    """False-alarm rate below 1e-9: 20,000 pairs of draws that were independent correlate by less than six in 141."""
    weights, row = np.array([[0.5, 0.5]]), np.zeros(20_000, np.int64)
    rng = np.random.default_rng(4)
    first, second = draw(weights, row, rng), draw(weights, row, rng)
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / math.sqrt(20_000)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 6 / math.sqrt(20_000)


@pytest.mark.parametrize("stddev", [0.0, 1e-3, 1e9])
def test_counts_that_are_as_expected_stay(stddev: float) -> None:
    counts = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert (shrunk(counts, counts, stddev) == counts).all()


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2_000))
def test_places_on_a_ladder_are_those_of_a_binary_search(seed: int, rows: int, cells: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(cells, 0.2), rows) * (rng.random((rows, cells)) < 0.7)
    cumulative = np.cumsum(shares + 1e-300, axis=1)
    ladder = (cumulative / cumulative[:, -1:] + np.arange(rows)[:, None]).ravel()
    # Values on rungs, just beside them, and anywhere.
    rungs = rng.choice(ladder, count)
    values = np.concatenate([rungs, np.nextafter(rungs, 0), rng.random(count) * rows]).clip(0, np.nextafter(rows, 0))
    np.testing.assert_array_equal(_places(ladder, values), np.searchsorted(ladder, values, side="right"))
