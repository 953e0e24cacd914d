"""Crafted neighbours: two small made-up tables that differ in one row, chosen where recipes go wrong.

Average rows tell an audit nothing: a leak shows on the row that stands out. Nobody stands behind any of these rows,
and their schema is public, so that a run takes milliseconds and may be repeated thousands of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from threea.budget import Adjacency
from threea.table.schema import Schema

SCHEMA = Schema.of(
    {
        "amount": {"kind": "real", "lower": 0.0, "upper": 1.0},
        "group": {"kind": "categorical", "categories": ["a", "b", "c", "rare"]},
        "label": {"kind": "categorical", "categories": ["no", "yes", "lone"]},
    },
    target="label",
)
"""The public description that all crafted tables share."""


class Row(NamedTuple):
    """One row of a crafted table; an amount may be anything a file could hold."""

    amount: float | str | None
    group: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two neighbouring tables.

    Args:
        name: What is odd about the target.
        summary: Which mistake the pair brings to light.
        rows: What both tables share.
        target: The row that an attacker looks for; in the right table only.
        stand_in: The row that is in its place in the left table, under replace.
        focus: The column in which the target stands out.
        text: Whether amounts are written as text.
    """

    name: str
    summary: str
    rows: tuple[Row, ...]
    target: Row
    stand_in: Row
    focus: str
    text: bool = False

    def tables(self, adjacency: Adjacency) -> tuple[pa.Table, pa.Table]:
        """Return the table without the target and the table with it.

        Example:
            >>> left, right = PAIRS["outlier"].tables(Adjacency.ADD_REMOVE)
            >>> right.num_rows - left.num_rows
            1
        """
        without = (*self.rows, self.stand_in) if adjacency is Adjacency.REPLACE else self.rows
        return self.table_of(without), self.table_of((*self.rows, self.target))

    def table_of(self, rows: tuple[Row, ...]) -> pa.Table:
        """Write rows as a table of the pair's types."""
        amounts: list[Any] = [row.amount for row in rows]
        if self.text:
            amounts = [None if amount is None else str(amount) for amount in amounts]
        columns = [
            # Not from pandas: a NaN stays one, and is not yet "missing".
            pa.array(amounts, pa.string() if self.text else pa.float64(), from_pandas=False),
            pa.array([row.group for row in rows], pa.string()),
            pa.array([row.label for row in rows], pa.string()),
        ]
        return pa.Table.from_arrays(columns, names=list(Row._fields))


_PLAIN = Row(0.4, "a", "no")


def _crowd(size: int = 30) -> tuple[Row, ...]:
    """Return ordinary rows: amounts in the middle, common groups, two classes."""
    return tuple(Row(0.3 + 0.2 * n / size, "abc"[n % 3], ("no", "yes")[n % 2]) for n in range(size))


def middle_group(size: int = 20) -> Pair:
    """Return the pair that decides who gets the middle group when rows are clustered.

    `size` rows are at 0, half as many at 0.5, `size` at 1. Clusters of at least `size` rows take the middle group to
    one side or the other, and one row at 0.4 or 0.6 decides which: so it moves many rows, not one.

    Args:
        size: Choose it near the least number of rows that the audited recipe allows in a cluster.
    """
    amounts = [0.0] * size + [0.5] * (size // 2) + [1.0] * size
    return Pair(
        name="middle group",
        summary="clusters made from the rows, then treated as fixed",
        rows=tuple(Row(amount, "a", "no") for amount in amounts),
        target=Row(0.6, "a", "no"),
        stand_in=Row(0.4, "a", "no"),
        focus="amount",
    )


def _duplicates(copies: int = 10) -> Pair:
    repeated = Row(0.9, "b", "yes")
    return Pair(
        name="duplicates",
        summary="equal rows counted once, or memorized because they are many",
        rows=_crowd() + (repeated,) * (copies - 1),
        target=repeated,
        stand_in=_PLAIN,
        focus="amount",
    )


def _odd(name: str, summary: str, target: Row, focus: str, *, text: bool = False) -> Pair:
    return Pair(name=name, summary=summary, rows=_crowd(), target=target, stand_in=_PLAIN, focus=focus, text=text)


PAIRS: dict[str, Pair] = {
    pair.name: pair
    for pair in (
        _odd("outlier", "bounds or scales read from the rows", Row(1.0, "a", "no"), "amount"),
        _odd("rare category", "categories read from the rows", Row(0.4, "rare", "no"), "group"),
        _odd("lone class member", "noise or sizes set by the class's own rows", Row(0.4, "a", "lone"), "label"),
        middle_group(),
        _duplicates(),
        _odd("huge number", "contributions not clipped", Row(1e300, "a", "no"), "amount"),
        _odd("not a number", "a sum or a scale spoilt by NaN", Row(float("nan"), "a", "no"), "amount"),
        _odd(
            "text for a number", "a failure or a column's type that tells", Row("x17", "a", "no"), "amount", text=True
        ),
        _odd("unlisted category", "categories read from the rows", Row(0.4, "unlisted", "no"), "group"),
    )
}
"""Every crafted pair by name."""
