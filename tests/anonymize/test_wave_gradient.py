"""Gradients over random waves: those of the logistic loss, and within a bound that no number of phases raises."""

import math

import numpy as np
import pytest

from threea import hospital
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.mean_embedding import frequencies_of
from threea.anonymize.query import Norm, Rows
from threea.anonymize.wave_gradient import WaveGradient, WaveLogits
from threea.errors import SettingError
from threea.table import codec

SCHEMA, STAYS = hospital.schema(), hospital.stays(400)
AGE, WARD = SCHEMA["age"].cells(16), SCHEMA["ward"].cells(8)
DIED = SCHEMA["died"].cells(2)
ROWS = Rows(codec.encode(STAYS.combine_chunks().to_batches()[0], SCHEMA), STAYS.num_rows)
STEP = 2.0**-30


def logits(classes, phases, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    tables = tuple(rng.integers(-500, 500, (cells.size, width)) for cells, width in ((AGE, 1), (WARD, 3)))
    space = Scores((AGE, WARD), tables)
    weights = rng.normal(size=(classes, AGE.size + WARD.size)) * scale
    return WaveLogits(
        space, weights, frequencies_of(rng.normal(size=(4, phases))), rng.normal(size=(classes, 2 * phases))
    )


def waves_of(told):
    codes = [ROWS.index(cells) for cells in told.cells]
    phases = told.space.coordinates(codes) @ told.frequencies * (2 * math.pi / 2**20)
    return np.hstack([np.cos(phases), np.sin(phases)]) / math.sqrt(told.phases)


@pytest.mark.parametrize("label", [DIED, WARD])
def test_a_silent_answer_is_the_gradient_of_the_logistic_loss(label):
    classes = tuple(range(label.size))
    told = logits(len(classes), 7)
    query = WaveGradient(label, classes, told, (1.0,) * len(classes), 2.0)
    codes = [ROWS.index(cells) for cells in told.cells]
    rough = told.weights[:, codes[0]] + told.weights[:, AGE.size + codes[1]] + told.amplitudes @ waves_of(told).T
    expected = np.exp(rough - rough.max(axis=0))
    expected /= expected.sum(axis=0)
    actual = ROWS.index(label)
    residual = expected - (actual == np.arange(len(classes))[:, None])
    wanted = residual[-query.shape[0] :] @ waves_of(told)
    answer = query.total(ROWS, STEP).reshape(query.shape) * STEP
    # Angles and weights are rounded: a few thousandths of each of 400 rows' waves.
    assert np.abs(answer - wanted).max() < 400 * 2e-3
    assert np.abs(wanted).max() > 10


@pytest.mark.parametrize("phases", [1, 40, 2000])
def test_the_bound_does_not_grow_with_the_number_of_phases(phases):
    query = WaveGradient(DIED, (0, 1), logits(2, phases, scale=30.0), (1.0, 1.0), 0.5)
    assert query.l2 == 0.5
    lengths = []
    for row in range(40):
        alone = Rows({name: values[row : row + 1] for name, values in ROWS.values.items()}, 1)
        lengths.append(math.sqrt(sum(int(number) ** 2 for number in query.total(alone, STEP))) * STEP)
    assert max(lengths) <= 0.5
    # Clipped rows are as long as they may be, but for rounding.
    assert max(lengths) > 0.495
    assert query.total(ROWS, STEP, Norm.L2).any()


def test_rows_without_a_class_add_nothing():
    told = logits(2, 5)
    query = WaveGradient(WARD, (0, 1), told, (1.0, 1.0), 1.0)
    others = np.flatnonzero(ROWS.index(WARD) > 1)
    rest = Rows({name: values[others] for name, values in ROWS.values.items()}, len(others))
    assert len(others) > 20
    assert not query.total(rest, STEP).any()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"weights": np.zeros((2, 3))}, "one per class and cell"),
        ({"amplitudes": np.zeros((2, 9))}, "one per class and wave"),
        ({"frequencies": np.zeros((3, 5), int)}, "for each score"),
    ],
)
def test_logits_that_do_not_fit_are_refused(wrong, said):
    told = logits(2, 5)
    parts = {name: getattr(told, name) for name in ("space", "weights", "frequencies", "amplitudes")}
    with pytest.raises(SettingError, match=said):
        WaveLogits(**(parts | wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"classes": (0, 1, 1)}, "classes must differ"),
        ({"classes": (0,)}, "from two"),
        ({"class_weights": (1.0, 0.0)}, "class_weights"),
        ({"clip": 0.0}, "clip"),
        ({"logits": logits(3, 5)}, "one per class"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, said):
    good = {"label": DIED, "classes": (0, 1), "logits": logits(2, 5), "class_weights": (1.0, 1.0), "clip": 0.5}
    with pytest.raises(SettingError, match=said):
        WaveGradient(**(good | wrong))
