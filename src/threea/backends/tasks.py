"""What a worker is sent, and what it sends back: pure functions of a part's rows, and closed sets of answers.

A task never raises. What goes wrong on a worker comes back as one line that was written here or by a reader of files,
so neither a log nor a traceback of a worker can show a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import threea
from threea.backends.base import RowSum, refuse_too_many, values_of
from threea.backends.coins import Coins
from threea.backends.hashing import column_hashes, mixed, row_hashes
from threea.backends.unit_tags import unit_tags
from threea.errors import InputError

OTHER_VERSION = "a worker has another version of threea than this process; install the same one there"
OTHER_ROWS = "the table has other rows than when it was opened; leave it alone, or write it to Parquet and start again"
FAILED = "a worker failed on a part of the rows; the same table in Parquet files shows more with --engine files"


class Part(Protocol):
    """Some rows of a table that one worker can read."""

    @property
    def number(self) -> int:
        """Which part of the table it is."""
        ...

    @property
    def stable(self) -> bool:
        """Whether its rows are known to lie in the same order each time."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading these columns only."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Kept:
    """Which of a part's rows count.

    Args:
        rows: How many rows the part has.
        bits: A bit for each row; empty if all of them count.
        order: A checksum of the units in their order, by which a part that was cut or sorted otherwise is known.
        repeats: Where every row is a unit, the places of those that have equals before them, and how many.
    """

    rows: int
    bits: bytes
    order: int
    repeats: tuple[NDArray[np.uint32], NDArray[np.uint64]] | None = None

    @property
    def numbers(self) -> NDArray[np.uint64]:
        """For each row, how many before it in the table have the same hash."""
        numbers = np.zeros(self.rows, np.uint64)
        if self.repeats is not None:
            places, ranks = self.repeats
            numbers[places] = ranks
        return numbers

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Whether each row counts."""
        if not self.bits:
            return np.ones(self.rows, np.bool_)
        return np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.rows).astype(np.bool_)


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """What became of a part: its answer, or a problem that holds no value of any row.

    Args:
        part: Which part.
        rows: How many of its rows counted.
        result: The answer.
        problem: What went wrong, in one line; empty if nothing.
    """

    part: int
    rows: int = 0
    result: Any = None
    problem: str = ""


Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a row function over a part's rows.

    Args:
        function: Takes a batch, returns whole numbers that add up.
    """

    function: RowSum

    def __call__(self, part: int, batches: Batches) -> NDArray[np.int64] | None:
        """Add up the batches; None if there are none."""
        total: NDArray[np.int64] | None = None
        for batch in batches:
            found = self.function(batch)
            total = found if total is None else total + found
        return total


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """How many of a part's rows hold each value of a column, as text."""

    column: str

    def __call__(self, part: int, batches: Batches) -> dict[str, int]:
        """Count them."""
        counts: Counter[str] = Counter()
        for batch in batches:
            counts.update(values_of(batch, self.column))
        return dict(counts)


PAIR = np.dtype([("unit", np.uint64, 2), ("row", np.uint64), ("part", np.uint32), ("place", np.uint32)])
"""A row as the search for persons over the bound sees it: two keyed hashes, and where the row is."""


@dataclass(frozen=True, slots=True, repr=False)
class UnitPairs:
    """Keyed hashes of a part's units and rows, by bucket of units; and the checksum of the units' order.

    Args:
        unit: The column that names a person; None if every row is a unit.
        key: Of the hashes.
        buckets: How many; a unit is in the same bucket in every part.
    """

    unit: str | None
    key: bytes
    buckets: int = 1

    def __call__(self, part: int, batches: Batches) -> tuple[list[NDArray[Any]], int]:
        """Hash the rows."""
        pieces, order, start = [np.zeros(0, PAIR)], 0, 0
        for batch in batches:
            pairs = np.zeros(batch.num_rows, PAIR)
            if self.unit is None:
                pairs["unit"][:, 0] = row_hashes(batch, self.key)
            else:
                pairs["unit"] = unit_tags(batch.column(self.unit), self.key)
                pairs["row"] = row_hashes(batch, self.key)
            pairs["part"], pairs["place"] = part, np.arange(start, start + batch.num_rows)
            pieces.append(pairs)
            order = (order + order_of(batch, self.unit, self.key, start)) % 2**64
            start += batch.num_rows
        found = np.concatenate(pieces)
        bucket = found["unit"][:, 0] % np.uint64(self.buckets)
        return [found[bucket == number] for number in range(self.buckets)], order


def order_of(batch: pa.RecordBatch, unit: str | None, key: bytes, start: int) -> int:
    """Return a checksum of units at their places; those of consecutive batches add up, modulo 2**64."""
    places = mixed(np.arange(start, start + batch.num_rows, dtype=np.uint64))
    hashes = row_hashes(batch, key) if unit is None else column_hashes(batch.column(unit), key)
    return int(mixed(hashes ^ places).sum(dtype=np.uint64))


Ranked = tuple[NDArray[np.uint32], NDArray[np.uint64]]
"""Places of rows in a part, and each one's rank among its unit's rows."""


def ranked_from(pieces: Sequence[NDArray[Any]], least: int) -> dict[int, Ranked]:
    """Return the rows, by part, that are not among the first `least` of their unit, ordered by hash; and their ranks.

    Equal hashes are of equal rows; of these, the first in the table come first.
    """
    pairs = np.concatenate([np.zeros(0, PAIR), *pieces])
    order = np.lexsort((pairs["place"], pairs["part"], pairs["row"], pairs["unit"][:, 1], pairs["unit"][:, 0]))
    ordered = pairs[order]
    new = np.ones(len(ordered), np.bool_)
    new[1:] = (ordered["unit"][1:] != ordered["unit"][:-1]).any(axis=1)
    rank = np.arange(len(ordered)) - np.maximum.accumulate(np.where(new, np.arange(len(ordered)), 0))
    beyond, ranks = ordered[rank >= least], rank[rank >= least].astype(np.uint64)
    parts = ((int(part), beyond["part"] == part) for part in np.unique(beyond["part"]))
    return {part: (beyond["place"][here], ranks[here]) for part, here in parts}


@dataclass(frozen=True, slots=True, repr=False)
class Task:
    """One pass's work on any part.

    Args:
        work: What to make of the rows that count.
        columns: What to read.
        unit: The unit's column, None for every row, and the key of its hashes, where the order of rows matters.
        coins: Of a sample, if it is over one.
        all_columns: Of the table, where every row is a unit.
        version: Of threea in the process that asks.
    """

    work: Callable[[int, Batches], Any]
    columns: tuple[str, ...]
    unit: tuple[str | None, bytes] | None = None
    coins: Coins | None = None
    all_columns: tuple[str, ...] = ()
    version: str = threea.__version__

    def __call__(self, part: Part, kept: Kept | None = None) -> Outcome:
        """Do the work on a part. It never raises."""
        number = part.number
        if self.version != threea.__version__:
            return Outcome(number, problem=OTHER_VERSION)
        try:
            count = _Counted(kept)
            result = self.work(number, self._batches(part, kept, count))
            problem = OTHER_ROWS if kept is not None and count.read != kept.rows else ""
            return Outcome(number, count.rows, result, problem) if not problem else Outcome(number, problem=problem)
        except InputError as error:
            # Readers of files say what is wrong without a word of the content.
            problem = str(error)
        except Exception:
            problem = FAILED
        return Outcome(number, problem=problem)

    def _batches(self, part: Part, kept: Kept | None, count: _Counted) -> Iterator[pa.RecordBatch]:
        watched = kept is not None and not part.stable
        wanted = tuple(self.columns)
        if watched or self.coins is not None:
            # Every row a unit: what tells it from others is all of it.
            wanted = self.all_columns if self.unit is None or self.unit[0] is None else (*wanted, self.unit[0])
        order = 0
        for batch in part.batches(tuple(dict.fromkeys(wanted))):
            if watched and self.unit is not None:
                order = (order + order_of(batch, *self.unit, count.read)) % 2**64
            chosen = count.filtered(batch, self.coins)
            refuse_too_many(count.rows)
            yield chosen.select(list(self.columns))
        if watched and kept is not None and order != kept.order:
            raise InputError(OTHER_ROWS)


class _Counted:
    """How many rows were read of a part, how many of them count, and which."""

    def __init__(self, kept: Kept | None) -> None:
        self.read = self.rows = 0
        self._mask = None if kept is None or not kept.bits else kept.mask
        self._numbers = None if kept is None or kept.repeats is None else kept.numbers
        self._most = None if kept is None else kept.rows

    def filtered(self, batch: pa.RecordBatch, coins: Coins | None) -> pa.RecordBatch:
        """Return those of the next batch's rows that count, and are in the sample if one is drawn."""
        start, self.read = self.read, self.read + batch.num_rows
        if self._most is not None and self.read > self._most:
            raise InputError(OTHER_ROWS)
        chosen = None if self._mask is None else self._mask[start : self.read]
        if coins is not None:
            none = np.zeros(batch.num_rows, np.uint64)
            fallen = coins.chosen(batch, none if self._numbers is None else self._numbers[start : self.read])
            chosen = fallen if chosen is None else chosen & fallen
        batch = batch if chosen is None else batch.filter(pa.array(chosen))
        self.rows += batch.num_rows
        return batch


def run(task: Task, part: Part, kept: Kept | None = None) -> Outcome:
    """Do a task's work on a part: what an engine calls."""
    return task(part, kept)
