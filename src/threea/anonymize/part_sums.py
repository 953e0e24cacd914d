"""Sums over disjoint parts of the rows: what teachers learn from, each from its own part.

Proof: docs/proofs/vote.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.chunk_sum import ChunkSum
from threea.anonymize.clipping import parted_sum
from threea.anonymize.query import Dense, Grouped, OneHot
from threea.backends.hashing import row_hashes

Parted = OneHot | Dense | Grouped
"""What can be summed over parts of the rows."""


def groups_of(query: Parted) -> tuple[int, tuple[int, ...]]:
    """Return how many groups of each part are summed apart, and the shape of a sum."""
    return (query.by.size, query.query.shape) if isinstance(query, Grouped) else (1, query.shape)


@dataclass(frozen=True, slots=True)
class PartSum:
    """A batch's clipped contributions to a query, summed over each part; then how many batches failed.

    Guarantees:
        - Which part a row is in follows from the key and its own values as they were read: from the unit column alone,
          if there is one, so that all rows of a person are in the same.

    Args:
        chunk_sum: What to sum, on which grid.
        parts: How many parts there are.
        key: Decides who is in which.
        hashed: The unit column; all columns if a row is a unit.
    """

    chunk_sum: ChunkSum
    parts: int
    key: bytes
    hashed: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads."""
        return tuple(dict.fromkeys((*self.hashed, *self.chunk_sum.columns)))

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Encode the rows, find their parts, and sum."""
        own, query = self.chunk_sum, self.chunk_sum.query
        try:
            assert isinstance(query, Parted)
            part = (row_hashes(batch.select(self.hashed), self.key) % np.uint64(self.parts)).astype(np.int64)
            sums = parted_sum(query, own.encoded(batch), part, self.parts, step=own.step, norm=own.norm)
            return np.append(sums, 0)
        except Exception:
            failed = np.zeros(self.parts * query.size + 1, np.int64)
        failed[-1] = 1
        return failed
