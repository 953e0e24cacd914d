"""What a model learns of a table with rules: less than the table has, so that what it draws keeps them.

A column that follows from others is not learned at all. Of two ordered columns the later one is learned as its distance
from the earlier one: a stay's length and not its end. Both are functions of one row, public as the rules are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.table.cells import multiple
from threea.table.column import Chunk, Column, Kind
from threea.table.rules import Columns, Order, Range, Rule, worked_out

_LOG_ABOVE = 64
"""Distances that may be so many units long spread over orders of magnitude. Chosen."""
_SECOND = 1e6
"""Moments are counted in microseconds; distances between them in no less than seconds."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a number or moment lies above others that come before it, as a column that can be learned.

    Args:
        end: The column it stands for.
        starts: The columns that come before it; never missing.
        strict: Whether it is never as small as the largest of those.
        column: The distance's own description, under the name of the column it stands for.
    """

    end: Column
    starts: tuple[str, ...]
    strict: bool
    column: Column

    @property
    def text(self) -> str:
        """What it is, in words."""
        first = self.starts[0] if len(self.starts) == 1 else f"the last of {', '.join(self.starts)}"
        return f"{self.end.name} - {first}"

    def base(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return from where the distance is counted."""
        return np.asarray(np.max([chunk[name] for name in self.starts], axis=0))

    def of(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return the distance in rows of values; rows that break the rule have the shortest."""
        distance = chunk[self.end.name] - self.base(chunk)
        assert self.column.lower is not None
        # Below the shortest that is not 0, the nearer of the two.
        shortest = np.where(distance < self.column.lower / 2, 0.0, self.column.lower) if self.column.special else 0.0
        clipped = np.clip(distance, self.column.lower, self.column.upper)
        return np.asarray(np.where(distance < self.column.lower, np.maximum(shortest, self._least), clipped))

    @property
    def _least(self) -> float:
        return min((self.column.lower or 0.0, *self.column.special))


def distances(rules: Sequence[Rule], columns: Columns, target: str | None) -> dict[str, Distance]:
    """Return which columns are learned as distances, by name.

    They are those that come after others, all of them never missing, and have neither special values, edges nor a log
    scale of their own, nor bounds that depend on other columns, nor are the target.
    """
    ends: dict[str, list[Order]] = {}
    for rule in rules:
        if isinstance(rule, Order):
            ends.setdefault(rule.end, []).append(rule)
    ranged = {rule.column for rule in rules if isinstance(rule, Range)}
    found = {}
    for name, orders in ends.items():
        end, starts = columns[name], [columns[order.start] for order in orders]
        plain = not (end.special or end.edges or end.log or name in ranged or name == target)
        if plain and not any(start.nullable for start in starts):
            strict = any(order.strict for order in orders)
            column = _described(end, starts, strict)
            if column is not None:
                found[name] = Distance(end, tuple(start.name for start in starts), strict, column)
    return found


def _described(end: Column, starts: Sequence[Column], strict: bool) -> Column | None:
    """Describe the distance from the largest of some columns to another; None if it could only be one value."""
    assert end.upper is not None
    span = end.upper - max(start.lower or 0.0 for start in starts)
    step = end.step if all(start.step == end.step for start in starts) else 0.0
    whole = all(column.whole for column in (end, *starts))
    unit = _SECOND if end.kind is Kind.DATETIME else step or float(whole)
    units = np.floor(span / unit + 1e-9) if unit else 0.0
    log = bool(units >= _LOG_ABOVE)
    if end.kind is Kind.DATETIME and not log:
        unit, units = 1.0, span
    upper = float(multiple(np.array(units), unit)) if unit else span
    shortest = (unit or span * 2.0**-20) if strict or log else 0.0
    if not shortest < upper:
        return None
    return Column(
        name=end.name,
        kind=Kind.INTEGER if whole else Kind.REAL,
        lower=shortest,
        upper=upper,
        nullable=end.nullable,
        special=(0.0,) if log and not strict else (),
        log=log,
        step=step,
    )


def modelled(rules: Sequence[Rule], columns: Iterable[Column], target: str | None) -> tuple[Column, ...]:
    """Return the columns that a model learns: not those that follow from others, and distances for ends."""
    by_name = {column.name: column for column in columns}
    left_out, apart = worked_out(rules), distances(rules, by_name, target)
    return tuple(
        apart[name].column if name in apart else column for name, column in by_name.items() if name not in left_out
    )


def sources(rules: Sequence[Rule], columns: Columns, target: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return which columns must be read to learn some: with a distance, those that it is counted from, and so on."""
    apart = distances(rules, columns, target)
    needed = dict.fromkeys(names)
    waiting = list(names)
    while waiting:
        distance = apart.get(waiting.pop())
        waiting += [name for name in (distance.starts if distance else ()) if name not in needed]
        needed |= dict.fromkeys(waiting)
    return tuple(needed)


def learned(chunk: Chunk, rules: Sequence[Rule], columns: Columns, target: str | None) -> Chunk:
    """Return encoded rows as a model learns them: each row by itself."""
    apart = distances(rules, columns, target)
    return {name: apart[name].of(chunk) if name in apart else values for name, values in chunk.items()}
