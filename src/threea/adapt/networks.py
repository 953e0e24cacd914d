"""Small fully connected networks, trained in JAX and applied in NumPy.

A network is a tuple of layers, each its weights and biases: plain arrays, the same for both libraries. `apply` and
`activated` take the library as an argument, so that what was trained is what is drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.adapt.ntk import load
from threea.progress import tell

Layers = tuple[tuple[Any, Any], ...]
"""Weights and biases of each layer, from the input on."""
Loss = Callable[..., Any]
"""Of parameters, a JAX key and further arrays: a number."""

LEAK = 0.2
"""Slope of a hidden unit below zero."""
STRETCH = 1.05
"""How far a place may pass the bounds: what does is at the bound, which so many values are."""
_HIGHEST = 15.0
"""Largest logit of a choice: e^30 to one is as sure as a network gets."""
_TOLD = 50
"""How often, at most, progress is told of."""


def initial(sizes: Sequence[int], rng: np.random.Generator) -> Layers:
    """Return a network with random weights and no biases, scaled so that what passes through keeps its size.

    Args:
        sizes: Of the input, every hidden layer and the output.
        rng: Draws the weights.

    Reference:
        He, Zhang, Ren and Sun 2015, Delving deep into rectifiers.
    """
    layers = []
    for before, after in pairwise(sizes):
        scale = np.sqrt(2.0 / max(before, 1))
        layers.append((rng.normal(0.0, scale, (before, after)).astype(np.float32), np.zeros(after, np.float32)))
    return tuple(layers)


def apply(layers: Layers, inputs: Any, xp: Any = np) -> Any:
    """Return the network's outputs, before any activation of the last layer.

    Args:
        layers: The network.
        inputs: One a row.
        xp: NumPy, or ``jax.numpy`` within what is trained.
    """
    hidden = inputs
    for weights, biases in layers[:-1]:
        hidden = hidden @ weights + biases
        hidden = xp.where(hidden > 0, hidden, LEAK * hidden)
    weights, biases = layers[-1]
    return hidden @ weights + biases


def members(groups: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return which numbers of a vector are indicators of which choice: a row for each number, all 0 for a place.

    Example:
        >>> members(np.array([-1, 0, 0, 1])).tolist()
        [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    return np.equal.outer(groups, np.arange(groups.max(initial=-1) + 1)).astype(np.float32)


def activated(outputs: Any, choices: Any, xp: Any = np) -> Any:
    """Return row vectors from a network's outputs: for places a tanh that reaches the bounds, else a softmax.

    Args:
        outputs: One a row.
        choices: What `members` says of the vector's numbers.
        xp: NumPy or ``jax.numpy``.
    """
    places = STRETCH * xp.tanh(outputs)
    if not choices.shape[1]:
        return places
    powers = xp.exp(xp.clip(outputs, -_HIGHEST, _HIGHEST))
    chosen = choices.sum(axis=1)
    sums = (powers @ choices) @ choices.T
    return xp.where(chosen > 0, powers / (sums + (1 - chosen)), places)


def key_of(rng: np.random.Generator) -> Any:
    """Return a JAX key, drawn from a NumPy generator."""
    return load("jax").random.key(int(rng.integers(1 << 32)))


def train(
    loss: Loss,
    layers: Layers,
    fixed: tuple[Any, ...],
    *,
    steps: int,
    learning_rate: float,
    rng: np.random.Generator,
    stage: str = "training",
) -> tuple[Layers, tuple[float, ...]]:
    """Minimise a loss by Adam, with a learning rate that falls to nothing along a cosine.

    Args:
        loss: Of the layers, a key and `fixed`; a function of a module, so that equal shapes are compiled once.
        layers: Where to start.
        fixed: Arrays that stay the same.
        steps: How many.
        learning_rate: Adam's at the start.
        rng: Makes the key, from which a new one is split for every step.
        stage: What progress is told to be.

    Returns:
        The layers as NumPy arrays, and the mean loss in each of up to fifty stretches of steps.

    Raises:
        MissingExtra: JAX or Optax is not installed.
    """
    jax = load("jax")
    stretch = max(-(-steps // _TOLD), 1)
    run = _stretch(loss, stretch)
    state, key = _optimizer().init(layers), key_of(rng)
    curve: list[float] = []
    for start in range(0, steps, stretch):
        numbers = np.arange(start, start + stretch)
        rates = np.where(numbers < steps, learning_rate * (1 + np.cos(np.pi * numbers / max(steps, 1))) / 2, 0.0)
        layers, state, key, losses = run(layers, state, key, rates.astype(np.float32), fixed)
        curve.append(float(losses[: min(stretch, steps - start)].mean()))
        tell(f"{stage}, loss {curve[-1]:.4g}", min(start + stretch, steps), steps)
    return jax.tree.map(np.asarray, layers), tuple(curve)


@lru_cache(maxsize=1)
def _optimizer() -> Any:
    """Return Adam without a learning rate, which is given at every step."""
    return load("optax").scale_by_adam(b1=0.9, b2=0.999)


@lru_cache(maxsize=16)
def _stretch(loss: Loss, steps: int) -> Any:
    """Return what does so many steps at once, compiled."""
    jax = load("jax")

    def step(carry: Any, rate: Any, fixed: Any) -> Any:
        layers, state, key = carry
        key, own = jax.random.split(key)
        value, gradient = jax.value_and_grad(loss)(layers, own, *fixed)
        updates, state = _optimizer().update(gradient, state)
        layers = jax.tree.map(lambda weight, update: weight - rate * update, layers, updates)
        return (layers, state, key), value

    def stretch(layers: Any, state: Any, key: Any, rates: Any, fixed: Any) -> Any:
        carry, losses = jax.lax.scan(lambda held, rate: step(held, rate, fixed), (layers, state, key), rates)
        return (*carry, losses)

    return jax.jit(stretch)
