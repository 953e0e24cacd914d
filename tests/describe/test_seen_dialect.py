"""The owner's tool sees how the values of a text file are written, and proposes to read them so."""

from pathlib import Path

import pytest

from threea.describe.propose_schema import propose_schema, to_toml
from threea.table.dialect import Dialect
from threea.table.schema import READING, Kind, Schema

ROWS = 200


def drafted(folder: Path, columns: dict[str, list[str]], dialect: Dialect | None = None) -> tuple[Schema, str]:
    """Draft a schema of a file with these values, over and over, and a target; return the note on reading, too."""
    named = {**columns, "y": ["no", "yes"]}
    lines = [";".join(values[number % len(values)] for values in named.values()) for number in range(ROWS)]
    path = folder / "t.csv"
    path.write_text("\n".join([";".join(named), *lines]))
    schema, notes = propose_schema(path, "y", dialect=dialect)
    assert Schema.from_toml(to_toml(schema, notes)).reading == schema.reading
    assert schema.reading is not None
    return schema, notes.get(READING, "")


@pytest.mark.parametrize(
    ("values", "decimal", "kind", "said"),
    [
        (["1,5", "-0,25", "3"], ",", Kind.REAL, "Decimal commas: x."),
        (["1.234,5", "2.500", "12"], ",", Kind.REAL, "Decimal commas: x."),
        (["1.234.567", "12", "1.000"], ",", Kind.INTEGER, "Decimal commas: x."),
        (["0,125", "1,250"], ",", Kind.REAL, "Decimal commas: x."),
        (["1,234.5", "12.25", "3"], ".", Kind.REAL, "Commas between thousands: x."),
        (["1,234,567", "12"], ".", Kind.INTEGER, "Commas between thousands: x."),
        (["1,234", "12"], ".", Kind.INTEGER, 'If they are decimal commas (x), set decimal = ",".'),
        (["1.5", "2"], None, Kind.REAL, ""),
        (["1.234", "2.345"], None, Kind.REAL, ""),
        (["a,b", "1,5", "c"], None, Kind.CATEGORICAL, ""),
        (["1,5", *["7"] * 199], None, Kind.INTEGER, ""),
    ],
)
def test_decimal_marks(tmp_path: Path, values: list[str], decimal: str | None, kind: Kind, said: str) -> None:
    schema, note = drafted(tmp_path, {"x": values})
    assert schema.reading == Dialect(separator=";", encoding="utf-8", decimal=decimal)
    assert schema["x"].kind is kind
    assert said in note
    assert bool(note) == bool(said)


def test_columns_that_cannot_be_read_together_are_told_of(tmp_path: Path) -> None:
    schema, note = drafted(tmp_path, {"a": ["1,5", "2,5"], "b": ["1.5", "2.5"]})
    assert schema.reading is not None
    assert schema.reading.decimal is None
    assert "Columns with decimal commas (a) and with points (b): one way must be mended." in note


@pytest.mark.parametrize(
    ("columns", "formats", "said"),
    [
        ({"d": ["31.01.2024", "1.2.2024"]}, ("%d.%m.%Y",), "Dates written %d.%m.%Y: d."),
        ({"d": ["01/31/2024", "02/01/2024"]}, ("%m/%d/%Y",), "Dates written %m/%d/%Y: d."),
        ({"d": ["31/01/2024", "02/01/2024"]}, ("%d/%m/%Y",), "Dates written %d/%m/%Y: d."),
        ({"d": ["01/02/2024"]}, ("%m/%d/%Y",), "Dates of d may be written %d/%m/%Y as well: say which."),
        ({"d": ["01/02/2024"], "e": ["31/12/2024"]}, ("%d/%m/%Y",), "Dates written %d/%m/%Y: e, d."),
        ({"d": ["01.02.2024"]}, ("%d.%m.%Y",), "Dates of d may be written %m.%d.%Y as well: say which."),
        ({"d": ["31.01.24"]}, ("%d.%m.%y",), "Dates written %d.%m.%y: d."),
        ({"d": ["2024/01/31"]}, ("%Y/%m/%d",), "Dates written %Y/%m/%d: d."),
        (
            {"d": ["31.01.2024"], "t": ["31.01.2024 18:30", "1.2.2024 7:05"]},
            ("%d.%m.%Y", "%d.%m.%Y %H:%M"),
            "Dates written %d.%m.%Y %H:%M: t.",
        ),
        (
            {"d": ["31/12/2024"], "e": ["12/31/2024"]},
            ("%d/%m/%Y",),
            "Dates of e have day and month the other way round: mend them.",
        ),
    ],
)
def test_dates(tmp_path: Path, columns: dict[str, list[str]], formats: tuple[str, ...], said: str) -> None:
    schema, note = drafted(tmp_path, columns)
    assert schema.reading is not None
    assert schema.reading.date_formats == formats
    assert said in note
    assert note.startswith("Seen in the values of the rows; check it")
    mended = [name for name in columns if "other way round" in said and name == "e"]
    assert all(schema[name].kind.temporal for name in columns if name not in mended)


@pytest.mark.parametrize("values", [["2024-01-31"], ["2024-01-31T18:30:00"], ["1.2.3"], ["192.168.1.1"], ["31.01."]])
def test_what_is_no_date_or_needs_no_format(tmp_path: Path, values: list[str]) -> None:
    schema, note = drafted(tmp_path, {"d": values})
    assert schema.reading == Dialect(separator=";", encoding="utf-8")
    assert note == ""


def test_what_the_owner_says_stands(tmp_path: Path) -> None:
    said = Dialect(decimal=".", date_format="%m/%d/%Y", missing=("31.01.2024",))
    schema, note = drafted(tmp_path, {"x": ["1,5"], "d": ["31.01.2024", "01/02/2024"]}, said)
    assert schema.reading == Dialect(
        separator=";", encoding="utf-8", decimal=".", date_format="%m/%d/%Y", missing=("31.01.2024",)
    )
    assert note == ""
    assert schema["d"].kind is Kind.DATE
    assert schema["d"].nullable
