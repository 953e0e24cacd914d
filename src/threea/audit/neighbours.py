"""Made-up tables and their neighbours, for exact replay: the odd row added, a row taken away, a person of many rows.

Nobody stands behind any of these rows, and their schema is public.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from threea.budget import Adjacency
from threea.table.rules import Missing, Order
from threea.table.schema import Schema

ROWS = 120
PERSON, MANY = "person", 1000
"""The column that names a person, and how many rows an excessive one has."""

SCHEMA = Schema.of(
    {
        PERSON: {"kind": "id"},
        "amount": {"kind": "real", "lower": 0.0, "upper": 100.0, "special": [0.0]},
        "visits": {"kind": "integer", "lower": 0, "upper": 20},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"], "open_ended": True},
        "day": {"kind": "datetime", "lower": "2020-01-01", "upper": "2021-01-01"},
        "died": {"kind": "boolean"},
    },
    target="died",
)
"""The public description of the table."""

RULED = replace(
    SCHEMA,
    columns=tuple(replace(column, nullable=column.nullable and column.name != "amount") for column in SCHEMA.columns),
    rules=(Order("amount", "visits"), Missing("day", (("ward", ("a",)),))),
)
"""The same with rules, so that a row's values are learned otherwise than they are."""

LAYOUT = pa.schema(
    {
        PERSON: pa.string(),
        "amount": pa.float64(),
        "visits": pa.int64(),
        "ward": pa.string(),
        "day": pa.timestamp("us"),
        "died": pa.bool_(),
    }
)
_FIRST, _LAST = datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)

_FAR, _PAST = datetime.datetime(9999, 12, 31), datetime.datetime(1800, 1, 1)

ODD: dict[str, dict[str, Any]] = {
    "all missing": {},
    "lowest": {"amount": 0.0, "visits": 0, "ward": "a", "day": _FIRST, "died": False},
    "highest": {"amount": 100.0, "visits": 20, "ward": "c", "day": _LAST, "died": True},
    "opposite": {"amount": 100.0, "visits": 0, "ward": "b", "day": _LAST, "died": False},
    "not a number": {"amount": math.nan, "visits": 3, "ward": "a", "day": _FIRST, "died": True},
    "infinite": {"amount": math.inf, "visits": 2**63 - 1, "ward": "a", "day": _LAST, "died": True},
    "huge": {"amount": -1e308, "visits": -(2**63), "ward": "b" * 5000, "day": _FAR, "died": False},
    "out of domain": {"amount": 1e9, "visits": 10**6, "ward": "nowhere", "day": _PAST, "died": True},
}  # fmt: skip
"""Rows that a careless bound would not hold, by name."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A table that differs from another in one unit.

    Args:
        name: In what.
        rows: Its rows.
    """

    name: str
    rows: pa.Table


def table(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return an ordinary table: two rows a person, columns that go together, some values missing."""
    rng = np.random.default_rng(seed)
    died = rng.random(rows) < 0.4
    amount = np.clip(rng.normal(np.where(died, 60, 30), 15, rows), 0, 100)
    amount[rng.random(rows) < 0.15] = 0.0
    visits = np.clip(np.round(amount / 8 + rng.normal(0, 2, rows)), 0, 20).astype(np.int64)
    ward = rng.choice(["a", "b", "c", "d"], rows, p=[0.4, 0.3, 0.25, 0.05])
    day = [_FIRST + datetime.timedelta(days=int(number)) for number in rng.integers(0, 366, rows)]
    columns = [
        pa.array([f"p{number // 2}" for number in range(rows)]),
        pa.array(amount, mask=rng.random(rows) < 0.05),
        pa.array(visits),
        pa.array(ward, mask=rng.random(rows) < 0.05),
        pa.array(day, pa.timestamp("us")),
        pa.array(died),
    ]
    return pa.Table.from_arrays(columns, schema=LAYOUT)


def one_row(person: str | None, **values: Any) -> pa.Table:
    """Return one row of the tables' layout; what is not given is missing."""
    return pa.Table.from_pylist([{PERSON: person, **values}], schema=LAYOUT)


@cache
def corners(count: int, seed: int = 1) -> pa.Table:
    """Return rows within the schema whose values are extreme, special, missing or anything between."""
    rng = np.random.default_rng(seed)
    between = [float(number) for number in rng.uniform(0, 100, 8)]
    choices: dict[str, list[Any]] = {
        "amount": [0.0, 1e-9, 100.0, None, *between],
        "visits": [0, 20, None, *(int(number) for number in rng.integers(0, 21, 6))],
        "ward": ["a", "b", "c", "elsewhere", None],
        "day": [_FIRST, _LAST, None, *(_FIRST + datetime.timedelta(days=int(d)) for d in rng.integers(0, 366, 6))],
        "died": [True, False],
    }
    drawn = [{name: values[rng.integers(len(values))] for name, values in choices.items()} for _ in range(count)]
    return pa.Table.from_pylist([{PERSON: f"q{n}", **row} for n, row in enumerate(drawn)], schema=LAYOUT)


def neighbours(base: pa.Table, adjacency: Adjacency, *, by_person: bool) -> Iterator[Neighbour]:
    """Yield neighbours of a table: rows, or persons, added, removed or replaced."""
    size = 2 if by_person else 1
    rest = base.slice(0, len(base) - size)
    units = {name: one_row("someone", **values) for name, values in ODD.items()}
    units |= {"a duplicate": base.slice(0, 1), "nothing at all": one_row(None)}
    if by_person:
        units = {name: _crowd(unit, name) for name, unit in units.items()}
    if adjacency is Adjacency.ADD_REMOVE:
        yield Neighbour("one removed", rest)
        yield from (Neighbour(f"{name} added", pa.concat_tables([base, unit])) for name, unit in units.items())
        return
    yield from (Neighbour(f"replaced by {name}", pa.concat_tables([rest, unit])) for name, unit in units.items())


def _crowd(unit: pa.Table, name: str) -> pa.Table:
    """Return many rows of one person: like a row, and corners."""
    rows = pa.concat_tables([*([unit] * (MANY // 2)), corners(MANY // 2)]).combine_chunks()
    people = pa.array([f"crowd of {name}"] * len(rows))
    return rows.set_column(0, PERSON, people)
