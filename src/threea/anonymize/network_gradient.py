"""Gradients of a network's loss, row by row: each clipped by itself, put on a whole-number grid and summed.

A network on a batch of rows is matrix products, whose last bits depend on how many rows there are and on where one
stands. So a row is computed alone, by code of one shape, and what it adds depends on this row alone, to the last bit.

Proof: docs/proofs/network-gradient.md.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.lookup_sums import MOST_NUMBERS
from threea.anonymize.query import Norm, Query, Rows, origin_of
from threea.errors import MissingExtra, SettingError
from threea.table.cells import AnyCells
from threea.table.row_vectors import VectorColumn

Integers = NDArray[np.int64]
Layers = tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
"""Weights and biases of each layer, from the input on."""
Loss = Callable[[Any, Any], Any]
"""Of the layers and one row, in JAX: a number."""

BITS = 22
"""A row's contribution is at most 2**BITS grid steps long, so that float32 holds its numbers, and float64 its norm."""
_BLOCK = 256
"""Rows that are given to compiled code at once; int32 holds the sum of so many."""
_SHRINK = 1 - 2.0**-10
"""Covers the roundings of a length in float32, so that no honest row passes the bound."""
_ALIGNED = 16
"""Rows are filled up to multiples of so many numbers: code that reads them may round by where they start in memory."""
_LEAST, _MOST = 2.0**-40, 2.0**40


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NetworkGradient(Query):
    """The sum of the rows' clipped gradients of a loss.

    A row is its features as a vector, then its class's indicators, then zeros, until the first layer has what it takes;
    one whose class is not listed counts as of the first.

    Guarantees:
        - Each row adds whole numbers that depend on this row alone, of L2 norm at most ``l2 / step``, or of L1 norm at
          most ``l1 / step`` under Laplace noise: one that is longer adds nothing. The bound is imposed, exactly.

    Args:
        function: The loss of the layers and one row; a function of a module, in JAX.
        layers: The network, whose gradient is asked for; its first weights have a row for each number of a vector.
        inputs: How the features are vectors.
        label: The label's cells, if it is read.
        l2: What L2 norm gradients are clipped to, from 2**-40 to 2**40.
        l1: What L1 norm they are clipped to under Laplace noise.

    Raises:
        SettingError: A number is out of range, or the loss cannot be differentiated.
        MissingExtra: JAX is not installed.

    Reference:
        Abadi et al. 2016, Deep learning with differential privacy, algorithm 1.
    """

    function: Loss
    layers: Layers
    inputs: tuple[VectorColumn, ...]
    label: AnyCells | None = None
    l2: float
    l1: float = math.inf
    nonnegative = False

    def __post_init__(self) -> None:
        if not (_LEAST <= self.l2 <= _MOST and (_LEAST <= self.l1 <= _MOST or self.l1 == math.inf)):
            raise SettingError(f"bounds l2 ({self.l2}) and l1 ({self.l1}) must be from 2**-40 to 2**40")
        if not 1 <= self.size <= MOST_NUMBERS:
            raise SettingError(f"a network's parameters ({self.size}) must be from 1 to {MOST_NUMBERS}")
        least = sum(part.size for part in self.inputs) + (self.label.size if self.label else 0)
        if self.width < least:
            raise SettingError(f"a network's first layer ({self.width}) must take at least a row's {least} numbers")
        _refuse_unlike(self.function, self.layers, self.width)

    @property
    def width(self) -> int:
        """How many numbers the first layer takes."""
        return int(self.layers[0][0].shape[0])

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The features and the label."""
        names = [part.column.name for part in self.inputs]
        return tuple(dict.fromkeys([*names, *([self.label.column] if self.label else [])]))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """All parameters, flattened, one after another."""
        return (sum(part.size for layer in self.layers for part in layer),)

    @property
    def origin(self) -> str:
        """Where the loss comes from: its module and name."""
        return origin_of(self.function)

    def matrix(self, rows: Rows) -> NDArray[np.float32]:
        """Return the rows that have a class as vectors, each worked out from its own values alone."""
        parts: list[NDArray[Any]] = [part.encode(rows.values[part.column.name]) for part in self.inputs]
        cell = np.zeros(rows.count, np.int64)
        if self.label is not None:
            cell = self.label.index(rows.values[self.label.column])
            parts.append(np.equal.outer(cell, np.arange(self.label.size)))
        used = sum(part.shape[1] for part in parts)
        filled = np.hstack([*parts, np.zeros((rows.count, self.width - used))])
        return filled[cell >= 0].astype(np.float32)

    def total(self, rows: Rows, step: float, norm: Norm) -> Integers:
        """Return the sum over the rows, flat, in grid steps."""
        return summed(self.function, self.layers, self.matrix(rows), bound=norm.bound(self), step=step, norm=norm)

    def as_layers(self, flat: NDArray[np.float64]) -> Layers:
        """Return an answer's numbers in the shape of the layers."""
        found, start = [], 0
        for layer in self.layers:
            parts = []
            for part in layer:
                parts.append(flat[start : start + part.size].reshape(part.shape).astype(np.float32))
                start += part.size
            found.append((parts[0], parts[1]))
        return tuple(found)


def aligned(size: int) -> int:
    """Return a number rounded up to a multiple of 16, and at least that.

    Example:
        >>> aligned(0), aligned(16), aligned(17)
        (16, 16, 32)
    """
    return -(-max(size, 1) // _ALIGNED) * _ALIGNED


def summed(
    function: Loss, layers: Layers, matrix: NDArray[np.float32], *, bound: float, step: float, norm: Norm
) -> Integers:
    """Return the sum of vectors' clipped gradients, in grid steps: of private rows, or of made-up ones to compare with.

    Args:
        function: The loss of the layers and one vector.
        layers: The network.
        matrix: One vector a row.
        bound: What gradients are clipped to.
        step: The grid's step.
        norm: In which norm.
    """
    jax = load("jax")
    assert bound / step <= 2.0**BITS, "the grid must be a network gradient's own"
    total = np.zeros(sum(part.size for layer in layers for part in layer), np.int64)
    width = matrix.shape[1]
    padded = np.zeros((_BLOCK, aligned(width)), np.float32)
    longest = float(math.floor((Fraction(bound) / Fraction(step)) ** norm.power))
    with jax.enable_x64(True):
        run, limits = _compiled(function, norm, width), np.array([bound, _SHRINK / step], np.float32)
        held = jax.tree.map(jax.numpy.asarray, layers)
        for start in range(0, len(matrix), _BLOCK):
            block = matrix[start : start + _BLOCK]
            padded[: len(block), :width] = block
            # A copy, for compiled code may still read the last block's.
            total += np.asarray(run(held, padded.copy(), np.int32(len(block)), limits, np.float64(longest)))
    return total


@lru_cache(maxsize=16)
def _compiled(function: Loss, norm: Norm, width: int) -> Any:
    """Return what sums a block's clipped gradients; compiled once for every shape of the layers."""
    jax, jnp = load("jax"), load("jax.numpy")

    def length(parts: list[Any]) -> Any:
        if norm is Norm.L1:
            return sum(jnp.vdot(jnp.abs(part), jnp.ones_like(part)) for part in parts)
        return sum(jnp.vdot(part, part) for part in parts)

    def add(layers: Any, matrix: Any, limits: Any, longest: Any, position: Any, sums: Any) -> Any:
        row = jax.lax.dynamic_index_in_dim(matrix, position, keepdims=False)[:width]
        gradient = jax.tree.leaves(jax.grad(function)(layers, row))
        size = length(gradient) if norm is Norm.L1 else jnp.sqrt(length(gradient))
        factor = jnp.minimum(jnp.float32(1), limits[0] / size) * limits[1]
        # Twice the bound at most, so that nothing that follows leaves its range.
        whole = [jnp.clip(jnp.trunc(part * factor), -(2.0 ** (BITS + 1)), 2.0 ** (BITS + 1)) for part in gradient]
        # Whole numbers: exact in float64, in any order. Not a number is not within the bound.
        admitted = length([part.astype(jnp.float64) for part in whole]) <= longest
        return [total + jnp.where(admitted, part, 0).astype(jnp.int32) for total, part in zip(sums, whole, strict=True)]

    def block(layers: Any, matrix: Any, count: Any, limits: Any, longest: Any) -> Any:
        zeros = [jnp.zeros(part.shape, jnp.int32) for part in jax.tree.leaves(layers)]
        found = jax.lax.fori_loop(0, count, partial(add, layers, matrix, limits, longest), zeros)
        return jnp.concatenate([part.ravel() for part in found])

    return jax.jit(block)


def _refuse_unlike(function: Loss, layers: Layers, width: int) -> None:
    """Refuse a loss that cannot be differentiated, before anything is charged."""
    jax = load("jax")
    shapes = tuple(tuple((part.shape, str(part.dtype)) for part in layer) for layer in layers)
    if any(kind != "float32" for layer in shapes for _, kind in layer):
        raise SettingError("a network's parameters must be float32")
    problem = _traced(function, shapes, width, jax)
    if problem:
        raise SettingError(f"the loss ({origin_of(function)}) of this network must be a number: {problem}")


@lru_cache(maxsize=64)
def _traced(function: Loss, shapes: Any, width: int, jax: Any) -> str:
    like = tuple(tuple(jax.ShapeDtypeStruct(shape, kind) for shape, kind in layer) for layer in shapes)
    try:
        jax.eval_shape(jax.grad(function), like, jax.ShapeDtypeStruct((width,), "float32"))
    except (TypeError, ValueError) as error:
        return str(error).splitlines()[0]
    return ""


def load(module: str) -> Any:
    """Import a module of JAX or Optax.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(module.split(".")[0], "nets") from None
