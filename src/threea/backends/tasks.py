"""What a worker is sent, and what it sends back: pure functions of a part's rows, and closed sets of answers.

A task never raises. What goes wrong on a worker comes back as one line that was written here or by a reader of files,
so neither a log nor a traceback of a worker can show a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import threea
from threea.backends.base import RowSum, no_rows, refuse_too_many, values_of
from threea.backends.coins import Coins, numbers_among_equals
from threea.backends.hashing import mixed, row_hashes
from threea.backends.reading import in_one_form
from threea.backends.unit_tags import unit_tags
from threea.errors import InputError

OTHER_VERSION = "a worker has another version of threea than this process; install the same one there"
OTHER_ROWS = "the table has other rows than when it was opened; leave it alone, or write it to Parquet and start again"
ONE_HASH = "rows of two persons share a hash of 64 bits, as happens by chance; start again, and they will not"
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


Hashes = NDArray[np.uint64]


class Ranked(NamedTuple):
    """Some rows of a part: where they are, their hashes, and each one's rank among its unit's rows."""

    places: NDArray[np.uint32]
    hashes: Hashes
    ranks: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, repr=False)
class Kept:
    """Which of a part's rows count, or how many before each are equal to it.

    A part of a file is read in the same order each time, and rows are known by their places; others by their hashes.

    Args:
        rows: How many rows the part has.
        checksum: Of its rows' hashes in any order, by which a part of other rows is known.
        bits: Of a file's part, a bit for each row that says whether it counts; empty if all of them do.
        dropped: Of any other part, the rows that do not count.
        repeats: Where every row is a unit, those that have equals before them.
    """

    rows: int
    checksum: int
    bits: bytes = b""
    dropped: Ranked | None = None
    repeats: Ranked | None = None

    @classmethod
    def without(cls, dropped: Ranked | None, rows: int, checksum: int, *, stable: bool) -> Kept:
        """Return it for a part of which some rows do not count."""
        if dropped is None or not stable:
            return cls(rows, checksum, dropped=dropped)
        mask = np.ones(rows, np.bool_)
        mask[dropped.places] = False
        return cls(rows, checksum, np.packbits(mask).tobytes())

    @property
    def numbers(self) -> Hashes:
        """For each row of a file's part, how many before it in the table have the same hash."""
        numbers = np.zeros(self.rows, np.uint64)
        if self.repeats is not None:
            numbers[self.repeats.places] = self.repeats.ranks
        return numbers

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Whether each row of a file's part counts."""
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
    """Keyed hashes of a part's units and rows, by bucket of units; and the checksum of its rows.

    Guarantees:
        - Rows of a part that have one hash are of one unit.

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
        pieces, start = [np.zeros(0, PAIR)], 0
        for batch in batches:
            pairs = np.zeros(batch.num_rows, PAIR)
            pairs["row"] = row_hashes(batch, self.key)
            if self.unit is None:
                pairs["unit"][:, 0] = pairs["row"]
            else:
                pairs["unit"] = unit_tags(batch.column(self.unit), self.key)
            pairs["part"], pairs["place"] = part, np.arange(start, start + batch.num_rows)
            pieces.append(pairs)
            start += batch.num_rows
        hashed = np.concatenate(pieces)
        _check_hashes(hashed)
        bucket = hashed["unit"][:, 0] % np.uint64(self.buckets)
        return [hashed[bucket == number] for number in range(self.buckets)], checksum_of(hashed["row"])


def _check_hashes(pairs: NDArray[Any]) -> None:
    """Refuse rows of two units with one hash: where rows are known by hashes, one would be taken for the other."""
    ordered = pairs[np.argsort(pairs["row"])]
    same = ordered["row"][1:] == ordered["row"][:-1]
    if (ordered["unit"][1:] != ordered["unit"][:-1])[same].any():
        raise InputError(ONE_HASH)


def checksum_of(hashes: Hashes) -> int:
    """Return a checksum of rows in any order; those of batches add up, modulo 2**64."""
    return int(mixed(hashes).sum(dtype=np.uint64))


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
    return {part: Ranked(beyond["place"][here], beyond["row"][here], ranks[here]) for part, here in parts}


@dataclass(frozen=True, slots=True, repr=False)
class Task:
    """One pass's work on any part.

    Args:
        work: What to make of the rows that count.
        columns: What to read.
        layout: Names and types of the table's columns, which every batch must have.
        unit: The unit's column, None for every row, and the key of its hashes, where it matters which rows they are.
        coins: Of a sample, if it is over one.
        version: Of threea in the process that asks.
    """

    work: Callable[[int, Batches], Any]
    columns: tuple[str, ...]
    layout: pa.Schema
    unit: tuple[str | None, bytes] | None = None
    coins: Coins | None = None
    version: str = threea.__version__

    def __call__(self, part: Part, kept: Kept | None = None) -> Outcome:
        """Do the work on a part. It never raises."""
        number = part.number
        if self.version != threea.__version__:
            return Outcome(number, problem=OTHER_VERSION)
        try:
            count = _Counted(kept, None if part.stable or self.unit is None else self.unit[1])
            result = self.work(number, self._batches(part, count))
            problem = count.problem
            return Outcome(number, problem=problem) if problem else Outcome(number, count.rows, result)
        except InputError as error:
            # Readers of files say what is wrong without a word of the content.
            problem = str(error)
        except BaseException:
            # A row function may raise anything, and what a worker's log says of it may hold a row.
            problem = FAILED
        return Outcome(number, problem=problem)

    def _batches(self, part: Part, count: _Counted) -> Iterator[pa.RecordBatch]:
        expected = in_one_form(no_rows(self.layout)).schema
        for batch in part.batches(self._wanted(by_hash=count.by_hash)):
            _check_types(batch, expected)
            chosen = count.filtered(batch, self.coins)
            refuse_too_many(count.rows)
            yield chosen.select(list(self.columns))

    def _wanted(self, *, by_hash: bool) -> tuple[str, ...]:
        """Return what must be read: where rows are told apart by their hashes, all columns."""
        if by_hash or (self.coins is not None and self.coins.unit is None):
            return tuple(self.layout.names)
        unit = () if self.coins is None or self.coins.unit is None else (self.coins.unit[0],)
        return tuple(dict.fromkeys((*self.columns, *unit)))


def _check_types(batch: pa.RecordBatch, layout: pa.Schema) -> None:
    for field in batch.schema:
        declared = layout.field(field.name).type
        if field.type != declared:
            raise InputError(
                f"column {field.name} is of type {declared} in the table and of type {field.type} in a part of it; "
                "give all parts the same types"
            )


class _Counted:
    """How many rows were read of a part, how many of them count, and which.

    Args:
        kept: Which rows count, if not all do.
        key: Of the hashes by which they are known; None if their places tell.
    """

    def __init__(self, kept: Kept | None, key: bytes | None) -> None:
        self.read = self.rows = self._checksum = 0
        self._kept, self._key = kept, None if kept is None else key
        self._mask = self._numbers = None
        if kept is not None and key is None:
            self._mask = kept.mask if kept.bits else None
            self._numbers = None if kept.repeats is None else kept.numbers
        self._dropped = None if kept is None or kept.dropped is None else _Listed(kept.dropped)
        self._repeats = None if kept is None or kept.repeats is None else _Listed(kept.repeats)

    @property
    def by_hash(self) -> bool:
        """Whether rows are known by their hashes, which takes all columns."""
        return self._key is not None

    @property
    def problem(self) -> str:
        """What is wrong with the part, once it was read to its end; empty if nothing."""
        kept = self._kept
        other = kept is not None and (self.read != kept.rows or (self.by_hash and self._checksum != kept.checksum))
        return OTHER_ROWS if other else ""

    def filtered(self, batch: pa.RecordBatch, coins: Coins | None) -> pa.RecordBatch:
        """Return those of the next batch's rows that count, and are in the sample if one is drawn."""
        start, self.read = self.read, self.read + batch.num_rows
        if self._kept is not None and self.read > self._kept.rows:
            raise InputError(OTHER_ROWS)
        chosen, numbers = self._by_hash(batch, self._key) if self._key is not None else self._by_place(start)
        if coins is not None:
            fallen = coins.chosen(batch, np.zeros(batch.num_rows, np.uint64) if numbers is None else numbers)
            chosen = fallen if chosen is None else chosen & fallen
        batch = batch if chosen is None else batch.filter(pa.array(chosen))
        self.rows += batch.num_rows
        return batch

    def _by_place(self, start: int) -> tuple[NDArray[np.bool_] | None, Hashes | None]:
        """Return which rows count, and their numbers among equals; None if all do, and all are 0."""
        here = slice(start, self.read)
        mask, numbers = self._mask, self._numbers
        return None if mask is None else mask[here], None if numbers is None else numbers[here]

    def _by_hash(self, batch: pa.RecordBatch, key: bytes) -> tuple[NDArray[np.bool_] | None, Hashes | None]:
        hashes = row_hashes(batch, key)
        self._checksum = (self._checksum + checksum_of(hashes)) % 2**64
        dropped = None if self._dropped is None else self._dropped.next(hashes)
        numbers = None if self._repeats is None else self._repeats.next(hashes)
        return (
            None if dropped is None else dropped < 0,
            None if numbers is None else np.maximum(numbers, 0).astype(np.uint64),
        )


class _Listed:
    """Finds some rows of a part by their hashes, whatever their order: of equal ones, as many as are listed."""

    def __init__(self, ranked: Ranked) -> None:
        order = np.lexsort((ranked.ranks, ranked.hashes))
        self._hashes, self._ranks = ranked.hashes[order], ranked.ranks[order].astype(np.int64)
        self._met = np.zeros(len(order) + 1, np.int64)

    def next(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return the ranks of those of the next rows that are listed, and -1 for others."""
        first, end = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        listed = first + self._met[first] + numbers_among_equals(hashes).astype(np.int64)
        np.add.at(self._met, first, first < end)
        return np.where(listed < end, np.append(self._ranks, -1)[np.minimum(listed, len(self._ranks))], -1)


def run(task: Task, part: Part, kept: Kept | None = None) -> Outcome:
    """Do a task's work on a part: what an engine calls."""
    return task(part, kept)
