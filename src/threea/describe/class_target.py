"""Whether a target of whole numbers is a class: one question, whose noisy counts decide.

Small whole numbers are counted each, all others together. If others show up, the target is a number; if a few small
ones do and nothing else, it is a class with those values.
"""

from __future__ import annotations

import math

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Marginal
from threea.table.cells import Bins
from threea.table.schema import Column, Kind, Origin, Schema

TARGET = "discover target"
SHARE = 0.02
"""Share of the budget that the question takes; chosen."""
VALUES = tuple(range(-1, 21))
"""The whole numbers that a class may have, the same for every table."""
MOST_CLASSES = 20


def steps(schema: Schema) -> tuple[Step, ...]:
    """Return the question, if it will be asked: of a target that is, or may turn out to be, whole numbers."""
    if schema.origin is not Origin.TYPES or schema.target is None or schema.number_target:
        return ()
    # A column without a declared type may hold whole numbers, too.
    asked = schema[schema.target].kind not in (Kind.CATEGORICAL, Kind.ORDINAL, Kind.BOOLEAN, Kind.REAL)
    return (Step(name=TARGET, weight=SHARE),) if asked and not schema[schema.target].kind.temporal else ()


def class_column(table: PrivateTable, plan: Plan) -> Column | None:
    """Return the target described as a class, or nothing if it is not one.

    Guarantees:
        - Nothing is read but through `measure`; the values asked for are the same for every table.

    Cost:
        A `Gaussian` event, if the target is of whole numbers and its kind was not said; nothing otherwise.
    """
    schema = table.schema
    if not steps(schema) or schema.target is None or schema[schema.target].kind is not Kind.INTEGER:
        return None
    target = schema[schema.target]
    answer = table.measure(Marginal((grid(target),)), plan[TARGET])
    found = classes(answer)
    if found is None:
        return None
    return Column(name=target.name, kind=Kind.CATEGORICAL, categories=found, nullable=target.nullable)


def grid(target: Column) -> Bins:
    """Return a cell for each of `VALUES`, and one at each end for what lies beyond."""
    edges = range(VALUES[0] - 1, VALUES[-1] + 3)
    return Bins(column=target.name, edges=tuple(float(edge) for edge in edges), missing=target.nullable, whole=True)


def classes(answer: Answer) -> tuple[str, ...] | None:
    """Return the classes that noisy counts over `grid` show, or nothing if they show a number.

    Example:
        >>> import numpy as np
        >>> counts = np.zeros(24)
        >>> counts[[2, 3]] = 900, 100
        >>> classes(Answer(counts, stddev=5.0))
        ('0', '1')
    """
    counts = answer.value[: len(VALUES) + 2]
    # What the largest of so many noisy zeros exceeds in less than one of 40 tables.
    visible = counts > answer.stddev * math.sqrt(2 * math.log(40 * len(counts)))
    found = [value for value, shown in zip(VALUES, visible[1:-1], strict=True) if shown]
    if visible[0] or visible[-1] or len(found) > MOST_CLASSES:
        return None
    if found in ([0], [1]):
        # The other class of a rare outcome, too rare to show.
        found = [0, 1]
    return tuple(str(value) for value in found) if len(found) > 1 else None
