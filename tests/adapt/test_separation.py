"""Two classes of wide rows are drawn as far apart as they are."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from threea.adapt.separation import STEP, Separation, _fitted
from threea.anonymize.open_table import open_table
from threea.approximate.histograms import HistogramModel
from threea.budget import Adjacency, Budget
from threea.describe.discover import discover
from threea.recipes import Gaussians
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

WIDE = 60
REAL = {"kind": "real", "lower": -5.0, "upper": 5.0, "nullable": False}


def wide(rows, seed=0, apart=0.25, classes=("no", "yes"), **target):
    """Return wide rows of classes whose means differ, and a schema."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, len(classes), rows)
    values = rng.standard_normal((rows, WIDE)) + apart * label[:, None] * np.sign(np.sin(np.arange(WIDE)))
    table = pa.table({f"c{n}": values[:, n] for n in range(WIDE)} | {"y": pa.array(np.array(classes)[label])})
    described = {"kind": "categorical", "categories": list(classes), "nullable": False} | target
    return table, Schema.of({f"c{n}": REAL for n in range(WIDE)} | {"y": described}, target="y")


def fitted(table, schema, *, noise=None, adjacency=Adjacency.ADD_REMOVE, moved=1.0):
    """Return the model before, as far apart as asked for, and after; the plan's lines, and how often it was asked."""
    budget = Budget(1.0, 1e-5, adjacency)
    private = open_table(table, schema=schema, budget=budget, noise=noise or SeededNoise(1))
    recipe = Gaussians()
    plan = recipe.plan(private)
    model = recipe.approximate.fit(private, plan).moved_apart(moved)
    adapted = recipe.adapt.adapt(model, private, plan)
    spent = {line.name: line.count for line in private.spent(plan)}
    return model, adapted, [line.name for line in plan.lines], spent.get(STEP, 0)


def separation(values, label, direction):
    """Return how far apart two classes' scores are, beside their spread."""
    scores = [values[label == code] @ direction for code in (0, 1)]
    return (scores[1].mean() - scores[0].mean()) / np.sqrt(np.mean([score.var() for score in scores]))


def columns(source):
    return np.column_stack([np.asarray(source[f"c{n}"]) for n in range(WIDE)])


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("times", [0.6, 1.0, 2.0])
def test_two_classes_are_drawn_as_far_apart_as_they_are(times, adjacency):
    """However far apart the model has them, at epsilon 1 and seeded noise: within a quarter; before, off by as much."""
    table, schema = wide(4_000)
    label = np.array(table["y"].to_pylist()) == "yes"
    drawn = []
    for moved in (times, None):
        model, adapted, _, count = fitted(table, schema, adjacency=adjacency, moved=times)
        chunk = (model if moved else adapted).sample(8_000, np.random.default_rng(0))
        found = separation(columns(chunk), chunk["y"], model.direction)
        drawn.append(found / separation(columns(table), label, model.direction))
        assert count == 1
    assert abs(drawn[0] / times - 1) < 0.25
    assert abs(drawn[1] - 1) < 0.25


@pytest.mark.parametrize("rows", [1, 3, 50, 3_000])
@pytest.mark.parametrize("times", [0.0, 1e-5, 1e3])
def test_however_near_or_far_something_is_drawn(rows, times):
    table, schema = wide(rows)
    model, adapted, _, count = fitted(table, schema, moved=times)
    assert count == 1
    assert (adapted.centres is model.centres) == (times == 0) or times == 1e-5
    assert np.isfinite(columns(adapted.sample(100, np.random.default_rng(0)))).all()


def test_counts_that_are_noise_alone_say_something_finite():
    rng, edges = np.random.default_rng(0), np.linspace(-4, 4, 11)
    for stddev in (1e-9, 1.0, 1e9):
        for _ in range(20):
            assert 0 < _fitted(stddev * rng.standard_normal((2, 12)), edges, 2.0, stddev) <= 2


def test_columns_keep_their_histograms():
    """Of 8,000 rows: means within 0.1 and deviations within a tenth, ten standard errors and what bins take."""
    table, schema = wide(3_000)
    model, adapted, _, _ = fitted(table, schema)
    before, after = (one.sample(8_000, np.random.default_rng(0)) for one in (model, adapted))
    for n in range(WIDE):
        assert before[f"c{n}"].mean() == pytest.approx(after[f"c{n}"].mean(), abs=0.1)
        assert before[f"c{n}"].std() == pytest.approx(after[f"c{n}"].std(), rel=0.1)
    assert (adapted.sizes == model.sizes).all()


@pytest.mark.parametrize(
    ("classes", "target", "priced"),
    [
        (("a", "b", "c"), {}, False),
        (("a",), {}, False),
        (("a", "b"), {"nullable": True}, True),
        (("a", "b"), {"open_ended": True}, True),
    ],
)
def test_two_listed_classes_are_moved_and_no_others(classes, target, priced):
    table, schema = wide(600, classes=classes, **target)
    model, adapted, lines, count = fitted(table, schema)
    assert (STEP in lines) == priced == bool(count)
    assert (adapted is model) != priced


@pytest.mark.parametrize("classes", [("a", "b"), ("a", "b", "c")])
def test_of_classes_that_are_found_two_are_moved_and_of_more_the_rows_are_counted_again(classes):
    """Without a schema the plan cannot know; the noise is silent, so that all classes are found."""
    table, _ = wide(3_000, classes=classes)
    private = open_table(table, target="y", budget=Budget(20.0, 1e-5), noise=SilentNoise())
    recipe = Gaussians()
    plan = recipe.plan(private)
    private = discover(private, plan)
    model = recipe.approximate.fit(private, plan)
    adapted = recipe.adapt.adapt(model, private, plan)
    assert {line.name: line.count for line in private.spent(plan)}[STEP] == 1
    moved = len(classes) == 2
    assert (adapted.centres is not model.centres) == moved
    assert (adapted.classes is model.classes) == moved
    if not moved:
        assert adapted.classes.stddev < model.classes.stddev
        np.testing.assert_allclose(adapted.classes.value, model.classes.value)


def test_a_model_without_numbers_is_left_as_it_is():
    table, schema = wide(100)
    private = open_table(table, schema=schema, budget=Budget(1.0), noise=SilentNoise())
    model = object.__new__(HistogramModel)
    assert Separation(weight=0.05).adapt(model, private, Gaussians().plan(private)) is model


@given(st.floats(0.3, 1.0), st.floats(1.0, 4.0), st.floats(-1.0, 1.0), st.integers(5_000, 500_000))
def test_what_scores_say_is_found_in_their_counts(part, apart, shift, rows):
    """Counts as expected, without noise: what is taken to be so beforehand moves what is found by little."""
    wider = 1.3
    edges = np.linspace(-apart / 2 - 3, apart / 2 + 3, 13)[1:-1]
    places = shift + np.array([[-0.5], [0.5]]) * apart * part * wider
    below = ndtr((edges - places) / wider)
    counts = np.array([[0.8], [0.2]]) * rows * np.diff(below, axis=1, prepend=0.0, append=1.0)
    assert _fitted(counts, edges, apart, 0.1) == pytest.approx(part, rel=0.1)
