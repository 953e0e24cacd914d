"""Schemas, tables and options for fuzzing: valid but odd, and tables that fit them or do not.

Everything is drawn from a `random.Random`: a seeded one in a benchmark, hypothesis' own in a test, which can then make
a failing case smaller.
"""

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from threea.table.schema import Kind

SCHEMA = """confirmed = true
target = "label"

[column.person]
kind = "id"

[column.age]
kind = "integer"
lower = 0
upper = 120
special = [999]

[column.ward]
kind = "categorical"
categories = ["heart", "lung", "skin"]
open_ended = true

[column.cost]
kind = "real"
lower = 0.5
upper = 1e6
log = true
nullable = false

[column.seen]
kind = "date"
lower = "2020-01-01"
upper = "2021-12-31"

[column.label]
kind = "categorical"
categories = ["no", "yes"]
"""

EPOCH = datetime.datetime(1970, 1, 1)
DAYS = ["0001-01-01", "1900-02-28", "1969-12-31", "1970-01-01", "2020-01-01", "2020-01-02", "2262-04-12", "9999-12-31"]
WORDS: list[list[str]] = [
    ["u"],
    ["u", "v"],
    ["no", "yes", "perhaps"],
    ["", " ", "other"],
    ["0", "1"],
    ["1", "2", "3"],
    ["1.5", "nan", "-0"],
    ["2020-01-01", "2020-01-02"],
    ["a\nb", 'say "so"', "x,y", "\N{SNOWMAN}", "=1+1"],
    ["true", "false", "TRUE"],
    [f"c{number}" for number in range(40)],
]
WHOLE = [0, 1, 2, 7, 100, 255, -1, -128, 2**31, 2**53, 2**53 + 2, 2**62, -(2**63), 2**63 - 1, 10**18, 10**300]
REAL = [0.0, -0.0, 1.0, 0.5, -3.25, 1e-9, 5e-324, 1e-300, 1e30, 1e300, 8e307, -8e307, 1 + 2**-52, 999.0, 2.0**53]


def column(chance: Random, many: bool = False) -> dict[str, Any]:
    """Draw what a schema says of a column; it may contradict itself, rarely."""
    kind = chance.choice([kind for kind in Kind if kind is not Kind.UNDECLARED])
    said: dict[str, Any] = {"kind": str(kind)}
    if kind is Kind.CATEGORICAL or kind is Kind.ORDINAL:
        said |= _listed(chance, many)
    elif kind.numeric:
        said |= _bounded(chance, kind)
    if kind is not Kind.ID and chance.random() < 0.3:
        said["nullable"] = False
    return said


def _listed(chance: Random, many: bool) -> dict[str, Any]:
    words = [f"w{number}" for number in range(chance.choice([300, 3000]))] if many else chance.choice(WORDS)
    said: dict[str, Any] = {"categories": list(words)}
    if chance.random() < 0.4:
        said["open_ended"] = True
        if chance.random() < 0.3:
            del said["categories"]
    return said


def _bounded(chance: Random, kind: Kind) -> dict[str, Any]:
    pool: Sequence[Any] = DAYS if kind.temporal else WHOLE if kind is Kind.INTEGER else REAL
    if not kind.temporal and chance.random() < 0.3:
        any_real = [chance.uniform(-1, 1) * 10.0 ** chance.randint(-320, 307) for _ in range(6)]
        pool = [int(value) for value in any_real] if kind is Kind.INTEGER else any_real
    if kind is Kind.DATETIME and chance.random() < 0.5:
        pool = [f"{day}T23:59:59.999999" for day in DAYS]
    log = chance.random() < 0.2
    pool = sorted({value if kind.temporal else abs(value) or 1 for value in pool}) if log else pool
    lower, upper = sorted(
        chance.choices(pool, k=2) if chance.random() < 0.2 or len(pool) < 2 else chance.sample(pool, k=2)
    )
    said: dict[str, Any] = {"lower": lower, "upper": upper}
    inside = [value for value in pool if lower <= value <= upper]
    if chance.random() < 0.3:
        said["special"] = sorted(set(chance.choices(pool, k=chance.randint(1, 3))))
    if chance.random() < 0.3 and len(inside) > 1:
        said["edges"] = sorted(chance.sample(inside, k=chance.randint(2, min(len(inside), 5))))
    if log and lower > ("1970-01-01T23" if kind.temporal else 0):
        said["log"] = True
    return said


TYPES: dict[str, list[pa.DataType]] = {
    "text": [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    "integer": [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.decimal128(38, 4)],
    "real": [pa.float16(), pa.float32(), pa.float64(), pa.decimal128(12, 3)],
    "boolean": [pa.bool_()],
    "date": [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin")],
    "datetime": [pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32()],
    "odd": [pa.null(), pa.binary(), pa.time32("s"), pa.duration("us"), pa.list_(pa.int8())],
}


def values(chance: Random, said: dict[str, Any], rows: int) -> pa.Array:
    """Draw a column's values: such as its description expects, or such as it does not."""
    own = {"categorical": "text", "ordinal": "text", "id": "text"}.get(said["kind"], said["kind"])
    family = chance.choices([own, "text", chance.choice(list(TYPES))], [8, 2, 0.5])[0]
    kind = chance.choice(TYPES[family])
    pool = _pool(chance, said, family)
    shape = chance.choice(["mixed"] * 8 + ["constant", "missing"])
    chosen = [chance.choice(pool)] if shape == "constant" else pool
    holes = {"missing": 1.0, "mixed": chance.choice([0.0, 0.2])}.get(shape, 0.0)
    # Cells have a generator of their own: what is worth making smaller is the schema, not each of its cells.
    each = Random(chance.getrandbits(32))
    cells = [None if each.random() < holes else each.choice(chosen) for _ in range(rows)]
    return _array(cells, kind)


def _array(cells: list[Any], kind: pa.DataType) -> pa.Array:
    """Return the values in a type, or as text where it cannot hold them."""
    try:
        if pa.types.is_dictionary(kind):
            return pa.array(cells, kind.value_type).dictionary_encode().cast(kind)
        return pa.array(cells, pa.float32()).cast(kind) if kind == pa.float16() else pa.array(cells, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def _pool(chance: Random, said: dict[str, Any], family: str) -> list[Any]:
    within = [said[key] for key in ("lower", "upper") if key in said] + said.get("special", [])
    pools: dict[str, Callable[[], list[Any]]] = {
        "text": lambda: [*map(str, [*said.get("categories", []), *within]), "unlisted", "", "1e999", "12a"],
        "integer": lambda: [value for value in (*within, 0, 1, -1, 100, 2**40) if isinstance(value, int)],
        "real": lambda: [v for v in (*within, 0.5, math.nan, math.inf, -1e300, 3) if isinstance(v, int | float)],
        "boolean": lambda: [True, False],
        "date": lambda: [datetime.date(2020, 1, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
        "datetime": lambda: [EPOCH, datetime.datetime(2020, 2, 2, 2), datetime.datetime(9999, 12, 31, 23, 59, 59)],
        "odd": lambda: [None],
    }
    pool = pools[family]()
    return pool[: chance.randint(1, len(pool))]


@dataclass(frozen=True)
class Drawn:
    """A table, what a schema says of it, and how a release of it is asked for."""

    columns: dict[str, dict[str, Any]]
    table: pa.Table
    target: str | None
    options: dict[str, Any]


PROVEN = ("auto", "independent", "labeltree", "gaussians", "clustmix", "dpmix")


def drawn(chance: Random, rows: Sequence[int] = (0, 1, 1, 2, 2, 30, 30, 200, 200, 200), many: bool = False) -> Drawn:
    """Draw a whole case."""
    names = [f"x{number}" for number in range(chance.choice([1, 1, 2, 3, 5]))] + ["y"]
    columns = {name: column(chance, many and chance.random() < 0.3) for name in names}
    if chance.random() < 0.2:
        columns = {name: {"kind": "id"} for name in names[:-1]} | {"y": columns["y"]}
    count = chance.choice(rows)
    table = pa.table({name: values(chance, said, count) for name, said in columns.items()})
    modelled = [name for name, said in columns.items() if said["kind"] != "id"]
    target = chance.choice([*(modelled or names), "y" if "y" in modelled else None])
    return Drawn(columns, table, target, options(chance, columns))


def options(chance: Random, columns: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Draw how a release is asked for."""
    people = [name for name, said in columns.items() if said["kind"] == "id"]
    drawn: dict[str, Any] = {
        "epsilon": chance.choice([1.0, 1.0, 3.0, 1e-3, 0.1, 50.0, 1e4]),
        "delta": chance.choice([1e-6, 1e-6, 1e-12, 0.3]),
        "adjacency": chance.choice(["add-remove", "replace"]),
        "recipe": chance.choice([*PROVEN, "independent", "labeltree"]),
        "rows": chance.choice([1, 20, None]),
        "seed": chance.choice([None, 0, 7]),
    }
    if chance.random() < 0.3:
        drawn["unit"] = chance.choice(people if people and chance.random() < 0.9 else list(columns))
        drawn["max_rows_per_unit"] = chance.choice([1, 3, 1000, 10**6])
    if drawn["recipe"] == "dpmix":
        drawn["rows"] = None
    return drawn


VALUES = (
    "0", "-1", "1", "1e308", "1e400", "nan", "inf", "-inf", '""', '"x"', "true", "false", "[]", "[[]]", "{}", "[1, 1]",
    "2020-01-01", "2020-01-01T00:00:00Z", "07:32:00", '"9999-12-31"', '"0001-01-01"', "9" * 400, "0x10", "null",
    '"\\u0000"', "[0, 1, 2]", '["a", "a"]', '["2020-01-01"]', "1_000", "'y'", '"label"', "[nan]", "-0.0", "2.5",
    "5e-324",
)  # fmt: skip
KINDS = ("categorical", "ordinal", "boolean", "integer", "real", "date", "datetime", "id", "undeclared", "number", "")
KEYS = (
    "lower",
    "upper",
    "categories",
    "open_ended",
    "nullable",
    "special",
    "log",
    "edges",
    "kind",
    "as_read",
    "origin",
)


def mutated_text(text: str, chance: Random) -> str:
    """Drop, repeat, move or alter a line or a value of a TOML text."""
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    key, _, _ = lines[place].partition(" = ")
    new = {
        "drop": [],
        "repeat": [lines[place]] * 2,
        "value": [f"{key} = {chance.choice(VALUES)}"],
        "kind": [f'kind = "{chance.choice(KINDS)}"'],
        "key": [f"{chance.choice(KEYS)} = {chance.choice(VALUES)}", lines[place]],
        "section": [f"[column.{chance.choice(['label', 'age', '', 'a.b', chr(34) + chr(34)])}]"],
        "character": [lines[place][: chance.randrange(len(lines[place]) + 1)] + chance.choice('"[]=#\\\n\u2028é{')],
        "deep": ["x = " + "[" * 3000],
    }[chance.choice(["drop", "repeat", "value", "value", "value", "kind", "key", "section", "character", "deep"])]
    return "\n".join([*lines[:place], *new, *lines[place + 1 :]])


def schema_text(chance: Random) -> str:
    """Return the plain schema, a few times mutated."""
    text = SCHEMA
    for _ in range(chance.choice([1, 1, 2, 3])):
        text = mutated_text(text, chance)
    return text
