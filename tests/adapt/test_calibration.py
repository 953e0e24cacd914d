"""Calibration: a teacher that is too sure, or mixes classes up, is put right by what is counted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.adapt.calibration import MOST_CLASSES, WAY, calibrated
from threea.adapt.taught import softmax
from threea.adapt.teacher import CALIBRATION
from threea.anonymize.door import PrivateTable
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.approximate.tree_model import TreeModel
from threea.budget import Budget
from threea.recipes import LabelTree
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS, FEATURES, CELLS = 20_000, 5, 4


def weights_of(classes: int) -> np.ndarray:
    """Return the weights by which labels are drawn, one row per class."""
    weights = np.random.default_rng(5).normal(0, 0.7, (classes, FEATURES * CELLS))
    return np.asarray(weights - weights[:1])


def prepared(classes: int, noise: Any, epsilon: float = 1.0) -> tuple[PrivateTable, Plan, TreeModel, np.ndarray]:
    """Return a table of independent features, its plan, its tree and the rows' cells."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, CELLS, (FEATURES, ROWS))
    logits = weights_of(classes)[:, codes + CELLS * np.arange(FEATURES)[:, None]].sum(axis=1)
    label = (np.cumsum(softmax(logits), axis=0) < rng.random(ROWS)).sum(axis=0).clip(max=classes - 1)
    names = [f"x{index}" for index in range(FEATURES)]
    table = pa.table({**dict(zip(names, codes.astype(str), strict=True)), "label": label.astype(str)})
    kinds = {name: {"kind": "categorical", "categories": list("0123"), "nullable": False} for name in names}
    kinds["label"] = {"kind": "categorical", "categories": [str(one) for one in range(classes)], "nullable": False}
    schema = Schema.of(kinds, target="label")
    opened = open_table(table, schema=schema, budget=Budget(epsilon), noise=noise)
    recipe = LabelTree()
    plan = recipe.plan(opened)
    model = recipe.approximate.fit(opened, plan)
    merged = tuple(
        replace(feature, merged=replace(feature.merged, groups=tuple(range(feature.cells.size))))
        for feature in model.features
    )
    return opened, plan, replace(model, features=merged, edges=()), codes


def probabilities(weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return what weights say of rows."""
    return softmax(weights[:, codes + CELLS * np.arange(FEATURES)[:, None]].sum(axis=1))


def off(weights: np.ndarray, classes: int, codes: np.ndarray) -> float:
    """Return by how much probabilities are off, on average."""
    return float(np.abs(probabilities(weights, codes) - probabilities(weights_of(classes), codes)).mean())


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("noise", [SilentNoise(), SeededNoise(7)], ids=["exact", "noisy"])
def test_a_teacher_that_is_too_sure_learns_how_sure_it_may_be(classes: int, noise: Any) -> None:
    """Fixed seeds; three times too sure, and one class too frequent."""
    opened, plan, model, codes = prepared(classes, noise)
    wrong = 3 * weights_of(classes)
    wrong[-1, :CELLS] += 1.5
    scaling = calibrated(wrong, model, range(classes), range(FEATURES), opened, plan[CALIBRATION], way=1.0)
    assert scaling
    before = off(wrong, classes, codes)
    assert off(scaling.weights(wrong, CELLS), classes, codes) < 0.2 * before


@pytest.mark.parametrize("classes", [2, 4])
def test_unless_told_to_it_goes_part_of_the_way_and_keeps_the_ratio_of_the_classes(classes: int) -> None:
    opened, plan, model, codes = prepared(classes, SilentNoise())
    wrong = 3 * weights_of(classes)
    wrong[-1, :CELLS] += 1.5
    scaling = calibrated(wrong, model, range(classes), range(FEATURES), opened, plan[CALIBRATION])
    assert scaling
    found = scaling.weights(wrong, CELLS)
    stretch = np.trace(scaling.matrix) / np.linalg.matrix_rank(scaling.matrix)
    assert stretch == pytest.approx(3**-WAY, rel=0.1)
    share = probabilities(found, codes).mean(axis=1)
    assert share == pytest.approx(probabilities(weights_of(classes), codes).mean(axis=1), abs=0.02)


def test_classes_that_are_mixed_up_are_told_apart_again() -> None:
    opened, plan, model, codes = prepared(4, SilentNoise())
    mixed = np.array([[1, 0, 0, 0], [0, 0.7, 0.3, 0], [0, 0.3, 0.7, 0], [0, 0, 0.3, 0.7]]) @ weights_of(4)
    scaling = calibrated(mixed, model, range(4), range(FEATURES), opened, plan[CALIBRATION], way=1.0)
    assert scaling
    assert off(scaling.weights(mixed, CELLS), 4, codes) < 0.5 * off(mixed, 4, codes)


def test_of_two_classes_the_order_of_the_rows_stays() -> None:
    """A teacher that knows nothing, or the opposite, is made unsure, not turned around."""
    opened, plan, model, _ = prepared(2, SilentNoise())
    scaling = calibrated(-weights_of(2), model, range(2), range(FEATURES), opened, plan[CALIBRATION], way=1.0)
    assert scaling
    assert 0 < scaling.matrix[1, 1] < 0.1


def test_it_asks_one_question_of_counts() -> None:
    """Of two classes a row adds 1 in one place, of four in four: the noise is that of so many counts."""
    for classes in (2, 4):
        opened, plan, model, _ = prepared(classes, SilentNoise())
        calibrated(weights_of(classes), model, range(classes), range(FEATURES), opened, plan[CALIBRATION])
        asked = [line for line in opened.spent(plan) if line.name == CALIBRATION]
        assert [line.count for line in asked] == [1]


def test_the_plan_has_it_for_classes_alone() -> None:
    assert MOST_CLASSES >= 4
    opened, *_ = prepared(2, SilentNoise())
    assert CALIBRATION in {line.name for line in LabelTree().plan(opened).lines}
    number = Schema.of({"y": {"kind": "integer", "lower": 0, "upper": 9}, "x": {"kind": "boolean"}}, target="y")
    assert CALIBRATION not in {step.name for step in LabelTree().adapt.steps(number)}
