"""A file that changes underneath stops a release: what was charged stays, nothing is written."""

import os

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from threea import hospital
from threea.anonymize.events import Gaussian
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count
from threea.backends import open_backend
from threea.backends.memory import MemoryBackend
from threea.backends.units import UnitBackend
from threea.budget import Budget
from threea.errors import InputError
from threea.ledger import Ledger
from threea.testing import SilentNoise

WRITE = {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table}
CROWD = hospital.stays(400)
CROWD = CROWD.set_column(0, CROWD.column_names[0], pa.array(["one person"] * 400))


def opened(path, ledger, **options):
    return open_table(
        path,
        schema=hospital.schema(),
        budget=Budget(1.0),
        ledger=ledger,
        unit="patient_id",
        noise=SilentNoise(),
        **options,
    )


def plan():
    return Plan.calibrate(Budget(1.0), [Step(name="count", weight=1.0, kind=Gaussian)])


def rewritten(path, form):
    WRITE[form](CROWD, path)


def replaced(path, form):
    other = path.with_name(f"other.{form}")
    WRITE[form](CROWD, other)
    other.replace(path)


def kept_its_size_and_time(path, form):
    """Rewritten with as many bytes, and its time of change set back: what a program cannot set back tells."""
    before = os.stat(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def removed(path, form):
    path.unlink()


@pytest.mark.parametrize("change", [rewritten, replaced, kept_its_size_and_time, removed])
@pytest.mark.parametrize("form", WRITE)
def test_a_file_that_changed_is_not_asked(form, change, tmp_path):
    """One person's 400 rows would count, though at most one may."""
    path = tmp_path / f"stays.{form}"
    WRITE[form](hospital.stays(400), path)
    ledger = Ledger()
    table = opened(path, ledger)
    change(path, form)
    with pytest.raises(InputError, match="was changed while it was in use"):
        table.measure(Count(), plan()["count"])
    (release,) = ledger.releases()
    assert release.charged == 1


@pytest.mark.parametrize("form", WRITE)
def test_a_file_that_changes_while_it_is_read_gives_no_answer(form, tmp_path):
    path = tmp_path / f"stays.{form}"
    WRITE[form](hospital.stays(400), path)
    backend, _ = open_backend(path)
    batches = backend.batches(["ward"])
    next(batches)
    os.utime(path)
    with pytest.raises(InputError, match="was changed while it was in use"):
        list(batches)


def test_a_folder_is_watched_file_by_file(tmp_path):
    for part in range(3):
        pyarrow.parquet.write_table(hospital.stays(50), tmp_path / f"part-{part}.parquet")
    backend, _ = open_backend(tmp_path)
    assert backend.table().num_rows == 150
    pyarrow.parquet.write_table(hospital.stays(60), tmp_path / "part-1.parquet")
    with pytest.raises(InputError, match="part-1"):
        backend.table()


@pytest.mark.parametrize("form", WRITE)
def test_a_file_left_alone_is_read_again_and_again(form, tmp_path):
    path = tmp_path / f"stays.{form}"
    WRITE[form](hospital.stays(100), path)
    backend, _ = open_backend(path)
    assert [backend.table().num_rows for _ in range(3)] == [100] * 3


@pytest.mark.parametrize("rows", [399, 401])
def test_who_is_kept_is_not_decided_on_other_rows(rows):
    """An engine that changes its rows behind the view of persons is noticed by their number at the least."""

    class Changing(MemoryBackend):
        def change(self):
            self._table = hospital.stays(rows)

    backend = Changing(hospital.stays(400))
    units = UnitBackend(backend, "patient_id", 1, b"key")
    backend.change()
    with pytest.raises(InputError, match="other rows"):
        list(units.batches(["ward"]))


@pytest.mark.parametrize("column", ["ward", "diagnosis"])
def test_what_cannot_be_read_to_its_end_is_refused_before_the_charge(column, tmp_path):
    """A value in any column, not in the target's alone."""
    path = tmp_path / "stays.csv"
    pyarrow.csv.write_csv(hospital.stays(200), path)
    lines = path.read_bytes().splitlines(keepends=True)
    assert column.encode() in lines[0]
    word = hospital.schema()[column].categories[0].encode()
    number = next(number for number, line in enumerate(lines) if number and word in line)
    lines[number] = lines[number].replace(word, b"\xff\xfe", 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match="UTF-8"):
        open_table(path, schema=hospital.schema(), budget=Budget(1.0))
