"""The schema's section [reading]: what it holds, and what it does where options say something, too."""

import pandas as pd
import pytest

from threea.errors import SchemaError, SettingError
from threea.table.dialect import Dialect
from threea.table.reading_section import KEYS, reading_of
from threea.table.schema import READING, Schema

WHOLE = Dialect(
    separator="\t",
    encoding="cp1252",
    decimal=",",
    date_format=("%d.%m.%Y", "%d.%m.%Y %H:%M"),
    missing=("-9", "unbekannt"),
    multiline=True,
    sheet="Fälle",
)
COLUMN = '[column.a]\nkind = "id"\n'


def read(section: str) -> Dialect | None:
    return Schema.from_toml(f"[reading]\n{section}\n{COLUMN}").reading


def test_the_section_comes_back_as_it_was_written() -> None:
    schema = Schema.of({"a": {"kind": "id"}})
    assert READING not in schema.to_toml()
    for reading in (WHOLE, Dialect(date_format="%d.%m.%Y"), Dialect(missing=()), Dialect(decimal=".")):
        described = Schema(schema.columns, reading=reading)
        assert Schema.from_toml(described.to_toml({READING: "as seen"})).reading == reading
        assert f"# as seen\n{READING}\n" in described.to_toml({READING: "as seen"})
    assert all(f"{key} = " in Schema(schema.columns, reading=WHOLE).to_toml() for key in KEYS)


def test_a_section_that_says_nothing_is_none() -> None:
    assert read("") is None
    assert read('date_format = ["%d.%m.%Y"]') == Dialect(date_format="%d.%m.%Y")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            'colour = "red"',
            "schema's [reading] has unknown keys (colour); known are separator, encoding, decimal",
        ),
        ("multiline = 1", "schema's [reading]: multiline (1) must be true or false"),
        ("decimal = 5", "schema's [reading]: decimal (5) must be text"),
        ('missing = "-9"', "schema's [reading]: missing (-9) must be a list of texts"),
        ("date_format = [1]", "schema's [reading]: date_format ([1]) must be text"),
        ('date_format = ["%d.%m.%Y", "%d"]', "schema's [reading]: date_format (%d) needs a day, a month and a year"),
        ('encoding = "utf-7"', "schema's [reading]: encoding (utf-7) lets a line change how the next is read"),
    ],
)
def test_what_it_may_not_say(section: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read(section)
    assert message in str(caught.value)
    with pytest.raises(SchemaError, match="reading must be a section"):
        Schema.from_toml(f"reading = 1\n{COLUMN}")


def test_it_holds_for_the_kind_of_file_that_is_read() -> None:
    assert reading_of("t.csv.gz", None, WHOLE) == Dialect(
        **{key: getattr(WHOLE, key) for key in KEYS if key != "sheet"}
    )
    sheet = reading_of("t.xlsx", Dialect(sheet="Fälle"), WHOLE)
    assert sheet == Dialect(**{key: getattr(WHOLE, key) for key in ("decimal", "date_format", "missing", "sheet")})
    # Types that are declared need no reading, and options for them are refused where the table is opened.
    assert reading_of("t.parquet", None, WHOLE) is reading_of(pd.DataFrame(), None, WHOLE) is None
    assert reading_of("t.csv", WHOLE, None) == WHOLE
    # A release's schema does not say which sheet its owner has.
    assert reading_of("t.xlsx", Dialect(sheet="x"), Dialect(decimal=",")) == Dialect(decimal=",", sheet="x")


def test_one_of_several_date_formats_agrees() -> None:
    kept = Dialect(date_format=("%d.%m.%Y", "%d.%m.%Y %H:%M"))
    for said in (*kept.date_formats, kept.date_formats):
        assert reading_of("t.csv", Dialect(date_format=said), kept) == kept
    for said in ("%m/%d/%Y", ("%d.%m.%Y", "%m/%d/%Y")):
        with pytest.raises(SettingError, match=r"disagrees with the schema's \[reading\] \(%d.%m.%Y, %d.%m.%Y %H:%M\)"):
            reading_of("t.csv", Dialect(date_format=said), kept)
    with pytest.raises(SettingError, match=r"disagrees with the schema's \[reading\] \(none\)"):
        reading_of("t.csv", Dialect(date_format="%d.%m.%Y"), Dialect(separator=";"))
