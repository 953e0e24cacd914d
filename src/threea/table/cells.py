"""Cells: a public way to sort a column's values into finitely many boxes, and to draw a value from a box.

A column's cells are, in order: its special values, its bins (or categories), "other" if it is open-ended, and one for
missing. They are made from the schema or from noisy answers, never from rows. Every value has one of them, so that the
counts of all cells add up to the number of rows: where no value may be missing, one that is counts as "other", as the
first category, or in the middle bin.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError
from threea.table.calendar_cells import CalendarCells

Values = NDArray[np.float64] | NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """Cells of a column with listed values; encoded values are codes, -1 for missing.

    Example:
        >>> Categories(column="sex", count=2, missing=True).index(np.array([0, 1, -1, 7]))
        array([0, 1, 2, 2])
        >>> Categories(column="sex", count=2, missing=False).index(np.array([0, 1, -1, 7]))
        array([0, 1, 0, 0])
    """

    column: str
    count: int
    """Number of codes, "other" included."""
    missing: bool
    other: bool = False
    """Whether the last code stands for values that are not listed."""

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.count + self.missing

    @property
    def unlisted(self) -> tuple[int, ...]:
        """The cells of what the schema does not list: of other values, and of missing ones."""
        return tuple(range(self.count - self.other, self.size))

    def index(self, values: Values) -> NDArray[np.int64]:
        """Return each value's cell."""
        known = (values >= 0) & (values < self.count)
        unlisted = self.count if self.missing else self.count - 1 if self.other else 0
        return np.where(known, values, unlisted).astype(np.int64)

    def draw(self, cells: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a value from each cell."""
        return np.where(cells < self.count, cells, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Cells of a numeric column; encoded values are floats, NaN for missing.

    Example:
        >>> bins = Bins(column="cost", edges=(1.0, 10.0, 100.0), special=(0.0,), missing=True)
        >>> bins.index(np.array([0.0, 5.0, 10.0, 1e9, np.nan]))
        array([0, 1, 2, 2, 3])
    """

    column: str
    edges: tuple[float, ...]
    """Increasing; bin i is from edge i up to, not including, edge i + 1. Values beyond the ends are in the end bins."""
    special: tuple[float, ...] = ()
    missing: bool
    whole: bool = False
    """Whether values are whole numbers; the edges then are too."""
    log: bool = False
    """Whether values within a bin spread evenly on a log scale."""
    step: float = 0.0
    """Values are multiples of it; 0 for any number, or any whole one."""

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.special) + len(self.edges) - 1 + self.missing

    @property
    def unlisted(self) -> tuple[int, ...]:
        """The cell of missing values, if there is one."""
        return tuple(range(self.size - self.missing, self.size))

    @property
    def single(self) -> bool:
        """Whether no bin holds more than one value."""
        edges = np.asarray(self.edges)
        grained = self.whole or self.step > 0
        return grained and bool((self.room(edges[:-1], edges[1:]) <= 1).all())

    def index(self, values: Values) -> NDArray[np.int64]:
        """Return each value's cell."""
        inner = np.asarray(self.edges[1:-1])
        cells = np.searchsorted(inner, values, side="right").astype(np.int64) + len(self.special)
        for position, special in enumerate(self.special):
            cells[values == special] = position
        middle = len(self.special) + (len(self.edges) - 1) // 2
        cells[np.isnan(values)] = self.size - 1 if self.missing else middle
        return cells

    def draw(self, cells: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return a value from each cell, spread evenly over its bin."""
        count = len(self.special)
        bins = np.clip(cells - count, 0, len(self.edges) - 2)
        lower, upper = np.asarray(self.edges[:-1])[bins], np.asarray(self.edges[1:])[bins]
        values = self.spread(lower, upper, rng.random(len(cells)))
        if self.special:
            values = np.where(cells < count, np.asarray(self.special)[np.minimum(cells, count - 1)], values)
        if self.missing:
            values[cells == self.size - 1] = np.nan
        return values

    def spread(
        self, lower: NDArray[np.float64], upper: NDArray[np.float64], uniform: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return where in a bin a share of it ends, passing over special values: they have cells of their own."""
        values: NDArray[np.float64]
        if self.step:
            return self._multiples(lower, upper, uniform)
        if self.whole:
            values = lower + np.floor(uniform * np.maximum(self.room(lower, upper), 1.0))
            for special in sorted(self.special):
                values += (lower <= special) & (special <= values)
            # Beyond 2**53, where one less is the same float, the largest below the upper edge.
            return np.clip(values, lower, np.minimum(upper - 1, np.nextafter(upper, lower)))
        if self.log:
            values = np.exp(np.log(lower) + uniform * (np.log(upper) - np.log(lower)))
        else:
            values = lower + (upper - lower) * uniform
        # Rounding may reach the upper edge, which belongs to the next bin.
        return np.clip(values, lower, np.nextafter(upper, lower))

    def room(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much there is from lower up to upper, as values spread in a bin; special values not counted."""
        if self.step or self.whole:
            step = self.step or 1.0
            first, end = (steps_below(edge, step) for edge in (lower, upper)) if self.step else (lower, upper)
            special = [steps_below(np.float64(value), step) for value in self.special if on_grid(value, step)]
            inside = [(first <= place) & (place < end) for place in special]
            return np.asarray(np.maximum(end - first - np.sum(inside, axis=0, initial=0), 0.0))
        return np.asarray(np.log(upper) - np.log(lower) if self.log else upper - lower)

    def _multiples(
        self, lower: NDArray[np.float64], upper: NDArray[np.float64], uniform: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        room, first = self.room(lower, upper), steps_below(lower, self.step)
        places = first + np.minimum(np.floor(uniform * room), np.maximum(room - 1, 0.0))
        for special in sorted(self.special):
            place = steps_below(np.float64(special), self.step)
            places += on_grid(special, self.step) & (first <= place) & (place <= places)
        # A bin too narrow for a multiple, or with special ones alone, still has a value.
        return np.where(room > 0, multiple(places, self.step), lower + (upper - lower) * uniform * (1 - 1e-9))


def steps_below(value: NDArray[np.float64] | np.float64, step: float) -> NDArray[np.float64]:
    """Return how many steps from 0 the first multiple is that is not below a value, but for rounding."""
    places = np.asarray(value) / step
    nearest = np.round(places)
    # Without a bound there are infinitely many, whose difference is no number.
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.abs(places - nearest) <= _rounding(places), nearest, np.ceil(places)))


def on_grid(value: float, step: float) -> bool:
    """Return whether a value is a multiple of a step, but for rounding.

    Example:
        >>> on_grid(0.7, 0.1), on_grid(0.7, 1e6), on_grid(0.0, 1e6)
        (True, False, True)
    """
    return bool(abs(value / step - round(value / step)) <= _rounding(np.asarray(value / step)))


def _rounding(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much numbers of steps may be off: a small part of a large step is no rounding."""
    return np.asarray(1e-6 * np.minimum(np.abs(places), 1.0))


def multiple(places: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return so many steps, as the floats that are written with as few digits: 3 steps of 0.1 are 0.3.

    Example:
        >>> multiple(np.array([3.0, 7.0]), 0.1), multiple(np.array([2.0]), 2500.0)
        (array([0.3, 0.7]), array([5000.]))
    """
    digits = max(-int(decimal.Decimal(repr(step)).normalize().as_tuple().exponent), 0)
    # A quotient of whole numbers is the nearest float to it; a product with 0.1 is not.
    return np.asarray(np.round(places * step * 10.0**digits) / 10.0**digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """Cells of a numeric column by how many digits its numbers have: the coarsest power of ten each is a multiple of.

    The last cell is for numbers that are multiples of none. Values cannot be drawn from these cells.

    Example:
        >>> cells = Digits(column="price")
        >>> [Digits.STEPS[cell] for cell in cells.index(np.array([12.5, 40.0, 0.01]))]
        [0.1, 10.0, 0.01]
    """

    column: str
    STEPS: ClassVar[tuple[float, ...]] = tuple(float(f"1e{power}") for power in range(6, -7, -1))
    """From coarse to fine."""

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.STEPS) + 1

    def index(self, values: Values) -> NDArray[np.int64]:
        """Return each value's cell, -1 where it has none."""
        cells = np.full(len(values), len(self.STEPS), np.int64)
        # What was stored with fewer bits has the digits that it was written with.
        with np.errstate(invalid="ignore", over="ignore"):
            single = np.asarray(values, np.float32)
            short = single == values
            for position in range(len(self.STEPS) - 1, -1, -1):
                near = multiple(np.round(values / self.STEPS[position]), self.STEPS[position])
                cells[(near == values) | (short & (near.astype(np.float32) == single))] = position
        cells[np.isnan(values)] = -1
        return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Cells of a column put together into fewer.

    Example:
        >>> sex = Categories(column="sex", count=2, missing=True)
        >>> Merged(cells=sex, groups=(0, 1, 1)).index(np.array([0, 1, -1]))
        array([0, 1, 1])
    """

    cells: Categories | Bins
    groups: tuple[int, ...]
    """For each of the cells, which of the fewer it goes to; every number from 0 up to the largest occurs."""

    def __post_init__(self) -> None:
        numbers = set(self.groups)
        # Never a list up to the largest, which may be any number in a file that somebody made.
        if len(self.groups) != self.cells.size or not numbers or numbers != set(range(len(numbers))):
            raise SettingError("each cell needs a group, and groups are numbered from 0 without gaps")

    @property
    def column(self) -> str:
        """The column's name."""
        return self.cells.column

    @property
    def size(self) -> int:
        """Number of cells."""
        return max(self.groups) + 1

    def merge(self, index: NDArray[Any]) -> NDArray[np.int64]:
        """Return the merged cell for each cell, -1 for none."""
        merged: NDArray[np.int64] = np.append(np.asarray(self.groups, np.int64), -1)[index]
        return merged

    def index(self, values: Values) -> NDArray[np.int64]:
        """Return each value's cell."""
        return self.merge(self.cells.index(values))


Cells = Categories | Bins
"""Cells that values can be drawn from."""

AnyCells = Cells | Merged | Digits | CalendarCells
"""Cells that rows can be counted in."""


def edges_between(
    lower: float, upper: float, count: int, *, log: bool, whole: bool, step: float = 0.0
) -> tuple[float, ...]:
    """Return the edges of `count` bins of equal width, or equal ratio, from lower to upper.

    Bins of whole numbers have whole edges, end after `upper`, and hold at least one number each; so there may be fewer.
    The same holds for multiples of a step; edges then lie half a step below them, unless they must be whole. There is
    always at least one bin.

    Example:
        >>> edges_between(0, 3, 10, log=False, whole=True)
        (0.0, 1.0, 2.0, 3.0, 4.0)
        >>> edges_between(1, 100, 2, log=True, whole=False)
        (1.0, 10.0, 100.0)
        >>> edges_between(0, 1.5, 10, log=False, whole=False, step=0.5)
        (-0.25, 0.25, 0.75, 1.25, 1.75)
    """
    if step:
        first = float(steps_below(np.float64(lower), step))
        last = max(-float(steps_below(np.float64(-upper), step)), first)
        places = _spaced(max(first, 1.0) if log else first, last + 1, count, log=log, whole=True)
        places[0] = first
        edges = multiple(places, step) if whole else (places - 0.5) * step
        return tuple(float(edge) for edge in edges)
    # Beyond 2**53 one more is the same float.
    end = max(upper + 1, math.nextafter(upper, math.inf)) if whole else upper
    return tuple(float(edge) for edge in _spaced(lower, end, count, log=log, whole=whole))


def _spaced(lower: float, end: float, count: int, *, log: bool, whole: bool) -> NDArray[np.float64]:
    """Return increasing edges from one to the other, evenly spaced or in even ratios."""
    spaced = np.geomspace if log else np.linspace
    edges = spaced(lower, end, int(min(count, end - lower) if whole else count) + 1)
    edges[0], edges[-1] = lower, end
    # Rounding may pass the ends, and leave some bins empty where floats are too near one another.
    return np.asarray(np.unique(np.clip(np.round(edges) if whole else edges, lower, end)))
