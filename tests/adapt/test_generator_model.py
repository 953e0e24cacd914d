"""A generator as a model: drawn from in NumPy, the same rows however many are asked for, conditions kept."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from threea import hospital
from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import activated, initial, members, train
from threea.errors import SettingError
from threea.progress import listening
from threea.table.cells import Categories, Merged
from threea.table.conditions import Among, Between
from threea.table.row_vectors import RowVectors

GOLDEN = Path(__file__).parents[1] / "golden" / "generator-1.threea"
SCHEMA = hospital.schema()
VECTORS = RowVectors.of(tuple(SCHEMA[name] for name in ("age", "ward", "lactate")))
LABEL = Merged(cells=Categories(column="died", count=2, missing=False), groups=(0, 1))


def model(sizes=(700.0, 300.0), label=LABEL):
    labels = LabelShares(label, np.eye(len(sizes)), np.array(sizes), 2.0)
    layers = initial((4 + len(sizes), 8, VECTORS.width), np.random.default_rng(0))
    return GeneratorModel(labels, VECTORS.columns, layers, 4, curves={"generator": (2.0, 1.0)})


def rng(seed=1):
    return np.random.default_rng(seed)


def same(one, other):
    return all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def test_fewer_rows_are_the_first_of_more():
    more = model().sample(5000, rng())
    assert set(more) == {"died", "age", "ward", "lactate"}
    for rows in (1, 7, 2048, 2049):
        assert same(model().sample(rows, rng()), {name: values[:rows] for name, values in more.items()})
    assert not same(model().sample(9, rng(2)), model().sample(9, rng(1)))


def test_classes_are_drawn_in_their_noisy_ratio_without_those_of_noise_alone():
    """Systematic draws in blocks: within one row of the ratio in each of three blocks."""
    drawn = model().sample(3 * 2048, rng())["died"]
    assert abs(drawn.mean() - 0.3) < 1 / 2048
    three = Merged(cells=Categories(column="died", count=3, missing=False), groups=(0, 1, 2))
    assert set(model((700.0, 300.0, 3.0), three).sample(4096, rng())["died"]) == {0, 1}


def test_conditions_on_the_label_hold_exactly_and_on_features_by_redrawing():
    assert set(model().sample(50, rng(), {"died": Among((1,))})["died"]) == {1}
    both = model().sample(300, rng(), {"died": Among((0,)), "age": Between(0.0, 60.0)})
    assert set(both["died"]) == {0}
    assert both["age"].max() <= 60
    assert len(both["age"]) == 300
    with pytest.raises(SettingError, match="no row that the model draws fits the conditions on age"):
        model().sample(3, rng(), {"age": Between(0.25, 0.75)})


def test_without_a_target_or_features_there_are_still_rows():
    assert "died" not in model((9.0,), None).sample(5, rng())
    labels = LabelShares(LABEL, np.eye(2), np.array([7.0, 3.0]), 1.0)
    assert GeneratorModel(labels, (), (), 4).sample(5, rng())["died"].shape == (5,)


def test_the_summary_tells_noisy_counts_and_the_curve():
    summary = model().summary
    assert summary.private_rows == 1000
    assert summary.histograms["died"].counts.tolist() == [700.0, 300.0]
    assert [(figure.kind, figure.losses) for figure in summary.figures] == [("curve", (2.0, 1.0))]


def test_drawing_needs_no_jax():
    code = f"""
import sys
sys.modules["jax"] = None
from threea.model_file import load_release
assert load_release({str(GOLDEN)!r}).sample(3, seed=1).num_rows == 3
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_places_reach_their_bounds_and_choices_add_up():
    outputs = np.array([[9.0, 1.0, 1.0, -99.0], [-9.0, 99.0, 0.0, 0.0]])
    found = activated(outputs, members(np.array([-1, 0, 0, 0])))
    assert found[0, 0] > 1 > -1 > found[1, 0]
    assert np.allclose(found[:, 1:].sum(axis=1), 1)
    assert np.allclose(found[0, 1:], [0.5, 0.5, 0.0], atol=1e-6)


def far(layers, key, aim):
    """Return how far a network's one bias is from an aim."""
    return ((layers[0][1] - aim) ** 2).sum()


def test_training_lowers_the_loss_and_tells_how_far_it_is():
    told = []
    with listening(lambda *what: told.append(what)):
        layers, curve = train(
            far, initial((1, 1), rng()), (np.ones(1, np.float32),), steps=120, learning_rate=0.1, rng=rng()
        )
    assert abs(float(layers[0][1][0]) - 1) < 0.1
    assert curve[-1] < 0.01 < curve[0]
    assert len(curve) == len(told) == 40
    assert told[-1] == (f"training, loss {curve[-1]:.4g}", 120, 120)
