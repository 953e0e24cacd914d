"""What a linear classifier learned as a picture: its largest weights as bars about 0, with error bars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from threea.model_summary import TermsFigure
from threea.report.charts import between, coordinate, labels
from threea.report.words import LONG, number, shown
from threea.table.cells import Bins, Merged
from threea.table.schema import Column, Schema

_MIDDLE = 500.0
_CONFIDENT = 1.96
"""Standard deviations on either side of a normal value that hold 95% of its draws."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Bar:
    """A weight."""

    feature: str
    cell: str
    group: str
    """The class that it speaks for, if there are more than two."""
    bar: str
    error: str
    dot: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Weights, ready to be placed on the page."""

    bars: tuple[Bar, ...]
    total: int
    group: str
    """The class that a weight above 0 speaks for, if there are two."""
    summary: str


def terms(figure: TermsFigure, schema: Schema) -> Terms:
    """Lay weights out, from the largest on."""
    columns, distances = {column.name: column for column in schema.modelled}, schema.distances
    ends = [abs(term.weight) + _CONFIDENT * term.stddev for term in figure.terms]
    full = max(ends, default=0.0) or 1.0
    bars = []
    for term in figure.terms:
        name, group = term.cells.column, cell_label(schema[term.classes.column], term.classes, term.group)
        feature = distances[name].text if name in distances else name
        cell = cell_label(columns[name], term.cells, term.cell)
        spread = _CONFIDENT * term.stddev
        low, middle, high = (
            coordinate(_MIDDLE * (1 + value / full))
            for value in (term.weight - spread, term.weight, term.weight + spread)
        )
        text = f"{'+' if term.weight > 0 else ''}{_two(term.weight)} ± {_two(spread)}"
        bars.append(
            Bar(
                feature=feature,
                cell=cell,
                group="" if figure.two else group,
                bar=f"M{coordinate(_MIDDLE)} 4H{middle}V16H{coordinate(_MIDDLE)}z",
                error=f"M{low} 10H{high}",
                dot=f"M{middle} 10h.01",
                text=text,
                title=f"{shown(feature, LONG)} {cell}: {text} for {group}",
            )
        )
    told = figure.terms[0] if figure.two and figure.terms else None
    return Terms(
        bars=tuple(bars),
        total=figure.total,
        group=cell_label(schema[told.classes.column], told.classes, told.group) if told else "",
        summary="; ".join(bar.title for bar in bars),
    )


def cell_label(column: Column, merged: Merged, group: int) -> str:
    """Name a merged cell by what it holds: a range, or the first few of its values.

    Example:
        >>> from threea.table.schema import Kind
        >>> ward = Column(name="ward", kind=Kind.CATEGORICAL, categories=tuple("abcdefg"), nullable=False)
        >>> cell_label(ward, Merged(cells=ward.cells(2), groups=(0, 1, 1, 1, 1, 1, 1)), 1)
        'b, c, d and 3 more'
        >>> age = Column(name="age", kind=Kind.INTEGER, lower=0, upper=99)
        >>> cell_label(age, Merged(cells=age.cells(10), groups=(0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2)), 1)
        '20 to 49'
    """
    parts = list(_parts(column, merged, group))
    more = len(parts) - _NAMED
    # Naming the last one takes no more room than counting it.
    if more > 1:
        return ", ".join(parts[:_NAMED]) + f" and {more:,} more"
    return ", ".join(parts)


def _parts(column: Column, merged: Merged, group: int) -> Iterator[str]:
    cells = merged.cells
    inside = [place for place, other in enumerate(merged.groups) if other == group]
    names = [shown(name, 40) for name, _ in labels(column, cells)]
    if not isinstance(cells, Bins):
        yield from (names[place] for place in inside)
        return
    first, last = len(cells.special), len(cells.special) + len(cells.edges) - 1
    bins = [place - first for place in inside if first <= place < last]
    starts = [place for place in bins if place - 1 not in bins]
    ends = [place + 1 for place in bins if place + 1 not in bins]
    for start, end in zip(starts, ends, strict=True):
        yield between(column, cells.edges[start], cells.edges[end])
    yield from (names[place] for place in inside if not first <= place < last)


def _two(value: float) -> str:
    """Return a weight with two decimals; a smaller one with as many digits as it takes to see it."""
    return (
        f"{value:.2f}".replace("-", "−")
        if abs(value) >= 0.005 or math.isclose(value, 0)
        else number(float(f"{value:.1g}"))
    )
