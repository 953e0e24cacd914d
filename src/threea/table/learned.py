"""What a model learns of a table with rules: less than the table has, so that what it draws keeps them.

A column that follows from others is not learned at all. Of two ordered columns one is learned as its distance from the
other: a stay's length and not its end. Both are functions of one row, public as the rules are.
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
    """How far a number or moment lies after others that it may not precede, or before others; it can be learned.

    Args:
        stands_for: The column it stands for.
        anchors: The columns it is counted from; never missing.
        after: Whether it lies after the last of them, or before the first.
        column: The distance's own description, under the name of the column it stands for.
    """

    stands_for: Column
    anchors: tuple[str, ...]
    after: bool
    column: Column

    @property
    def text(self) -> str:
        """What it is, in words."""
        nearest = "the last of" if self.after else "the first of"
        anchor = self.anchors[0] if len(self.anchors) == 1 else f"{nearest} {', '.join(self.anchors)}"
        return f"{self.column.name} - {anchor}" if self.after else f"{anchor} - {self.column.name}"

    def base(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return from where the distance is counted."""
        anchors = [chunk[name] for name in self.anchors]
        return np.asarray(np.max(anchors, axis=0) if self.after else np.min(anchors, axis=0))

    def of(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return the distance in rows of values; rows that break the rule have the shortest."""
        assert self.column.lower is not None
        distance = (chunk[self.column.name] - self.base(chunk)) * (1 if self.after else -1)
        shortest = np.full(len(distance), self.column.lower)
        if self.column.special:
            # Below the shortest that is not 0, the nearer of the two.
            shortest[distance < self.column.lower / 2] = 0.0
        clipped = np.clip(distance, self.column.lower, self.column.upper)
        return np.asarray(np.where(distance < self.column.lower, shortest, clipped))


def distances(rules: Sequence[Rule], columns: Columns, target: str | None) -> dict[str, Distance]:
    """Return which columns are learned as distances, by name.

    First those that come after others, all of them never missing; then, for what is left, those that come before others
    that are never missing. None of them has special values, edges, a log scale or bounds that depend on other columns,
    nor is it the target.
    """
    orders = [rule for rule in rules if isinstance(rule, Order)]
    narrowed = {rule.column for rule in rules if isinstance(rule, Range)}
    found: dict[str, Distance] = {}
    for after in (True, False):
        left = [order for order in orders if order.end not in found]
        for name in dict.fromkeys(order.end if after else order.start for order in left):
            own = [order for order in left if name == (order.end if after else order.start)]
            anchors = [columns[order.start if after else order.end] for order in own]
            one = columns[name]
            plain = not (one.special or one.edges or one.log or name in narrowed or name == target)
            if plain and not any(anchor.nullable for anchor in anchors):
                column = _described(one, anchors, strict=any(order.strict for order in own), after=after)
                if column is not None:
                    found[name] = Distance(one, tuple(anchor.name for anchor in anchors), after, column)
    return found


def _described(one: Column, anchors: Sequence[Column], *, strict: bool, after: bool) -> Column | None:
    """Describe the distance of a column from others; None if it could only be one value."""
    if after:
        span = (one.upper or 0.0) - max(anchor.lower or 0.0 for anchor in anchors)
    else:
        span = min(anchor.upper or 0.0 for anchor in anchors) - (one.lower or 0.0)
    step = one.step if all(anchor.step == one.step for anchor in anchors) else 0.0
    whole = all(column.whole for column in (one, *anchors))
    unit = _SECOND if one.kind is Kind.DATETIME else step or float(whole)
    units = np.floor(span / unit + 1e-9) if unit else 0.0
    log = bool(units >= _LOG_ABOVE)
    if one.kind is Kind.DATETIME and not log:
        unit, units = 1.0, span
    upper = float(multiple(np.array(units), unit)) if unit else span
    shortest = (unit or span * 2.0**-20) if strict or log else 0.0
    if not shortest < upper:
        return None
    return Column(
        name=one.name,
        kind=Kind.INTEGER if whole else Kind.REAL,
        lower=shortest,
        upper=upper,
        nullable=one.nullable,
        special=(0.0,) if log and not strict else (),
        log=log,
        step=step,
    )


def modelled(rules: Sequence[Rule], columns: Iterable[Column], target: str | None) -> tuple[Column, ...]:
    """Return the columns that a model learns: not those that follow from others, and distances for some."""
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
        waiting += [name for name in (distance.anchors if distance else ()) if name not in needed]
        needed |= dict.fromkeys(waiting)
    return tuple(needed)


def learned(chunk: Chunk, rules: Sequence[Rule], columns: Columns, target: str | None) -> Chunk:
    """Return encoded rows as a model learns them: each row by itself."""
    apart = distances(rules, columns, target)
    return {name: apart[name].of(chunk) if name in apart else values for name, values in chunk.items()}
