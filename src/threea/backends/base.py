"""What the door asks of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.errors import InputError
from threea.progress import tell_part
from threea.table import codec
from threea.threads import in_order

BATCH_ROWS = 1 << 16
MAX_ROWS = 1 << 32
"""With at most 2**30 grid steps a row, sums of so many rows stay within int64."""


def no_rows(layout: pa.Schema) -> pa.RecordBatch:
    """Return a batch with these columns and nothing in them."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in layout], schema=layout)


Result = TypeVar("Result")
Elsewhere = Callable[[Callable[[int], bytes], Sequence[int]], Iterator[bytes]]
"""Maps a function over numbers, and yields the results in their order."""
RowSum = Callable[[pa.RecordBatch], NDArray[np.int64]]


class Backend(Protocol):
    """An engine that holds a table and can sum over its rows."""

    @property
    def layout(self) -> pa.Schema:
        """Names, order and declared types of the columns: all that is public about the table."""
        ...

    def sum(self, function: RowSum, columns: Sequence[str]) -> NDArray[np.int64]:
        """Return the sum of `function` over chunks of the rows, however they are cut."""
        ...


class Engine(ABC):
    """An engine that does all that a release asks of rows, and hands over none of them."""

    __slots__ = ("layout",)
    layout: pa.Schema

    @abstractmethod
    def sum(self, function: RowSum, columns: Sequence[str]) -> NDArray[np.int64]:
        """Return the sum of `function` over chunks of the rows, however they are cut."""

    @abstractmethod
    def count_values(self, column: str) -> Counter[str]:
        """Return how many rows hold each value, as text."""

    @abstractmethod
    def bounded(self, unit: str, max_rows: int, key: bytes) -> Engine:
        """Return the view in which each unit has at most so many rows: those whose keyed hashes are least."""

    @abstractmethod
    def sample(self, rate: float, key: bytes) -> Engine:
        """Return the view of the units whose coins under this key fall at this rate: the same ones on every engine."""

    @property
    def elsewhere(self) -> Elsewhere | None:
        """What runs a function that needs no rows on the engine's other machines; None if it has none."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.layout)} columns)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: rows leave by the door only."""
        raise TypeError("a backend cannot be copied or pickled; open the table again where you need it")


def refuse_too_many(rows: int) -> None:
    """Refuse more rows than whose sums stay exact, before they are added up.

    Raises:
        InputError: There are.
    """
    if rows > MAX_ROWS:
        raise InputError(f"the table has more rows than the {MAX_ROWS:,} whose sums stay exact; split it")


class RowBackend(Engine):
    """An engine that can also hand over its rows, always in the same order."""

    __slots__ = ()

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading these columns only."""

    def sum(self, function: RowSum, columns: Sequence[str]) -> NDArray[np.int64]:
        """Add up the chunks' sums in int64. Functions that say that they are pure are run on several processors."""
        total: NDArray[np.int64] | None = None
        for part in self.mapped(function, columns, threads=None if getattr(function, "pure", False) else 1):
            total = part if total is None else total + part
        return function(no_rows(self.layout)) if total is None else total

    def mapped(
        self, function: Callable[[pa.RecordBatch], Result], columns: Sequence[str], threads: int | None = None
    ) -> Iterator[Result]:
        """Yield what a function makes of each chunk, in the chunks' order."""
        # A batch without columns would not know how many rows it has.
        return in_order(function, self._counted(columns or self.layout.names[:1]), threads)

    def _counted(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for number, batch in enumerate(self.batches(columns)):
            rows += batch.num_rows
            refuse_too_many(rows)
            tell_part(number + 1, None)
            yield batch

    def table(self) -> pa.Table:
        """Return all rows as they are read: how one is read depends on no other."""
        return pa.Table.from_batches(list(self.batches(self.layout.names)) or [no_rows(self.layout)])

    def count_values(self, column: str) -> Counter[str]:
        """Return how many rows hold each value, as text."""
        counts: Counter[str] = Counter()
        for batch in self.batches([column]):
            counts.update(values_of(batch, column))
        return counts

    def bounded(self, unit: str, max_rows: int, key: bytes) -> RowBackend:
        """Return the view in which each unit has at most so many rows."""
        from threea.backends.units import UnitBackend

        return UnitBackend(self, unit, max_rows, key)

    def sample(self, rate: float, key: bytes) -> RowBackend:
        """Return the view of the rows whose coins fall so."""
        from threea.backends.units import sampled_rows

        return sampled_rows(self, rate, key)


def values_of(batch: pa.RecordBatch, column: str) -> dict[str, int]:
    """Return how many of a batch's rows hold each value, as text."""
    found = pc.value_counts(codec.as_text(batch.column(column)).drop_null())
    return dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
