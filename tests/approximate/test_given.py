"""Conditional sampling: exact where a model is a table, by weighting a bounded pool where it is not."""

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pytest

from threea import hospital
from threea.adapt.taught import _POOL, Taught
from threea.anonymize.open_table import open_table
from threea.approximate import gaussians
from threea.approximate.conditioning import posterior, resampled
from threea.approximate.tree_model import TreeModel
from threea.budget import Budget
from threea.errors import SettingError
from threea.recipes import RECIPES
from threea.table.conditions import Among, Between, fits, given
from threea.table.schema import Schema
from threea.testing import CASES, SeededNoise

ROWS = 3_000
CONDITIONS = [
    {"died": True},
    {"age": (65, None)},
    {"died": False, "ward": "medicine", "age": (40, 59)},
    {"length_of_stay": (2, 5), "ward": ["surgery", "medicine"]},
]
ALL = ["labeltree", "independent", "clustmix", "gaussians", "dpmix", "privbayes", "mcgen", "rongauss", "mst", "aim"]


def model_of(name, stays=20_000, noise=3, **settings):
    table = open_table(hospital.stays(stays), schema=hospital.schema(), budget=Budget(8.0), noise=SeededNoise(noise))
    return RECIPES[name](**settings).run(table).model


@pytest.fixture(scope="module", params=ALL)
def model(request):
    quick = {"dpmix": {"points": 300}, "aim": {"iterations": 100}}
    return model_of(request.param, **quick.get(request.param, {}))


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_every_row_fits_and_there_are_as_many_as_asked_for(model, conditions):
    conditions = given(hospital.schema(), conditions)
    points = model.summary.points
    if points is not None and not fits(points, conditions).any():
        with pytest.raises(SettingError, match="no row that the model draws fits"):
            model.sample(ROWS, np.random.default_rng(0), conditions)
        return
    chunk = model.sample(ROWS, np.random.default_rng(0), conditions)
    assert set(chunk) == {column.name for column in hospital.schema().modelled}
    assert {len(values) for values in chunk.values()} == {ROWS}
    assert fits(chunk, conditions).all()


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_other_columns_are_as_they_are_among_fitting_rows(model, conditions):
    """Against filtered draws. Fixed seeds; bounds are five deviations of the smaller sample, or of the weighting."""
    if model.summary.points is not None:
        pytest.skip("a finite set is filtered itself")
    conditions = given(hospital.schema(), conditions)
    free = model.sample(150_000, np.random.default_rng(1))
    kept = fits(free, conditions)
    assert kept.sum() > 200
    drawn = model.sample(20_000, np.random.default_rng(2), conditions)
    for name, values in drawn.items():
        column, filtered = values.astype(float), free[name][kept].astype(float)
        column, filtered = (np.nan_to_num(each, nan=-1.0) for each in (column, filtered))
        error = filtered.std() * np.sqrt(1 / kept.sum() + 3 / len(column))
        assert abs(column.mean() - filtered.mean()) < 5 * error + 1e-9, name


def test_message_passing_is_bayes_rule_on_the_whole_table():
    """Every class and merged cell of a small tree, enumerated."""
    case = CASES["plain"]
    names = ("colour", "length", "age", "smoker", "label")
    tree = model_of_case(case.only(*names))
    conditions = {
        "length": Between(0.7, 6.0),
        "colour": Among((0, 2)),
        "label": Among((1,)),
        "age": Between(20.0, 61.0),
    }
    assert tree.edges, "a tree without edges would show little"
    classes, tables = tree.conditioned(conditions)
    likelihoods, label = tree.likelihoods(conditions), tree.label_likelihood(conditions)
    prior = tree.ratio
    joint, passed = {}, {}
    for cells in itertools.product(range(len(prior)), *(range(f.merged.size) for f in tree.features)):
        group, coarse = cells[0], cells[1:]
        exact, by_messages = prior[group] * label[group], classes[group]
        for (index, parent, weights), (_, _, table) in zip(tables, tree._downwards, strict=True):
            row = group * (1 if parent is None else tree.features[parent].merged.size)
            row += 0 if parent is None else coarse[parent]
            if table[row].sum() > 0:
                exact *= table[row, coarse[index]] / table[row].sum() * likelihoods[index][group, coarse[index]]
            by_messages *= weights[row, coarse[index]] / (weights[row].sum() or 1.0)
        joint[cells], passed[cells] = exact, by_messages
    total = sum(joint.values())
    assert len(joint) > 200
    np.testing.assert_allclose(list(passed.values()), [value / total for value in joint.values()], atol=1e-12)


def model_of_case(case):
    table = open_table(case.table, schema=case.schema, budget=Budget(1e4), noise=SeededNoise(0))
    model = RECIPES["labeltree"](alpha=1.0).run(table).model
    assert isinstance(model, TreeModel)
    return model


def test_class_probabilities_are_bayes_rule_on_drawn_rows():
    """Of rows drawn in a merged cell, so many are of a class; fixed seed, within five deviations."""
    tree = model_of("labeltree", alpha=1.0)
    group, coarse = tree.draw_merged(60_000, np.random.default_rng(0))
    probability = tree.class_probabilities(coarse, {})[1]
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 1.0)):
        inside = (probability >= low) & (probability < high)
        error = np.sqrt((probability * (1 - probability))[inside].sum()) / inside.sum()
        assert abs((group == 1)[inside].mean() - probability[inside].mean()) < 5 * error


def rare_table(rows=60_000, share=0.002):
    rng = np.random.default_rng(0)
    sick = rng.random(rows) < share
    marker = np.clip(rng.normal(0, 1, rows) + 2 * sick, -4, 6)
    schema = {
        "marker": {"kind": "real", "lower": -4, "upper": 6},
        "dose": {"kind": "integer", "lower": 0, "upper": 9},
        "y": {"kind": "categorical", "categories": ["well", "sick"]},
    }
    data = {"marker": marker, "dose": rng.integers(0, 10, rows), "y": np.where(sick, "sick", "well")}
    return pa.table(data), Schema.of(schema, target="y")


@pytest.mark.parametrize("name", ALL[:4])
def test_a_class_of_one_in_five_hundred_takes_a_bounded_number_of_draws(name, monkeypatch):
    data, schema = rare_table()
    model = RECIPES[name]().run(open_table(data, schema=schema, budget=Budget(4.0), noise=SeededNoise(1))).model
    drawn = []
    for kind, method in ((TreeModel, "draw_merged"), (gaussians.GaussianModel, "_block")):
        whole = getattr(kind, method)
        monkeypatch.setattr(
            kind, method, lambda self, rows, *rest, whole=whole: drawn.append(rows) or whole(self, rows, *rest)
        )
    chunk = model.sample(10_000, np.random.default_rng(0), {"y": Among((1,))})
    assert (chunk["y"] == 1).all()
    assert len(chunk["y"]) == 10_000
    assert np.nanmean(chunk["marker"]) > 0.5, "sick rows have a higher marker"
    assert sum(drawn) <= (_POOL * 10_000 if isinstance(model, Taught) else 3 * 4096)


def test_a_condition_on_a_number_of_gaussians_is_bounded_and_told_if_nothing_fits(monkeypatch):
    data, schema = rare_table(4_000)
    model = RECIPES["gaussians"]().run(open_table(data, schema=schema, budget=Budget(4.0), noise=SeededNoise(1))).model
    drawn, whole = [], gaussians.GaussianModel._block
    monkeypatch.setattr(
        gaussians.GaussianModel, "_block", lambda self, rows, *rest: drawn.append(rows) or whole(self, rows, *rest)
    )
    few = model.sample(5_000, np.random.default_rng(0), {"marker": Between(2.8)})
    assert len(few["marker"]) == 5_000
    assert few["marker"].min() >= 2.8
    assert sum(drawn) <= gaussians._MOST_DRAWS * 5_000 + gaussians._BLOCK
    drawn.clear()
    with pytest.raises(SettingError, match="no row that the model draws fits the conditions on marker"):
        model.sample(10, np.random.default_rng(0), {"marker": Between(1.0, 1.0)})
    assert sum(drawn) <= gaussians._MOST_DRAWS * gaussians._BLOCK


def test_a_teacher_that_keeps_no_label_is_asked_for_all_of_them():
    """With alpha 1 of labels kept a condition on the label is the tree's own, whatever the teacher thinks."""
    taught = model_of("labeltree")
    assert isinstance(taught, Taught)
    keeper = dataclasses.replace(taught, alpha=1.0)
    conditions = {"died": Among((1,))}
    own = taught.model.sample(20_000, np.random.default_rng(0), conditions)
    kept = keeper.sample(20_000, np.random.default_rng(1), conditions)
    error = own["age"].std() * np.sqrt(1 / 20_000 + 3 / 20_000)
    assert abs(own["age"].mean() - kept["age"].mean()) < 5 * error


def test_what_has_no_weight_is_told():
    with pytest.raises(SettingError, match="conditions on y"):
        posterior(np.ones(2), [np.array([0.0, 1.0]), np.array([1.0, 0.0])], {"y": Among((0,))})
    with pytest.raises(SettingError, match="conditions on y"):
        resampled(np.zeros(3), 2, np.random.default_rng(0), {"y": Among((0,))})
    chosen = resampled(np.array([0.0, 1.0, 0.0]), 5, np.random.default_rng(0), {})
    assert chosen.tolist() == [1] * 5
