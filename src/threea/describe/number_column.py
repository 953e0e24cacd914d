"""A column of numbers or moments, found in two looks: where its values are, and then what they are like there.

The first look has a public grid of magnitudes, and counts how many digits values have. The second divides what held
rows into finer cells, most where most rows are: it fits the bounds, tells single values that very many rows hold, such
as a code 999, and where to cut bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import Answer
from threea.table import dates
from threea.table.cells import Bins, Digits, multiple, on_grid, steps_below
from threea.table.schema import Column

Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]

BINS = 32
"""Bins that a column is cut into, unless its values are few. Chosen."""
_FINE = 512
"""Cells of the second look. Chosen."""
_SINGLE = 1024
"""Values are counted one by one in the second look if they are no more. Chosen."""
_SURELY, _SMALLEST, _LARGEST = 1.3, 2.0**-13, 2.0**40
"""Numbers closer to 0, or farther from it, are taken for noise unless they stand out by so many times more. Chosen."""
_LIKELY, _NEAREST, _FARTHEST = 3.0, 2.0**-7, 2.0**17
"""Where nothing stands out for sure, what exceeds its noise by most is taken to hold rows, if by so much, among numbers
as most columns have. Chosen: a column lies somewhere, and one that is not found is lost."""
_EVEN = 0.3
"""Share of the second look's cells that is spread evenly over what held rows in the first. Chosen."""
_STANDS_OUT, _MOST_HIDDEN = 3.0, 0.02
"""What is counted below so many standard deviations is taken for none, if these are no more than this share of rows."""
_MOST_FINER = 0.05
"""The same of numbers that are no multiples of a step: they would be rounded."""
_PADDING = 0.4
"""Bounds are wider than where rows stand out by this share, as far as the first look allows: tails are thin. Chosen."""
_MISSED, _MOST_MISSED = 2.0, 0.1
"""They are as wide as the first look's bins if more rows were there, by so many standard deviations and such a share of
all. Chosen."""
_LEFT_OUT = 0.001
"""Bounds are widened for rows that the first look left out if they are more than this share. Chosen."""
_MOST_SINGLE = 256
"""Values may have a bin each if they are no more. Chosen."""
_SPIKE, _SPIKE_SHARE, _MOST_SPIKES = 5.0, 0.02, 20
"""A value is special if it exceeds those around it by so many standard deviations, and holds such a share of rows."""
_BY_CHANCE = 1e-3
"""Such values tell a step if all would be multiples of it by chance this seldom, and nearly no other number is none."""
_ROUND = 0.5
"""And if so many rows as this share of its own have just as many digits."""


def magnitudes(column: Column) -> Bins:
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


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What the first look tells of a column.

    Args:
        column: As its type describes it.
        cells: The cells that it was counted in.
        counts: Noisy counts of them.
        stddev: Of the noise.
        digits: Noisy counts of its numbers by their digits; none of moments.
    """

    column: Column
    cells: Bins
    counts: Floats
    stddev: float
    digits: Floats | None
    grid: float = 0.0
    """A step that its numbers were found to be multiples of since."""

    @classmethod
    def of(cls, column: Column, cells: Bins, answer: Answer, digit_counts: Answer | None) -> FirstLook:
        """Read the answers."""
        return cls(column, cells, answer.value, answer.stddev, digit_counts.value if digit_counts else None)

    @property
    def rows(self) -> float:
        """About how many there are."""
        return max(float(self.counts.sum()), 1.0)

    @property
    def occupied(self) -> Truth:
        """Which bins hold rows; very large and very small numbers are so rare that they must stand out by more."""
        first, edges = len(self.cells.special), np.abs(self.cells.edges)
        counts = self.counts[first : first + len(edges) - 1]
        held, surely = (occupied(counts, sure * self.stddev, widest=16) for sure in (1.0, _SURELY))
        usual = (np.maximum(edges[1:], edges[:-1]) > _SMALLEST) & (np.minimum(edges[1:], edges[:-1]) < _LARGEST)
        seen = surely | held & (usual | self.column.kind.temporal)
        if seen.any():
            return seen
        near = (np.maximum(edges[1:], edges[:-1]) > _NEAREST) & (np.minimum(edges[1:], edges[:-1]) < _FARTHEST)
        return likeliest(np.where(near, counts, 0.0), self.stddev, widest=16)

    @property
    def zeros(self) -> bool:
        """Whether 0 holds rows; moments have no cell for it."""
        return bool(self.cells.special) and float(self.counts[0]) > visible(self.stddev, len(self.cells.edges) - 1)

    @property
    def nullable(self) -> bool:
        """Whether values may be missing: not if noise alone explains the missing ones, and cannot hide many."""
        seen = _STANDS_OUT * self.stddev
        return self.cells.missing and (float(self.counts[-1]) >= seen or seen > _MOST_HIDDEN * self.rows)

    @property
    def step(self) -> float:
        """The coarsest power of ten that all numbers are multiples of, 1 or more if whole; 0 if none stands out."""
        if self.digits is None or self.grid:
            return self.grid
        # From the finest on: how many rows have so many digits or more.
        finer = np.cumsum(self.digits[:0:-1])[::-1]
        seen = _STANDS_OUT * self.stddev * np.sqrt(np.arange(len(finer), 0, -1))
        known = float(self.digits.sum())
        hidden = (finer < seen) & (seen <= _MOST_FINER * known)
        steps = [step for step, none in zip(Digits.STEPS, hidden, strict=True) if none]
        coarsest = max(steps, default=0.0)
        return 0.0 if self.column.whole and coarsest <= 1 else coarsest

    def as_round(self, value: float) -> float:
        """Return how many rows hold numbers with just as many digits as a value has."""
        if self.digits is None:
            return 0.0
        return float(self.digits[int(Digits(column=self.column.name).index(np.array([value]))[0])])

    @property
    def cells_within(self) -> Bins:
        """The second look's cells: those that held rows divided, most where most rows are."""
        kept = np.flatnonzero(self.occupied)
        first, edges = len(self.cells.special), np.array(self.cells.edges)
        if not len(kept):
            return replace(self.cells, edges=(edges[0], edges[-1]))
        start, stop = int(kept[0]), int(kept[-1]) + 1
        step = self.step or float(self.column.whole)
        low, high = edges[start], edges[stop]
        if step and (high - low) / step <= _SINGLE:
            cuts = np.arange(math.floor(low / step), math.ceil(high / step) + 1.0)
        else:
            mass = np.where(self.occupied, np.maximum(self.counts[first : first + len(edges) - 1], 0.0), 0.0)[
                start:stop
            ]
            share = (1 - _EVEN) * mass / max(mass.sum(), 1e-300) + _EVEN / len(mass)
            parts = np.maximum(np.round(_FINE * share), 1).astype(int)
            pieces = [
                np.linspace(a, b, n, endpoint=False)
                for a, b, n in zip(edges[start:stop], edges[start + 1 : stop + 1], parts, strict=True)
            ]
            cuts = np.append(np.concatenate(pieces), high) / (step or 1.0)
        within = grid_edges(cuts, step, whole=self.column.whole)
        # What the first look did not see has a cell at each end.
        ends = (float(np.nextafter(within[0], -np.inf)), float(np.nextafter(within[-1], np.inf)))
        if self.column.whole:
            ends = (within[0] - (step or 1.0), within[-1] + (step or 1.0))
        return replace(self.cells, edges=(ends[0], *within, ends[1]), step=self.step)

    def beyond(self, low: float, high: float, below: float, above: float, stddev: float) -> tuple[float, ...]:
        """Return edges of public cells beyond the second look, where rows were left out.

        Away from 0 they reach twice as far; towards 0 there is one more.

        Args:
            low: Where the second look began.
            high: Where it ended.
            below: Noisy number of rows left out below.
            above: Noisy number of rows left out above.
            stddev: Of the noise.
        """
        seen = max(_STANDS_OUT * stddev, _LEFT_OUT * self.rows)
        edges = np.array(self.cells.edges)
        # Edges are half an octave apart.
        least = (2 * low if low < 0 else 0.7 * low) if below > seen else low
        most = (2 * high if high > 0 else 0.7 * high) if above > seen else high
        return tuple(edges[((edges >= least) & (edges < low)) | ((edges > high) & (edges <= most))].tolist())


def grid_edges(cuts: Floats, step: float, *, whole: bool) -> tuple[float, ...]:
    """Return increasing edges near cuts, which are in steps: at multiples if whole, half a step below if not."""
    if step:
        places = np.unique(np.round(cuts))
        cuts = multiple(places, step) if whole else (places - 0.5) * step
    found = tuple(float(cut) for cut in np.unique(cuts))
    return found if len(found) > 1 else (found[0], found[0] + (step or 1.0))


def described(look: FirstLook, cells: Bins, answer: Answer) -> Column:
    """Return a column as both looks tell it: bounds, special values, step, and bins of about equally many rows."""
    column = replace(look.column, nullable=look.nullable)
    if not look.occupied.any():
        found = replace(column, lower=0.0, upper=1.0) if not column.kind.temporal else column
        return replace(found, special=())
    inside = answer.value[len(cells.special) : len(cells.special) + len(cells.edges) - 1]
    below, counts, above = float(inside[0]), inside[1:-1], float(inside[-1])
    cells = replace(cells, edges=cells.edges[1:-1])
    edges = np.array(cells.edges)
    spikes = _spikes(look, cells, counts, answer.stddev)
    look = replace(look, grid=max(look.step, _grid(look, cells, counts, answer.stddev, list(spikes))))
    spiky = np.isin(np.arange(len(counts)), list(spikes.values()))
    rest = np.where(spiky, 0.0, counts)
    start, stop = _stretch(look, cells, counts, spiky, answer.stddev)
    step, whole = look.step or float(column.whole), column.whole
    outside = look.beyond(edges[start], edges[stop], below, above, answer.stddev)
    low, high = min(edges[start], *outside, math.inf), max(edges[stop], *outside, -math.inf)
    if look.zeros and step and max(high, step) - min(low, 0.0) <= 2 * BINS * step:
        low, high = min(low, 0.0), max(high, step)
    affordable = min(look.rows / (2 * max(answer.stddev, 1e-9)), _MOST_SINGLE)
    single = step > 0 and (high - low) / step <= max(2 * BINS, affordable)
    half = 0.5 if step and not whole else 0.0
    if single:
        cuts = np.arange(np.round(low / step + half), np.round(high / step + half) + 1)
    else:
        cuts = _quantiles(edges[start : stop + 1], np.maximum(rest[start:stop], 0.0))
        cuts = np.sort(np.append(cuts, outside)) / (step or 1.0) + half
    bins = grid_edges(cuts, step, whole=whole)
    # What lies among bins of one value each is one of them.
    special = {value for value in spikes if not single or not bins[0] <= value < bins[-1]}
    special |= {0.0} if look.zeros and not (single and bins[0] <= 0 < bins[-1]) else set()
    lower, upper = bins[0], bins[-1] - (step if whole else 0.0)
    if step and not whole:
        # Of a single number, one more: bounds of real numbers differ.
        last = max(bins[-1] / step - 0.5, bins[0] / step + 1.5)
        lower, upper = (float(end) for end in multiple(np.array([bins[0] / step + 0.5, last]), step))
    kept = look.step if look.step <= max(abs(lower), abs(upper)) <= 2**53 * look.step else 0.0
    lower, upper = (lower, upper) if kept or whole else (bins[0], bins[-1])
    return replace(column, lower=lower, upper=upper, edges=bins, special=tuple(sorted(special)), step=kept)


def _stretch(look: FirstLook, cells: Bins, counts: Floats, spiky: Truth, stddev: float) -> tuple[int, int]:
    """Return which cells the bounds hold: those from the first to the last that stands out, and a few more."""
    edges = np.array(cells.edges)
    rest = np.where(spiky, 0.0, counts)
    kept = np.flatnonzero(occupied(rest, stddev) | _only_together(look, cells, rest, stddev))
    if not len(kept):
        return 0, len(counts)
    low, high = edges[kept[0]], edges[kept[-1] + 1]
    room = _PADDING * (high - low)
    start = min(int(np.searchsorted(edges, low - room, side="left")), int(kept[0]))
    stop = max(int(np.searchsorted(edges, high + room, side="right")) - 1, int(kept[-1]) + 1)
    inside = spiky.copy()
    inside[start:stop] = True
    missed = np.flatnonzero(_half_explained(look, cells, np.where(inside, counts, 0.0), inside, stddev))
    return min(start, *missed, len(counts)), max(stop, *(missed + 1), 0)


def _spikes(look: FirstLook, cells: Bins, counts: Floats, stddev: float) -> dict[float, int]:
    """Return the numbers that hold many more rows each than those around them, and their cells."""
    if look.column.kind.temporal:
        return {}
    edges = np.array(cells.edges)
    around = np.maximum(np.append(counts[1:], 0.0), np.insert(counts[:-1], 0, 0.0))
    often = max(_SPIKE * stddev, _SPIKE_SHARE * look.rows)
    heavy = np.flatnonzero(counts - np.maximum(around, 0.0) > often)
    heavy = heavy[np.argsort(-counts[heavy], kind="stable")][:_MOST_SPIKES]
    found: dict[float, int] = {}
    for cell in heavy:
        likely = (v for v in by_roundness(edges[cell], edges[cell + 1]) if look.as_round(v) >= _ROUND * counts[cell])
        found |= {value: int(cell) for value in itertools.islice(likely, 1)}
    return found


def _grid(look: FirstLook, cells: Bins, counts: Floats, stddev: float, spikes: Sequence[float]) -> float:
    """Return the step that several heavy numbers are multiples of, and nearly all others too; 0 if there is none."""
    fitting = [step for step in Digits.STEPS if all(on_grid(spike, step) for spike in spikes)]
    if not fitting or fitting[0] <= float(look.column.whole):
        return 0.0
    edges = np.array(cells.edges)
    off = counts[steps_below(edges[:-1], fitting[0]) == steps_below(edges[1:], fitting[0])]
    chance = (1 - len(off) / len(counts)) ** len(spikes)
    few = off.sum() < _MOST_FINER * float(counts.sum()) + _STANDS_OUT * stddev * math.sqrt(len(off))
    return fitting[0] if chance < _BY_CHANCE and few else 0.0


def by_roundness(low: float, high: float) -> Iterator[float]:
    """Yield numbers from low up to, not including, high: those with the fewest digits first, one of each kind.

    Example:
        >>> list(by_roundness(-100.2, -98.9))[:3], next(by_roundness(1990, 1991))
        ([-100.0, -99.0, -100.2], 1990.0)
    """
    seen = set()
    for step in Digits.STEPS:
        value = float(multiple(np.asarray(steps_below(np.float64(low), step)), step))
        # The next one, where the first of this kind is one of a rounder kind.
        value = float(multiple(np.asarray(value / step + 1), step)) if value in seen else value
        if low <= value < high and value not in seen:
            seen.add(value)
            yield value


def _only_together(look: FirstLook, cells: Bins, counts: Floats, stddev: float) -> Truth:
    """Return the cells of those bins of the first look that held rows, though none of their parts stands out alone."""
    parent = _parents(look, cells)
    alone = np.zeros(len(look.cells.edges) - 1, np.bool_)
    alone[parent[occupied(counts, stddev)]] = True
    # A spike was taken out, and explains its bin.
    alone[parent[counts == 0]] = True
    return np.asarray((look.occupied & ~alone)[parent])


def _half_explained(look: FirstLook, cells: Bins, counts: Floats, inside: Truth, stddev: float) -> Truth:
    """Return the cells of those bins of the first look that held more rows than were counted in some of their parts.

    Args:
        look: The first one.
        cells: Of the second one.
        counts: Noisy counts of them.
        inside: Which of them to count.
        stddev: Of the noise.
    """
    parent, bins, first = _parents(look, cells), len(look.cells.edges) - 1, len(look.cells.special)
    explained, parts = (np.bincount(parent[inside], some[inside], bins) for some in (counts, np.ones(len(counts))))
    noise = np.sqrt(look.stddev**2 + parts * stddev**2)
    missed = look.counts[first : first + bins] - explained > np.maximum(_MISSED * noise, _MOST_MISSED * look.rows)
    return np.asarray((look.occupied & missed)[parent])


def _parents(look: FirstLook, cells: Bins) -> NDArray[np.int64]:
    """Return the bin of the first look that each cell is a part of."""
    edges, bins = np.array(cells.edges), np.array(look.cells.edges)
    return np.asarray(np.clip(np.searchsorted(bins, (edges[:-1] + edges[1:]) / 2, side="right") - 1, 0, len(bins) - 2))


def occupied(counts: Floats, stddev: float, widest: int = 256) -> Truth:
    """Tell which cells hold rows, alone or with up to so many neighbours: a thin tail shows only when added up."""
    held = np.zeros(len(counts), np.bool_)
    for width in 2 ** np.arange(widest.bit_length()):
        starts = np.arange(0, len(counts), width)
        rest = np.add.reduceat(np.where(held, 0.0, counts), starts) if len(counts) else np.zeros(0)
        held |= np.repeat(rest > math.sqrt(width) * visible(stddev, len(counts)), width)[: len(counts)]
    return held


def likeliest(counts: Floats, stddev: float, widest: int) -> Truth:
    """Tell which neighbours hold most beside their noise, where nothing stands out for sure: none if it is too little.

    Example:
        >>> likeliest(np.array([0.0, 3.0, 20.0, 18.0, -5.0, 2.0]), stddev=8.0, widest=4)
        array([False, False,  True,  True, False, False])
    """
    most, held = _LIKELY * stddev, np.zeros(len(counts), np.bool_)
    for width in 2 ** np.arange(widest.bit_length()):
        sums = np.add.reduceat(counts, np.arange(0, len(counts), width)) / math.sqrt(width)
        if sums.max() > most:
            most = float(sums.max())
            held = np.arange(len(counts)) // width == sums.argmax()
    return held


def visible(stddev: float, cells: int) -> float:
    """Return what the largest of so many noisy zeros, at every width, seldom exceeds."""
    return stddev * math.sqrt(2 * math.log(40 * max(cells, 1)))


def _quantiles(edges: Floats, mass: Floats) -> Floats:
    """Return the edges of bins of about equal mass, values spread evenly within each given bin."""
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    # A little of an even spread keeps bins apart where there is no mass.
    level = 0.8 * cumulative / max(cumulative[-1], 1e-300) + 0.2 * np.linspace(0, 1, len(edges))
    return np.interp(np.linspace(0, 1, BINS + 1), level, edges)
