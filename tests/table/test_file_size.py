"""What a file is said to take at most is no less than what it takes, and not many times as much."""

import numpy as np
import pyarrow as pa
import pytest

from threea import hospital, synthesize
from threea.table.file_size import row_bytes
from threea.table.layout import released
from threea.table.schema import Column, Kind, Schema

ROWS = 70_000


def random_numbers(rows=2000):
    rng = np.random.default_rng(0)
    columns = {f"x{number}": pa.array(rng.normal(0, 1, rows)) for number in range(4)}
    schema = Schema(tuple(Column(name=name, kind=Kind.REAL, lower=-4.0, upper=4.0) for name in columns), confirmed=True)
    return pa.table(columns), schema


def long_categories(rows=2000):
    texts = ['=\u00ab"' * (number % 7) + f" category {number}" for number in range(300)]
    column = Column(name="c", kind=Kind.CATEGORICAL, categories=tuple(texts))
    other = Column(name="d", kind=Kind.CATEGORICAL, categories=("yes", "no"))
    values = {"c": [texts[row % 300] for row in range(rows)], "d": ["yes", "no"] * (rows // 2)}
    return pa.table(values), Schema((column, other), confirmed=True)


def whole_numbers(rows=2000):
    columns = (
        Column(name="n", kind=Kind.INTEGER, lower=-1_000_000.0, upper=1_000_000.0),
        Column(name="b", kind=Kind.BOOLEAN, categories=("false", "true")),
    )
    values = np.random.default_rng(1).integers(-(10**6), 10**6, rows)
    return pa.table({"n": values, "b": values % 2 == 0}), Schema(columns, confirmed=True)


MADE = {
    "hospital": lambda: (hospital.stays(500), hospital.schema()),
    "random numbers": random_numbers,
    "long categories": long_categories,
    "whole numbers": whole_numbers,
}


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("name", MADE)
def test_what_is_reserved_is_what_is_written_at_least(tmp_path, name, form):
    table, schema = MADE[name]()
    release = synthesize(table, schema=schema, epsilon=5.0, rows=ROWS, recipe="independent")
    release.save(tmp_path / "out", form, spreadsheet_safe=form == "csv")
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    written = sizes.pop(f"synthetic.{form}")
    reserved = ROWS * row_bytes(release.schema, release.layout, form)
    assert written <= reserved < 6 * written + 100_000
    assert sum(sizes.values()) < 4_000_000


def test_a_table_that_is_yet_to_be_found_has_a_size():
    layout = pa.schema([("text", pa.string()), ("number", pa.float64()), ("when", pa.timestamp("us"))])
    described = Schema(tuple(Column(name=field.name, kind=Kind.UNDECLARED) for field in layout))
    assert all(row_bytes(described, released(described, layout), form) > 0 for form in ("parquet", "csv"))
