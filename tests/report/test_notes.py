"""Columns that came out empty are named, with what to look at; others are not, but for a stated share of alarms."""

import json
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.cli import app
from threea.model_summary import Histogram, ModelSummary
from threea.recipes import MST, Independent
from threea.release import Release
from threea.report import render
from threea.report.notes import ALIKE, FALSE_ALARM, NEARLY_ALL, hollow, notes
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS = 10_000
SCHEMA = {
    "seen": {"kind": "date", "lower": "2019-01-01", "upper": "2020-12-31"},
    "cost": {"kind": "real", "lower": 0, "upper": 100, "nullable": False},
    "ward": {"kind": "categorical", "categories": ["a", "b"], "open_ended": True, "nullable": False},
    "age": {"kind": "integer", "lower": 0, "upper": 120, "special": [0]},
    "ill": {"kind": "boolean", "nullable": False},
}


def table_of(**columns: list[object]) -> pa.Table:
    right = {
        "seen": ["2019-02-03", "2020-04-05", None],
        "cost": ["1.5", "20.25"],
        "ward": ["a", "b", "c"],
        "age": ["31", "62", "0"],
        "ill": ["yes", "no"],
    }
    return pa.table({name: (values * ROWS)[:ROWS] for name, values in {**right, **columns}.items()})


def released(table: pa.Table, recipe=None, noise=None, **options) -> Release:
    described = options or {"schema": Schema.of(SCHEMA, "ill")}
    opened = open_table(table, budget=Budget(1.0), noise=noise or SilentNoise(), **described)
    return (recipe or Independent()).run(opened, rows=50)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"seen": ["03/02/2019", "05/04/2020"]}, "Column seen came out nearly all missing (100% of the rows, by noisy"),
        ({"cost": ["1,5", "20,25"]}, "Column cost came out nearly all alike: 50 to 53.12 (100% of the rows, by noisy"),
        ({"ward": ["A", "B", None]}, 'Column ward came out nearly all "other" (100% of the rows, by noisy'),
        ({"age": ["0"]}, "Column age came out nearly all alike: 0 (100% of the rows, by noisy"),
        ({"ill": ["ja", "nein"]}, "Column ill came out nearly all alike: false (>99.9% of the rows, by noisy"),
    ],
)
def test_a_column_that_was_read_or_described_wrongly_is_named(columns, said) -> None:
    (note,) = hollow(*_of(released(table_of(**columns))))
    assert note.startswith(said)
    assert "look at how the file is read (decimal mark, date format, missing texts)" in note
    assert note.endswith("in the schema.")


def _of(release: Release) -> tuple[Schema, ModelSummary]:
    return release.schema, release.summary


def test_columns_that_are_as_described_are_not_named() -> None:
    assert hollow(*_of(released(table_of()))) == []
    assert hollow(*_of(released(hospital.stays(ROWS), schema=hospital.schema()))) == []


def test_without_a_schema_text_that_no_rows_share_is_named() -> None:
    table = table_of(remark=[f"remark {row}" for row in range(ROWS)], ill=["yes", "no"])
    release = released(table, MST(bins=8, iterations=10), SeededNoise(1), target="ill")
    (note,) = hollow(*_of(release))
    assert note.startswith('Column remark came out nearly all "other"')
    assert note.endswith("list its categories in a schema, or make it an id there.")


def test_it_is_said_on_the_page_and_follows_from_the_release_alone() -> None:
    release = released(table_of(seen=["03/02/2019"]))
    (note,) = notes(release)
    page = unescape(render(release, release.certificate(), release.table))
    assert f"Look at this:</strong> {note}" in page
    assert "Look at this" not in render(released(table_of()), release.certificate(), release.table)


def test_it_is_said_in_the_terminal_and_to_scripts(tmp_path) -> None:
    data, schema = tmp_path / "stays.csv", tmp_path / "schema.toml"
    pa.csv.write_csv(table_of(seen=["03/02/2019"]), data)
    schema.write_text(Schema.of(SCHEMA, "ill").to_toml())
    line = f"release {data} --schema {schema} --epsilon 5 --recipe independent --rows 50 --out {tmp_path / 'out'}"
    assert "\nNote: Column seen came out nearly all missing" in CliRunner().invoke(app, line.split()).stdout
    told = CliRunner().invoke(app, [*line.replace("/out", "/again").split(), "--json"])
    (note,) = json.loads(told.stdout)["notes"]
    assert note.startswith("Column seen came out nearly all missing")


@pytest.mark.parametrize(("share", "code"), [(NEARLY_ALL, -1), (NEARLY_ALL, 2), (ALIKE, 0)])
def test_a_false_alarm_is_as_rare_as_stated(share: float, code: int) -> None:
    """The hardest case: a column with just the share from which it would be rightly said. Wrong once in 1e9 runs."""
    column = {"kind": "categorical", "categories": ["a", "b"], "open_ended": True}
    schema, releases = Schema.of({"ward": column, "ill": SCHEMA["ill"]}, "ill"), 300
    often = {-1: None, 0: "a", 2: "c"}[code]
    values = [often] * round(share * 2_000) + ["b"] * round((1 - share) * 2_000)
    table = pa.table({"ward": values, "ill": ["yes", "no"] * 1_000})
    said = sum(bool(hollow(*_of(released(table, noise=SeededNoise(s), schema=schema)))) for s in range(releases))
    assert said <= binom.isf(1e-9, releases, FALSE_ALARM)
    wholly = pa.table({"ward": [often] * 20_000, "ill": ["yes", "no"] * 10_000})
    assert all(hollow(*_of(released(wholly, noise=SeededNoise(s), schema=schema))) for s in range(10))


def test_noise_alone_says_nothing() -> None:
    """Of counts that noise drowns nothing is said, nor of a model without counts."""
    schema = Schema.of(SCHEMA)
    cells = schema["ward"].cells(8)
    for rows in (3.0, 40.0):
        summary = ModelSummary(
            private_rows=rows,
            private_rows_stddev=10.0,
            histograms={"ward": Histogram(cells, np.array([0.0, 0.0, rows]), 10.0)},
        )
        assert hollow(schema, summary) == []
    assert hollow(schema, ModelSummary()) == []
