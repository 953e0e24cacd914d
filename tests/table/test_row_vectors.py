"""Rows as vectors, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea import hospital
from threea.table import codec
from threea.table.cells import Bins
from threea.table.row_vectors import RowVectors, VectorColumn
from threea.table.schema import Schema
from threea.testing import CASES

SCHEMA = Schema.of(
    {
        "gain": {"kind": "real", "lower": 1.0, "upper": 1e5, "special": [0.0], "log": True},
        "age": {"kind": "integer", "lower": 0, "upper": 110, "nullable": False},
        "ward": {"kind": "categorical", "categories": ["a", "b"], "open_ended": True},
        "day": {"kind": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    }
)
VECTORS = RowVectors.of(SCHEMA.columns)
ROWS = st.fixed_dictionaries(
    {
        "gain": st.sampled_from([0.0, 1.0, 1e5, np.nan, -np.inf, np.inf, 1e300]) | st.floats(1.0, 1e5),
        "age": st.sampled_from([np.nan, -5.0, 0.0, 110.0, 1e18]) | st.integers(0, 110).map(float),
        "ward": st.integers(-1, 9),
        "day": st.sampled_from([np.nan, -1e18, 1e18]) | st.integers(1_577_836_800, 1_609_372_800).map(float),
    }
)


def chunk(rows):
    return {name: np.array([row[name] for row in rows]) for name in ("gain", "age", "ward", "day")}


@settings(max_examples=40)
@given(st.lists(ROWS, min_size=1, max_size=8))
def test_a_row_depends_on_itself_alone_and_stays_within_bounds(rows):
    vectors = VECTORS.encode(chunk(rows))
    assert vectors.shape == (len(rows), VECTORS.width)
    assert np.abs(vectors).max() <= 1
    alone = [VECTORS.encode(chunk([row]))[0] for row in rows]
    assert vectors.tobytes() == np.array(alone).tobytes()


@pytest.mark.parametrize(
    "name", ["plain", "constant columns", "all missing", "date target", "all values out of bounds"]
)
def test_there_and_back(name):
    """What the schema knows comes back as it was, and what it does not as something that it knows."""
    case = CASES[name]
    encoded = codec.encode(case.table.combine_chunks().to_batches()[0], case.schema)
    vectors = RowVectors.of(case.schema.features)
    back = vectors.decode(vectors.encode(encoded), np.random.default_rng(0))
    for column in case.schema.features:
        there = encoded[column.name]
        if column.kind.numeric:
            there = np.where(np.isin(there, column.special), there, np.clip(there, column.lower, column.upper))
        assert np.allclose(there, back[column.name], rtol=1e-9, equal_nan=True), column.name


def test_indicators_are_drawn_as_often_as_they_say():
    """Of 4,000 draws; a false alarm has a chance below 1e-9, were the seed not fixed."""
    column = VectorColumn.of(SCHEMA["ward"])
    drawn = column.decode(np.tile([0.1, 0.2, 0.3, 0.4], (4000, 1)), np.random.default_rng(0).random(4000))
    assert np.abs(np.bincount(drawn + 1) / 4000 - [0.4, 0.1, 0.2, 0.3]).max() < 0.05


def test_numbers_by_rank_are_even_and_come_back():
    cells = SCHEMA["age"].cells(10)
    assert isinstance(cells, Bins)
    column = VectorColumn.ranked(SCHEMA["age"], cells, np.array([0.0, 0.9, *[0.1 / 8] * 8]))
    ages = np.arange(111.0)
    places = column.encode(ages)
    assert np.diff(places[:, 0]).min() > 0
    assert np.ptp(column.encode(np.array(cells.edges[1:3]))) > 1.7
    assert (column.decode(places, np.zeros(111)) == ages).all()


def test_a_bound_of_many_columns_needs_no_indicator():
    pixel = {"kind": "integer", "lower": 0, "upper": 255, "special": [0], "nullable": False}
    few, many = (Schema.of({f"p{i}": pixel for i in range(count)}) for count in (2, 128))
    assert RowVectors.of(few.columns).width == 6
    vectors = RowVectors.of(many.columns)
    assert vectors.width == 128
    assert vectors.encode({column.name: np.zeros(1) for column in many.columns}).tolist() == [[-1.0] * 128]


def test_groups_number_the_choices():
    assert VECTORS.groups.tolist() == [-1, 0, 0, 0, -1, 1, 1, 1, 1, -1, 2, 2]
    assert RowVectors.of(hospital.schema().features).groups.max() >= 0
