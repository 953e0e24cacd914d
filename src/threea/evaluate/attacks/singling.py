"""Singling out: do conditions that hold for one released row hold for exactly one training row?

Reference:
    Giomi, Boenisch, Wehmeyer, Tasnádi (2022), section 4.1; Cohen and Nissim (2020), Towards formalizing the GDPR's
    notion of singling out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.attacks.scene import Hits, Scene, contrast, report
from threea.evaluate.intervals import figure
from threea.table.schema import Schema

Columns = NDArray[np.float64]
"""One array a column: categories as codes, missing as NaN."""
Condition = tuple[int, Callable[[Any, Any], Any], float]
Predicate = tuple[Condition, ...]
"""Conditions on columns that must all hold: column, comparison, value; NaN asks for a missing value."""

PREDICATES, ATTEMPTS = 1_000, 10_000
TOGETHER = (3, 4, 5, 6)
"""How many columns a predicate may speak of."""


def singling_out(scene: Scene) -> list[dict[str, Any]]:
    """Attack with conditions on one column, and on a few together."""
    chosen = scene.rng("singling sample").permutation(len(scene.raw_synthetic))[: len(scene.synthetic)]
    released, train, control = (
        np.ascontiguousarray(raw[rows].T)
        for raw, rows in (
            (scene.raw_synthetic, chosen),
            (scene.raw_train, scene.train_crowd),
            (scene.raw_holdout, scene.holdout_crowd),
        )
    )
    tried = f"{train.shape[1]} training and {control.shape[1]} holdout rows"
    attacks = []
    for name, predicates in (
        ("one column", univariate(released, scene.schema, scene.rng("univariate"))),
        ("several columns", multivariate(released, scene.schema, scene.rng("multivariate"))),
    ):
        hits = [
            np.array([matches(rows, predicate) == 1 for predicate in predicates], np.bool_) for rows in (train, control)
        ]
        attacks.append(_report(name, hits, tried))
    return attacks


def _report(name: str, hits: list[Hits], rows: str) -> dict[str, Any]:
    what = "share of conditions that hold for exactly one row"
    nothing = [figure(what, 0.0, (0.0, 1.0), "no condition holds for one released row alone", 0.0)]
    return report(
        f"singling out by {name}",
        question="Does what is true of one released row only hold for exactly one training row?",
        shows="An excess over holdout rows means that the release tells training rows apart, not just rare kinds.",
        cannot_show="Only conditions of this form were tried, and only as many as stated.",
        claim="conditions found in the release single out training rows",
        figures=contrast(what, *hits) if len(hits[0]) else nothing,
        rows=f"{len(hits[0])} conditions that hold for one released row, tried on {rows}",
    )


def matches(columns: Columns, predicate: Predicate) -> int:
    """Return for how many rows a predicate holds."""
    holds = np.ones(columns.shape[1], np.bool_)
    for index, compare, value in predicate:
        holds &= np.isnan(columns[index]) if np.isnan(value) else compare(columns[index], value)
    return int(np.count_nonzero(holds))


def univariate(released: Columns, schema: Schema, rng: np.random.Generator) -> list[Predicate]:
    """Return conditions on one column that hold for one released row: a rare value, the extremes, the one missing."""
    predicates: list[Predicate] = []
    for index, column in enumerate(schema.valued):
        values = released[index]
        known, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        predicates += [((index, operator.eq, float(value)),) for value in known[counts == 1]]
        if len(known) and column.kind.numeric:
            ends = ((operator.le, known[0], counts[0]), (operator.ge, known[-1], counts[-1]))
            predicates += [((index, compare, float(value)),) for compare, value, count in ends if count == 1]
        if np.isnan(values).sum() == 1:
            predicates.append(((index, operator.eq, np.nan),))
    order = rng.permutation(len(predicates))[:PREDICATES]
    return [predicates[number] for number in order]


def multivariate(
    released: Columns, schema: Schema, rng: np.random.Generator, together: Sequence[int] = TOGETHER
) -> list[Predicate]:
    """Return conditions on a few columns that hold for one released row, at most one predicate a row.

    Numbers are asked for at least, or at most, whichever is farther from the median: that is where rows are rare.
    """
    predicates, seen = [], set()
    for row, predicate in _drawn(released, schema, rng, together):
        if row not in seen and matches(released, predicate) == 1:
            seen.add(row)
            predicates.append(predicate)
        if len(predicates) == PREDICATES:
            break
    return predicates


def _drawn(
    released: Columns, schema: Schema, rng: np.random.Generator, together: Sequence[int]
) -> Iterator[tuple[int, Predicate]]:
    """Draw predicates: a row's values in a few of its columns."""
    known = [values[~np.isnan(values)] for values in released]
    medians = [float(np.median(values)) if len(values) else 0.0 for values in known]
    numeric = [column.kind.numeric for column in schema.valued]
    for row in rng.integers(released.shape[1], size=ATTEMPTS):
        chosen = sorted(int(index) for index in rng.permutation(len(numeric))[: rng.choice(together)])
        yield (
            int(row),
            tuple(
                (index, _compare(numeric[index], released[index, row], medians[index]), float(released[index, row]))
                for index in chosen
            ),
        )


def _compare(numeric: bool, value: float, median: float) -> Callable[[Any, Any], Any]:
    if not numeric:
        return operator.eq
    return operator.ge if value > median else operator.le
