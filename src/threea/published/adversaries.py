"""A generator and a discriminator that play against one another over the private rows: the part that GANs share.

It reads exposed rows. Nothing about it is private.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import Layers, activated, apply, key_of
from threea.adapt.ntk import load
from threea.errors import SettingError
from threea.progress import tell
from threea.published.exposed_rows import ExposedRows
from threea.table.cells import Merged
from threea.table.row_vectors import RowVectors

Floats = NDArray[np.float64]
Loss = Callable[..., Any]
"""Of a player's layers, the other's, a JAX key, a batch (vectors and classes) and what stays the same: a number."""

_TOLD = 50
"""How often, at most, progress is told of."""
_FIRST_MOMENT = 0.5
"""Adam's, as GANs have it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The private rows as networks take them.

    Args:
        exposed: The rows.
        vectors: How they are vectors, by the schema alone.
        inputs: One vector per row.
        classes: Indicators of each row's class.
    """

    exposed: ExposedRows
    vectors: RowVectors
    inputs: NDArray[np.float32]
    classes: NDArray[np.float32]

    @classmethod
    def of(cls, exposed: ExposedRows) -> Rows:
        """Encode the rows."""
        vectors = RowVectors.of(exposed.columns)
        inputs = vectors.encode(exposed.chunk).astype(np.float32)
        return cls(exposed, vectors, inputs, np.eye(exposed.classes, dtype=np.float32)[exposed.labels])

    @property
    def labels(self) -> LabelShares:
        """How many rows each class has: the exact numbers."""
        target, sizes = self.exposed.target, self.classes.sum(axis=0).astype(np.float64)
        if target is None:
            return LabelShares(None, np.ones((1, 1)), sizes, 0.0)
        cells = target.cells(2)
        # A target that may be missing has a cell for that, too; rows without a class were left out.
        sizes = np.append(sizes, np.zeros(cells.size - len(sizes)))
        return LabelShares(Merged(cells=cells, groups=tuple(range(cells.size))), np.eye(cells.size), sizes, 0.0)

    def model(self, generator: Layers, latent: int, curves: dict[str, tuple[float, ...]]) -> GeneratorModel:
        """Return the generator as a model that draws rows."""
        labels, (weights, biases) = self.labels, generator[0]
        unused = np.zeros((latent + labels.classes - len(weights), weights.shape[1]), np.float32)
        layers = ((np.vstack([weights, unused]), biases), *generator[1:])
        return GeneratorModel(labels, self.vectors.columns, layers, latent, curves=curves)


def play(
    losses: tuple[Loss, Loss],
    players: tuple[Layers, Layers],
    rows: Rows,
    fixed: tuple[Any, ...],
    *,
    iterations: int,
    batch: int,
    critics: int,
    learning_rate: float,
) -> tuple[Layers, dict[str, tuple[float, ...]]]:
    """Train a discriminator and a generator in turn by Adam, on batches drawn at random.

    Args:
        losses: Of the discriminator and the generator; functions of a module, so that equal shapes are compiled once.
        players: Where the two start.
        rows: What to imitate.
        fixed: Arrays that stay the same.
        iterations: Steps of the generator.
        batch: Rows of a step.
        critics: Steps of the discriminator before each.
        learning_rate: Of both.

    Returns:
        The generator, and both losses in each of up to fifty stretches.
    """
    jax = load("jax")
    stretch = max(-(-iterations // _TOLD), 1)
    run = _stretch(losses, stretch, min(batch, len(rows.inputs)), critics)
    state = (players, tuple(_optimizer().init(player) for player in players), key_of(rows.exposed.rng))
    data = (jax.numpy.asarray(rows.inputs), jax.numpy.asarray(rows.classes))
    curves: list[NDArray[np.float32]] = []
    for start in range(0, iterations, stretch):
        rates = np.where(np.arange(start, start + stretch) < iterations, learning_rate, 0.0).astype(np.float32)
        state, lost = run(state, rates, data, fixed)
        curves.append(np.asarray(lost)[: iterations - start].mean(axis=0))
        told = f"training, discriminator {curves[-1][0]:.3g}, generator {curves[-1][1]:.3g}"
        tell(told, min(start + stretch, iterations), iterations)
    named = zip(("discriminator", "generator"), np.array(curves).T.tolist(), strict=True)
    return jax.tree.map(np.asarray, state[0][1]), {name: tuple(losses) for name, losses in named}


def generated(layers: Layers, inputs: Any, choices: Any) -> Any:
    """Return the vectors that a generator makes, within what is trained."""
    xp = load("jax.numpy")
    return activated(apply(layers, inputs, xp), choices, xp)


def check_whole(settings: object, bounds: dict[str, tuple[int, int]]) -> None:
    """Refuse settings that are not whole numbers in their bounds.

    Raises:
        SettingError: One is not.
    """
    for name, (least, most) in bounds.items():
        value = getattr(settings, name)
        if not (isinstance(value, int) and least <= value <= most):
            raise SettingError(f"{name} ({value}) must be a whole number from {least} to {most}")


def check_number(settings: object, bounds: dict[str, tuple[float, float]]) -> None:
    """Refuse settings that are not numbers in their bounds.

    Raises:
        SettingError: One is not.
    """
    for name, (least, most) in bounds.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            raise SettingError(f"{name} ({value}) must be from {least:g} to {most:g}")


@lru_cache(maxsize=1)
def _optimizer() -> Any:
    """Return Adam without a learning rate, which is given at every step."""
    return load("optax").scale_by_adam(b1=_FIRST_MOMENT)


@lru_cache(maxsize=16)
def _stretch(losses: tuple[Loss, Loss], steps: int, batch: int, critics: int) -> Any:
    """Return what does so many iterations at once, compiled."""
    jax = load("jax")

    def move(state: Any, player: int, rate: Any, data: Any, fixed: Any) -> Any:
        players, moments, key = state
        key, own, draw = jax.random.split(key, 3)
        chosen = jax.random.randint(draw, (batch,), 0, len(data[0]))
        drawn = tuple(array[chosen] for array in data)
        value, gradient = jax.value_and_grad(losses[player])(players[player], players[1 - player], own, drawn, *fixed)
        updates, moment = _optimizer().update(gradient, moments[player])
        moved = jax.tree.map(lambda weight, update: weight - rate * update, players[player], updates)
        both = (moved, players[1]) if player == 0 else (players[0], moved)
        kept = (moment, moments[1]) if player == 0 else (moments[0], moment)
        return (both, kept, key), value

    def iteration(state: Any, rate: Any, data: Any, fixed: Any) -> Any:
        state, lost = jax.lax.scan(lambda held, _: move(held, 0, rate, data, fixed), state, None, length=critics)
        state, missed = move(state, 1, rate, data, fixed)
        return state, jax.numpy.stack([lost[-1], missed])

    def stretch(state: Any, rates: Any, data: Any, fixed: Any) -> Any:
        return jax.lax.scan(lambda held, rate: iteration(held, rate, data, fixed), state, rates)

    return jax.jit(stretch)
