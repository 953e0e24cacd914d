"""Exact sums of whole-number vectors that a row's cells are looked up as: the one argument behind several queries.

A row is looked up, not computed: its cells have whole-number entries, and what follows is exact in a double or an
int64. So what a row adds depends on this row alone, to the last bit, and sums are the same however rows are cut.

Proof: docs/proofs/lookup-sums.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import Norm, Query, Rows, unmerged
from threea.table.cells import AnyCells

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHRINK = 1 - 2.0**-32
"""Covers the roundings of a length computed in floating point, for up to 2**20 numbers."""
MOST_NUMBERS = 1 << 20
TOO_LONG = 1 << 62
"""Beyond every bound: squares of these are at most 2**60 grid steps."""
_BLOCK_NUMBERS = 1 << 22
_MOST_BLOCK = 1 << 14


class Contributions(Protocol):
    """What a block of rows adds, each row a vector of whole numbers."""

    @property
    def norms(self) -> Integers:
        """The norm of each row's vector, exactly: the squared L2 norm, or the L1 norm if that was asked for."""
        ...

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        """Add the vectors of the rows admitted."""
        ...


class LookupSum(Query):
    """A query whose rows are looked up and shortened by itself, in whole numbers.

    Guarantees:
        - Each row adds a vector of L2 norm at most ``l2 / step``, or, if that is what is asked for and the query has an
          L1 bound, of L1 norm at most ``l1 / step``: one that is longer adds nothing at all. The bound is imposed on
          the whole numbers themselves, whatever shortened them.
    """

    __slots__ = ()
    l1 = math.inf

    @abstractmethod
    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[Contributions]:
        """Yield what the rows add, block by block, in grid steps."""

    def total(self, rows: Rows, step: float, norm: Norm = Norm.L2) -> Integers:
        """Return the sum over the rows, flat, in grid steps; rows that pass the bound in this norm add nothing."""
        sums = np.zeros(self.shape, np.int64)
        longest = math.floor((Fraction(norm.bound(self)) / Fraction(step)) ** norm.power)
        for block in self.contributions(rows, step, norm):
            block.add(sums, block.norms <= longest)
        return sums.ravel()


def keys_of(*cells: AnyCells) -> tuple[Hashable, ...]:
    """Return what a query of these cells takes from the cache."""
    return tuple(dict.fromkeys(unmerged(part) for part in cells))


def blocks(rows: int, width: int) -> Iterator[slice]:
    """Cut rows into blocks that fit in memory."""
    height = min(_MOST_BLOCK, max(1, _BLOCK_NUMBERS // width))
    for start in range(0, rows, height):
        yield slice(start, min(start + height, rows))


def lengths_of(vectors: Floats) -> Floats:
    """Return the rows' L2 norms. Row by row in memory, or a last bit would depend on how many rows there are."""
    vectors = np.ascontiguousarray(vectors)
    lengths: Floats = np.sqrt((vectors * vectors).sum(axis=1))
    return lengths


def lengths_in(vectors: Floats, norm: Norm) -> Floats:
    """Return the rows' L2 or L1 norms, each row's by itself."""
    return lengths_of(vectors) if norm is Norm.L2 else np.asarray(np.abs(np.ascontiguousarray(vectors)).sum(axis=1))


def shortened(vectors: Floats, lengths: Floats, radius: float, longest: float, norm: Norm = Norm.L2) -> Floats:
    """Scale rows so that one as long as the radius becomes `longest` long, shorten longer ones to that, and round.

    Rounding moves a vector by at most half of what a vector of ones is long, which is taken off first.
    """
    width = vectors.shape[1]
    target = max(longest - (math.sqrt(width) if norm is Norm.L2 else width) / 2, 0.0) * SHRINK
    whole: Floats = np.rint(vectors * (target / np.maximum(lengths, radius))[:, None])
    return whole


def squared(vectors: Floats) -> Integers:
    """Return the rows' squared norms as exact integers, or `TOO_LONG`; the vectors are whole."""
    # Below 2**61 by floats is below 2**62 in truth, so that no integer overflows.
    fits = np.einsum("ij,ij->i", vectors, vectors) < TOO_LONG / 2
    whole = np.where(fits[:, None], vectors, 0.0).astype(np.int64)
    return np.where(fits, np.einsum("ij,ij->i", whole, whole), TOO_LONG)


def added(vectors: Floats) -> Integers:
    """Return the rows' L1 norms as exact integers, or `TOO_LONG`; the vectors are whole."""
    fits = np.abs(vectors).sum(axis=1) < TOO_LONG / 2
    return np.where(fits, np.abs(np.where(fits[:, None], vectors, 0.0)).astype(np.int64).sum(axis=1), TOO_LONG)


def times(norms: Integers, factor: Integers | int) -> Integers:
    """Return squared norms multiplied by small whole numbers, or `TOO_LONG`."""
    fits = norms <= TOO_LONG // np.maximum(factor, 1)
    return np.where(fits, np.where(fits, norms, 0) * factor, TOO_LONG)
