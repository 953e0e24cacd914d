"""The bound is imposed, not trusted: rows' contributions clipped, put on a whole-number grid and summed exactly.

Proof: docs/proofs/fixed-point-sums.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.cluster_moments import ClusterMoments
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.gradient import Gradient
from threea.anonymize.lookup_sums import MOST_NUMBERS, SHRINK, LookupSum
from threea.anonymize.mean_embedding import MeanEmbedding
from threea.anonymize.network_gradient import BITS as GRADIENT_BITS
from threea.anonymize.network_gradient import NetworkGradient
from threea.anonymize.projection import Projection
from threea.anonymize.query import Count, Dense, Features, Grouped, Marginal, OneHot, Query, Rows, Stack
from threea.anonymize.query import Norm as Norm
from threea.anonymize.score_gradient import ScoreGradient
from threea.anonymize.score_histogram import ScoreHistogram, Trees
from threea.anonymize.slot_sums import SlotSums
from threea.anonymize.vectors import Frame, Lengths, Moment, Vectors
from threea.anonymize.wave_gradient import WaveGradient, WaveLogits
from threea.errors import SettingError
from threea.table.calendar_cells import CalendarCells
from threea.table.cells import Bins, Categories, Digits, Merged
from threea.table.row_vectors import VectorColumn
from threea.table.schema import Column, Kind

BITS = 30
"""A row's contribution is at most 2**BITS grid steps long, so int64 holds the sum of 2**(62 - BITS) rows."""
_BLOCK = 1 << 22

QUERIES = frozenset(
    {
        Count,
        Marginal,
        Features,
        Grouped,
        Stack,
        Gradient,
        Vectors,
        Lengths,
        ClusterMoments,
        MeanEmbedding,
        NetworkGradient,
        ScoreGradient,
        ScoreHistogram,
        SlotSums,
        WaveGradient,
    }
)
"""The closed set: the private table answers queries of exactly these classes, whose bounds are proven or imposed."""
_CELLS = frozenset({Categories, Bins, Digits, CalendarCells, Merged})
_PARTS = QUERIES | _CELLS | {Column, Frame, Scores, Projection, Trees, VectorColumn, WaveLogits}
_FUNCTIONS = frozenset({Features, NetworkGradient})
"""Queries that hold a function of rows."""
_PLAIN = frozenset({int, float, bool, str, NoneType, Kind, Moment, np.float64, np.int64, np.ndarray})


def step_of(bound: float, bits: int = BITS) -> float:
    """Return the grid step for contributions up to a bound: a power of two, so that whole counts stay exact.

    Example:
        >>> step_of(1.0) == 2.0**-30, step_of(3.7) == 2.0**-28
        (True, True)
    """
    return math.ldexp(1.0, math.ceil(math.log2(bound)) - bits)


def grid_step(query: Query, norm: Norm) -> float:
    """Return the grid step of a query's sums."""
    return step_of(norm.bound(query), GRADIENT_BITS if isinstance(query, NetworkGradient) else BITS)


def check(query: object, norm: Norm) -> None:
    """Refuse a query that is not of the closed set, or whose sum could not be kept exact on the grid.

    Public facts decide, so nothing is spent on it.

    Raises:
        SettingError: It is of another class, or made of parts of another; its bound or its size is out of range.
    """
    for stranger in strangers(query):
        known = ", ".join(sorted(kind.__name__ for kind in QUERIES))
        raise SettingError(
            f"query ({stranger.__name__}) must be one of {known}; for a function of your own use Features"
        )
    assert isinstance(query, Query)
    bound = norm.bound(query)
    if not math.isfinite(bound) and norm is Norm.L1:
        raise SettingError("Laplace noise needs a query with a finite L1 bound; give it one, or use Gaussian noise")
    parts = query.queries if isinstance(query, Stack) else (query,)
    inner = [part.query if isinstance(part, Grouped) else part for part in parts]
    if isinstance(query, Stack) and any(isinstance(part, NetworkGradient) for part in parts):
        raise SettingError("a network's gradient has a grid of its own; ask for it by itself, not in a stack")
    # Counts are whole only on a grid of steps up to 1; a norm in floating point is sure up to 2**20 numbers.
    most = 2.0 ** (BITS if any(isinstance(part, OneHot) for part in inner) else 900)
    if not 2.0**-900 <= bound <= most:
        raise SettingError(f"the bound ({bound:g}) of {type(query).__name__} must be from 2**-900 to {most:g}")
    if any(isinstance(part, Dense) and part.size > MOST_NUMBERS for part in inner):
        raise SettingError(f"a row's vector must have at most {MOST_NUMBERS} numbers")


def strangers(value: object) -> Iterator[type]:
    """Yield the classes that a query is made of and that are not of the closed set; the function of a row is free."""
    if type(value) is tuple:
        if not {type(item) for item in value} <= _PLAIN:
            for item in value:
                yield from strangers(item)
    elif type(value) in _PARTS:
        for field in dataclasses.fields(value):  # type: ignore[arg-type]
            if not (field.name == "function" and type(value) in _FUNCTIONS):
                yield from strangers(getattr(value, field.name))
    elif type(value) not in _PLAIN:
        yield type(value)


def clipped_sum(query: Query, rows: Rows, *, step: float, norm: Norm) -> NDArray[np.int64]:
    """Return the sum of the chunk's clipped contributions, in grid steps.

    Guarantees:
        - Each row adds a vector whose norm is at most the query's bound / step.
        - The sum over a table is the same however it is cut into chunks.
    """
    if isinstance(query, Stack):
        return np.concatenate([clipped_sum(part, rows, step=step, norm=norm) for part in query.queries])
    if isinstance(query, LookupSum | NetworkGradient):
        return query.total(rows, step, norm)
    if isinstance(query, Grouped):
        group = rows.index(query.by).astype(np.int64)
        return _sum_by_group(query.query, rows, group, query.by.size, step, norm)
    assert isinstance(query, OneHot | Dense)
    return _sum_by_group(query, rows, np.zeros(rows.count, np.int64), 1, step, norm)


def parted_sum(
    query: OneHot | Dense | Grouped, rows: Rows, part: NDArray[np.int64], parts: int, *, step: float, norm: Norm
) -> NDArray[np.int64]:
    """Return the same sum over each part of the chunk's rows apart, one after another."""
    if isinstance(query, Grouped):
        group = rows.index(query.by).astype(np.int64)
        within = np.where(group >= 0, part * query.by.size + group, -1)
        return _sum_by_group(query.query, rows, within, parts * query.by.size, step, norm)
    return _sum_by_group(query, rows, part, parts, step, norm)


def _sum_by_group(
    query: OneHot | Dense,
    rows: Rows,
    group: NDArray[np.int64],
    groups: int,
    step: float,
    norm: Norm,
) -> NDArray[np.int64]:
    if isinstance(query, OneHot):
        cell = query.cell(rows)
        inside = (cell >= 0) & (cell < query.size) & (group >= 0)
        counts = np.bincount(group[inside] * query.size + cell[inside], minlength=groups * query.size)
        return counts.astype(np.int64) * int(1 / step)
    total = np.zeros((groups, query.size), np.int64)
    with np.errstate(all="ignore"):
        vectors = query.contributions(rows)
        for start in range(0, rows.count, max(1, _BLOCK // query.size)):
            block = slice(start, start + max(1, _BLOCK // query.size))
            whole = _whole(vectors[block], query, step, norm)
            inside = group[block] >= 0
            if groups == 1:
                total[0] += whole[inside].sum(axis=0)
            else:
                np.add.at(total, group[block][inside], whole[inside])
    return total.ravel()


def _whole(vectors: NDArray[np.float64], query: Dense, step: float, norm: Norm) -> NDArray[np.int64]:
    """Clip vectors to the query's bound and round them towards zero, which never lengthens them."""
    bound = norm.bound(query)
    # In row order, or a norm's last bit would depend on how many rows there are.
    vectors = np.ascontiguousarray(np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0))
    if query.nonnegative:
        vectors = np.maximum(vectors, 0.0)
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    # Divided by their largest number first, squares of huge numbers do not overflow.
    unit = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    lengths = np.abs(unit).sum(axis=1) if norm is Norm.L1 else np.sqrt((unit * unit).sum(axis=1))
    allowed = np.divide(bound * SHRINK, lengths, out=np.zeros_like(lengths), where=lengths > 0)[:, None]
    clipped = np.where(largest > allowed, unit * allowed, vectors)
    return np.trunc(clipped / step).astype(np.int64)
