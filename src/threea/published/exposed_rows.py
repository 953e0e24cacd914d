"""The private rows, read once: the only call of `expose` in the library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.errors import InputError
from threea.table.schema import Chunk, Column

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class ExposedRows:
    """The private rows that have a class.

    Args:
        chunk: The rows' encoded columns.
        labels: Each row's class.
        columns: The columns to be mixed.
        target: The column that the classes are of; none if rows have no classes.
        rows_per_unit: How many of the rows may be one person's.
        rng: What noise is drawn from.
    """

    chunk: Chunk
    labels: Integers
    columns: tuple[Column, ...]
    target: Column | None
    rows_per_unit: int
    rng: np.random.Generator

    @classmethod
    def of(cls, table: PrivateTable, reason: str) -> ExposedRows:
        """Read the rows.

        Where the target is a number, or there is none, all rows are one class and the target is a column like others.

        Cost:
            A `NonPrivate` event.

        Raises:
            InputError: No row has a class, or there is no column besides the target.
        """
        schema = table.schema
        target = schema[schema.target] if schema.target is not None and schema[schema.target].kind.listed else None
        columns = schema.features if target else schema.modelled
        if not columns:
            raise InputError("the target is the only column; there is nothing to mix")
        exposed = table.expose(reason)
        labels = exposed.rows[target.name] if target else np.zeros(exposed.count, np.int64)
        if not (labels >= 0).any():
            raise InputError("no row has a class that the schema lists; there is nothing to learn from")
        return cls(
            chunk={name: values[labels >= 0] for name, values in exposed.rows.items()},
            labels=labels[labels >= 0],
            columns=columns,
            target=target,
            rows_per_unit=table.unit.max_rows,
            rng=exposed.rng,
        )

    @property
    def classes(self) -> int:
        """C, how many classes the schema lists; 1 without classes."""
        return len(self.target.categories) + self.target.open_ended if self.target else 1
