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

from threea.evaluate.attacks.scene import Scene, report
from threea.evaluate.intervals import clustered_share, figure
from threea.evaluate.pairs import chance_of_sum
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
    released = np.ascontiguousarray(scene.raw_synthetic[chosen].T)
    real = np.ascontiguousarray(np.concatenate([scene.raw_train, scene.raw_holdout]).T)
    return [
        _report(scene, "one column", univariate(released, scene.schema, scene.rng("univariate")), real),
        _report(scene, "several columns", multivariate(released, scene.schema, scene.rng("multivariate")), real),
    ]


def _report(scene: Scene, name: str, predicates: list[Predicate], real: Columns) -> dict[str, Any]:
    half, count = len(scene.crowd), int(scene.crowd[-1]) + 1
    persons = np.concatenate([scene.crowd, count + scene.crowd])
    votes = np.zeros(2 * count)
    for predicate in predicates:
        matched = persons[np.flatnonzero(holds(real, predicate))]
        if len(matched) and (matched == matched[0]).all():
            votes[matched[0]] += 1
    train, control = votes[:count], votes[count:]
    singled = int(votes.sum())
    figures = []
    if singled:
        how = "Clopper-Pearson at the effective number of persons (Korn and Graubard)"
        p = chance_of_sum((train - control) / singled, scene.rng(f"singling {name}"))
        what = "share of conditions for one person alone that hold for a training person"
        figures.append(figure(what, *clustered_share(train, control), how, 0.5, p))
    return report(
        f"singling out by {name}",
        question="Is what is true of one released row alone true of one training person alone?",
        shows="A share above one half means that the release tells training persons apart, not just rare kinds.",
        cannot_show="Only conditions of this form were tried, and only as many as stated.",
        claim="conditions found in the release single out training rows",
        figures=figures,
        rows=f"{len(predicates)} conditions that hold for one released row, tried on {half} training and {half} "
        f"holdout rows; {singled} hold for one person alone",
    )


def holds(columns: Columns, predicate: Predicate) -> NDArray[np.bool_]:
    """Return for which rows a predicate holds."""
    kept = np.ones(columns.shape[1], np.bool_)
    for index, compare, value in predicate:
        kept &= np.isnan(columns[index]) if np.isnan(value) else compare(columns[index], value)
    return kept


def matches(columns: Columns, predicate: Predicate) -> int:
    """Return for how many rows a predicate holds."""
    return int(np.count_nonzero(holds(columns, predicate)))


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
