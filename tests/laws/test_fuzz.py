"""One law over odd schemas, tables and options: files, or a refusal with nothing charged; never anything else."""

import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_tables import PROVEN, SCHEMA, Drawn, drawn, mutated_text
from threea.errors import BudgetRefused, SchemaError, UserError
from threea.ledger import Ledger
from threea.report.charts import column_chart
from threea.session import prepare
from threea.table.schema import Schema
from threea.table.writing import FORMATS

patient = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MOST_ROWS = 100_000
"""No case drawn here has more than 200 rows."""


def ends_well(case: Drawn, form: str, *, described: bool) -> bool:
    """Make a release and write it; return whether there are files. There are, or nothing was charged."""
    with Ledger() as ledger, tempfile.TemporaryDirectory() as folder:
        try:
            schema = Schema.of(case.columns, target=case.target).confirm() if described else None
            prepared = prepare(case.table, schema=schema, target=case.target, ledger=ledger, **case.options)
            assert str(prepared)
        except (UserError, BudgetRefused):
            assert ledger.releases() == []
            return False
        release = prepared.run()
        assert len(ledger.releases()) == 1
        assert release.rows <= MOST_ROWS
        files = {file.name for file in release.save(Path(folder) / "out", form)}
        assert files >= {f"synthetic.{form}", "certificate.json", "report.html", "schema.toml"}
        return bool(len(release.frame) == release.rows)


@settings(patient, max_examples=150)
@given(
    chance=st.randoms(use_true_random=False),
    described=st.sampled_from([True, True, False]),
    form=st.sampled_from(FORMATS),
)
def test_every_case_ends_in_files_or_in_a_refusal_with_nothing_charged(
    chance: Random, described: bool, form: str
) -> None:
    ends_well(drawn(chance), form, described=described)


@settings(patient, max_examples=400)
@given(chance=st.randoms(use_true_random=False), times=st.integers(1, 4))
def test_a_mutated_schema_is_a_schema_or_is_refused(chance: Random, times: int) -> None:
    text = SCHEMA
    for _ in range(times):
        text = mutated_text(text, chance)
    try:
        schema = Schema.from_toml(text)
    except SchemaError:
        return
    assert Schema.from_toml(schema.to_toml()) == schema


# --- cases that were found so, each kept ---------------------------------------------------------------------------


def test_a_unit_that_the_schema_does_not_describe_is_refused() -> None:
    table = pa.table({"person": ["p", "q"], "x": [1, 2], "y": ["u", "v"]})
    schema = Schema.of(
        {"x": {"kind": "integer", "lower": 0, "upper": 9}, "y": {"kind": "categorical", "categories": ["u", "v"]}}
    )
    with pytest.raises(SchemaError, match="column person: the schema has not"):
        prepare(table, schema=schema.confirm(), target="y", unit="person", epsilon=1.0)


@pytest.mark.parametrize("recipe", PROVEN)
@pytest.mark.parametrize("epsilon", [1e-3, 1.0])
def test_people_of_a_million_rows_get_no_million_rows(recipe: str, epsilon: float) -> None:
    """Every class is far below the noise."""
    rows = range(300)
    people = [f"p{row}" for row in rows]
    table = pa.table({"person": people, "x": [row % 7 for row in rows], "y": ["u", "v", "u"] * 100})
    columns = {
        "person": {"kind": "id"},
        "x": {"kind": "integer", "lower": 0, "upper": 9},
        "y": {"kind": "categorical", "categories": ["u", "v"]},
    }
    options = {"epsilon": epsilon, "recipe": recipe, "unit": "person", "max_rows_per_unit": 10**6}
    assert ends_well(Drawn(columns, table, "y", options), "parquet", described=True)


@pytest.mark.parametrize(("lower", "upper"), [(5e-324, 1e-300), (5e-324, 1e-323), (1e-320, 3e-320)])
def test_the_axis_of_tiny_numbers_has_no_zero(lower: float, upper: float) -> None:
    column = Schema.of({"x": {"kind": "real", "lower": lower, "upper": upper, "log": True}})["x"]
    chart = column_chart(column, np.array([lower, upper]), None).chart
    assert chart is not None
    assert all(0 <= float(place) <= 100 for place, _, _ in chart.ticks)


EXITS = """
import os, sys, time
from pathlib import Path
import pyarrow.csv
from threea.backends.files import CsvBackend
from threea.errors import InputError

def read(path, rows):
    try:
        backend = CsvBackend(path)
        if rows:
            list(backend.batches(["a"]))
    except InputError:
        pass

for _ in range(int(sys.argv[2])):
    process = os.fork()
    if not process:
        read(Path(sys.argv[1]), rows=sys.argv[3] == "rows")
        sys.exit(2)
    deadline = time.monotonic() + 20
    ended = 0
    while not ended and time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        time.sleep(0.001)
    if not ended:
        os.kill(process, 9)
        _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(
    ("content", "times", "part"),
    [
        ("\ufeff\ufeffa,b\n1,2\n".encode("utf-16"), 10, "rows"),
        ("a,b\n1,2\n".encode("utf-16") + b"\x00", 10, "rows"),
        (b"a,b\n1,2\n", 80, "header"),
    ],
    ids=["UTF-16", "cut", "header"],
)
def test_a_process_ends_as_soon_as_a_csv_file_is_refused(content: bytes, times: int, part: str, tmp_path: Path) -> None:
    """Before, one process in three hung where rows were not UTF-8, and one in two hundred aborted after the header.

    A race, so what is mended may come back unseen: by these rates in 2% of runs for the rows, in 67% for the header.
    It never fails without a fault.
    """
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    command = [sys.executable, "-c", EXITS, str(path), str(times), part]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["2"] * times
    assert run.stderr == ""
