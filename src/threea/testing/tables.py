"""Tables to test recipes on: a plain one, poor ones, and one of the nastiest values that its types can hold."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.table.schema import Schema

ROWS = 240


@dataclass(frozen=True)
class Case:
    """A table, its public description and what to predict."""

    table: pa.Table
    columns: dict[str, dict[str, Any]]
    target: str | None = "label"
    rules: tuple[dict[str, Any], ...] = ()

    @property
    def schema(self) -> Schema:
        """The description as a schema."""
        return Schema.of(self.columns, self.target, self.rules)

    def with_column(self, name: str, values: pa.Array, **public: Any) -> Case:
        """Return the same table with a column more, or with another in its place."""
        table = self.table.drop_columns([name]) if name in self.table.column_names else self.table
        columns = {key: value for key, value in self.columns.items() if key != name} | {name: public}
        return replace(self, table=table.append_column(name, values), columns=columns)

    def only(self, *names: str) -> Case:
        """Return the same table with fewer columns."""
        return replace(self, table=self.table.select(names), columns={name: self.columns[name] for name in names})


class OnlySums:
    """An engine that can sum and nothing else.

    Args:
        table: The rows. There may be none: an engine that only sums cannot tell before it is asked.
        times: How often the table has each of them.
    """

    def __init__(self, table: pa.Table, times: int = 1) -> None:
        self._table, self.layout, self._times = table, table.schema.remove_metadata(), times

    def sum(self, function: Callable[[pa.RecordBatch], NDArray[np.int64]], columns: Sequence[str]) -> NDArray[np.int64]:
        """Add up small chunks, cut where no other engine cuts them."""
        rows = self._table.select(list(columns) or self.layout.names[:1])
        empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in rows.schema], schema=rows.schema)
        total: NDArray[np.int64] = np.sum([function(batch) for batch in (empty, *rows.to_batches(37))], axis=0)
        return total * self._times


def cycled(values: Sequence[Any]) -> list[Any]:
    """Return as many values as the tables have rows."""
    return [values[row % len(values)] for row in range(ROWS)]


DATA: dict[str, pa.Array] = {
    "person": pa.array([f"p{row // 2}" for row in range(ROWS)]),
    "colour": pa.array(cycled(["red", "green", None, "red", "blue"])),
    "length": pa.array(cycled([0.5, 1.25, None, 0.0, 9.75, 2.0, 3.5]), pa.float32()),
    "age": pa.array(cycled([31, 40, 40, 77, 5, 18, 90, 61, 23, 55, 2]), pa.int16()),
    "smoker": pa.array(cycled([True, False, False])),
    "seen": pa.array(cycled([datetime.date(2020, 1, day) for day in range(1, 28)])),
    "label": pa.array(cycled(["yes", "no", "no"])).dictionary_encode(),
}
PUBLIC: dict[str, dict[str, Any]] = {
    "person": {"kind": "id"},
    "colour": {"kind": "categorical", "categories": ["red", "green", "blue"]},
    "length": {"kind": "real", "lower": 0.1, "upper": 10.0, "special": [0.0]},
    "age": {"kind": "integer", "lower": 0, "upper": 110, "nullable": False},
    "smoker": {"kind": "boolean"},
    "seen": {"kind": "date", "lower": "2020-01-01", "upper": "2020-02-01"},
    "label": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False},
}
PLAIN = Case(pa.table(DATA), PUBLIC)

FLAGS = (
    PLAIN.only("label")
    .with_column("smoker", DATA["smoker"], kind="boolean", nullable=False)
    .with_column("ill", pa.array(cycled([True, False, True, False, False])), kind="boolean", nullable=False)
)

# What the description says and what a column's type can hold differ on purpose: text where numbers are due, numbers
# where text is, moments for dates.
_NASTY: dict[str, tuple[list[Any], pa.DataType, dict[str, Any]]] = {
    "person": ([None, "", "p", "q"], pa.string(), {"kind": "id"}),
    "number": (
        [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, -1.0, 2.0, 0.3],
        pa.float64(),
        {"kind": "real", "lower": -1.0, "upper": 2.0, "special": [0.0]},
    ),
    "whole": (
        [None, "", "3", " 4 ", "7.9", "-1", "1e308", "-1e999", "inf", "nan", "many", "٣", "0x1", "+5", "."],
        pa.string(),
        {"kind": "integer", "lower": 0, "upper": 7},
    ),
    "cost": (
        [None, math.nan, math.inf, -math.inf, 0.0, -3.0, 1e38, 1e-45, 12.5],
        pa.float32(),
        {"kind": "real", "lower": 0.5, "upper": 1e30, "log": True, "nullable": False},
    ),
    "ward": ([None, "a", "b", "c", "A", "other", "z", "", "1"], pa.string(), {"kind": "categorical"}),
    "code": (
        [None, 0, 1, 2, 3, -1, 2**63 - 1, -(2**63)],
        pa.int64(),
        {"kind": "categorical", "categories": ["1", "2"], "open_ended": True},
    ),
    "flag": (
        [None, "true", "F", "yes", "0", "1.0", "perhaps", ""],
        pa.string(),
        {"kind": "boolean", "nullable": False},
    ),
    "day": (
        [None, datetime.datetime(2020, 7, 1), datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)],
        pa.timestamp("us"),
        {"kind": "date", "lower": "2020-01-01", "upper": "2021-01-01"},
    ),
}
_NASTY["ward"][2]["categories"] = ["a", "b", "c"]
NASTY = Case(
    pa.table({name: pa.array(cycled(values), kind) for name, (values, kind, _) in _NASTY.items()}),
    {name: public for name, (_, _, public) in _NASTY.items()},
    target="ward",
)

RULES: tuple[dict[str, Any], ...] = (
    {"order": "age <= last"},
    {"depends": "colour -> shade", "table": {"red": "warm", "green": "cold", "blue": "cold"}},
    {"sum": "total = age + last"},
    {"combinations": ["smoker", "label"], "allowed": [[True, "yes"], [False, "yes"], [False, "no"]]},
    {"missing": "length", "when": {"label": "yes"}},
    {"range": "seen", "upper": "2020-01-20", "when": {"smoker": False}},
)
"""One of each kind. Some of the table's rows break some of them."""
RULED = replace(
    PLAIN.with_column(
        "last", pa.array(cycled([70, 40, 95, 90]), pa.int16()), kind="integer", lower=0, upper=120, nullable=False
    )
    .with_column("shade", pa.array(cycled(["warm", "cold", None])), kind="categorical", categories=["warm", "cold"])
    .with_column("total", pa.array(cycled([101, 80, None])), kind="integer", lower=0, upper=240),
    rules=RULES,
)

_LABELS: dict[str, Any] = {"kind": "categorical", "categories": ["no", "yes", "never"]}
CASES: dict[str, Case] = {
    "plain": PLAIN,
    "one row": replace(PLAIN, table=PLAIN.table.slice(0, 1)),
    "an empty class": PLAIN.with_column("label", DATA["label"], **_LABELS),
    "only one class": PLAIN.with_column("label", pa.array(["no"] * ROWS), **_LABELS),
    "labels often missing": PLAIN.with_column("label", pa.array([None] * (ROWS - 1) + ["no"]), **_LABELS),
    "no label is listed": PLAIN.with_column("label", pa.array(["perhaps"] * ROWS), **_LABELS),
    "constant columns": PLAIN.with_column("c", pa.array([4.5] * ROWS), kind="real", lower=0, upper=9).with_column(
        "d", pa.array([4] * ROWS), kind="integer", lower=4, upper=4, nullable=False
    ),
    "one listed category": PLAIN.with_column("c", pa.array(["x"] * ROWS), kind="categorical", categories=["x"]),
    "nothing listed": PLAIN.with_column("c", pa.array(["x"] * ROWS), kind="categorical", open_ended=True),
    "all missing": PLAIN.with_column("c", pa.nulls(ROWS, pa.float64()), kind="real", lower=0, upper=1)
    .with_column("d", pa.nulls(ROWS, pa.string()), kind="categorical", categories=["x"])
    .with_column("e", pa.nulls(ROWS), kind="categorical", categories=["x"])
    .with_column("f", pa.nulls(ROWS, pa.timestamp("us")), kind="datetime", lower="2020-01-01", upper="2021-01-01"),
    "all values out of bounds": PLAIN.with_column(
        "c", pa.array([1e300, -math.inf] * (ROWS // 2)), kind="real", lower=0, upper=1
    ),
    "nasty values": NASTY,
    "no target": replace(PLAIN, target=None),
    "numeric target": replace(PLAIN, target="length"),
    "whole-number target": replace(PLAIN, target="age"),
    "boolean target": replace(PLAIN, target="smoker"),
    "date target": replace(PLAIN, target="seen"),
    "one feature": PLAIN.only("colour", "label"),
    "one feature, no target": replace(PLAIN.only("person", "age"), target=None),
    "no feature": PLAIN.only("person", "label"),
    "flags alone": FLAGS,
    "rules": RULED,
}
"""By what is poor about them. All have rows; laws that need an empty table cut one from these."""
