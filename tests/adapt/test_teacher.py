"""The teacher: it learns what the rows say, labels evenly, and asks only what it planned."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea.adapt import calibration
from threea.adapt.taught import _ALIKE, _FEWEST, _FEWEST_RARE, Taught, softmax, systematic_sample
from threea.adapt.teacher import CALIBRATION, STEP, Teacher, _Correction
from threea.anonymize.open_table import open_table
from threea.anonymize.query import Stack
from threea.approximate.tree_model import TreeModel
from threea.budget import Budget
from threea.errors import SettingError
from threea.hospital import schema as hospital_schema
from threea.recipes import LabelTree
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS = 20_000


def xor_free(classes: int, rows: int = ROWS) -> tuple[pa.Table, Schema, np.ndarray]:
    """Return rows whose features copy one another, so that counting each by itself would overstate them."""
    rng = np.random.default_rng(0)
    cause = rng.integers(0, 3, rows)
    copy = np.where(rng.random(rows) < 0.9, cause, rng.integers(0, 3, rows))
    other = rng.integers(0, 2, rows)
    logits = np.stack([place * 0.8 * (cause - 1) + place * 0.5 * other for place in range(classes)])
    probabilities = softmax(logits)
    label = (np.cumsum(probabilities, axis=0) < rng.random(rows)).sum(axis=0).clip(max=classes - 1)
    table = pa.table({name: codes.astype(str) for name, codes in (("cause", cause), ("copy", copy), ("other", other))})
    table = table.append_column("label", pa.array(label.astype(str)))
    kinds: dict[str, Any] = {name: {"kind": "categorical", "categories": list("012")} for name in ("cause", "copy")}
    kinds["other"] = {"kind": "categorical", "categories": list("01")}
    kinds["label"] = {"kind": "categorical", "categories": [str(place) for place in range(classes)], "nullable": False}
    return table, Schema.of(kinds, target="label"), probabilities


def taught(table: pa.Table, schema: Schema, noise: Any, epsilon: float = 3.0, **settings: Any) -> Taught:
    recipe = LabelTree(**settings)
    opened = open_table(table, schema=schema, budget=Budget(epsilon), noise=noise)
    plan = recipe.plan(opened)
    model = recipe.adapt.adapt(recipe.approximate.fit(opened, plan), opened, plan)
    assert isinstance(model, Taught)
    return model


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("noise", [SilentNoise(), SeededNoise(3)], ids=["exact", "noisy"])
def test_it_learns_the_probabilities_of_the_classes(classes: int, noise: Any) -> None:
    """Fixed seeds; the tolerance is some four times the error seen."""
    table, schema, probabilities = xor_free(classes)
    model = taught(table, schema, noise)
    codes = [np.array(table[name].to_pylist()).astype(int) for name in ("cause", "copy", "other")]
    found = softmax(model.logits(codes))
    assert np.abs(found - probabilities).mean() < 0.04


def test_labels_are_drawn_by_the_teacher_and_features_by_the_tree() -> None:
    table, schema, _ = xor_free(2)
    drawn = taught(table, schema, SilentNoise()).sample(ROWS, np.random.default_rng(0))
    real = {name: np.array(table[name].to_pylist()).astype(int) for name in table.column_names}
    for cause in range(3):
        for other in range(2):
            share = real["label"][(real["cause"] == cause) & (real["other"] == other)].mean()
            inside = (drawn["cause"] == cause) & (drawn["other"] == other)
            assert drawn["label"][inside].mean() == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(("rows", "alike"), [(_FEWEST - 1, 1), (3 * _FEWEST, 3), (_ALIKE * _FEWEST, _ALIKE)])
def test_of_many_rows_some_are_in_the_same_cells_and_share_their_labels_as_they_should(rows: int, alike: int) -> None:
    """Of rows that are alike, a class has as many as its probability says, but for a few."""
    table, schema, _ = xor_free(2)
    model = taught(table, schema, SilentNoise())
    drawn: list[int] = []
    tree = model.model
    several = replace(model, model=_Counted(tree, drawn))
    chunk = several.sample(rows, np.random.default_rng(0))
    assert drawn == [-(-rows // alike)]
    assert {len(values) for values in chunk.values()} == {rows}
    codes = [feature.cells.index(chunk[feature.cells.column]) for feature in tree.features]
    probability = softmax(model.logits(codes))[1]
    for value in np.unique(probability):
        own = probability == value
        assert abs((chunk["label"][own] == 1).sum() - value * own.sum()) < 12


def test_of_a_rare_class_there_are_many_rows_that_are_not_alike() -> None:
    table, schema, _ = xor_free(2)
    model = taught(table, schema, SilentNoise())
    rows = _ALIKE * _FEWEST
    for rare, alike in ((3 * _FEWEST_RARE, 3), (_FEWEST_RARE // 2, 1)):
        drawn: list[int] = []
        tree = replace(model.model, sizes=np.array([rows - rare - 0.5, rare + 0.5]))
        replace(model, model=_Counted(tree, drawn)).sample(rows, np.random.default_rng(0))
        assert drawn == [-(-rows // alike)]


class _Counted(TreeModel):
    """A tree that keeps how many rows were drawn of it."""

    def __init__(self, tree: TreeModel, drawn: list[int]) -> None:
        self.__dict__.update(tree.__dict__ | {"drawn": drawn})

    def draw_merged(self, rows: int, rng: np.random.Generator, given: Any = None) -> Any:
        self.__dict__["drawn"].append(rows)
        return super().draw_merged(rows, rng, given)


@pytest.mark.parametrize(("share", "asked"), [(0.05, ["ScoreHistogram"]), (0.004, ["Gradient"])])
def test_what_would_calibrate_a_very_rare_class_pays_for_one_more_gradient(
    share: float, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    label = rng.random(ROWS) < share
    feature = np.where(label, 2, rng.integers(0, 3, ROWS))
    table = pa.table({"x": feature.astype(str), "label": label.astype(int).astype(str)})
    kinds = {"x": {"kind": "categorical", "categories": list("012")}}
    schema = Schema.of(kinds | {"label": {"kind": "categorical", "categories": ["0", "1"]}}, target="label")
    opened = open_table(table, schema=schema, budget=Budget(3.0), noise=SilentNoise())
    recipe = LabelTree()
    plan = recipe.plan(opened)
    paid: list[str] = []
    measure = type(opened).measure

    def watched(self: Any, query: Any, charge: Any) -> Any:
        if charge.name == CALIBRATION:
            inner = query.queries[0] if isinstance(query, Stack) else query
            paid.append(type(inner).__name__)
        return measure(self, query, charge)

    monkeypatch.setattr(type(opened), "measure", watched)
    recipe.adapt.adapt(recipe.approximate.fit(opened, plan), opened, plan)
    assert paid == asked
    assert 0.004 < calibration.RAREST < 0.05
    assert {line.name: line.count for line in opened.spent(plan)}[CALIBRATION] == 1


def test_with_alpha_one_nothing_is_asked_and_the_tree_keeps_its_labels() -> None:
    table, schema, _ = xor_free(2)
    recipe = LabelTree(alpha=1.0)
    opened = open_table(table, schema=schema, budget=Budget(1.0), noise=SilentNoise())
    plan = recipe.plan(opened)
    assert STEP not in {line.name for line in plan.lines}
    model = recipe.approximate.fit(opened, plan)
    assert recipe.adapt.adapt(model, opened, plan) is model


def test_without_a_target_nothing_is_asked() -> None:
    _, schema, _ = xor_free(2)
    assert Teacher().steps(Schema(schema.columns)) == ()


def test_it_labels_trees_alone() -> None:
    opened = open_table(xor_free(2)[0], schema=xor_free(2)[1], budget=Budget(1.0))
    with pytest.raises(SettingError, match="label tree"):
        Teacher().adapt(None, opened, LabelTree().plan(opened))  # type: ignore[arg-type]


@given(st.integers(2, 5), st.integers(0, 1000))
def test_systematic_samples_keep_each_class_near_its_expected_number(classes: int, seed: int) -> None:
    """A bound for every seed: golden-ratio points leave gaps of order log(n), where coins leave sqrt(n)."""
    rng = np.random.default_rng(seed)
    probabilities = np.tile(softmax(rng.normal(0, 1, (classes, 1))), (1, 2000))
    drawn = systematic_sample(probabilities, rng)
    for place in range(classes):
        assert abs((drawn == place).sum() - 2000 * probabilities[place, 0]) < 12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(0, 1000))
def test_of_two_classes_any_stretch_of_like_rows_has_as_many_as_expected_but_for_rounding(
    chances: list[float], seed: int
) -> None:
    ordered = np.sort(np.array(chances))
    drawn = systematic_sample(np.array([1 - ordered, ordered]), np.random.default_rng(seed))
    missed = np.cumsum(np.r_[0.0, drawn - ordered])
    assert np.ptp(missed) < 1 + 1e-9
    assert set(drawn[ordered == 0]) <= {0}
    assert set(drawn[ordered == 1]) <= {1}


def test_a_row_gets_a_class_as_often_as_its_probability_says() -> None:
    """Of 20,000 starts with a fixed seed, each share is within .015: over four standard deviations."""
    chances, rng = np.array([0.02, 0.3, 0.5, 0.9]), np.random.default_rng(0)
    drawn = np.mean([systematic_sample(np.array([1 - chances, chances]), rng) for _ in range(20_000)], axis=0)
    np.testing.assert_allclose(drawn, chances, atol=0.015)


def test_systematic_samples_of_certain_classes_are_certain() -> None:
    assert systematic_sample(np.array([[1.0, 0.0], [0.0, 1.0]]), np.random.default_rng(0)).tolist() == [0, 1]


@pytest.mark.parametrize("field", [{"alpha": 1.5}, {"alpha": -0.1}, {"teacher": 0.0}, {"teacher": 0.95}])
def test_settings_outside_their_bounds_are_refused(field: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(field))):
        LabelTree(**field)


def test_the_embedded_table_has_a_teacher() -> None:
    from threea import hospital

    model = taught(hospital.stays(3000), hospital_schema(), SeededNoise(1), epsilon=1.0)
    assert len(model.learned) >= 5


@pytest.mark.parametrize("tree", [True, False])
def test_without_noise_a_correction_is_a_newton_step(tree: bool) -> None:
    hessian, off = hessian_and_weights(1)
    found = _Correction.of(hessian, 0.0, np.eye(len(hessian)), tree).taken(hessian @ off[0])
    np.testing.assert_allclose(found, off[0], atol=1e-3)


def test_without_a_tree_a_correction_is_the_best_guess_of_weights_that_are_off_in_any_direction() -> None:
    """Of 2,000 draws with a fixed seed: nearer than a damped step, than none, and than one in full."""
    hessian, off = hessian_and_weights(2_000)
    noise = float(np.trace(hessian)) / len(hessian)
    gradients = off @ hessian + noise * np.random.default_rng(1).normal(size=off.shape)
    ridge, damped = (_Correction.of(hessian, noise, np.eye(len(hessian)), tree) for tree in (False, True))
    missed = [((step - off) ** 2).mean() for step in (ridge.taken(gradients.T).T, damped.taken(gradients.T).T, 0 * off)]
    assert missed[0] < 0.98 * min(missed[1:])
    assert missed[0] < ((np.linalg.solve(hessian, gradients.T).T - off) ** 2).mean()


@pytest.mark.parametrize("tree", [True, False])
def test_a_correction_knows_how_far_noise_alone_takes_it(tree: bool) -> None:
    """Of 20,000 draws with a fixed seed, each standard deviation is within 3%, six standard errors."""
    hessian, _ = hessian_and_weights(1)
    step = _Correction.of(hessian, 20.0, np.eye(len(hessian)), tree)
    read = np.eye(len(hessian)) - 1 / len(hessian)
    moved = read @ step.taken(np.random.default_rng(2).normal(size=(len(hessian), 20_000)))
    np.testing.assert_allclose(moved.std(axis=1), step.spread(read), rtol=0.03)


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_a_correction_stands_next_to_no_noise(scale: float) -> None:
    """Cells of several features add up to the same rows, so that a Hessian has directions without any."""
    rng = np.random.default_rng(3)
    cells = np.hstack([np.eye(6, dtype=np.float32)[rng.integers(0, 6, 3000)] for _ in range(80)])
    hessian = scale * np.asarray(cells.T @ (cells * np.float32(0.17)), np.float64)
    found = _Correction.of(hessian, 1e-9, np.eye(len(hessian)), False).taken(hessian[0])
    assert np.abs(hessian @ found - hessian[0]).max() < 1e-2 * np.abs(hessian[0]).max()


def hessian_and_weights(draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a Hessian whose eigenvalues differ a thousandfold, and draws of what weights may be off by."""
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    return turned * np.geomspace(1, 1000, 12) @ turned.T, rng.normal(size=(draws, 12))
