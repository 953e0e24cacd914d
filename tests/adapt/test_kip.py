"""Kernel inducing points: the loss is Eq. 5, it falls, and points stay where nothing pulls them."""

import functools
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import optax
import pytest

from threea.adapt.kip import Batch, Induced, Weights, _settled, induce, weighted_loss
from threea.adapt.ntk import TangentKernel
from threea.errors import InternalError, MissingExtra, SettingError

KERNEL = TangentKernel()
RATE = 0.04
# Compiled once for each shape; most tests have 8 points or fewer, 200 targets, 2 columns and 2 classes.
LOSS = jax.jit(functools.partial(weighted_loss, KERNEL))
SLOPE = jax.jit(jax.grad(functools.partial(weighted_loss, KERNEL)))


def checkerboard(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of a square whose opposite corners are of one class, and their classes."""
    points = np.random.default_rng(seed).uniform(-1, 1, (rows, 2))
    return points, (points[:, 0] * points[:, 1] > 0).astype(np.int64)


TARGET, TARGET_LABELS = checkerboard(200, seed=0)
# Two near the middle of each corner, but all of them shifted, so that many target points are nearer to a wrong one.
CORNERS = np.repeat([[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]], 2, axis=0)
SUPPORT = CORNERS + [0.35, 0.25] + 0.1 * np.random.default_rng(1).normal(size=(8, 2))
LABELS = (CORNERS[:, 0] * CORNERS[:, 1] > 0).astype(np.int64)


def induced(seed: int = 0, support: Any = SUPPORT, labels: Any = LABELS, **settings: Any) -> Induced:
    chosen = {"alpha": 0.1, "regularisation": 1e-3, "steps": 3, "target": TARGET, "target_labels": TARGET_LABELS}
    chosen |= settings
    return induce(support, labels, rng=np.random.default_rng(seed), **chosen)


def predicted(points: np.ndarray, labels: np.ndarray, asked: np.ndarray, regularisation: float) -> np.ndarray:
    """Return what kernel ridge regression on these points, z-scored by the target, says of others."""
    points, asked = ((each - TARGET.mean(axis=0)) / TARGET.std(axis=0) for each in (points, asked))
    within = KERNEL(points, points)
    within += regularisation * np.trace(within) / len(points) * np.eye(len(points))
    return KERNEL(asked, points) @ np.linalg.solve(within, np.eye(2)[labels] - 0.5)


def moved(found: Induced, support: np.ndarray = SUPPORT) -> np.ndarray:
    """Return how far coordinates moved, in standard deviations of the target."""
    return np.abs(found.points - support) / TARGET.std(axis=0)


def random_batch(room: int) -> tuple[np.ndarray, Batch, Weights]:
    rng = np.random.default_rng(2)
    start, goal = rng.normal(size=(5, 2)), rng.normal(size=(201, 2))
    y_s, y_t = (np.eye(2)[rng.integers(0, 2, rows)] - 1 / 2 for rows in (5, 201))
    points = np.zeros((room, 2))
    points[:5] = start + 0.3 * rng.normal(size=start.shape)
    return points, Batch.of(start, y_s, goal, y_t, room), Weights(0.3, 0.01, float((start**2).sum() / 5))


@pytest.mark.parametrize("room", [5, 8])
def test_the_loss_is_equation_5_with_or_without_padding(room: int) -> None:
    points, batch, weights = random_batch(room)
    with jax.enable_x64(True):
        found = float(LOSS(points, batch, weights))
    points, start, y_s, goal, y_t = points[:5], batch.start[:5], batch.y_s[:5], batch.goal[:201], batch.y_t[:201]
    within = KERNEL(points, points)
    ridge = 0.01 * np.trace(within) / 5 * np.eye(5)
    residual = y_t - KERNEL(goal, points) @ np.linalg.inv(within + ridge) @ y_s
    distance = np.trace((points - start).T @ (points - start)) / np.trace(start.T @ start)
    assert found == pytest.approx(0.3 * distance + 0.7 / 201 * 0.5 * np.linalg.norm(residual) ** 2, rel=1e-10)


def test_the_gradient_is_that_of_finite_differences() -> None:
    points, batch, weights = random_batch(8)
    with jax.enable_x64(True):
        slope, width = np.asarray(SLOPE(points, batch, weights)), 1e-6
        numeric = np.zeros_like(points)
        for coordinate in np.ndindex(5, 2):
            nudge = np.zeros_like(points)
            nudge[coordinate] = width
            ahead, behind = (LOSS(moved, batch, weights) for moved in (points + nudge, points - nudge))
            numeric[coordinate] = (ahead - behind) / (2 * width)
    # Both differences and rounding over their width are near 1e-9.
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-8)
    assert not slope[5:].any()


def test_the_first_loss_is_that_of_the_points_as_given() -> None:
    wrong = np.eye(2)[TARGET_LABELS] - 0.5 - predicted(SUPPORT, LABELS, TARGET, 1e-3)
    assert induced(steps=1).losses[0] == pytest.approx(0.9 * (wrong**2).sum(axis=1).mean() / 2, rel=1e-9)


def test_the_loss_falls() -> None:
    losses = induced(steps=100).losses
    assert losses[-1] < 0.7 * losses[0]


def test_adapted_points_predict_other_points_better() -> None:
    # None of these points was a target. A proportion of 2,000 has a standard deviation of 0.011 at most.
    asked, actual = checkerboard(2000, seed=9)
    found = induced(steps=200, alpha=0.01)
    before, after = (
        float((predicted(points, LABELS, asked, 1e-3).argmax(axis=1) == actual).mean())
        for points in (SUPPORT, found.points)
    )
    assert after > before + 0.1


def test_the_more_alpha_the_less_points_move() -> None:
    lengths = [float((moved(induced(alpha=alpha, steps=100)) ** 2).sum()) for alpha in (0.0, 0.1, 0.9)]
    assert lengths[0] > 1.5 * lengths[1] > 2 * lengths[2] > 0


def test_alpha_1_keeps_points_and_needs_no_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setitem(sys.modules, "optax", None)
    found = induced(alpha=1.0)
    np.testing.assert_array_equal(found.points, SUPPORT)
    assert found.points is not SUPPORT
    assert not len(found.losses)


@pytest.mark.parametrize(("package", "variance"), [("jax", 0.02), ("optax", 0.03)])
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, package: str, variance: float) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package} is not installed; pip install 'threea\[nets\]'"):
        induced(kernel=TangentKernel(bias_variance=variance))


def test_importing_brings_no_jax() -> None:
    code = "import sys, threea.adapt.kip; sys.exit('jax' in sys.modules or 'optax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_batch_moves_its_points_alone_by_one_step_of_adam() -> None:
    # Adam's first step is the learning rate in each coordinate, whenever a point's turn comes.
    for steps, expected in ((1, 3), (2, 6), (3, 8)):
        step = moved(induced(steps=steps, support_batch=3))
        touched = step.any(axis=1)
        assert touched.sum() == expected
        np.testing.assert_allclose(step[touched], RATE, rtol=1e-4)


def test_steps_are_those_of_optax() -> None:
    middle, spread = TARGET.mean(axis=0), TARGET.std(axis=0)
    start, goal = (SUPPORT - middle) / spread, (TARGET - middle) / spread
    batch = Batch.of(start, np.eye(2)[LABELS] - 0.5, goal, np.eye(2)[TARGET_LABELS] - 0.5, 8)
    weights = Weights(0.1, 1e-3, float((start**2).sum() / 8))
    with jax.enable_x64(True):
        adam = optax.adam(RATE)
        points, state = start, adam.init(start)
        for _ in range(5):
            move, state = adam.update(SLOPE(points, batch, weights), state)
            points = points + np.asarray(move)
    np.testing.assert_allclose(induced(steps=5).points, points * spread + middle, rtol=0, atol=1e-9)


def test_batches_lower_the_loss_of_all() -> None:
    found = induced(steps=200, support_batch=4, target_batch=24)
    after = induced(support=found.points, alpha=0.0, steps=1).losses[0]
    assert after < 0.8 * induced(alpha=0.0, steps=1).losses[0]


def test_a_target_smaller_than_its_batch_is_used_whole() -> None:
    wide, exact = (induced(target_batch=size).points for size in (10_000, len(TARGET)))
    np.testing.assert_allclose(wide, exact, rtol=1e-9)
    assert np.abs(induced(target_batch=20).points - exact).max() > 1e-6


def test_the_same_generator_gives_the_same_points_and_another_does_not() -> None:
    first, again, other = (induced(seed, support_batch=3, target_batch=20) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.points, again.points)
    np.testing.assert_array_equal(first.losses, again.losses)
    assert (first.points != other.points).any()


def test_units_and_names_of_classes_do_not_matter() -> None:
    scale, shift = np.array([1e4, 1e-4]), np.array([-7.0, 3.0])
    found = induced(
        support=SUPPORT * scale + shift,
        target=TARGET * scale + shift,
        labels=np.array([7, 30])[LABELS],
        target_labels=np.array([7, 30])[TARGET_LABELS],
    )
    np.testing.assert_allclose((found.points - shift) / scale, induced().points, rtol=0, atol=1e-6)


def test_of_one_class_there_is_nothing_to_learn() -> None:
    found = induced(labels=np.zeros(8, np.int64), target_labels=np.zeros(200, np.int64), steps=200)
    np.testing.assert_allclose(found.points, SUPPORT, rtol=0, atol=1e-12)
    assert not found.losses.any()
    assert len(found.losses) == 50


def test_a_class_without_support_is_still_predicted_against() -> None:
    found = induced(labels=np.zeros(8, np.int64), steps=60)
    assert np.isfinite(found.points).all()
    assert found.losses[-1] < found.losses[0]


def test_duplicated_points_lower_the_loss() -> None:
    support, labels = np.repeat(SUPPORT[::2], 2, axis=0), LABELS
    found = induced(support=support, labels=labels, regularisation=1e-6, steps=60)
    assert np.isfinite(found.points).all()
    assert found.losses[-1] < found.losses[0]


def test_equal_points_of_both_classes_are_no_trouble() -> None:
    found = induced(support=np.zeros((8, 2)), steps=10)
    assert np.isfinite(found.points).all()
    assert np.isfinite(found.losses).all()


def test_a_column_constant_in_the_target_stays_as_it_is() -> None:
    # 0.1 cannot be written exactly, so its mean is off by rounding, and its spread is not 0.
    target, own = np.column_stack([TARGET[:, 0], np.full(len(TARGET), 0.1)]), np.linspace(0.1, 0.2, len(SUPPORT))
    found = induced(support=np.column_stack([SUPPORT[:, 0], own]), target=target, steps=60)
    np.testing.assert_array_equal(found.points[:, 1], own)
    assert (found.points[:, 0] != SUPPORT[:, 0]).all()


def test_a_target_that_never_varies_moves_nothing() -> None:
    np.testing.assert_array_equal(induced(target=np.full_like(TARGET, 0.1)).points, SUPPORT)


@pytest.mark.parametrize("place", [SUPPORT[:1], TARGET.mean(axis=0, keepdims=True)], ids=["anywhere", "at the mean"])
def test_a_single_point_moves(place: np.ndarray) -> None:
    found = induced(support=place, labels=LABELS[:1], steps=60, target_labels=(TARGET[:, 0] > 0).astype(np.int64))
    assert found.points.shape == (1, 2)
    assert np.isfinite(found.points).all()
    assert found.losses[-1] < found.losses[0]


def test_without_points_nothing_is_done() -> None:
    assert induced(support=np.zeros((0, 2)), labels=LABELS[:0]).points.shape == (0, 2)
    np.testing.assert_array_equal(induced(target=TARGET[:0], target_labels=TARGET_LABELS[:0]).points, SUPPORT)


def test_it_stops_when_the_loss_no_longer_falls() -> None:
    assert 50 <= len(induced(alpha=0.9, steps=2000).losses) < 1000
    falling = [1 / (1 + step) for step in range(40)]
    assert not _settled(falling, 20)
    assert not _settled([1.0] * 39, 20)
    assert _settled([1.0] * 40, 20)
    assert _settled([*falling, *[0.1] * 20], 20)


def test_batches_of_like_sizes_share_a_program() -> None:
    traced = []

    class Counted(TangentKernel):
        def traced(self, left: Any, right: Any) -> Any:
            traced.append(left.shape)
            return super().traced(left, right)

    kernel = Counted()
    for points in (8, 5, 6):
        for rows in (200, 193):
            induced(support=SUPPORT[:points], labels=LABELS[:points], target_batch=rows, kernel=kernel)
    # One program has two kernels: between the points, and of the target with them.
    assert len(traced) == 2


def test_a_regularisation_too_small_to_solve_with_is_refused() -> None:
    support = np.tile(SUPPORT[:2], (4, 1))
    with pytest.raises(SettingError, match="too small to solve"):
        induced(support=support, labels=np.tile([0, 1], 4), regularisation=1e-300)


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": -0.1},
        {"alpha": 1.1},
        {"alpha": float("nan")},
        {"regularisation": 0.0},
        {"learning_rate": 0.0},
        {"steps": 0},
        {"support_batch": 0},
        {"target_batch": 0},
    ],
    ids=str,
)
def test_settings_outside_their_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        induced(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"labels": LABELS[:7]}, {"target": TARGET[:, :1]}, {"support": np.full((8, 2), np.nan)}],
    ids=["a", "b", "c"],
)
def test_points_that_do_not_fit_together_are_our_mistake(wrong: dict[str, Any]) -> None:
    with pytest.raises(InternalError):
        induced(**wrong)


def test_single_precision_stays_the_default_of_others() -> None:
    induced()
    assert jax.numpy.ones(1).dtype == np.float32
