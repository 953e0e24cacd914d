"""Queries: bounded functions of one row, as frozen values. Their answer is the sum over all rows, plus noise.

A query declares a bound on what one row can add; the door imposes it. Queries of one hot cell (`Count`, `Marginal`)
name that cell; the others return a vector per row, which the door clips.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError
from threea.table.calendar_cells import CalendarCells
from threea.table.cells import AnyCells, Cells, Digits, Merged
from threea.table.schema import Chunk


@dataclass(frozen=True, slots=True)
class Answer:
    """A noisy sum.

    Args:
        value: The sum, in the query's own units and shape.
        stddev: Standard deviation of the noise on each of its numbers.
        parts: For a `Stack`, its queries' answers in order.
    """

    value: NDArray[np.float64]
    stddev: float
    parts: tuple[Answer, ...] = ()


class Rows:
    """A chunk of encoded rows. What queries work out row by row is kept, for the next query to use.

    Args:
        values: Encoded columns by name.
        count: How many rows.
    """

    __slots__ = ("cached", "count", "values")

    def __init__(self, values: Chunk, count: int) -> None:
        self.values, self.count = values, count
        self.cached: dict[Hashable, NDArray[Any]] = {}

    def index(self, cells: AnyCells) -> NDArray[Any]:
        """Return each row's cell, -1 for none, in as few bytes as will do."""
        small = np.min_scalar_type(-max(cells.size, 1))
        if isinstance(cells, Merged):
            return self.cache(cells, lambda: cells.merge(self.index(cells.cells)).astype(small))
        return self.cache(cells, lambda: cells.index(self.values[cells.column]).astype(small))

    def cache(self, key: Hashable, work_out: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what was worked out under a key, or work it out now. It must be a function of each row alone."""
        if key not in self.cached:
            found = work_out()
            # The next query gets the same array: none may change it.
            found.setflags(write=False)
            self.cached[key] = found
        return self.cached[key]

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: rows leave by the door only."""
        raise TypeError("rows cannot be copied or pickled")


class Query(ABC):
    """A bounded function of one row.

    The private table takes the queries of this folder alone, by their exact class: what it knows the bound of.

    Attributes:
        columns: The columns it reads.
        shape: The shape of its answer.
        l2: Bound on the L2 norm of one row's contribution.
        l1: Bound on its L1 norm.
        nonnegative: Whether contributions have pairwise nonnegative inner products. Those without negative numbers
            have; see `Vectors` for others.
        keys: What it takes from `Rows.cached`, if it needs nothing else of the rows.
    """

    # Without a dictionary of its own, an instance cannot be given another bound than its class's.
    __slots__ = ()
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    l2: float
    l1: float
    nonnegative: bool
    keys: tuple[Hashable, ...] | None = None

    @property
    def size(self) -> int:
        """How many numbers the answer holds."""
        return math.prod(self.shape)


class Norm(StrEnum):
    """Which length of a row's contribution is bounded: L2 under Gaussian noise, L1 under Laplace noise."""

    L1 = "l1"
    L2 = "l2"

    def bound(self, query: Query) -> float:
        """Return the query's bound in this norm."""
        return query.l1 if self is Norm.L1 else query.l2

    @property
    def power(self) -> int:
        """To which power a whole-number vector's length is a whole number."""
        return 1 if self is Norm.L1 else 2


class OneHot(Query):
    """A query in which each row adds 1 to a single number, or nothing."""

    __slots__ = ()
    l2 = l1 = 1.0
    nonnegative = True

    @abstractmethod
    def cell(self, rows: Rows) -> NDArray[np.int64]:
        """Return for each row the position of the number that it adds to, -1 for none."""


class Dense(Query):
    """A query in which each row adds a vector."""

    __slots__ = ()

    @abstractmethod
    def contributions(self, rows: Rows) -> NDArray[np.float64]:
        """Return one vector per row, shape (rows, size), before clipping."""


@dataclass(frozen=True, slots=True)
class Count(OneHot):
    """How many rows there are."""

    columns = ()
    shape = ()

    def cell(self, rows: Rows) -> NDArray[np.int64]:
        """Put every row in the one cell."""
        return np.zeros(rows.count, np.int64)


@dataclass(frozen=True, slots=True)
class Marginal(OneHot):
    """How many rows fall in each combination of some columns' cells.

    Args:
        cells: The columns' cells; the answer has one axis for each.
    """

    cells: tuple[AnyCells, ...]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns counted."""
        return tuple(dict.fromkeys(cells.column for cells in self.cells))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One axis per column."""
        return tuple(cells.size for cells in self.cells)

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Cells say it all."""
        return tuple(dict.fromkeys(unmerged(cells) for cells in self.cells))

    def cell(self, rows: Rows) -> NDArray[np.int64]:
        """Number the combinations as NumPy does; a row that lacks a cell in any column adds nothing."""
        flat = np.zeros(rows.count, np.int64)
        inside = np.ones(rows.count, np.bool_)
        for cells in self.cells:
            index = rows.index(cells)
            flat *= cells.size
            flat += index
            inside &= index >= 0
        return np.where(inside, flat, -1)


def unmerged(cells: AnyCells) -> Cells | Digits | CalendarCells:
    """Return the cells that others were merged from: who remembers these knows those."""
    return cells.cells if isinstance(cells, Merged) else cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Features(Dense):
    """The sum of any function of a row: an embedding, a clipped gradient.

    Args:
        function: Takes a chunk of encoded columns, returns one vector per row. It must treat rows one by one.
        columns: The columns it reads.
        shape: The shape of one row's vector.
        l2: Bound on a vector's L2 norm; longer ones are shortened to it.
        l1: Bound on its L1 norm, imposed under Laplace noise.
        nonnegative: Whether the function is never negative; negative numbers then become 0.
    """

    function: Callable[[Chunk], NDArray[np.float64]]
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    l2: float
    l1: float = math.inf
    nonnegative: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.l2) and self.l2 > 0 and self.l1 > 0):
            raise SettingError(f"bounds l2 ({self.l2}) and l1 ({self.l1}) must be > 0, l2 finite")

    @property
    def origin(self) -> str:
        """Where the function comes from: its module and name."""
        return origin_of(self.function)

    def contributions(self, rows: Rows) -> NDArray[np.float64]:
        """Apply the function."""
        return np.asarray(self.function(rows.values), dtype=np.float64).reshape(rows.count, self.size)


def origin_of(function: Callable[..., Any]) -> str:
    """Return where a function comes from: its module and name."""
    function = getattr(function, "func", function)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', type(function).__module__)}.{name}"


@dataclass(frozen=True, slots=True)
class Grouped(Query):
    """A query asked of each group of rows apart: parallel composition, for the price of one.

    Args:
        by: The cells that say which group a row is in; a row in none adds nothing.
        query: What to sum within each group.
    """

    by: AnyCells
    query: OneHot | Dense

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The grouping column and the query's."""
        return tuple(dict.fromkeys((self.by.column, *self.query.columns)))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One answer per group."""
        return (self.by.size, *self.query.shape)

    @property
    def l2(self) -> float:  # type: ignore[override]
        """A row is in one group only."""
        return self.query.l2

    @property
    def l1(self) -> float:  # type: ignore[override]
        """A row is in one group only."""
        return self.query.l1

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """As the query within the groups."""
        return self.query.nonnegative


@dataclass(frozen=True, slots=True)
class Stack(Query):
    """Several queries asked at once, in one pass over the rows, for one charge.

    Args:
        queries: What to ask; each row's contribution to each is bounded on its own.
    """

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        if not self.queries or any(isinstance(query, Stack) for query in self.queries):
            raise SettingError("a stack needs at least one query, and holds no other stack")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """All columns that any query reads."""
        return tuple(dict.fromkeys(name for query in self.queries for name in query.columns))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """All answers, flattened, one after another."""
        return (sum(query.size for query in self.queries),)

    @property
    def l2(self) -> float:  # type: ignore[override]
        """A row may reach every query's bound at once."""
        return math.hypot(*(query.l2 for query in self.queries))

    @property
    def l1(self) -> float:  # type: ignore[override]
        """A row may reach every query's bound at once."""
        return math.fsum(query.l1 for query in self.queries)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """If all queries are."""
        return all(query.nonnegative for query in self.queries)

    @property
    def keys(self) -> tuple[Hashable, ...] | None:  # type: ignore[override]
        """All that any query takes, if none needs anything else."""
        keys: dict[Hashable, None] = {}
        for query in self.queries:
            if query.keys is None:
                return None
            keys.update(dict.fromkeys(query.keys))
        return tuple(keys)

    def parts(self, value: NDArray[np.float64], stddev: float) -> tuple[Answer, ...]:
        """Cut a flat answer into the queries' answers."""
        ends = np.cumsum([0, *(query.size for query in self.queries)])
        return tuple(
            Answer(value[start:end].reshape(query.shape), stddev)
            for query, (start, end) in zip(self.queries, pairwise(ends), strict=True)
        )
