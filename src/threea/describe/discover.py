"""A schema from names and declared types: kinds, bounds, categories found through the door, out of the same budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian, PartitionSelection
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Marginal, Stack
from threea.anonymize.selection import Values
from threea.describe import class_target
from threea.describe.class_target import class_column
from threea.table import dates
from threea.table.cells import Bins
from threea.table.from_types import of_kind
from threea.table.patterns import settled
from threea.table.schema import LOOKS, Column, Kind, Origin, Schema

SHARE = 0.15
"""Share of the budget that discovery takes."""
KINDS, CATEGORIES, RANGES = "discover kinds", "discover categories", "discover ranges"
_BINS = 32
_MOST_CATEGORIES = 1000


def steps(schema: Schema) -> tuple[Step, ...]:
    """Return what discovery asks of a table: nothing if its schema is known.

    Where kinds are to be found, nobody knows yet which of the other questions there will be columns for. Both are
    planned; one that no column needs is not asked, and not charged.
    """
    if schema.origin is not Origin.TYPES:
        return ()
    undeclared, text, numeric = bool(_undeclared(schema)), bool(_text(schema)), bool(_numeric(schema))
    wanted = {
        KINDS: (undeclared, Gaussian),
        CATEGORIES: (text or undeclared, PartitionSelection),
        RANGES: (numeric or undeclared, Gaussian),
    }
    asked = [(name, kind) for name, (needed, kind) in wanted.items() if needed]
    found = (Step(name=name, weight=SHARE / len(asked), kind=kind) for name, kind in asked)
    return (*found, *class_target.steps(schema))


def discover(table: PrivateTable, plan: Plan) -> PrivateTable:
    """Find kinds, bounds and categories, and return the table described by them.

    Guarantees:
        - Nothing is read but through `measure`; only values shared by enough rows become categories.
        - A column that declares no type, as in a CSV file, gets its kind from noisy counts of what its values look
          like. One value more or less moves two of these counts by one.

    Cost:
        A `Gaussian` event for the kinds of undeclared columns, one for whether a target of whole numbers is a class, a
        `PartitionSelection` event for the text columns, a `Gaussian` one for the numbers and dates. What no column
        needs is not charged.
    """
    table = _with_kinds(table, plan)
    target = class_column(table, plan)
    if target is not None:
        table = table.described(_replaced(table.schema, {target.name: target}))
    found: dict[str, Column] = {}
    text, numeric = _text(table.schema), _numeric(table.schema)
    if text:
        shown = table.measure(Values(tuple(column.name for column in text)), plan[CATEGORIES])
        for column in text:
            often = sorted(shown[column.name], key=lambda value: -shown[column.name][value])[:_MOST_CATEGORIES]
            found[column.name] = replace(column, categories=tuple(sorted(often)))
    if numeric:
        grids = [_grid(column) for column in numeric]
        answer = table.measure(Stack(tuple(Marginal((grid,)) for grid in grids)), plan[RANGES])
        for column, grid, part in zip(numeric, grids, answer.parts, strict=True):
            found[column.name] = _bounded(column, grid, part)
    return table.described(replace(_replaced(table.schema, found), origin=Origin.DISCOVERED))


def _with_kinds(table: PrivateTable, plan: Plan) -> PrivateTable:
    """Count what the values of undeclared columns look like, and describe each by the kind that most of them have."""
    undeclared = _undeclared(table.schema)
    if not undeclared:
        return table
    looks = Stack(tuple(Marginal((column.cells(bins=1),)) for column in undeclared))
    answer = table.measure(looks, plan[KINDS])
    found = {
        column.name: of_kind(column.name, settled(part.value[: len(LOOKS)], part.stddev))
        for column, part in zip(undeclared, answer.parts, strict=True)
    }
    return table.described(_replaced(table.schema, found))


def _replaced(schema: Schema, found: Mapping[str, Column]) -> Schema:
    return replace(schema, columns=tuple(found.get(column.name, column) for column in schema.columns))


def _undeclared(schema: Schema) -> list[Column]:
    return [column for column in schema.modelled if column.kind is Kind.UNDECLARED]


def _text(schema: Schema) -> list[Column]:
    return [column for column in schema.modelled if column.kind is Kind.CATEGORICAL and not column.categories]


def _numeric(schema: Schema) -> list[Column]:
    return [column for column in schema.modelled if column.kind.numeric]


def _grid(column: Column) -> Bins:
    """Return public cells that are fine where values usually lie: years, or magnitudes on both sides of 0."""
    assert column.lower is not None
    assert column.upper is not None
    if column.kind.temporal:
        edges = [dates.from_text(f"{year}-01-01", column.kind, column.name) for year in range(1900, 2102)]
    else:
        smallest, largest = (0, 53) if column.whole else (-20, 100)
        powers = 2.0 ** np.arange(smallest, largest + 0.5, 0.5)
        if column.whole:
            powers = np.unique(np.concatenate([np.arange(1, 17), np.round(powers)]))
        edges = sorted({column.lower, *(p for s in (-1, 1) for p in s * powers if column.lower < p < column.upper)})
        edges.append(column.upper + column.whole)
    special = () if column.kind.temporal else (0.0,)
    return Bins(column=column.name, edges=tuple(edges), special=special, missing=column.nullable, whole=column.whole)


def _bounded(column: Column, grid: Bins, answer: Answer) -> Column:
    """Cut a column to where its values are, with bins that hold about equally many."""
    zeros = float(answer.value[0]) if grid.special else 0.0
    counts = answer.value[len(grid.special) : len(grid.special) + len(grid.edges) - 1]
    kept = np.flatnonzero(_occupied(counts, answer.stddev))
    zero_counts = zeros > _visible(answer.stddev, len(counts))
    if not len(kept):
        lower, upper = (0.0, 1.0) if not column.kind.temporal else (column.lower, column.upper)
        return replace(column, lower=lower, upper=upper, special=())
    lower = grid.edges[kept[0]]
    mass = np.maximum(counts, 0.0)[kept[0] : kept[-1] + 1]
    edges = _quantiles(np.array(grid.edges[kept[0] : kept[-1] + 2]), mass, whole=column.whole)
    spike = zero_counts and not (column.whole and edges[-1] - edges[0] <= 2 * _BINS)
    if zero_counts and not spike:
        edges = _with_zero(edges)
    return replace(
        column,
        lower=min(edges[0], lower),
        upper=edges[-1] - column.whole,
        edges=edges,
        special=(0.0,) if spike else (),
    )


def _occupied(counts: NDArray[np.float64], stddev: float) -> NDArray[np.bool_]:
    """Tell which cells hold rows, alone or together with neighbours: a thin tail shows only when added up."""
    occupied = np.zeros(len(counts), np.bool_)
    for width in (1, 2, 4, 8, 16):
        starts = np.arange(0, len(counts), width)
        rest = np.add.reduceat(np.where(occupied, 0.0, counts), starts)
        occupied |= np.repeat(rest > math.sqrt(width) * _visible(stddev, len(counts)), width)[: len(counts)]
    return occupied


def _visible(stddev: float, cells: int) -> float:
    """Return what the largest of so many noisy zeros, at every width, seldom exceeds."""
    return stddev * math.sqrt(2 * math.log(40 * cells))


def _quantiles(edges: NDArray[np.float64], mass: NDArray[np.float64], *, whole: bool) -> tuple[float, ...]:
    """Return the edges of bins of about equal mass, values spread evenly within each given bin."""
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    # A little of an even spread keeps bins apart where there is no mass.
    level = 0.8 * cumulative / cumulative[-1] + 0.2 * np.linspace(0, 1, len(edges))
    cuts = np.interp(np.linspace(0, 1, _BINS + 1), level, edges)
    if whole:
        if edges[-1] - edges[0] <= 2 * _BINS:
            return tuple(float(edge) for edge in np.arange(edges[0], edges[-1] + 1))
        cuts = np.round(cuts)
    return tuple(float(edge) for edge in np.unique(cuts))


def _with_zero(edges: tuple[float, ...]) -> tuple[float, ...]:
    if edges[0] <= 0 < edges[-1]:
        return edges
    return tuple(float(edge) for edge in np.arange(min(edges[0], 0.0), max(edges[-1], 1.0) + 1))
