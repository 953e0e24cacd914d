"""Excel files are read as CSV files are: cell by cell, as text, with nothing of a column read off its cells."""

import dataclasses
import datetime
import json
import sys
import zipfile

import pyarrow as pa
import pyarrow.csv
import pytest
import workbook
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from threea import hospital, prepare
from threea.backends import excel
from threea.backends.source import open_backend
from threea.cli import app
from threea.describe.propose_schema import propose_schema
from threea.errors import InputError, MissingExtra, SettingError
from threea.evaluate.split import split
from threea.limited import Limits
from threea.table.dialect import Dialect
from threea.table.layout import is_declared

CANARY = "Xanthippe-7731"


def read(path, **dialect):
    return open_backend(path, Dialect(**dialect))[0]


def column(path, name="a", **dialect):
    return read(path, **dialect).table()[name].to_pylist()


def test_no_decimal_mark_makes_one_id_of_two(tmp_path):
    path = workbook.write(tmp_path / "t.xlsx", [["id", "x"], [1.5, 1.5], ["1,5", "1,5"], ["1.5", "1.5"]])
    rows = open_backend(path, Dialect(decimal=","), ids={"id"})[0].table()
    assert rows["id"].to_pylist() == ["1.5", "1,5", "1.5"]
    assert rows["x"].to_pylist() == ["1.5", "1.5", "1.5"]


CELLS = [
    (3, "3"),
    (-0.25, "-0.25"),
    (1e300, "1e+300"),
    (123456789.0, "123456789"),
    (True, "true"),
    ("007", "007"),
    (" spaced ", " spaced "),
    ("true", "true"),
    ("NA", None),
    (None, None),
    ((workbook.ERROR, "#N/A"), None),
    ((workbook.FORMULA, ("1+1", "2")), "2"),
    ((workbook.FORMULA, ("1+1", None)), None),
    (datetime.date(2024, 1, 31), "2024-01-31"),
    (datetime.datetime(2024, 1, 31, 18, 30), "2024-01-31T18:30:00"),
    ((workbook.HOURS, "1.5"), "1.5"),
]


def test_each_cell_is_text_that_says_the_same(tmp_path):
    path = workbook.write(tmp_path / "t.xlsx", [["a", "b"], *([cell, "x"] for cell, _ in CELLS)])
    assert column(path) == [text for _, text in CELLS]
    assert not any(is_declared(field) for field in read(path).layout)


@settings(max_examples=25)
@given(cells=st.lists(st.sampled_from([cell for cell, _ in CELLS]), min_size=1, max_size=6))
def test_what_one_row_holds_changes_no_other_and_not_the_layout(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("cells")
    whole = workbook.write(folder / "whole.xlsx", [["a", "b"], *([cell, "x"] for cell in cells)])
    fewer = workbook.write(folder / "fewer.xlsx", [["a", "b"], *([cell, "x"] for cell in cells[1:])])
    assert column(whole)[1:] == column(fewer)
    assert read(whole).layout.equals(read(fewer).layout, check_metadata=True)


def test_a_sheet_gives_what_the_same_table_in_csv_gives(tmp_path):
    stays = hospital.stays(300).select(["patient_id", "admitted", "ward", "age", "cost", "died"])
    pyarrow.csv.write_csv(stays, tmp_path / "stays.csv")
    rows = [stays.column_names, *(list(row.values()) for row in stays.to_pylist())]
    workbook.write(tmp_path / "stays.xlsx", rows)
    sheet, text = (read(tmp_path / f"stays.{form}") for form in ("xlsx", "csv"))
    assert sheet.layout.equals(text.layout, check_metadata=True)
    # Costs of 12.0 and moments are spelt otherwise, and say the same: the drafts agree.
    same = ["patient_id", "ward", "age", "died"]
    assert sheet.table().select(same).equals(text.table().select(same))
    drafts = [propose_schema(tmp_path / f"stays.{form}", "died", "patient_id")[0] for form in ("xlsx", "csv")]
    assert [draft.reading for draft in drafts] == [None, Dialect(separator=",", encoding="utf-8")]
    assert drafts[0] == dataclasses.replace(drafts[1], reading=None)
    receipts = [
        str(prepare(tmp_path / f"stays.{form}", target="died", unit="patient_id", epsilon=1.0, recipe="independent"))
        for form in ("xlsx", "csv")
    ]
    assert receipts[0] == receipts[1]


def test_the_first_row_that_is_not_empty_names_the_columns_wherever_it_stands(tmp_path):
    rows = [[], [None, None], [None, "a", "b"], [None, 1, 2], [None, None, None], [None, 3, None]]
    path = workbook.write(tmp_path / "t.xlsx", rows)
    assert read(path).table().to_pydict() == {"a": ["1", "3"], "b": ["2", None]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a", None, "b"], [1, 2, 3]], "does not name every column"),
        ([["a", "b"], [1, 2, CANARY]], "a row has values beside the columns"),
        ([[None, "a", "b"], [CANARY, 1, 2]], "does not name every column|a row has values beside the columns"),
        ([], "its sheet is empty"),
        ([["a"], [CANARY]], "the table has 1 column"),
        ([["a", "a"], [CANARY, 1]], r"columns \(a\) appear more than once"),
    ],
)
def test_what_is_no_table_is_refused_without_a_value(tmp_path, rows, message):
    with pytest.raises(InputError, match=message) as refusal:
        read(workbook.write(tmp_path / "t.xlsx", rows))
    assert CANARY not in str(refusal.value)
    assert refusal.value.__cause__ is None


def changed(path, change):
    """Write an Excel file's parts anew: a function returns the name and the text of each."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(*change(name, text))
    return path


def with_row(row):
    return lambda name, text: (name, text.replace("</sheetData>", f"{row}</sheetData>"))


def elsewhere(name, text):
    """Move the sheets out of the folder that they are looked for in."""
    corner = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    moved = name.replace("xl/worksheets/", "xl/other/")
    return moved, text.replace("worksheets/sheet", "other/sheet").replace("</sheetData>", corner)


HOSTILE = {
    "corner": with_row('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'),
    "quotes": with_row("<row r='1048576'><c r='XFD1048576'><v>1</v></c></row>"),
    "lower case": with_row('<row r="1048576"><c r="xfd1048576"><v>1</v></c></row>'),
    "spaces": with_row('<row r="1048576"><c r = "XFD1048576" ><v>1</v></c></row>'),
    "elsewhere": elsewhere,
    "beyond the last": with_row('<row r="4294967295"><c r="ZZZZZZ4294967295"><v>1</v></c></row>'),
}


@pytest.mark.parametrize("way", HOSTILE)
def test_a_stray_value_far_away_is_refused_whatever_its_xml_looks_like(tmp_path, way):
    """Read in a process of its own: without one, the reader ends this very process, or asks for a terabyte."""
    path = changed(workbook.write(tmp_path / "t.xlsx", [["a", "b"], [1, 2]]), HOSTILE[way])
    assert path.stat().st_size < 5000
    with pytest.raises(InputError, match="cannot be read as Excel") as refusal:
        read(path)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_cell_far_away_that_is_formatted_and_empty_is_nothing(tmp_path):
    path = workbook.write(tmp_path / "t.xlsx", [["a", "b"], [1, 2]])
    assert column(changed(path, with_row('<row r="1048576"><c r="XFD1048576" s="1"/></row>'))) == ["1"]


def test_a_text_that_a_million_cells_share_is_refused_before_memory_runs_out(tmp_path, monkeypatch):
    monkeypatch.setattr(excel, "LIMITS", Limits(memory=256 << 20, seconds=30))
    cells = "".join(f'<row><c t="inlineStr"><is><t>{"x" * 30_000}</t></is></c></row>' for _ in range(20_000))
    path = changed(workbook.write(tmp_path / "t.xlsx", [["a"], [1]]), with_row(cells))
    assert path.stat().st_size < 3_000_000
    with pytest.raises(InputError, match=r"within 0\.3 GB of memory and 30 seconds of processor time; is it damaged"):
        read(path)


def test_a_reader_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(excel, "LIMITS", Limits(memory=1 << 30, seconds=1))
    path = workbook.write(tmp_path / "t.xlsx", [["a"], *([number] for number in range(20))])
    changed(path, with_row("<row><c><v>1</v></c></row>" * 3_000_000))
    with pytest.raises(InputError, match="cannot be read as Excel within"):
        read(path)


@pytest.mark.parametrize("content", [b"PK\x03\x04" + CANARY.encode(), CANARY.encode() + b",b\n1,2\n"])
def test_another_kind_of_file_is_refused_without_a_value(tmp_path, content):
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as Excel; is it damaged") as refusal:
        read(tmp_path / "t.xlsx")
    assert CANARY not in str(refusal.value)


def test_of_several_sheets_one_must_be_named(tmp_path):
    path = workbook.write(tmp_path / "t.xlsx", [["a", "b"], [1, 2]], others=["Notes"])
    with pytest.raises(SettingError, match=r"has 2 sheets \(Stays, Notes\); name one with --sheet"):
        read(path)
    with pytest.raises(SettingError, match=r"sheet \(Stay\) is not in .*; sheets are: Stays, Notes"):
        read(path, sheet="Stay")
    assert column(path, sheet="Stays") == ["1"]


def test_merged_cells_have_their_value_in_the_first_row_alone(tmp_path):
    path = workbook.write(tmp_path / "t.xlsx", [["a", "b"], ["x", 1], [None, 2]], merged="A2:A3")
    assert column(path) == ["x", None]


def test_decimals_and_dates_of_cells_that_hold_text_can_be_said(tmp_path):
    path = workbook.write(tmp_path / "t.xlsx", [["a", "b"], ["1,5", "31.1.2024"], [2.5, datetime.date(2024, 2, 1)]])
    found = read(path, decimal=",", date_format="%d.%m.%Y").table().to_pydict()
    assert found == {"a": ["1.5", "2.5"], "b": ["2024-01-31", "2024-02-01"]}
    with pytest.raises(SettingError, match="separator and encoding describe CSV files"):
        read(path, separator=";")


def test_a_sheet_is_of_excel_files_alone(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SettingError, match=r"sheet \(Stays\) is of an Excel file"):
        read(tmp_path / "t.csv", sheet="Stays")


def test_the_name_of_a_sheet_stays_with_its_owner(tmp_path):
    path = workbook.write(tmp_path / "t.xlsx", [["a", "b"], [1, 2]], sheet=CANARY)
    assert CANARY not in repr(read(path, sheet=CANARY).dialect)


def test_without_the_extra_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtra, match=r"pip install 'threea\[excel\]', or in a clone of threea, pip install -e"):
        read(workbook.write(tmp_path / "t.xlsx", [["a", "b"], [1, 2]]))


def test_a_tsv_file_is_separated_by_tabs_whatever_its_header_holds(tmp_path):
    (tmp_path / "t.tsv").write_text("age, in years\tb\n1,5\t2\n")
    assert read(tmp_path / "t.tsv").table().to_pydict() == {"age, in years": ["1,5"], "b": ["2"]}
    (tmp_path / "t.tsv").write_text("a;b\n1\t5;2\n")
    assert column(tmp_path / "t.tsv", separator=";") == ["1\t5"]


def test_from_a_sheet_to_a_release_and_in_two_parts(tmp_path):
    stays = hospital.stays(300).select(["ward", "age", "died"])
    rows = [stays.column_names, *(list(row.values()) for row in stays.to_pylist())]
    path = workbook.write(tmp_path / "stays.xlsx", rows, others=["Notes"])
    arguments = ["release", path, "--sheet", "Stays", "--target", "died", "--epsilon", 1, "--recipe", "independent"]
    done = CliRunner().invoke(app, [*map(str, arguments), "--rows", "50", "--json", "--out", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["rows"] == 50
    again = CliRunner().invoke(app, [*map(str, arguments), "--dry-run", "--out", str(tmp_path / "n")])
    assert "A rehearsal" in again.stdout
    assert "passes over the rows" not in again.stdout, "a sheet is read once"
    assert pa.csv.read_csv(tmp_path / "r" / "synthetic.csv").column_names == stays.column_names
    files = split(path, tmp_path / "parts", seed=1, dialect=Dialect(sheet="Stays"))
    assert sum(pa.csv.read_csv(file).num_rows for file in files) == 300


def test_a_schema_remembers_the_sheet_and_a_release_does_not(tmp_path):
    rows = [["who", "x", "y"], *([f"p{number}", f"{number % 7},5", "ab"[number % 2]] for number in range(100))]
    path = workbook.write(tmp_path / "t.xlsx", rows, sheet="Geheim", others=("Notes",))
    with pytest.raises(SettingError, match="2 sheets"):
        open_backend(path)
    schema, _ = propose_schema(path, "y", "who", Dialect(sheet="Geheim"))
    assert schema.reading == Dialect(decimal=",", sheet="Geheim")
    prepared = prepare(path, schema=schema.confirm(), epsilon=1.0, recipe="independent", rows=10)
    assert prepared.table.schema.reading == Dialect(decimal=",")
    (cut,) = {file.parent for file in split(path, tmp_path / "cut", schema=schema, seed=1)}
    parts = [(cut / name).read_text().splitlines() for name in ("train.csv", "holdout.csv")]
    # Cells of text as they are, in quotes where a comma separates values.
    assert sorted(line for part in parts for line in part[1:]) == sorted(f'{a},"{b}",{c}' for a, b, c in rows[1:])


def test_numbers_in_cells_are_not_grouped_by_their_points(tmp_path):
    cells = [1.234, "1.234", "1.234,5", 1e-7]
    path = workbook.write(tmp_path / "t.xlsx", [["a", "b"], *([cell, "x"] for cell in cells)])
    assert column(path, decimal=",") == ["1.234", "1234", "1234.5", "1e-07"]
