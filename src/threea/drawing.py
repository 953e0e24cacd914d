"""How many rows a release has if nobody said, and in which ratio its classes are drawn if another is asked for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from threea.model_summary import ModelSummary
from threea.table.cells import Categories
from threea.table.schema import Schema

Floats = NDArray[np.float64]

CHUNK_ROWS = 1 << 16
"""Rows are drawn in chunks of so many, each from a seed of its own."""
SAME = "same"
"""As a number of rows: as many as the noisy count of private ones."""
STANDS_OUT = 3.0
"""A noisy count of this many standard deviations says how many rows there are; otherwise it may be noise alone."""
LEAST_ROWS, LEAST_VALUES = 500_000, 30_000_000
"""At least so many rows are drawn, or as many as make so many values: some 200 MB of CSV. Labels are drawn, and what is
chance in them a learner takes for a fact, the less of it the more rows there are (docs/how-it-works.md)."""
MOST = 5.0
"""Balanced classes: none is drawn more than this many times as often as the rarest. Chosen."""


def least_rows(columns: int) -> int:
    """Return how many rows are drawn at least of a table with so many columns, unless another number is asked for.

    Example:
        >>> least_rows(10), least_rows(785)
        (500000, 38216)
    """
    return max(min(LEAST_ROWS, LEAST_VALUES // max(columns, 1)), 1)


def default_rows(summary: ModelSummary, columns: int, same: bool = False) -> int:
    """Return how many rows to draw if nobody said.

    As many as points, or as a count that stands out from its noise, and at least `LEAST_ROWS`: drawing is free.

    Args:
        summary: Of the model.
        columns: How many there are.
        same: Whether to draw no more than were counted, where a count stands out.

    Example:
        >>> default_rows(ModelSummary(private_rows=520_000, private_rows_stddev=30.0), columns=10)
        520000
        >>> [default_rows(ModelSummary(private_rows=520, private_rows_stddev=30.0), 10, same) for same in (False, True)]
        [500000, 520]
        >>> default_rows(ModelSummary(private_rows=18_552_204, private_rows_stddev=9e6), columns=10)
        500000
    """
    if summary.points is not None:
        return len(next(iter(summary.points.values())))
    least = least_rows(columns)
    count = summary.private_rows
    if count is None or count < STANDS_OUT * summary.private_rows_stddev:
        return least
    return max(round(count), 1 if same else least)


def default_note(summary: ModelSummary, rows: int, counted: str = "private rows") -> str:
    """Say why so many rows were drawn, if it is not the noisy count of what counted."""
    count, stddev = summary.private_rows, summary.private_rows_stddev
    if summary.points is not None or count is None or rows == max(round(count), 1):
        return ""
    # Both are whole numbers of rows; rounded up, the second covers what rounding does to the first.
    noise = f"noisy count of {counted} ({round(count):,} ± {math.ceil(stddev):,})"
    if count < STANDS_OUT * stddev:
        return f"The {noise} does not stand out from its noise, so {rows:,} rows were drawn; ask for another number."
    gain = f"More rows were drawn than the {noise}: it costs nothing, and learners gain from it."
    return f"{gain} They tell no more than the private ones did: take no standard errors from their number."


def class_ratio(summary: ModelSummary, schema: Schema) -> tuple[Floats, Floats]:
    """Return balanced and private shares of the target's classes, by noisy counts; none if it has no listed classes.

    The last code but one may stand for other values, the last for missing ones. A class that noise alone explains has
    no share; if all are so, nothing is balanced.

    Example:
        >>> from threea import hospital
        >>> from threea.model_summary import Histogram
        >>> cells = Categories(column="died", count=2, missing=False)
        >>> histogram = Histogram(cells, np.array([970.0, 30.0]), 3.0)
        >>> summary = ModelSummary(histograms={"died": histogram})
        >>> [shares.round(3).tolist() for shares in class_ratio(summary, hospital.schema())]
        [[0.833, 0.167], [0.97, 0.03]]
    """
    histogram = summary.histograms.get(schema.target or "")
    if histogram is None or not isinstance(histogram.cells, Categories):
        return np.zeros(0), np.zeros(0)
    seen = np.where(histogram.counts > STANDS_OUT * histogram.stddev, histogram.counts, 0.0)
    if not seen.any():
        return np.zeros(0), np.zeros(0)
    drawn = np.minimum(seen, MOST * seen[seen > 0].min())
    return drawn / drawn.sum(), seen / seen.sum()
