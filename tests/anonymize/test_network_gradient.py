"""Gradients of networks: each row by itself, to the last bit, within its bound, and the gradient that JAX says."""

import pickle

import numpy as np
import pytest
from nasty import critic

from threea import hospital
from threea.anonymize.accountant import Line
from threea.anonymize.clipping import Norm, check, grid_step
from threea.anonymize.events import Gaussian, Pure, Sampled
from threea.anonymize.network_gradient import NetworkGradient, aligned, summed
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.anonymize.query import Rows, Stack
from threea.budget import Budget
from threea.errors import SettingError
from threea.table import codec
from threea.table.row_vectors import RowVectors
from threea.testing import SilentNoise

SCHEMA, COUNT = hospital.schema(), 300
STAYS = hospital.stays(COUNT)
INPUTS = RowVectors.of(SCHEMA.features).columns
LABEL = SCHEMA[SCHEMA.target].cells(1)
WIDTH = aligned(sum(part.size for part in INPUTS) + LABEL.size)


def layers(seed=0, scale=0.3):
    rng = np.random.default_rng(seed)
    return tuple(
        (rng.normal(0, scale, shape).astype(np.float32), rng.normal(0, scale, shape[1]).astype(np.float32))
        for shape in ((WIDTH, 5), (5, 1))
    )


def query(**changes):
    settings = {"function": critic, "layers": layers(), "inputs": INPUTS, "label": LABEL, "l2": 0.5, "l1": 2.0}
    return NetworkGradient(**{**settings, **changes})


@pytest.fixture(scope="module")
def rows():
    return Rows(codec.encode(STAYS, SCHEMA), COUNT)


def alone(asked, vectors, norm):
    step = grid_step(asked, norm)
    return np.array(
        [
            summed(critic, asked.layers, vector[None], bound=norm.bound(asked), step=step, norm=norm)
            for vector in vectors
        ]
    )


@pytest.mark.parametrize("norm", list(Norm))
def test_a_row_adds_the_same_bits_wherever_it_stands_and_whoever_else_is_there(rows, norm):
    """Alone, and among others, in another place, in blocks that are full and in one that is not."""
    asked = query()
    vectors, step = asked.matrix(rows), grid_step(asked, norm)
    each = alone(asked, vectors[:40], norm)
    assert each.any(axis=1).all()
    rng = np.random.default_rng(0)
    for size in (2, 3, 7, 40):
        chosen = rng.permutation(40)[:size]
        together = summed(critic, asked.layers, vectors[chosen], bound=norm.bound(asked), step=step, norm=norm)
        np.testing.assert_array_equal(together, each[chosen].sum(axis=0))
    whole = asked.total(rows, step, norm)
    rest = summed(critic, asked.layers, vectors[40:], bound=norm.bound(asked), step=step, norm=norm)
    np.testing.assert_array_equal(whole, each.sum(axis=0) + rest)


@pytest.mark.parametrize("bound", [1e-3, 0.5, 1e3])
@pytest.mark.parametrize("norm", list(Norm))
def test_rows_are_clipped_and_not_dropped(rows, norm, bound):
    import jax

    asked = query(l2=bound, l1=bound)
    vectors, step = asked.matrix(rows)[:5], grid_step(asked, norm)
    for whole, vector in zip(alone(asked, vectors, norm), vectors, strict=True):
        true = np.concatenate([np.ravel(part) for part in jax.tree.leaves(jax.grad(critic)(asked.layers, vector))])
        length = np.linalg.norm(true, 1 if norm is Norm.L1 else 2)
        clipped = true * min(1.0, bound / length)
        added = whole * step
        assert sum(abs(int(number)) ** norm.power for number in whole) <= (bound / step) ** norm.power
        np.testing.assert_allclose(added, clipped, rtol=2e-3, atol=2 * step)


def test_a_row_whose_class_is_not_listed_counts_as_the_first(rows):
    asked = query()
    unknown, first = (Rows({**rows.values, SCHEMA.target: np.full(COUNT, code)}, COUNT) for code in (-1, 0))
    step = grid_step(asked, Norm.L2)
    assert np.array_equal(asked.total(unknown, step, Norm.L2), asked.total(first, step, Norm.L2))
    assert asked.matrix(rows).shape == (COUNT, WIDTH)


def test_a_gradient_that_clipping_forgot_is_not_added(rows, monkeypatch):
    """The bound is imposed on the whole numbers: with a factor that shortens nothing, long rows add nothing at all."""
    from threea.anonymize import network_gradient

    asked = query(l2=1e-3)
    monkeypatch.setattr(network_gradient, "_SHRINK", 4.0)
    assert not asked.total(rows, grid_step(asked, Norm.L2), Norm.L2).any()


def test_parameters_come_back_in_their_shape():
    asked = query()
    flat = np.concatenate([part.ravel() for layer in asked.layers for part in layer]).astype(np.float64)
    for layer, again in zip(asked.layers, asked.as_layers(flat), strict=True):
        for part, other in zip(layer, again, strict=True):
            np.testing.assert_array_equal(part, other)


def test_it_is_answered_by_the_door_whole_and_sampled(rows):
    asked, budget = query(), Budget(100.0, 1e-3)
    table = open_table(STAYS, schema=SCHEMA, budget=budget, noise=SilentNoise())
    plan = Plan(budget, (Line("g", Gaussian(9.0)), Line("p", Pure(0.1)), Line("s", Sampled(0.5, 9.0))))
    for norm, answer in (
        (Norm.L2, table.measure(asked, plan["g"])),
        (Norm.L1, table.measure(asked, plan["p"])),
        (Norm.L2, table.sampled(0.5).measure(asked, plan["s"])),
    ):
        step = grid_step(asked, norm)
        np.testing.assert_array_equal(answer.value, asked.total(rows, step, norm) * step)
    assert table.foreign == ("nasty.critic",)


def test_it_is_sent_to_engines_by_pickle(rows):
    asked = pickle.loads(pickle.dumps(query()))
    step = grid_step(asked, Norm.L2)
    np.testing.assert_array_equal(asked.total(rows, step, Norm.L2), query().total(rows, step, Norm.L2))


def no_number(layers, row):
    return layers[0][0] @ row


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"l2": 0.0}, r"bounds l2 \(0.0\)"),
        ({"l1": -1.0}, r"l1 \(-1.0\)"),
        ({"function": no_number}, "must be a number"),
        ({"layers": ((np.zeros((WIDTH, 1)), np.zeros(1)),)}, "float32"),
        ({"layers": ()}, r"parameters \(0\)"),
    ],
)
def test_what_cannot_work_is_refused_before_it_is_asked(changes, problem):
    with pytest.raises(SettingError, match=problem):
        query(**changes)


def test_a_stack_cannot_hold_it():
    with pytest.raises(SettingError, match="grid of its own"):
        check(Stack((query(),)), Norm.L2)
