"""What is logged under the name `threea` says what happens, and nothing of any row."""

import datetime
import logging
import subprocess
import sys

import pyarrow as pa
import pytest

import threea
from threea.errors import ThreeaError

WORD, NUMBER, DAY, ROWS = "Xanthippe-7731", 739.1234567891011, datetime.date(1987, 11, 23), 1237
POISON = (WORD, repr(NUMBER), "739.12", DAY.isoformat(), "1987", str(ROWS), f"{ROWS:,}", str(ROWS - 1))


def table():
    """A table in which one row is unlike all others, and whose number of rows is told by no other number."""
    rows = ROWS - 1
    return pa.table(
        {
            "who": [*(f"p{row}" for row in range(rows)), WORD],
            "word": [*(["common", "usual"] * (rows // 2)), WORD],
            "number": [*([1.5, 2.5] * (rows // 2)), NUMBER],
            "day": [*([datetime.date(2020, 1, 1)] * rows), DAY],
            "label": [*(["a", "b"] * (rows // 2)), "a"],
        }
    )


def logged(caplog):
    """Return all that was logged: messages, and whatever else a handler could write of them."""
    return "\n".join(f"{record.getMessage()} {record.args} {record.exc_info}" for record in caplog.records)


@pytest.mark.parametrize("recipe", ["independent", "labeltree", "privbayes"])
def test_a_whole_release_is_logged_without_a_value(recipe, caplog, tmp_path):
    caplog.set_level(logging.DEBUG, logger="threea")
    book = {"ledger": tmp_path / "books.db", "unit": "who"}
    threea.synthesize(table(), target="label", epsilon=1.0, recipe=recipe, rows=50, **book).save(tmp_path / "out")
    told = logged(caplog)
    for part in (f"prepared: recipe {recipe}", "reserved: epsilon 1", "charged: ", "release written: "):
        assert part in told
    assert {record.name.split(".")[0] for record in caplog.records} == {"threea"}
    for value in POISON:
        assert value not in told


@pytest.mark.parametrize("how", ["a column too many", "no such target", "twice"])
def test_what_fails_is_logged_without_a_value(how, caplog, tmp_path):
    caplog.set_level(logging.DEBUG, logger="threea")
    (tmp_path / "t.csv").write_text(f"a,b\n{WORD},1\n" + (f"{WORD},{NUMBER},2\n" if how == "a column too many" else ""))
    target = "c" if how == "no such target" else "b"
    options = {"target": target, "epsilon": 1.0, "recipe": "independent", "ledger": tmp_path / "books.db", "cap": 1.0}
    if how == "twice":
        threea.synthesize(tmp_path / "t.csv", **options, new_ledger=True)
    with pytest.raises(ThreeaError):
        threea.synthesize(tmp_path / "t.csv", **options)
    for value in POISON:
        assert value not in logged(caplog)


def test_nobody_who_does_not_listen_hears_of_it():
    code = (
        "import threea, threea.hospital as h;"
        "threea.synthesize(h.stays(60), schema=h.schema(), epsilon=1.0, rows=10, recipe='independent')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
