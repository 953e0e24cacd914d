"""`dpgan`: what it asks and pays, what it shows of its training, and that rows follow from the critic."""

import numpy as np
import pytest

import threea
from threea import hospital
from threea.adapt.generator_model import LabelShares
from threea.adapt.networks import initial, key_of
from threea.adapt.private_gan import FAKES, GRADIENTS, Shape, made
from threea.anonymize.events import Sampled
from threea.approximate.label_counts import CLASSES
from threea.budget import Budget
from threea.describe.calendar_effects import CALENDAR
from threea.errors import SettingError
from threea.recipes import DPGan
from threea.table.cells import Merged
from threea.table.row_vectors import RowVectors
from threea.testing import SeededNoise

SCHEMA, QUICK = hospital.schema(), DPGan(epochs=1.0, rate=0.5, width=3)
LABEL = SCHEMA[SCHEMA.target].cells(64)


@pytest.fixture(scope="module")
def trained():
    """Return a table, its plan, the release, and what was told on the way."""
    table = threea.open_table(hospital.stays(60), schema=SCHEMA, budget=Budget(1.0), noise=SeededNoise(0))
    plan, told = QUICK.plan(table), []
    release = QUICK.run(table, plan=plan, rows=50, seed=0, progress=lambda *said: told.append(said))
    return table, plan, release, told


def test_a_run_is_one_line_of_sampled_events(trained):
    table, plan, _, _ = trained
    spent = {line.name: line for line in table.spent(plan)}
    assert set(spent) == {CLASSES, GRADIENTS, CALENDAR}
    assert spent[GRADIENTS].count == QUICK.approximate.rounds == 2
    assert isinstance(spent[GRADIENTS].event, Sampled)
    assert spent[GRADIENTS].event.rate == 0.5
    assert 0.99 < plan.epsilon <= 1


def test_training_is_told_and_shown(trained):
    _, _, release, told = trained
    assert [(done, of) for stage, done, of in told if stage.startswith("training, distance")] == [(1, 2), (2, 2)]
    (curve,) = release.model.summary.figures
    assert curve.name == "critic"
    assert len(curve.losses) == 2
    assert set(release.model.summary.noise) == {CLASSES, GRADIENTS}


def test_more_epochs_cost_time_and_noise():
    few, many = (DPGan(epochs=epochs) for epochs in (5.0, 10.0))
    assert many.training(100) == 2 * few.training(100)
    table = threea.open_table(hospital.stays(60), schema=SCHEMA, budget=Budget(1.0), noise=SeededNoise(0))
    noise = [recipe.plan(table)[GRADIENTS].event.noise_multiplier for recipe in (few, many)]
    assert noise[0] < noise[1]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"rate": 0.0}, r"rate \(0.0\) must be from"),
        ({"rate": 1.5}, r"rate \(1.5\)"),
        ({"epochs": 0.001}, r"epochs \(0.001\) must be from 0.02"),
        ({"epochs": float("nan")}, r"epochs \(nan\)"),
        ({"epochs": 1e9}, r"epochs \(1000000000.0\)"),
        ({"width": 0}, r"width \(0\)"),
        ({"width": 2.5}, r"width \(2.5\)"),
    ],
)
def test_settings_out_of_range_are_refused(settings, problem):
    with pytest.raises(SettingError, match=problem):
        DPGan(**settings)


def labels():
    label = Merged(cells=LABEL, groups=tuple(range(LABEL.size)))
    sizes = np.arange(LABEL.size) * 30.0
    return LabelShares(label, np.eye(LABEL.size), sizes, 1.0)


def test_generated_rows_are_laid_out_as_private_ones():
    """One category of each choice, a place only beside an ordinary value, one class, and nothing beyond."""
    shares, vectors, rng = labels(), RowVectors.of(SCHEMA.features), np.random.default_rng(0)
    shape = Shape.of(vectors, shares)
    whole, classes = shape.place.shape[1], len(shape.ratio)
    generator = initial((16 + classes, 8, 8, whole), rng)
    rows = np.asarray(made(generator, key_of(rng), *shape.arrays))
    assert rows.shape == (FAKES, whole)
    assert whole % 16 == 0
    for choice in range(vectors.groups.max() + 1):
        chosen = rows[:, : vectors.width][:, vectors.groups == choice]
        np.testing.assert_allclose(chosen.sum(axis=1), 1.0, atol=1e-5)
        np.testing.assert_allclose(chosen.max(axis=1), 1.0, atol=1e-5)
    gates = np.flatnonzero(shape.gates)
    assert (rows[:, gates][rows[:, gates + 1] < 0.5] == 0).all()
    np.testing.assert_array_equal(rows[:, vectors.width : vectors.width + shares.classes].sum(axis=1), 1.0)
    assert not rows[:, vectors.width + shares.classes :].any()
    first, *_, last = shape.trimmed(generator)
    assert first[0].shape[0] == 16 + shares.classes
    assert last[0].shape[1] == len(last[1]) == vectors.width
