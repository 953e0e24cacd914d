"""Columns as pictures: the synthetic rows as bars, the noisy answers they were drawn from as dots with error bars.

Both are counted in the same cells. Geometry is computed here, in thousandths of the picture's width; the template
places it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.model_summary import Histogram
from threea.report.words import LONG, number, percent, shown
from threea.table import dates
from threea.table.cells import Bins, Categories, Cells
from threea.table.schema import OTHER, Column, Kind

TOP = 12
"""How many categories are shown; the others are added up."""
_BARS = 40
_BINS = 32
_WIDTH, _HEIGHT = 1000.0, 100.0
_LETTER = 0.026
"""Width of a tick's letter, as a share of the narrowest picture."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What is known of one or several cells together: the share of synthetic rows, and the noisy count if any."""

    label: str
    share: float
    count: float | None
    error: float
    """Two standard deviations of the noise."""
    apart: bool = False
    """Whether the label is the page's own word (missing, other, rest) and not a value."""

    @property
    def title(self) -> str:
        """Everything, for a tooltip."""
        answer = "" if self.count is None else f"; noisy count {self.noisy}"
        return f"{shown(self.label, LONG)}: {percent(self.share)} of the synthetic rows{answer}"

    @property
    def noisy(self) -> str:
        """The noisy count with its error."""
        return "" if self.count is None else f"{number(round(self.count))} ± {number(math.ceil(self.error))}"

    @property
    def text(self) -> str:
        """The share of synthetic rows."""
        return percent(self.share)

    def __add__(self, other: Tally) -> Tally:
        """Add disjoint cells up; their noise is independent."""
        count = None if self.count is None or other.count is None else self.count + other.count
        return Tally(self.label, self.share + other.share, count, math.hypot(self.error, other.error), self.apart)


@dataclass(frozen=True, slots=True)
class Row:
    """A horizontal bar."""

    tally: Tally
    bar: str
    error: str
    dot: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Vertical bars over an axis; a bar's area is its share."""

    bars: str
    errors: str
    dots: str
    touch: tuple[tuple[str, str, str], ...]
    """Left end, width and tooltip of each bar's strip."""
    ticks: tuple[tuple[str, str, str], ...]
    """Position in percent, alignment and text."""
    peak: str


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """A column, ready to be placed on the page."""

    name: str
    caption: str
    chart: Chart | None
    rows: tuple[Row, ...]
    answered: bool
    """Whether the release holds noisy counts of this column."""
    summary: str
    """The picture in words, for those who cannot see it."""
    note: str = ""
    """Why it holds none, if another reason than that they are of several columns."""


def column_chart(
    column: Column, values: NDArray[Any], histogram: Histogram | None, *, scale: float | None = None, note: str = ""
) -> ColumnChart:
    """Draw a column.

    Args:
        column: Its public description.
        values: The synthetic values, encoded.
        histogram: The noisy answers, if the model has them.
        scale: The share at which a horizontal bar fills the width; by default the largest one's.
        note: Why there are no noisy answers, if another reason than that they are of several columns.
    """
    cells = histogram.cells if histogram else column.cells(_BINS)
    tallies = _tallies(column, cells, values, histogram)
    # Noisy counts become shares as they do when rows are drawn: those below zero count as none.
    whole = max(math.fsum(max(tally.count or 0.0, 0.0) for tally in tallies), 1.0)
    chart, bars = None, list[Tally]()
    if isinstance(cells, Categories):
        rows = _top(column, tallies)
    else:
        first, last = len(cells.special), len(cells.special) + len(cells.edges) - 1
        edges, bars = _merged(column, cells, tallies[first:last])
        chart = _chart(column, cells, edges, bars, whole)
        rows, scale = [*tallies[:first], *tallies[last:]], 1.0
    return ColumnChart(
        name=column.name,
        caption=caption(column),
        chart=chart,
        rows=_rows(rows, whole, scale),
        answered=histogram is not None,
        note=note,
        summary=_summary(column, [*bars, *rows]),
    )


def caption(column: Column) -> str:
    """Return a column's public description in a line."""
    parts = [str(column.kind)]
    if column.kind.numeric:
        assert column.lower is not None
        assert column.upper is not None
        parts.append(f"{value_text(column, column.lower)} to {value_text(column, column.upper)}")
    elif column.kind is not Kind.BOOLEAN:
        parts.append(f"{len(column.categories):,} categories" + (" and others" if column.open_ended else ""))
    if column.nullable:
        parts.append("may be missing")
    return " · ".join(parts)


def _tallies(column: Column, cells: Cells, values: NDArray[Any], histogram: Histogram | None) -> list[Tally]:
    index = cells.index(values)
    shares = np.bincount(index[index >= 0], minlength=cells.size) / max(len(values), 1)
    counts = [None] * cells.size if histogram is None else [float(count) for count in histogram.counts]
    error = 0.0 if histogram is None else 2 * float(histogram.stddev)
    return [
        Tally(label, float(share), count, error, apart)
        for (label, apart), share, count in zip(labels(column, cells), shares, counts, strict=True)
    ]


def labels(column: Column, cells: Cells) -> Iterator[tuple[str, bool]]:
    """Yield the name of each cell, and whether it is the page's own word; bins have none until they are merged."""
    if isinstance(cells, Categories):
        yield from ((category, False) for category in column.categories[: cells.count])
        yield from ((OTHER, True) for _ in range(cells.count - len(column.categories)))
    else:
        yield from ((value_text(column, special), False) for special in cells.special)
        yield from (("", False) for _ in cells.edges[1:])
    if cells.missing:
        yield "missing", True


def value_text(column: Column, value: float) -> str:
    """Return a number or a moment as text."""
    if not column.kind.temporal:
        return number(value)
    try:
        return dates.to_text(value, column.kind)[:16].replace("T", " ").removesuffix(" 00:00")
    except OverflowError:
        # The bin after the last day that the calendar knows has no name.
        return "the end of time"


def between(column: Column, low: float, high: float) -> str:
    """Return the name of a bin."""
    if column.kind is Kind.DATETIME or not column.whole:
        return f"{value_text(column, low)} to {value_text(column, high)}"
    return (
        value_text(column, low) if high - low <= 1 else f"{value_text(column, low)} to {value_text(column, high - 1)}"
    )


def _top(column: Column, tallies: Sequence[Tally]) -> list[Tally]:
    """Keep the most frequent categories, the others added up; the page's own words come last."""
    named = [tally for tally in tallies if not tally.apart]
    ranked = sorted(named, key=lambda tally: -tally.share)
    kept = ranked[: TOP + 1] if len(ranked) == TOP + 1 else ranked[:TOP]
    rest = ranked[len(kept) :]
    if column.kind is not Kind.CATEGORICAL:
        kept = [tally for tally in named if any(tally is other for other in kept)]
    if rest:
        kept.append(replace(sum(rest[1:], rest[0]), label=f"{len(rest):,} more", apart=True))
    return kept + [tally for tally in tallies if tally.apart]


def _ceiling(bars: Sequence[float], dots: Sequence[float]) -> float:
    """Return the top of a scale: room for all bars, and for dots unless noise throws them far beyond."""
    highest = max(bars, default=0.0)
    return max(highest, min(max(dots, default=0.0), 2 * highest or math.inf)) or 1.0


def _rows(tallies: Sequence[Tally], whole: float, scale: float | None) -> tuple[Row, ...]:
    counts = [tally.count / whole for tally in tallies if tally.count is not None]
    full = scale or _ceiling([tally.share for tally in tallies], counts)

    def along(count: float) -> str:
        return coordinate(min(max(count / whole / full, 0.0), 1.0) * _WIDTH)

    def row(tally: Tally) -> Row:
        bar = coordinate(min(tally.share / full, 1.0) * _WIDTH)
        if tally.count is None:
            return Row(tally, bar, "", "")
        low, high = along(tally.count - tally.error), along(tally.count + tally.error)
        beyond = tally.count / whole > full
        return Row(tally, bar, f"M{low} 10H{high}", "" if beyond else f"M{along(tally.count)} 10h.01")

    return tuple(row(tally) for tally in tallies)


def _merged(column: Column, cells: Bins, tallies: Sequence[Tally]) -> tuple[list[float], list[Tally]]:
    """Add neighbouring bins up until there are few enough to see; return their edges, and the sums."""
    step = math.ceil(len(tallies) / _BARS)
    edges = [*cells.edges[:-1:step], cells.edges[-1]]
    parts = (tallies[start : start + step] for start in range(0, len(tallies), step))
    bars = [
        replace(sum(part[1:], part[0]), label=between(column, low, high))
        for (low, high), part in zip(pairwise(edges), parts, strict=True)
    ]
    return edges, bars


def _chart(column: Column, cells: Bins, edges: Sequence[float], merged: Sequence[Tally], whole: float) -> Chart:
    place = _axis(edges, log=cells.log)
    spots = [place(edge) * _WIDTH for edge in edges]
    widths = [max(right - left, 1e-9) for left, right in pairwise(spots)]
    heights = [tally.share / width for tally, width in zip(merged, widths, strict=True)]
    counts = [(tally.count or 0.0) / whole / width for tally, width in zip(merged, widths, strict=True)]
    full = _ceiling(heights, counts)

    def up(height: float) -> str:
        return coordinate(_HEIGHT * (1 - min(max(height / full, 0.0), 1.0)))

    bars, errors, dots, touch = [], [], [], []
    for left, width, height, count, tally in zip(spots[:-1], widths, heights, counts, merged, strict=True):
        gap = min(1.5, width * 0.1)
        if height:
            start, end = coordinate(left + gap), coordinate(left + width - gap)
            bars.append(f"M{start} 100V{up(height)}H{end}V100z")
        if tally.count is not None:
            middle, spread = coordinate(left + width / 2), tally.error / whole / width
            errors.append(f"M{middle} {up(count - spread)}V{up(count + spread)}")
            if count <= full:
                dots.append(f"M{middle} {up(count)}h.01")
        touch.append((coordinate(left), coordinate(width), tally.title))
    even = max(widths) < 1.2 * min(widths)
    tallest = max((tally.share for tally in merged), default=0.0)
    return Chart(
        bars="".join(bars),
        errors="".join(errors),
        dots="".join(dots),
        touch=tuple(touch),
        ticks=tuple(_ticks(column, edges, place)),
        peak=f"peak {percent(tallest)}" if even and tallest else "",
    )


def _axis(edges: Sequence[float], *, log: bool) -> Callable[[float], float]:
    """Return where on an axis from 0 to 1 a value lies: linear, or logarithmic where bins would be too thin to see."""
    smallest = min(high - low for low, high in pairwise(edges))

    def scaled(bend: Callable[[float], float]) -> Callable[[float], float]:
        # Halves, for the whole span of the floats does not fit in one.
        start, span = bend(edges[0]) / 2, bend(edges[-1]) / 2 - bend(edges[0]) / 2
        return lambda value: (bend(value) / 2 - start) / span if span else 0.0

    def thinnest(axis: Callable[[float], float]) -> float:
        return min(axis(high) - axis(low) for low, high in pairwise(edges))

    linear, bent = scaled(lambda value: value), scaled(math.log if log else lambda value: math.asinh(value / smallest))
    # Far from zero both are straight, and a logarithm cannot tell neighbours apart.
    thin = thinnest(linear) < min(0.008, thinnest(bent))
    return bent if thin or (log and thinnest(bent) > 0) else linear


def _ticks(column: Column, edges: Sequence[float], place: Callable[[float], float]) -> Iterator[tuple[str, str, str]]:
    unit_bins = column.whole and all(high - low <= 1 for low, high in pairwise(edges))
    taken = -1.0
    for value in _round_values(column, edges[0], edges[-1], place):
        if value > edges[-1] - unit_bins:
            break
        # A bar that holds a single number stands over its middle.
        position = place(value + 0.5) if unit_bins else place(value)
        align = "start" if position < 0.08 else "end" if position > 0.92 else "middle"
        text = value_text(column, value)[:10] if column.kind.temporal else value_text(column, value)
        width = len(text) * _LETTER
        left = position - {"start": 0.0, "middle": width / 2, "end": width}[align]
        if left > taken:
            taken = left + width + _LETTER
            yield f"{100 * position:.1f}", align, text


def _round_values(column: Column, low: float, high: float, place: Callable[[float], float]) -> list[float]:
    """Return round numbers from low to high, in order, more than will fit."""
    if column.kind.temporal:
        return [low, low + (high - low) / 2, high]
    if abs(place(low / 2 + high / 2) - 0.5) > 0.1:
        for digits in ((1,), (1, 2, 5)):
            sizes = [digit * 10.0**power for power in range(0 if column.whole else -12, 40) for digit in digits]
            inside = sorted(value for value in (0.0, *sizes, *(-size for size in sizes)) if low <= value <= high)
            if len(inside) > 2:
                return inside
    span = high / 4.7 - low / 4.7
    if span <= 0:
        return [low]
    step = float(math.ceil(round_step(span))) if column.whole else round_step(span)
    first = math.ceil(low / step - 1e-9)
    values = ((first + count) * step for count in range(12))
    # A round number a hair below the lower end is that end: 0 has no place on a log scale.
    return [max(value, low) for value in values if value <= high + step * 1e-9]


def round_step(span: float) -> float:
    """Return the least round number that is no smaller: 1, 2, 2.5 or 5 times a power of ten.

    Example:
        >>> round_step(0.3), round_step(17.0), round_step(20.0)
        (0.5, 20.0, 20.0)
    """
    power = max(10.0 ** math.floor(math.log10(span)), math.ulp(0.0))
    return next(power * digit for digit in (1, 2, 2.5, 5, 10) if power * digit >= span * 0.999)


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values on an axis, in order, that cut it into at most so many parts.

    Example:
        >>> round_ticks(0.83, 0.96, 5)
        [0.85, 0.9, 0.95]
    """
    step = round_step((high - low) / most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(count * step, 12) for count in range(first, last + 1)]


def _summary(column: Column, tallies: Sequence[Tally]) -> str:
    most = max(tallies, key=lambda tally: tally.share, default=None)
    start = f"Synthetic values of {shown(column.name)}"
    return start if most is None else f"{start}; most frequent is {shown(most.label)} with {most.text}"


def coordinate(value: float) -> str:
    """Return a place in a picture, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
