"""A LightGBM as plain trees: the same leaves for every row, the same predictions to the last bits kept."""

import numpy as np
import pytest

from threea.scoring import learner
from threea.scoring.learner import features_of, learned
from threea.table.schema import Schema

ROWS = 3_000
COLUMNS = {
    "age": {"kind": "integer", "lower": 0, "upper": 99},
    "cost": {"kind": "real", "lower": -1.0, "upper": 1e6},
    "ward": {"kind": "categorical", "categories": [str(n) for n in range(12)], "open_ended": True},
    "flag": {"kind": "boolean"},
}
TARGETS = {
    "two": {"kind": "categorical", "categories": ["no", "yes"]},
    "three": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "number": {"kind": "real", "lower": -1e9, "upper": 1e9},
}


def schema_for(target):
    return Schema.of({**COLUMNS, target: TARGETS[target]}, target=target)


@pytest.fixture(scope="module")
def chunk():
    rng = np.random.default_rng(3)
    age, cost = rng.integers(0, 100, ROWS).astype(float), np.round(rng.lognormal(3, 2, ROWS), 1) - 1
    ward, flag = rng.integers(-1, 13, ROWS), rng.integers(-1, 2, ROWS)
    age[rng.random(ROWS) < 0.1] = np.nan
    signal = np.nan_to_num(age) / 30 + (ward % 3) + np.log1p(np.abs(cost)) / 4 + rng.normal(0, 1, ROWS)
    three = np.digitize(signal, [2.0, 4.0])
    return {
        "age": age,
        "cost": cost,
        "ward": ward,
        "flag": flag,
        "two": np.where(rng.random(ROWS) < 0.02, -1, (signal > 3).astype(int)),
        "three": three,
        "number": signal * 1e4,
    }


@pytest.mark.parametrize("target", TARGETS)
def test_plain_trees_predict_as_lightgbm_does(chunk, target, monkeypatch):
    kept = {}
    trained = learner._trained

    def keeping(*arguments):
        kept["model"] = trained(*arguments)
        return kept["model"]

    monkeypatch.setattr(learner, "_trained", keeping)
    monkeypatch.setitem(learner.SETTINGS, "num_iterations", 30)
    schema = schema_for(target)
    model = learned(chunk, schema)
    # Also values that no training row had, between thresholds, at zero, and far out.
    tried = {name: values.copy() for name, values in chunk.items()}
    tried["cost"][:6] = [np.nan, 0.0, -1.0, 1e6, 1e-35, 5e-324]
    raw = kept["model"].predict(features_of(tried, schema), raw_score=True).reshape(ROWS, -1).T
    assert model.scores(tried).shape == raw.shape
    # Each of the trees' leaves is off by half a step at most; another leaf anywhere would be off by far more.
    assert np.abs(model.scores(tried) * model.unit - raw).max() <= 30 * model.unit
    assert model.unit < 1e-6 * np.abs(raw).max()


def test_the_rarer_of_two_classes_is_the_positive_one(chunk):
    model = learned(chunk | {"two": np.where(np.arange(ROWS) % 10 == 0, 0, 1)}, schema_for("two"))
    assert model.classes == (1, 0)


@pytest.mark.parametrize("target", [np.zeros(ROWS, int), np.full(ROWS, -1)])
def test_one_class_has_nothing_to_learn(chunk, target):
    assert learned(chunk | {"two": target}, schema_for("two")) is None


def test_weights_restore_the_ratio_of_classes(chunk):
    """Of classes drawn evenly, one counted a ninth: so counted, the mean predicted probability is a tenth."""
    balanced = {**chunk, "two": np.arange(ROWS) % 2}
    model = learned(balanced, schema_for("two"), {0: 1.8, 1: 0.2})
    assert model.classes == (0, 1)
    predicted = 1 / (1 + np.exp(-model.scores(balanced)[0] * model.unit))
    assert abs(np.average(predicted, weights=np.where(balanced["two"], 0.2, 1.8)) - 0.1) < 0.01
