"""Distances between rows are what their definition says, however they are cut into blocks."""

import math

import numpy as np
import pytest

from threea import hospital
from threea.evaluate.attacks import nearness
from threea.evaluate.attacks.nearness import Pool, cells, entropies, raw_values, scaled, smallest
from threea.table.schema import Schema

SCHEMA = Schema.of(
    {
        "age": {"kind": "integer", "lower": 0, "upper": 100},
        "cost": {"kind": "real", "lower": 1.0, "upper": 1000.0, "log": True, "special": [0.0]},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
    },
    target="age",
)


def distance(one, other):
    """Distance by its definition, a row being (age, cost, ward)."""

    def apart(a, b, number):
        if math.isnan(a) or math.isnan(b):
            return 0.0 if math.isnan(a) and math.isnan(b) else 1.0
        return number(a, b)

    def cost(a, b):
        if 0.0 in (a, b):
            return float(a != b)
        return abs(math.log10(a) - math.log10(b)) / 3

    return (
        apart(one[0], other[0], lambda a, b: abs(a - b) / 100)
        + apart(one[1], other[1], cost)
        + apart(one[2], other[2], lambda a, b: float(a != b))
    )


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [rng.integers(0, 101, 60), np.exp(rng.random(60) * np.log(1000)), rng.integers(0, 3, 60)]
    ).astype(float)
    values[rng.random((60, 3)) < 0.2] = np.nan
    values[:10, 1] = 0.0
    return values


def test_distances_follow_the_definition(rows):
    located = scaled(rows, SCHEMA)
    expected = [[distance(one, other) for other in rows[30:]] for one in rows[:30]]
    assert Pool.of(located[30:]).distances(located[:30]) == pytest.approx(np.array(expected), abs=1e-5)


def test_values_beyond_the_bounds_count_as_the_bounds():
    located = scaled(np.array([[500.0, 5.0, 0.0], [100.0, 5.0, 0.0]]), SCHEMA)
    assert Pool.of(located[:1]).distances(located[1:])[0, 0] == 0.0


def test_distances_over_chosen_columns_add_up(rows):
    located = scaled(rows, SCHEMA)
    pool = Pool.of(located)
    parts = pool.distances(located, [0, 2]) + pool.distances(located, [1])
    assert parts == pytest.approx(pool.distances(located), abs=1e-5)


def test_weighted_distances_are_sums_of_squares(rows):
    located, weights = scaled(rows, SCHEMA), np.array([0.5, 2.0, 3.0])
    columns = [Pool.of(located).distances(located, [place]) for place in range(3)]
    expected = sum((weight * column) ** 2 for weight, column in zip(weights, columns, strict=True))
    assert Pool.of(located, weights).distances(located) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("count", [1, 5])
def test_nearest_agrees_with_sorting_whatever_the_block(rows, count, monkeypatch):
    located = scaled(rows, SCHEMA)
    pool = Pool.of(located[20:])
    whole = pool.nearest(located, count)[0]
    monkeypatch.setattr(nearness, "BLOCK", 90)
    assert len(list(pool.blocks(located))) > 10
    found, where = pool.nearest(located, count)
    every = pool.distances(located)
    assert (found == np.sort(every, axis=1)[:, :count]).all()
    assert (np.take_along_axis(every, where, axis=1) == found).all()
    assert (found == whole).all()


def test_smallest_gives_all_if_there_are_fewer():
    found, where = smallest(np.array([[3.0, 1.0]], np.float32), 5)
    assert found.tolist() == [[1.0, 3.0]]
    assert where.tolist() == [[1, 0]]


def test_raw_values_keep_the_order_of_the_columns():
    table, schema = hospital.stays(50), hospital.schema()
    values = raw_values([table], schema)[0]
    names = [column.name for column in schema.modelled]
    assert values[:, names.index("age")].tolist() == table["age"].to_pylist()
    assert values[:, names.index("died")].tolist() == [float(died) for died in table["died"].to_pylist()]
    assert np.isnan(values[:, names.index("lactate")]).sum() == table["lactate"].null_count


def test_values_that_the_model_lacks_have_a_cell_of_their_own():
    mine, model = cells(np.array([1.0, 2.5, 9.0], np.float32), np.array([1.0, 2.0, 2.0], np.float32))
    assert mine.tolist() == [0, 2, 2]
    assert model.tolist() == [0, 1, 1]


def test_columns_of_many_values_are_cut_at_quantiles():
    values = np.arange(1000, dtype=np.float32)
    assert np.bincount(cells(values, values)[1]).tolist() == [50] * 20


def test_entropies_are_those_of_the_shares():
    rows = np.array([[0, 0], [0, 1], [0, 2], [0, 3]], np.float32)
    assert entropies(rows) == pytest.approx([0.0, math.log(4)])
