"""Clipping and the grid: contributions kept where they fit, cut where they do not, never lengthened."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from threea.anonymize import clipping as bounding
from threea.anonymize.clipping import BITS, Norm, check, clipped_sum, step_of
from threea.anonymize.gradient import Gradient
from threea.anonymize.query import Count, Features, Grouped, Marginal, Rows, Stack
from threea.anonymize.score_gradient import ScoreGradient
from threea.anonymize.vectors import Frame, Moment, Vectors
from threea.errors import SettingError
from threea.table.cells import Categories, Digits

BOUNDS = st.one_of(st.floats(2.0**-900, 2.0**900), st.sampled_from([1.0, math.sqrt(2), 2.0, 2.0**-900, 2.0**900]))
VECTORS = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.floats())


def summed(vectors, *, l2=1.0, l1=math.inf, nonnegative=False, by_l1=False):
    """Return the grid sum of some rows' vectors, and the step."""
    query = Features(
        function=lambda chunk: vectors, columns=(), shape=vectors.shape[1:], l2=l2, l1=l1, nonnegative=nonnegative
    )
    step = step_of(l1 if by_l1 else l2)
    return clipped_sum(query, Rows({}, len(vectors)), step=step, norm=Norm.L1 if by_l1 else Norm.L2), step


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
    whole = clipped_sum(query, Rows({"c": np.array([0, 1, 1, -1, 7])}, 5), step=step, norm=Norm.L2)
    assert (whole * step).tolist() == [5.0, 1.0, 2.0, 2.0]


def test_rows_in_no_group_add_nothing():
    query = Grouped(
        Digits(column="c"),
        Features(function=lambda chunk: np.full((3, 1), 0.5), columns=(), shape=(1,), l2=1.0),
    )
    step = step_of(1.0)
    whole = clipped_sum(query, Rows({"c": np.array([1.0, np.nan, 1.0])}, 3), step=step, norm=Norm.L2)
    assert (whole * step).tolist() == [float(size == 1.0) for size in (*Digits.STEPS, math.nan)]


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
        sums.append(clipped_sum(query, Rows({"c": group}, 50), step=step_of(1.0), norm=Norm.L2).tolist())
    assert sums[0] == sums[1] == sums[2]


def test_the_largest_table_fits_in_64_bits():
    from threea.backends.base import MAX_ROWS

    assert MAX_ROWS * 2**BITS <= 2**62


def _wide(l2, size=1):
    return Features(function=lambda chunk: np.zeros((1, size)), columns=(), shape=(size,), l2=l2)


@pytest.mark.parametrize(
    "query",
    [
        _wide(2.0**901),
        _wide(2.0**-901),
        Stack((_wide(2.0**900), _wide(2.0**900))),
        # A stack shares one grid: on one this coarse, whole counts would vanish.
        Stack((Count(), _wide(1e12))),
        Stack((Grouped(Categories(column="c", count=2, missing=False), Count()), _wide(1e12))),
        # The norm of so many numbers could be off by more than the bound is shortened.
        _wide(1.0, bounding.MOST_NUMBERS + 1),
    ],
    ids=["huge", "tiny", "huge together", "count", "grouped count", "long"],
)
def test_what_the_grid_cannot_keep_exact_is_refused(query):
    with pytest.raises(SettingError):
        check(query, norm=Norm.L2)


@pytest.mark.parametrize(
    "query",
    [Count(), _wide(2.0**900), _wide(2.0**-900), Stack((Count(), _wide(1e9)))],
    ids=["count", "huge", "tiny", "stack"],
)
def test_what_the_grid_keeps_exact_is_not(query):
    assert check(query, norm=Norm.L2) is None


PAIR = Categories(column="c", count=2, missing=False)
EXACT = [
    Gradient(PAIR, (0, 1), (PAIR,), np.zeros((2, 2)), (1.0, 1.0), 1.0),
    ScoreGradient(PAIR, np.eye(2), np.zeros(2), (PAIR,), np.zeros((2, 2)), 1.0),
    Vectors(
        frame=Frame(cells=(PAIR,), scores=((0, 1),), grid=(1,), kept=(0,)),
        radius=1.0,
        moment=Moment.SECOND_MOMENTS,
        by=PAIR,
    ),
]


@pytest.mark.parametrize("query", [*EXACT, Stack((Count(), EXACT[0]))], ids=lambda query: type(query).__name__)
def test_laplace_noise_is_refused_without_a_bound_in_l1(query):
    assert check(query, norm=Norm.L2) is None
    with pytest.raises(SettingError, match="finite L1 bound"):
        check(query, norm=Norm.L1)


@pytest.mark.parametrize("query", EXACT, ids=lambda query: type(query).__name__)
def test_what_a_query_added_up_itself_is_left_as_it_is(query):
    rows = Rows({"c": np.array([0, 1, 1, -1])}, 4)
    step = step_of(Stack((Count(), query)).l2)
    alone = query.total(rows, step)
    assert alone.any()
    np.testing.assert_array_equal(clipped_sum(query, rows, step=step, norm=Norm.L2), alone)
    stacked = clipped_sum(Stack((Count(), query)), rows, step=step, norm=Norm.L2)
    np.testing.assert_array_equal(stacked, [4 * int(1 / step), *alone])


def test_the_shortening_covers_the_rounding_of_the_longest_norm():
    """All numbers equal: the sum of squares rounds as often as there are numbers."""
    size = bounding.MOST_NUMBERS
    for value in (1.0, 0.1, 1 / 3):
        whole, step = summed(np.full((1, size), value), l2=1.0)
        assert size * int(whole[0]) ** 2 <= (Fraction(1) / Fraction(step)) ** 2
