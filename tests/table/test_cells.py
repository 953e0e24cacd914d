"""Cells: a value drawn from a cell falls in that cell, and every value falls in one."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.table.cells import Bins, Categories, Digits, Merged, edges_between
from threea.table.schema import Column, Kind

EVERY_CELL = 20
"""How many values are drawn from each cell."""


def assert_drawn_values_return(cells: Categories | Bins, seed: int, empty: set[int] = frozenset()) -> None:  # type: ignore[assignment]
    """Check the law; cells in `empty` hold no value at all, so nothing can be drawn from them."""
    index = np.repeat([cell for cell in range(cells.size) if cell not in empty], EVERY_CELL)
    values = cells.draw(index, np.random.default_rng(seed))
    np.testing.assert_array_equal(cells.index(values), index)


seeds = st.integers(0, 2**32)
numbers = st.floats(-1e12, 1e12, allow_subnormal=False)


@given(count=st.integers(1, 50), missing=st.booleans(), seed=seeds)
def test_categories_return(count: int, missing: bool, seed: int) -> None:
    assert_drawn_values_return(Categories(column="x", count=count, missing=missing), seed)


@given(
    edges=st.lists(numbers, min_size=2, max_size=20, unique=True).map(sorted),
    special=st.lists(st.floats(2e12, 3e12), max_size=3, unique=True),
    missing=st.booleans(),
    seed=seeds,
)
def test_real_bins_return(edges: list[float], special: list[float], missing: bool, seed: int) -> None:
    bins = Bins(column="x", edges=tuple(edges), special=tuple(special), missing=missing)
    assert_drawn_values_return(bins, seed)


@given(
    edges=st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=20, unique=True).map(sorted),
    missing=st.booleans(),
    seed=seeds,
)
def test_logarithmic_bins_return(edges: list[float], missing: bool, seed: int) -> None:
    bins = Bins(column="x", edges=tuple(edges), special=(0.0,), missing=missing, log=True)
    assert_drawn_values_return(bins, seed)


@given(
    edges=st.lists(st.integers(-50, 50), min_size=2, max_size=20, unique=True).map(sorted),
    special=st.lists(st.integers(-60, 60), max_size=8, unique=True),
    missing=st.booleans(),
    seed=seeds,
)
def test_whole_bins_return_though_special_values_lie_within(
    edges: list[int], special: list[int], missing: bool, seed: int
) -> None:
    bins = Bins(
        column="x",
        edges=tuple(map(float, edges)),
        special=tuple(map(float, special)),
        missing=missing,
        whole=True,
    )
    empty = {
        len(special) + place
        for place, (low, high) in enumerate(itertools.pairwise(edges))
        if set(range(low, high)) <= set(special)
    }
    assert_drawn_values_return(bins, seed, empty)


@given(low=st.integers(-(2**52), 2**52), width=st.integers(0, 2**40), bins=st.integers(2, 64), seed=seeds)
def test_large_whole_numbers_and_moments_return(low: int, width: int, bins: int, seed: int) -> None:
    for kind in (Kind.INTEGER, Kind.DATETIME):
        column = Column(name="x", kind=kind, lower=float(low), upper=float(low + width))
        assert_drawn_values_return(column.cells(bins), seed)


STEPS = st.sampled_from([0.01, 0.05, 0.1, 0.25, 2.0, 10_000.0])


@given(low=st.integers(-500, 500), width=st.integers(1, 400), step=STEPS, bins=st.integers(2, 64), seed=seeds)
def test_multiples_of_a_step_return_and_are_written_with_few_digits(
    low: int, width: int, step: float, bins: int, seed: int
) -> None:
    kind = Kind.INTEGER if step >= 1 else Kind.REAL
    lower, upper = float(round(low * step, 2)), float(round((low + width) * step, 2))
    if step > max(abs(lower), abs(upper)):
        return
    cells = Column(name="x", kind=kind, lower=lower, upper=upper, step=step, special=(lower,)).cells(bins)
    empty = {1} if cells.edges[1] - cells.edges[0] <= 1.5 * step else set()
    assert_drawn_values_return(cells, seed, empty)
    values = cells.draw(np.repeat(np.arange(2, cells.size), EVERY_CELL), np.random.default_rng(seed))
    values = values[~np.isnan(values)]
    assert all(value == float(f"{value:.2f}") for value in values)
    assert np.abs(values / step - np.round(values / step)).max(initial=0.0) < 1e-6


def test_single_values_are_told() -> None:
    rate = Column(name="x", kind=Kind.REAL, lower=0.0, upper=1.0, step=0.1)
    assert rate.cells(11).single
    assert not rate.cells(10).single
    assert not Column(name="x", kind=Kind.REAL, lower=0.0, upper=1.0).cells(1000).single
    assert Column(name="x", kind=Kind.INTEGER, lower=0, upper=99).cells(100).single


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_digits_are_those_that_a_number_is_written_with(kind: type) -> None:
    cells = Digits(column="x")
    written = {0.1: 0.1, 12.25: 0.01, 300.0: 100.0, 7.0: 1.0, 0.0: 1e6, 2.5e7: 1e6, -99.0: 1.0, 0.3: 0.1}
    values = np.array(list(written), kind).astype(float)
    assert [Digits.STEPS[cell] for cell in cells.index(values)] == list(written.values())
    assert cells.index(np.array([np.pi, np.nan, 1e-9, np.inf])).tolist()[:3] == [cells.size - 1, -1, cells.size - 1]


def test_neighbouring_floats_as_edges_return() -> None:
    edges = (1.0, math.nextafter(1.0, 2), math.nextafter(math.nextafter(1.0, 2), 2), 2.0)
    assert_drawn_values_return(Bins(column="x", edges=edges, missing=False), seed=0)


@given(
    low=numbers,
    width=st.floats(0, 1e12, exclude_min=True, allow_subnormal=False),
    bins=st.integers(2, 100),
    whole=st.booleans(),
    log=st.booleans(),
)
def test_edges_increase_from_lower_to_the_end(low: float, width: float, bins: int, whole: bool, log: bool) -> None:
    low = abs(low) + 1 if log else low
    low, high = (float(round(low)), float(round(low + width))) if whole else (low, low + width)
    if high <= low and not whole:
        high = math.nextafter(low, math.inf)
    edges = edges_between(low, high, bins, log=log, whole=whole)
    assert list(edges) == sorted(set(edges))
    assert (edges[0], edges[-1]) == (low, high + 1 if whole else high)
    assert 2 <= len(edges) <= bins + 1
    assert not whole or all(edge == round(edge) for edge in edges)
    assert all(type(edge) is float for edge in edges)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_edges_are_evenly_spaced(log: bool, whole: bool) -> None:
    edges = np.array(edges_between(1.0, 9999.0 if whole else 10_000.0, 4, log=log, whole=whole))
    steps = edges[1:] / edges[:-1] if log else np.diff(edges)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-3)


def test_one_whole_number_has_one_bin() -> None:
    assert edges_between(5.0, 5.0, 32, log=False, whole=True) == (5.0, 6.0)


def test_values_beyond_the_ends_fall_in_the_end_bins() -> None:
    bins = Bins(column="x", edges=(0.0, 1.0, 2.0), missing=False)
    assert bins.index(np.array([-np.inf, -1.0, 0.0, 0.99, 1.0, 2.0, 3.0, np.inf])).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_missing_has_a_cell_of_its_own_or_counts_as_a_value() -> None:
    for missing, middle, first in ((True, 3, 3), (False, 2, 0)):
        bins = Bins(column="x", edges=(0.0, 1.0, 2.0), special=(9.0,), missing=missing)
        assert bins.index(np.array([np.nan])).tolist() == [middle]
        assert bins.size == 3 + missing
        listed = Categories(column="x", count=3, missing=missing)
        assert listed.index(np.array([-1, 3, 1000])).tolist() == [first] * 3
    others = Categories(column="x", count=3, missing=False, other=True)
    assert others.index(np.array([-1, 3, 1000])).tolist() == [2] * 3


@given(
    special=st.lists(st.floats(-10, 10), max_size=3, unique=True),
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.integers(-5, 20).map(float), min_size=1),
    bins=st.integers(1, 9),
    missing=st.booleans(),
    other=st.booleans(),
)
def test_every_value_has_exactly_one_cell(
    special: list[float], values: list[float], bins: int, missing: bool, other: bool
) -> None:
    numbers = Bins(column="x", edges=tuple(map(float, range(bins + 1))), special=tuple(special), missing=missing)
    listed = Categories(column="x", count=bins, missing=missing, other=other)
    codes = np.clip(np.nan_to_num(np.array(values), nan=-1.0), -9, 99).astype(np.int64)
    for cells, own in ((numbers, np.array(values)), (listed, codes)):
        merged = Merged(cells=cells, groups=(0,) * cells.size)
        for each in (cells, merged):
            index = each.index(own)
            assert ((index >= 0) & (index < each.size)).all()


def test_special_values_win_over_bins() -> None:
    bins = Bins(column="x", edges=(0.0, 5.0, 10.0), special=(7.0, 0.0), missing=True, whole=True)
    assert bins.index(np.array([7.0, 0.0, 6.0, 1.0])).tolist() == [0, 1, 3, 2]


@settings(max_examples=50)
@given(seed=seeds)
def test_drawing_leaves_its_input_alone(seed: int) -> None:
    for cells in (
        Categories(column="x", count=3, missing=True),
        Bins(column="x", edges=(0.0, 1.0, 2.0), special=(5.0,), missing=True),
    ):
        index = np.arange(cells.size)
        cells.draw(index, np.random.default_rng(seed))
        np.testing.assert_array_equal(index, np.arange(cells.size))
        values = np.array([0.0, np.nan, 5.0])
        cells.index(values)
        np.testing.assert_array_equal(values, [0.0, np.nan, 5.0])


def test_values_spread_evenly_over_a_bin() -> None:
    """20,000 draws with a fixed seed; a random one would fail twice in 1e5 (three tests at 4.5 sigma)."""
    rng = np.random.default_rng(7)
    index = np.zeros(20_000, np.int64)
    real = Bins(column="x", edges=(2.0, 4.0, 5.0), missing=False).draw(index, rng)
    log = Bins(column="x", edges=(1.0, 100.0, 101.0), missing=False, log=True).draw(index, rng)
    whole = Bins(column="x", edges=(2.0, 6.0, 7.0), special=(3.0,), missing=False, whole=True).draw(index + 1, rng)
    tolerance = 4.5 / math.sqrt(len(index))
    assert abs(real.mean() - 3.0) < tolerance * 2 / math.sqrt(12)
    assert abs(np.log10(log).mean() - 1.0) < tolerance * 2 / math.sqrt(12)
    assert set(whole) == {2.0, 4.0, 5.0}
    assert abs((whole == 4.0).mean() - 1 / 3) < tolerance * math.sqrt(2) / 3


@given(data=st.data(), missing=st.booleans(), bins=st.booleans())
def test_merged_cells_are_cells_put_together(data: st.DataObject, missing: bool, bins: bool) -> None:
    """Every value goes where its cell goes, and a value without a cell stays without one."""
    cells: Categories | Bins
    if bins:
        cells = Bins(column="x", edges=(0.0, 1.0, 2.0, 3.0), special=(9.0,), missing=missing)
        values = np.array(data.draw(st.lists(st.one_of(numbers, st.sampled_from([np.nan, 0.5, 1.5, 9.0])))), float)
    else:
        cells = Categories(column="x", count=4, missing=missing)
        values = np.array(data.draw(st.lists(st.integers(-2, 6))), int)
    largest = data.draw(st.integers(0, cells.size - 1))
    rest = st.lists(st.integers(0, largest), min_size=cells.size - largest - 1, max_size=cells.size - largest - 1)
    groups = tuple(data.draw(st.permutations([*range(largest + 1), *data.draw(rest)])))
    merged = Merged(cells=cells, groups=groups)
    assert (merged.column, merged.size) == ("x", largest + 1)
    plain, found = cells.index(values), merged.index(values)
    assert found.tolist() == [groups[cell] if cell >= 0 else -1 for cell in plain]
    np.testing.assert_array_equal(merged.merge(plain.astype(np.int8)), found)


def test_merged_cells_that_merge_the_same_are_the_same_key() -> None:
    cells = Categories(column="x", count=2, missing=True)
    one, same, other = (Merged(cells=cells, groups=groups) for groups in ((0, 1, 1), (0, 1, 1), (0, 0, 1)))
    assert len({one, same, other, cells}) == 3
