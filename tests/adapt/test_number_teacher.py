"""The teacher of numbers: it learns what the rows say, on any scale, and labels of its own kind stay away."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.adapt.number_teacher import label_scores
from threea.adapt.taught import Taught, softmax
from threea.adapt.teacher import STEP
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.recipes import LabelTree
from threea.table.cells import Bins
from threea.table.schema import Schema
from threea.testing import SeededNoise

ROWS = 12_000


def sales() -> tuple[pa.Table, Schema, np.ndarray]:
    """Return rows whose price is a product, skewed and now and then missing; and its expected logarithm."""
    rng = np.random.default_rng(0)
    area, town = rng.random(ROWS), rng.integers(0, 4, ROWS)
    mean = 1.5 * area + 0.4 * town
    price = np.exp(mean + rng.normal(0, 0.2, ROWS))
    known = rng.random(ROWS) > 0.05
    columns = {
        "area": pa.array(area),
        "town": pa.array(np.array(list("abcd"))[town]),
        "price": pa.array(price, mask=~known),
    }
    kinds: dict[str, Any] = {
        "area": {"kind": "real", "lower": 0.0, "upper": 1.0, "nullable": False},
        "town": {"kind": "categorical", "categories": list("abcd"), "nullable": False},
        "price": {"kind": "real", "lower": 0.0, "upper": 20.0},
    }
    return pa.table(columns), Schema.of(kinds, target="price"), mean


@pytest.fixture(scope="module")
def made() -> tuple[Taught, pa.Table, np.ndarray]:
    table, schema, mean = sales()
    opened = open_table(table, schema=schema, budget=Budget(1.0, 1e-5), noise=SeededNoise(3))
    recipe = LabelTree()
    plan = recipe.plan(opened)
    model = recipe.adapt.adapt(recipe.approximate.fit(opened, plan), opened, plan)
    assert isinstance(model, Taught)
    assert [line.count for line in plan.lines if line.name == STEP] == [4]
    return model, table, mean


def test_rows_drawn_have_the_prices_that_their_features_explain(made: tuple[Taught, pa.Table, np.ndarray]) -> None:
    """At epsilon 1, one fixed seed: of the variance .75 was explained, of .906 that could be."""
    drawn = made[0].sample(ROWS, np.random.default_rng(0))
    known = np.isfinite(drawn["price"])
    mean = (1.5 * drawn["area"] + 0.4 * drawn["town"])[known]
    found = np.log(np.maximum(drawn["price"][known], 1e-3))
    slope, offset = np.polyfit(mean, found, 1)
    assert slope == pytest.approx(1.0, abs=0.2)
    assert offset == pytest.approx(0.0, abs=0.25)
    assert np.corrcoef(mean, found)[0, 1] ** 2 > 0.7


def test_missing_labels_are_drawn_as_often_as_counted(made: tuple[Taught, pa.Table, np.ndarray]) -> None:
    """They have no scores: the teacher neither gives nor takes them."""
    drawn = made[0].sample(ROWS, np.random.default_rng(0))
    assert np.isnan(drawn["price"]).mean() == pytest.approx(0.05, abs=0.02)


def test_prices_are_distributed_as_counted(made: tuple[Taught, pa.Table, np.ndarray]) -> None:
    real = made[1]["price"].drop_null().to_numpy()
    drawn = made[0].sample(ROWS, np.random.default_rng(0))["price"]
    for quantile in (0.1, 0.5, 0.9):
        assert np.nanquantile(drawn, quantile) == pytest.approx(np.quantile(real, quantile), rel=0.15)


def test_scores_rise_with_the_number_and_are_orthogonal(made: tuple[Taught, pa.Table, np.ndarray]) -> None:
    tree = made[0].model
    scores = label_scores(tree)
    assert tree.label is not None
    missing = np.isnan(scores[:, 0])
    assert missing.sum() == 1
    share = np.maximum(tree.sizes[~missing], 0) / np.maximum(tree.sizes[~missing], 0).sum()
    gram = scores[~missing].T @ (scores[~missing] * share[:, None])
    np.testing.assert_allclose(gram, np.diag([1.0, 0.25]), atol=0.05)
    middles = [np.mean([i for i, g in enumerate(tree.label.groups) if g == k]) for k in np.flatnonzero(~missing)]
    assert (np.diff(scores[~missing, 0][np.argsort(middles)]) > 0).all()


@pytest.fixture(scope="module")
def additive() -> tuple[pa.Table, Schema]:
    """Return rows whose number is a sum of eight features that do not depend on one another, nearly without noise."""
    rng = np.random.default_rng(1)
    parts = rng.random((8, ROWS))
    number = parts.sum(axis=0) + rng.normal(0, 0.1, ROWS)
    names = [f"part {index}" for index in range(len(parts))]
    kinds: dict[str, Any] = {name: {"kind": "real", "lower": 0.0, "upper": 1.0, "nullable": False} for name in names}
    kinds["number"] = {"kind": "real", "lower": 0.0, "upper": 8.0, "nullable": False}
    table = pa.table({**dict(zip(names, parts, strict=True)), "number": number})
    return table, Schema.of(kinds, target="number")


def test_numbers_are_as_far_apart_as_independent_features_make_them(additive: tuple[pa.Table, Schema]) -> None:
    """A tree has features depend on one another through the label: a teacher that takes its word expects too little.

    One fixed seed, at epsilon 1. The teacher's means rose by .80 of the number; with the tree's rows alone by .67.
    With seeds 4 to 6: .76 to .78, and .65 to .66.
    """
    table, schema = additive
    opened = open_table(table, schema=schema, budget=Budget(1.0, 1e-5), noise=SeededNoise(3))
    recipe = LabelTree()
    plan = recipe.plan(opened)
    model = recipe.adapt.adapt(recipe.approximate.fit(opened, plan), opened, plan)
    assert isinstance(model, Taught)
    expected, number = _expected(model, table), table["number"].to_numpy()
    assert np.cov(expected, number)[0, 1] / number.var() > 0.72


def _expected(model: Taught, table: pa.Table) -> np.ndarray:
    """Return the teacher's mean for real rows, as far as the middles of the label's cells tell it."""
    tree = model.model
    assert tree.label is not None
    assert isinstance(tree.label.cells, Bins)
    edges = np.asarray(tree.label.cells.edges)
    codes = [feature.cells.index(table[feature.cells.column].to_numpy()) for feature in tree.features]
    means = tree.spread @ ((edges[1:] + edges[:-1]) / 2)
    return np.asarray(means[list(model.classes)] @ softmax(model.logits(codes)))


def test_where_noise_leaves_no_number_there_is_nothing_to_learn() -> None:
    # With this noise all rows that the tree draws lack their label.
    common = {"day": [None, None], "flag": ["yes", None], "ward": ["b", "c"], "person": ["q", None]}
    table = pa.table({**common, "number": [None, 1e-08], "code": [3, 3], "cost": [None, float("nan")]})
    opened = open_table(table, target="code", budget=Budget(1.0), noise=SeededNoise(36), unit="person")
    assert LabelTree().run(opened, rows=20).table.num_rows == 20
