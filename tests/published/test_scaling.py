"""Scaling: into the unit cube, and back to what it came from."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.published.scaling import SCALINGS, Scale, Scaling
from threea.table.schema import Column, Kind

REAL = Column(name="x", kind=Kind.REAL, lower=-1e6, upper=1e6)
WHOLE = Column(name="x", kind=Kind.INTEGER, lower=-1000, upper=1000)
LISTED = Column(name="x", kind=Kind.CATEGORICAL, categories=("a", "b", "c"), open_ended=True)

each_scaling = pytest.mark.parametrize("name", SCALINGS)


@each_scaling
@settings(deadline=None)
@given(values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1))
def test_numbers_come_back(name: Any, values: list[float]) -> None:
    numbers = np.array(values)
    scale = Scale.of(name, REAL, numbers)
    places = scale.encode(numbers)
    assert places.min() >= 0
    assert places.max() <= 1
    assert scale.decode(places) == pytest.approx(numbers, abs=1e-6 * (1 + np.ptp(numbers)))


@each_scaling
@settings(deadline=None)
@given(values=st.lists(st.integers(-1000, 1000), min_size=1))
def test_whole_numbers_come_back_exactly(name: Any, values: list[int]) -> None:
    numbers = np.array(values, np.float64)
    scale = Scale.of(name, WHOLE, numbers)
    assert np.array_equal(scale.decode(scale.encode(numbers)), numbers)


@each_scaling
@settings(deadline=None)
@given(values=st.lists(st.integers(-1, 3), min_size=1))
def test_codes_come_back_exactly_and_missing_is_one_of_them(name: Any, values: list[int]) -> None:
    codes = np.array(values)
    scale = Scale.of(name, LISTED, codes)
    assert np.array_equal(scale.decode(scale.encode(codes)), codes)


@each_scaling
def test_the_ends_are_0_and_1_and_what_is_beyond_is_at_them(name: Any) -> None:
    scale = Scale.of(name, REAL, np.array([5.0, -3.0, 7.0, 5.0]))
    assert scale.encode(np.array([-3.0, 7.0])).tolist() == [0.0, 1.0]
    assert scale.decode(np.array([-0.4, 1.3])).tolist() == [-3.0, 7.0]


def test_minmax_is_even_and_quantile_is_normal() -> None:
    skewed = np.exp(np.random.default_rng(0).normal(size=10_001))
    even = Scale.of("minmax", REAL, skewed).encode(skewed)
    assert even == pytest.approx((skewed - skewed.min()) / np.ptp(skewed))
    normal = Scale.of("quantile", REAL, skewed).encode(skewed)
    standard = (normal - normal.mean()) / normal.std()
    assert (standard**3).mean() == pytest.approx(0, abs=0.01)
    assert (standard**4).mean() == pytest.approx(3, abs=0.1)


@each_scaling
def test_a_missing_number_takes_the_median(name: Any) -> None:
    numbers = np.array([0.0, 1.0, np.nan, 10.0])
    scale = Scale.of(name, REAL, numbers)
    assert scale.encode(numbers)[2] == scale.encode(np.array([1.0]))[0]


@each_scaling
def test_a_column_without_values_stays_without(name: Any) -> None:
    missing = np.array([np.nan, np.nan])
    scale = Scale.of(name, REAL, missing)
    assert scale.encode(missing).tolist() == [0.0, 0.0]
    assert np.isnan(scale.decode(np.array([0.3]))).all()
    never = Column(name="x", kind=Kind.REAL, lower=2.0, upper=3.0, nullable=False)
    assert Scale.of(name, never, missing).decode(np.array([0.3])).tolist() == [2.0]


@each_scaling
def test_a_code_that_may_not_be_missing_is_not(name: Any) -> None:
    never = Column(name="x", kind=Kind.CATEGORICAL, categories=("a", "b"), nullable=False)
    scale = Scale.of(name, never, np.array([0, 1, -1]))
    assert scale.decode(scale.encode(np.array([0, 1, -1]))).tolist() == [0, 1, 1]


@each_scaling
def test_rows_become_points_with_a_coordinate_for_each_column(name: Any) -> None:
    columns = (LISTED, Column(name="y", kind=Kind.REAL, lower=0, upper=9))
    chunk = {"x": np.array([0, 1, -1]), "y": np.array([1.0, 2.0, 9.0])}
    scaling = Scaling.of(name, columns, chunk)
    points = scaling.encode(chunk)
    assert points.shape == (3, 2)
    back = scaling.decode(points)
    assert back["x"].tolist() == [0, 1, -1]
    assert back["y"] == pytest.approx(chunk["y"])
