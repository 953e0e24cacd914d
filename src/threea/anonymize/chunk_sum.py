"""One pass over the rows as one pure, picklable function: a record batch in, whole numbers out.

It is all that an engine is ever sent. What it returns adds up in any order, so an engine needs one verb: sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.clipping import Norm, clipped_sum
from threea.anonymize.query import Query, Rows
from threea.errors import RowFunctionError
from threea.table import codec
from threea.table.schema import Schema

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkSum:
    """The clipped contributions of a batch's rows to a query, summed in grid steps; then how many batches failed.

    Guarantees:
        - It is a function of the batch and of public facts alone; equal ones pickle, compare and answer alike.
        - A failure tells that it happened, and nothing of the rows it happened on: no message, no frame, no value.

    Args:
        query: What to sum.
        schema: What the rows mean.
        step: The grid's step.
        norm: Which of the query's bounds is imposed.
    """

    query: Query
    schema: Schema
    step: float
    norm: Norm
    pure = True

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        """Encode the rows and sum."""
        return self.over(lambda: self.encoded(batch))

    def encoded(self, batch: pa.RecordBatch) -> Rows:
        """Return the rows as the schema encodes them."""
        return Rows(codec.encode_learned(batch, self.schema), batch.num_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be read: the query's, and those that they are learned from."""
        return self.schema.sources(self.query.columns)

    def over(self, rows: Callable[[], Rows]) -> Integers:
        """Sum over encoded rows."""
        try:
            return np.append(clipped_sum(self.query, rows(), step=self.step, norm=self.norm), 0)
        except Exception:
            failed = np.zeros(self.query.size + 1, np.int64)
        failed[-1] = 1
        return failed

    def checked(self, total: Integers) -> Integers:
        """Return the sums of a whole pass, or tell of a failure out here, where no row is in reach.

        Raises:
            RowFunctionError: A batch failed.
        """
        if total[-1]:
            name = type(self.query).__name__
            raise RowFunctionError(f"{name} failed inside the private table; try it on made-up rows to see why")
        return total[:-1]


@dataclass(frozen=True, slots=True)
class CachingSum:
    """The same function for an engine in this process, which also hands on what it worked out about the rows.

    Args:
        chunk_sum: What to sum.
        keeping: Whether anybody wants that.
    """

    chunk_sum: ChunkSum
    keeping: Callable[[], bool]

    def __call__(self, batch: pa.RecordBatch) -> tuple[Integers, Rows | None]:
        """Encode the rows and sum; return the sums, and the rows as they are encoded if they are wanted."""
        worked_out: list[Rows] = []

        def encoded() -> Rows:
            worked_out.append(self.chunk_sum.encoded(batch))
            return worked_out[0]

        total = self.chunk_sum.over(encoded)
        return total, worked_out[0] if self.keeping() and not total[-1] else None
