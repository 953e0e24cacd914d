"""A table on a cluster: parts that workers read, and sums that the driver adds up, each part's exactly once.

Whatever a scheduler does (tasks that are lost, repeated or run twice at once), the driver takes one answer for each
part's number, and an answer for every part, or none at all. Charges and noise are the driver's alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.backends.base import Elsewhere, Engine, RowSum, no_rows, refuse_too_many
from threea.backends.coins import ROWS_KEY, Coins
from threea.backends.tasks import Kept, Outcome, Ranked, Task, Total, ValueCounts
from threea.backends.unchanged import Unchanged
from threea.errors import InputError
from threea.progress import tell_part

Beyond = Mapping[int, Ranked]
Sizes = Mapping[int, tuple[int, int]]
"""By part: how many rows it has, and the checksum of their hashes."""


class Workers(ABC):
    """Those who read the parts of one table: what an engine for clusters has to offer."""

    stable = True
    """Whether the parts are of files, which are read in the same order each time."""

    @property
    @abstractmethod
    def parts(self) -> int | None:
        """How many parts there are; None until a pass has told."""

    @abstractmethod
    def each(self, task: Task, kept: Mapping[int, Kept] | None) -> Iterable[Outcome]:
        """Do a task on every part and yield what became of each, in any order."""

    @abstractmethod
    def beyond(self, unit: str | None, max_rows: int, key: bytes) -> tuple[Beyond, Sizes]:
        """Find the rows of units that have more than so many, by a shuffle of keyed hashes alone.

        Args:
            unit: The column that names a person; None for rows that are equal to one another.
            max_rows: How many of a unit's rows are not asked for, ordered by their hashes.
            key: Of the hashes.
        """

    @abstractmethod
    def mapped(self, function: Callable[[int], bytes], numbers: Sequence[int]) -> Iterator[bytes]:
        """Call a function that needs no rows on some numbers, and yield the results in their order."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was started for this table."""


class ClusterBackend(Engine):
    """A table whose parts are read by workers. No row comes to the driver.

    Args:
        workers: Who reads the parts.
        layout: Names, order and declared types of the columns.
        unchanged: The files, if it is in files that the driver sees, too.
    """

    __slots__ = ("_coins", "_kept", "_numbered", "_unchanged", "_unit", "_workers")

    def __init__(self, workers: Workers, layout: pa.Schema, unchanged: Unchanged | None = None) -> None:
        self.layout, self._workers, self._unchanged = layout, workers, unchanged
        self._kept: Mapping[int, Kept] | None = None
        self._unit: tuple[str | None, bytes] | None = None
        self._coins: Coins | None = None
        self._numbered: Mapping[int, Kept] | None = None

    def sum(self, function: RowSum, columns: Sequence[str]) -> NDArray[np.int64]:
        """Add up the parts' sums in int64, each part's once."""
        total: NDArray[np.int64] | None = None
        for found in self._pass(Total(function), tuple(columns) or (self.layout.names[0],)):
            if found is not None:
                total = found if total is None else total + found
        return function(no_rows(self.layout)) if total is None else total

    def count_values(self, column: str) -> Counter[str]:
        """Return how many rows hold each value, as text."""
        counts: Counter[str] = Counter()
        for found in self._pass(ValueCounts(column), (column,)):
            counts.update(found)
        return counts

    def bounded(self, unit: str, max_rows: int, key: bytes) -> ClusterBackend:
        """Return the view in which each unit has at most so many rows."""
        self._check()
        beyond, sizes = self._workers.beyond(unit, max_rows, key)
        stable = self._workers.stable
        kept = {part: Kept.without(beyond.get(part), *size, stable=stable) for part, size in sizes.items()}
        return self._read_again(self._view(kept, (unit, key), None))

    def sample(self, rate: float, key: bytes) -> ClusterBackend:
        """Return the view of the units whose coins under this key fall at this rate."""
        if self._kept is not None and self._unit is not None and self._unit[0] is not None:
            return self._view(self._kept, self._unit, Coins(rate, key, (self._unit[0], self._unit[1])))
        if self._numbered is None:
            # Found once: the numbers of equal rows do not depend on the sample.
            self._check()
            repeats, sizes = self._workers.beyond(None, 1, ROWS_KEY)
            kept = {part: Kept(*size, repeats=repeats.get(part)) for part, size in sizes.items()}
            self._read_again(self._view(kept, (None, ROWS_KEY), None))
            self._numbered = kept
        return self._view(self._numbered, (None, ROWS_KEY), Coins(rate, key, None))

    def _view(self, kept: Mapping[int, Kept], unit: tuple[str | None, bytes], coins: Coins | None) -> ClusterBackend:
        view = ClusterBackend(self._workers, self.layout, self._unchanged)
        view._kept, view._unit, view._coins = kept, unit, coins
        return view

    def _read_again(self, view: ClusterBackend) -> ClusterBackend:
        """Refuse a table whose parts have other rows the second time, while nothing is charged for it."""
        if not self._workers.stable:
            view.sum(_nothing, self.layout.names[:1])
        return view

    @property
    def elsewhere(self) -> Elsewhere:
        """The workers, for work that needs no rows: drawing synthetic ones."""
        return self._workers.mapped

    def close(self) -> None:
        """Let go of what was started for this table."""
        self._workers.close()

    def _pass(self, work: Any, columns: tuple[str, ...]) -> Iterator[Any]:
        """Yield each part's answer; raise what went wrong with any of them, or if one is missing."""
        self._check()
        seen: set[int] = set()
        rows = 0
        task = Task(work, columns, self.layout, self._unit, self._coins)
        for outcome in self._workers.each(task, self._kept):
            if outcome.problem:
                raise InputError(outcome.problem)
            if outcome.part in seen:
                # A task that ran twice: equal answers, of which one is taken.
                continue
            seen.add(outcome.part)
            rows += outcome.rows
            # Before it is added: sums of so many rows could wrap.
            refuse_too_many(rows)
            tell_part(len(seen), self._workers.parts)
            yield outcome.result
        if len(seen) != self._workers.parts or (self._kept is not None and seen != set(self._kept)):
            raise InputError("the cluster did not answer for every part of the table; start again")
        self._check()

    def _check(self) -> None:
        if self._unchanged is not None:
            self._unchanged.check()


def _nothing(batch: pa.RecordBatch) -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


def merged(buckets: Iterable[Beyond]) -> Beyond:
    """Join what several buckets of units say of each part."""
    by_part: dict[int, list[Ranked]] = {}
    for ranked in buckets:
        for part, rows in ranked.items():
            by_part.setdefault(part, []).append(rows)
    return {part: Ranked(*map(np.concatenate, zip(*rows, strict=True))) for part, rows in by_part.items()}
