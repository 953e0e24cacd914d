"""Adapt: move a model's points until a network trained on them predicts the target's labels.

Kernel Inducing Points: kernel ridge regression with the tangent kernel of a fully connected network stands for the
network, and points are moved down the gradient of its loss on target points, tied to where they came from. Nothing here
knows whose the target points are: rows that were exposed, or points drawn from a private density.

Reference: Nguyen, Chen and Lee (2021), Algorithm 1; ClustMix (Approximate, Adapt, Anonymize), Eq. 5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from threea.adapt.ntk import TangentKernel, load
from threea.errors import InternalError, SettingError

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_KERNEL = TangentKernel()
_WINDOW, _FALL = 25, 1e-3
"""The loss is averaged over so many steps; it falls if that is less than the average before by this share. Chosen."""
_NOTHING = 1e-9
"""A share this small is rounding: double precision has 16 digits."""


@dataclass(frozen=True, slots=True)
class Induced:
    """Points adapted to a learning task.

    Args:
        points: In the order and on the scale of the support they started from.
        losses: Before each step; none if nothing was to be done.
    """

    points: Floats
    losses: Floats


def induce(
    support: Floats,
    labels: Whole,
    target: Floats,
    target_labels: Whole,
    *,
    alpha: float,
    regularisation: float,
    rng: np.random.Generator,
    steps: int = 300,
    learning_rate: float = 0.04,
    support_batch: int | None = None,
    target_batch: int = 512,
    kernel: TangentKernel = _KERNEL,
) -> Induced:
    """Move support points so that kernel ridge regression on them predicts the target's labels.

    Minimises by Adam, over a batch of the support and a batch of `t` target points at each step::

        alpha * tr((X - X0)'(X - X0)) / tr(X0'X0)  +  (1 - alpha) / (2t) * ||y_t - K_ts (K_ss + lambda I)^-1 y_s||^2

    as Eq. 5 says, where `X0` is where the points start. What the papers leave open, or say twice:

    * Alpha is on the distance, so 1 keeps the points and 0 is all for the task. ClustMix's text below Algorithm 1 says
      the opposite of its Eq. 5.
    * Eq. 5 has no `1/t`. As a sum, the second term outgrows the first by the size of a batch, and alpha has hardly
      anything to say up to 0.5; as a mean, alpha means the same for any batch. KIP's reference code takes a mean too.
      docs/decisions/0015-thrown-out.md has both, measured.
    * Columns are z-scored by the target's moments, as in KIP, and the points are scaled back; `X0` is the z-scored one.
      A column in which the target is constant takes no part and stays as it is: it tells nothing, but points of
      different classes could be torn apart along it.
    * Labels are indicators of the class less 1 over the number of classes, as in KIP. They are not moved.
    * `lambda` is `regularisation` times the mean of the diagonal of `K_ss`, as in KIP's reference code, so that it
      means the same for any kernel and number of columns.
    * Of a batch of the support, `tr(X0'X0)` is its size times the mean over all of the support; if all points start at
      the target's mean, a target point's mean square takes the place of their 0.
    * The kernel is fixed, not drawn at each step.
    * Batches of the support are a random partition, then another one; a batch of the target is drawn anew each time.
    * Converged is: the mean of the last 25 losses (or two rounds of batches, if that is more) is not lower by a
      thousandth than the mean of as many before. The last points are returned.

    Args:
        support: Where points start, one a row.
        labels: Their classes.
        target: Points to predict, with the same columns.
        target_labels: Their classes.
        alpha: From 0, all for the task, to 1, points stay.
        regularisation: Of the ridge regression, as a share of the kernel's diagonal; KIP's is 1e-6.
        rng: Draws the batches.
        steps: At most so many.
        learning_rate: Adam's, in standard deviations of a column.
        support_batch: How many points are moved in a step; all, if none is given.
        target_batch: How many target points a step looks at, at most.
        kernel: The network's.

    Returns:
        The points, and the loss before each step.

    Raises:
        SettingError: A setting is outside its bounds, or the regularisation is too small to solve for these points.
        MissingExtra: JAX or Optax is not installed; with alpha 1 neither is needed.
    """
    check(alpha, regularisation, learning_rate, steps, support_batch, target_batch)
    if len(support) != len(labels) or len(target) != len(target_labels) or support.shape[1:] != target.shape[1:]:
        raise InternalError("support and target must have a label for each point, and the same columns")
    if not (np.isfinite(support).all() and np.isfinite(target).all()):
        raise InternalError("support and target must be finite")
    middle, spread, scale = _moments(target)
    if alpha == 1 or not support.size or not scale.any():
        return Induced(np.array(support, np.float64), np.zeros(0))
    start, goal = (support - middle) * scale, (target - middle) * scale
    classes = np.union1d(labels, target_labels)
    y_s, y_t = (np.equal.outer(codes, classes) - 1 / len(classes) for codes in (labels, target_labels))
    square, usual = (float((points**2).sum(axis=1).mean()) for points in (start, goal))
    weights = Weights(alpha, regularisation, square if square > _NOTHING * usual else usual)

    step, size = _step(kernel), min(support_batch or len(start), len(start))
    window = max(_WINDOW, 2 * -(-len(start) // size))
    moments = [start.copy(), np.zeros_like(start), np.zeros_like(start)]
    losses: list[float] = []
    with load("jax").enable_x64(True):
        for visits, chosen in _batches(len(start), size, rng):
            aim = rng.choice(len(goal), min(target_batch, len(goal)), replace=False, shuffle=False)
            room = _roomy(size)
            batch = Batch.of(start[chosen], y_s[chosen], goal[aim], y_t[aim], room)
            padded = (_padded(kept[chosen], room) for kept in moments)
            loss, *moved = step(*padded, visits, learning_rate, batch, weights)
            losses.append(float(loss))
            if not np.isfinite(losses[-1]):
                raise SettingError(f"regularisation ({regularisation:g}) is too small to solve with; KIP's is 1e-6")
            for kept, new in zip(moments, moved, strict=True):
                kept[chosen] = np.asarray(new)[: len(chosen)]
            if len(losses) >= steps or _settled(losses, window):
                break
    return Induced(support + (moments[0] - start) * spread, np.array(losses))


class Batch(NamedTuple):
    """What a step looks at; rows from `points` and `aims` on are padding."""

    start: Any
    y_s: Any
    goal: Any
    y_t: Any
    points: Any
    aims: Any

    @classmethod
    def of(cls, start: Floats, y_s: Floats, goal: Floats, y_t: Floats, room: int) -> Batch:
        """Pad a batch of the support to `room` rows, and one of the target to as many as its size asks for."""
        height = _roomy(len(goal))
        support, target = (_padded(start, room), _padded(y_s, room)), (_padded(goal, height), _padded(y_t, height))
        return cls(*support, *target, len(start), len(goal))


class Weights(NamedTuple):
    """The loss's settings; `square` is the mean squared length of a point at the start."""

    alpha: Any
    regularisation: Any
    square: Any


def weighted_loss(kernel: TangentKernel, points: Any, batch: Batch, weights: Weights) -> Any:
    """Return the loss of padded points, as an expression of JAX."""
    jnp, solve = load("jax.numpy"), load("jax.scipy.linalg").solve
    distance = ((points - batch.start) ** 2).sum() / (batch.points * weights.square)
    # Padding is cut off from the rest and has labels of 0, so it takes no part; its diagonal only has to be positive.
    present = jnp.arange(len(points)) < batch.points
    within = kernel.traced(points, points) * (present[:, None] & present[None, :])
    usual = jnp.trace(within) / batch.points
    ridge = jnp.diag(jnp.where(present, weights.regularisation * usual, usual))
    predicted = kernel.traced(batch.goal, points) @ solve(within + ridge, batch.y_s, assume_a="pos")
    residual = ((batch.y_t - predicted) ** 2).sum(axis=1)
    task = jnp.where(jnp.arange(len(residual)) < batch.aims, residual, 0.0).sum() / (2 * batch.aims)
    return weights.alpha * distance + (1 - weights.alpha) * task


@functools.cache
def _step(kernel: TangentKernel) -> Callable[..., Any]:
    """Return a compiled step of Adam: from points and their two moments to the loss and the same after the step."""
    jax, optax = load("jax"), load("optax")
    adam, slope_of = optax.scale_by_adam(), jax.value_and_grad(functools.partial(weighted_loss, kernel))

    def step(points: Any, first: Any, second: Any, visits: Any, rate: Any, batch: Batch, weights: Weights) -> Any:
        loss, slope = slope_of(points, batch, weights)
        state = optax.ScaleByAdamState(jax.numpy.asarray(visits, "int32"), first, second)
        move, state = adam.update(slope, state)
        return loss, points - rate * move, state.mu, state.nu

    compiled: Callable[..., Any] = jax.jit(step)
    return compiled


def _batches(points: int, size: int, rng: np.random.Generator) -> Iterator[tuple[int, Whole]]:
    """Yield batches without end, and how often their points were chosen before: all once, then all in a new order.

    So Adam, which has to know how often it has seen a point, has seen all of a batch equally often.
    """
    visits = 0
    while True:
        order = rng.permutation(points) if size < points else np.arange(points)
        for start in range(0, points, size):
            yield visits, order[start : start + size]
        visits += 1


def _settled(losses: list[float], window: int) -> bool:
    """Return whether the loss, averaged over a window, no longer falls."""
    if len(losses) < 2 * window:
        return False
    before, after = np.mean(losses[-2 * window : -window]), np.mean(losses[-window:])
    return bool(after >= before * (1 - _FALL))


def _moments(target: Floats) -> tuple[Floats, Floats, Floats]:
    """Return each column's mean, its standard deviation, and 1 over that or 0 if it is constant."""
    if not len(target):
        nothing = np.zeros(target.shape[1])
        return nothing, nothing, nothing
    middle, spread = target.mean(axis=0), target.std(axis=0)
    varied = spread > _NOTHING * np.abs(target).max(axis=0)
    return middle, spread, np.divide(1.0, spread, out=np.zeros_like(spread), where=varied)


def _roomy(size: int) -> int:
    """Round up by an eighth at most, or to a multiple of 8, so that batches of any size share a few programs."""
    room = max(1 << max(size.bit_length() - 4, 0), 8)
    return -(-size // room) * room


def _padded(rows: Floats, size: int) -> Floats:
    return np.pad(rows, ((0, size - len(rows)), (0, 0)))


def check(
    alpha: float,
    regularisation: float,
    learning_rate: float = 0.04,
    steps: int = 1,
    support_batch: int | None = None,
    target_batch: int = 1,
) -> None:
    """Refuse settings that cannot be.

    Raises:
        SettingError: One is outside its bounds.
    """
    if not 0 <= alpha <= 1:
        raise SettingError(f"alpha ({alpha:g}) must be from 0, all for the task, to 1, points stay")
    if not 0 < regularisation < np.inf:
        raise SettingError(f"regularisation ({regularisation:g}) must be > 0; KIP's is 1e-6")
    if not 0 < learning_rate < np.inf:
        raise SettingError(f"learning_rate ({learning_rate:g}) must be > 0; KIP's is 0.04")
    for name, value in (("steps", steps), ("support_batch", support_batch), ("target_batch", target_batch)):
        if value is not None and value < 1:
            raise SettingError(f"{name} ({value}) must be at least 1")
