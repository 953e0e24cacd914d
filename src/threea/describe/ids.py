"""Columns that name persons or rows: told by their public name, where paid answers do not speak against it.

A code such as a country's may be named as ids are, and its values are then shared by many rows. Which of the two a
column is, its name does not say. So without a schema a column is an id if it is named as one and no value stands out.
"""

from __future__ import annotations

import re

import numpy as np

from threea.anonymize.query import Answer
from threea.describe.number_column import FirstLook, visible
from threea.table.cells import Bins
from threea.table.schema import Column, Kind, Schema

_NAME = re.compile(r"(?i:(.*[^a-z])?(id|nbr|mrn|uuid|guid))|.*[a-z]I[Dd]")
_MOST_CODES = 64
"""Whole numbers that lie so close together are codes. Chosen."""
_OFTEN = 0.01
"""A number that such a share of the rows holds is a code, too. Chosen."""


def named(name: str) -> bool:
    """Tell whether a column is named as ids are.

    Example:
        >>> [named(name) for name in ("patient_id", "encounterID", "MRN", "valid", "paid", "humidity")]
        [True, True, True, False, False, False]
    """
    return _NAME.fullmatch(name) is not None


def likely(schema: Schema) -> tuple[str, ...]:
    """Return the columns that discovery makes ids of unless its answers speak against it."""
    return tuple(
        column.name
        for column in schema.modelled
        if column.name != schema.target
        and column.kind in (Kind.UNDECLARED, Kind.CATEGORICAL, Kind.INTEGER)
        and named(column.name)
    )


def confirmed(column: Column) -> Column:
    """Return the column as an id, whose values are never read again."""
    return Column(name=column.name, kind=Kind.ID)


def spread_out(column: Column, look: FirstLook, cells: Bins, answer: Answer) -> bool:
    """Tell whether whole numbers lie far apart, and none is held by many rows; so they do where nothing is known.

    Args:
        column: As both looks describe it.
        look: The first look.
        cells: The second look's cells.
        answer: Noisy counts of them.
    """
    if not column.whole or column.kind.temporal:
        return False
    if not look.occupied.any():
        return True
    if set(column.special) - {0.0} or column.step > 1:
        return False
    # The first and the last cell are for all that the first look left out.
    edges, first = np.array(cells.edges)[1:-1], len(cells.special) + 1
    single = np.diff(edges) <= 1
    counts = answer.value[first : first + len(single)]
    often = max(visible(answer.stddev, len(counts)), _OFTEN * look.rows)
    return bool(edges[-1] - edges[0] > _MOST_CODES) and not bool((counts[single] > often).any())
