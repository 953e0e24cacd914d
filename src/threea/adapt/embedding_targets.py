"""What a generator is fitted to: frequencies, and the cosines' and sines' means that noisy answers tell.

Histograms tell the means at frequencies along single coordinates, a mean embedding those at random ones. All of it is
made from the schema and from noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.adapt.generator_model import LabelShares
from threea.anonymize.cluster_sums import SCORE_BITS, Scores
from threea.anonymize.query import Answer
from threea.anonymize.vectors import BASIS_BITS, basis
from threea.approximate.denoise import proportions, shrunk
from threea.table.cells import Bins, Cells
from threea.table.row_vectors import RowVectors, VectorColumn
from threea.table.schema import Column

Floats = NDArray[np.float64]

_ALONG = 8
"""Frequencies along a number's own coordinate that its histogram tells. Chosen."""
_SLOW = 100
"""DCT coefficients that an image's smooth frequencies are made of. Chosen."""


@dataclass(frozen=True, slots=True)
class Waves:
    """Frequencies, and the means of cosines and sines there.

    Args:
        radians: For each coordinate a row, for each frequency a column.
        means: First of the cosines, then of the sines: for each class and frequency.
        weights: How much each frequency counts.
    """

    radians: Floats
    means: Floats
    weights: Floats

    def __add__(self, other: Waves) -> Waves:
        """Put the frequencies of both together."""
        return Waves(
            np.hstack([self.radians, other.radians]),
            np.concatenate([self.means, other.means], axis=2),
            np.concatenate([self.weights, other.weights]),
        )


def given_label(labels: LabelShares, answer: Answer) -> tuple[Floats, ...]:
    """Return each column's distribution over its cells in every class, as far as noisy counts tell more than noise."""
    shares = []
    for part in answer.parts:
        table = part.value.reshape(labels.classes, -1)
        overall = proportions(table.sum(axis=0))
        moved = shrunk(table, np.maximum(labels.sizes, 0.0)[:, None] * overall, answer.stddev)
        shares.append(np.array([proportions(row) for row in moved]))
    return tuple(shares)


def placed(
    features: tuple[Column, ...], cells: Sequence[Cells], shares: Sequence[Floats], labels: LabelShares
) -> tuple[VectorColumn, ...]:
    """Return how columns become vectors: numbers by their ranks in the noisy histograms, if there are any."""
    if not shares:
        return RowVectors.of(features).columns
    return tuple(
        VectorColumn.ranked(column, own, labels.ratio @ share) if isinstance(own, Bins) else VectorColumn.of(column)
        for column, own, share in zip(features, cells, shares, strict=True)
    )


def scores(cells: tuple[Cells, ...], columns: Sequence[VectorColumn]) -> Scores:
    """Return what a row's cells are looked up as: the vector of each cell, in whole numbers."""
    vectors = (cell_vectors(own, column) for own, column in zip(cells, columns, strict=True))
    return Scores(cells, tuple(np.rint(vector * 2.0**SCORE_BITS).astype(np.int64) for vector in vectors))


def cell_vectors(cells: Cells, column: VectorColumn) -> Floats:
    """Return the vector of each cell: of a bin, that of the value whose place is in the middle."""
    if not isinstance(cells, Bins):
        return column.encode(cells.draw(np.arange(cells.size), np.random.default_rng(0)))
    places = np.interp(cells.edges, column.knots, column.places)
    middles = np.interp((places[:-1] + places[1:]) / 2, column.places, column.knots)
    return column.encode(np.concatenate([cells.special, middles, [np.nan] * cells.missing]))


def random_radians(
    columns: Sequence[VectorColumn], grid: tuple[int, ...], count: int, length: float, rng: np.random.Generator
) -> Floats:
    """Draw the frequencies of a Gaussian kernel.

    Its length scale follows from public facts alone: rows that differ in all columns are about the square root of
    their number apart. Of an image, half of the frequencies are smooth: they see its slowest DCT coefficients only,
    where images differ most.

    Args:
        columns: What a row is made of.
        grid: How numbers lie: their number, or the height and width of an image.
        count: How many frequencies.
        length: The length scale, in units of that distance; half of the frequencies are of one twice as long.
        rng: Draws them.
    """
    width = sum(column.size for column in columns)
    drawn = rng.standard_normal((width, count))
    if len(grid) == 2 and width == math.prod(grid):
        slow = basis(grid, tuple(range(min(_SLOW, width)))) / 2.0**BASIS_BITS
        smooth = slow @ rng.standard_normal((slow.shape[1], count))
        drawn = np.where(np.arange(count) % 4 < 2, smooth, drawn)
    lengths = np.resize(np.array([length, 2 * length]), count) * math.sqrt(len(columns))
    return np.asarray(drawn / lengths)


def told_by_histograms(columns: Sequence[VectorColumn], cells: Sequence[Cells], shares: Sequence[Floats]) -> Waves:
    """Return the means at frequencies along single coordinates, which follow from the columns' histograms.

    Along a place there are a few frequencies; along an indicator one, at which the cosine says how often it is 1.
    """
    width, start, waves = sum(column.size for column in columns), 0, []
    for column, own, share in zip(columns, cells, shares, strict=True):
        radians = np.zeros((width, _ALONG * column.numeric + column.choices))
        if column.numeric:
            radians[start, :_ALONG] = np.pi / 2 * np.arange(1, _ALONG + 1)
        indicators = np.arange(column.choices)
        radians[start + column.numeric + indicators, _ALONG * column.numeric + indicators] = np.pi
        phases = cell_vectors(own, column) @ radians[start : start + column.size]
        spread = np.ones_like(phases)
        if isinstance(own, Bins):
            # Values spread evenly over the places of a bin, which damps the waves.
            half = np.diff(np.interp(own.edges, column.knots, column.places))[:, None] / 2 * radians[start]
            spread[len(own.special) : len(own.special) + len(half)] = np.sinc(half / np.pi)
        means = np.array([share @ (np.cos(phases) * spread), share @ (np.sin(phases) * spread)])
        waves.append(Waves(radians, means, np.full(radians.shape[1], 1 / len(columns))))
        start += column.size
    return sum(waves[1:], start=waves[0])


def gated(columns: Sequence[VectorColumn]) -> Floats:
    """Return 1 for the numbers of a vector that count only where the next one is 1: places beside indicators."""
    gates: list[float] = []
    for column in columns:
        gates += [float(column.numeric and column.choices > 0), *([0.0] * (column.size - 1))]
    return np.array(gates)
