"""Clipping and the grid: contributions kept where they fit, cut where they do not, never lengthened."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from threea.anonymize import bounding
from threea.anonymize.bounding import BITS, integer_sum, step_of
from threea.anonymize.query import Count, Features, Grouped, Marginal, Stack
from threea.cells import Categories
from threea.errors import SettingError

BOUNDS = st.one_of(st.floats(1e-300, 1e300), st.sampled_from([1.0, math.sqrt(2), 2.0, 2.0**-1000, 2.0**1000]))
VECTORS = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.floats())


def summed(vectors, *, l2=1.0, l1=math.inf, nonnegative=False, by_l1=False):
    """Return the grid sum of some rows' vectors, and the step."""
    query = Features(
        function=lambda chunk: vectors, columns=(), shape=vectors.shape[1:], l2=l2, l1=l1, nonnegative=nonnegative
    )
    step = step_of(l1 if by_l1 else l2)
    return integer_sum(query, {}, len(vectors), step=step, l1=by_l1), step


@given(BOUNDS)
def test_the_grid_has_2_to_the_bits_steps_in_a_bound(bound):
    step = step_of(bound)
    assert math.frexp(step)[0] == 0.5
    # The logarithm is rounded: a bound a hair above a power of two may count as that power.
    assert 2 ** (BITS - 1) < Fraction(bound) / Fraction(step) <= 2**BITS * (1 + Fraction(2) ** -40)


@settings(deadline=None)
@given(VECTORS, BOUNDS, st.booleans())
def test_no_vector_is_longer_than_its_bound(vectors, bound, nonnegative):
    for row in vectors:
        for by_l1 in (False, True):
            whole, step = summed(row[None], l2=bound, l1=bound, nonnegative=nonnegative, by_l1=by_l1)
            steps = [abs(int(value)) for value in whole]
            limit = Fraction(bound) / Fraction(step)
            assert (sum(steps) <= limit) if by_l1 else (sum(value**2 for value in steps) <= limit**2)


@settings(deadline=None)
@given(arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1, 1)))
def test_a_vector_within_its_bound_is_kept_to_the_grid(vector):
    length = math.sqrt(math.fsum(vector**2))
    whole, step = summed(vector[None], l2=max(length * 1.001, 1e-3))
    kept = whole * step
    assert np.all(np.abs(vector - kept) < step)
    assert np.all(np.abs(kept) <= np.abs(vector))


@settings(deadline=None)
@given(arrays.arrays(np.float64, st.integers(2, 40), elements=st.floats(-1e300, 1e300)), st.floats(0.01, 100))
def test_a_vector_too_long_keeps_its_direction(vector, bound):
    largest = float(np.abs(vector).max())
    if largest <= bound:
        return
    whole, step = summed(vector[None], l2=bound)
    unit = vector / largest
    expected = unit / math.sqrt(math.fsum(unit**2)) * bound
    # Shortened by 2**-32 for rounding, and cut to the grid.
    assert whole * step == pytest.approx(expected, rel=1e-9, abs=2 * step)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_vector_with_a_hole_adds_nothing(wrong):
    vectors = np.array([[0.25, wrong], [0.25, 0.5]])
    whole, step = summed(vectors)
    assert (whole * step).tolist() == [0.25, 0.5]


def test_negative_numbers_become_zero_where_none_are_declared():
    whole, step = summed(np.array([[-5.0, 0.5]]), nonnegative=True)
    assert (whole * step).tolist() == [0.0, 0.5]


def test_counts_stay_whole():
    query = Stack((Count(), Marginal((Categories(column="c", count=2, missing=True),))))
    step = step_of(query.l2)
    whole = integer_sum(query, {"c": np.array([0, 1, 1, -1, 7])}, 5, step=step, l1=False)
    assert (whole * step).tolist() == [5.0, 1.0, 2.0, 2.0]


def test_rows_in_no_group_add_nothing():
    query = Grouped(
        Categories(column="c", count=2, missing=False),
        Features(function=lambda chunk: np.full((3, 1), 0.5), columns=(), shape=(1,), l2=1.0),
    )
    step = step_of(1.0)
    whole = integer_sum(query, {"c": np.array([1, -1, 1])}, 3, step=step, l1=False)
    assert (whole * step).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("groups", [None, 3])
def test_blocks_do_not_change_the_sum(monkeypatch, groups):
    rng = np.random.default_rng(0)
    vectors, group = rng.normal(size=(50, 6)), rng.integers(-1, 3, 50)
    query = Features(function=lambda chunk: vectors, columns=(), shape=(6,), l2=1.0)
    if groups:
        query = Grouped(Categories(column="c", count=groups, missing=False), query)
    sums = []
    for block in (1, 13, 1 << 22):
        monkeypatch.setattr(bounding, "_BLOCK", block)
        sums.append(integer_sum(query, {"c": group}, 50, step=step_of(1.0), l1=False).tolist())
    assert sums[0] == sums[1] == sums[2]


def test_the_largest_table_fits_in_64_bits():
    from threea.backends.base import MAX_ROWS

    assert MAX_ROWS * 2**BITS <= 2**62


def test_a_count_beside_a_huge_bound_is_refused_or_right():
    """A stack shares one grid: where that is too coarse for whole counts, they must not vanish silently."""
    huge = Features(function=lambda chunk: np.zeros((5, 1)), columns=(), shape=(1,), l2=1e12)
    try:
        query = Stack((Count(), huge))
        step = step_of(query.l2)
        count = integer_sum(query, {}, 5, step=step, l1=False)[0] * step
    except SettingError:
        count = 5.0
    assert count == pytest.approx(5.0, rel=0.5)
