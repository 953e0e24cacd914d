"""A release is written whole or not at all, says what it is, and its hashes match its files."""

import errno
import hashlib
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import threea
from threea import hospital, place, publish, report
from threea.errors import SettingError
from threea.table.schema import Schema
from threea.table.writing import RowWriter

ROWS = 120
FILES = ["certificate.json", "model.threea", "report.html", "schema.toml"]
NEEDED = {
    "threea_version", "recipe", "settings", "guarantee", "epsilon", "delta", "adjacency", "events", "assumptions",
    "arithmetic", "rows", "schema_sha256", "synthetic_sha256", "created",
}  # fmt: skip


@pytest.fixture(scope="module")
def release() -> threea.Release:
    return threea.synthesize(
        hospital.stays(400), schema=hospital.schema(), target="died", epsilon=3.0, delta=1e-5, rows=ROWS, seed=4
    )


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Cut releases into chunks of 50 rows, so that writing has a midst."""
    monkeypatch.setattr("threea.release.CHUNK_ROWS", 50)
    return 50


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_the_files_and_their_hashes(release: threea.Release, tmp_path: Path, form: str) -> None:
    made = release.save(tmp_path / "out", form)
    assert made == sorted(tmp_path / "out" / name for name in [*FILES, f"synthetic.{form}"])
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert set(certificate) >= NEEDED
    assert certificate["synthetic_sha256"] == sha256(tmp_path / "out" / f"synthetic.{form}")
    assert certificate["schema_sha256"] == sha256(tmp_path / "out" / "schema.toml")
    assert certificate["report_sha256"] == sha256(tmp_path / "out" / "report.html")
    assert certificate["rows"] == ROWS
    assert Schema.load(tmp_path / "out" / "schema.toml") == release.schema
    assert "<html" in (tmp_path / "out" / "report.html").read_text().lower()


def test_parquet_holds_the_releases_rows(release: threea.Release, tmp_path: Path) -> None:
    release.save(tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "synthetic.parquet").equals(release.table)


def test_csv_holds_the_releases_rows(release: threea.Release, tmp_path: Path) -> None:
    release.save(tmp_path / "out", "csv")
    options = pyarrow.csv.ConvertOptions(column_types=release.layout, strings_can_be_null=True)
    read = pyarrow.csv.read_csv(tmp_path / "out" / "synthetic.csv", convert_options=options)
    assert read.equals(release.table)


def test_batches_are_the_same_each_time(release: threea.Release, small_chunks: int) -> None:
    first, second = list(release.batches()), list(release.batches())
    assert [batch.num_rows for batch in first] == [50, 50, 20]
    assert all(left.equals(right) for left, right in zip(first, second, strict=True))
    assert release.table.equals(pa.Table.from_batches(first))
    assert release.table["patient_id"].to_pylist() == [f"synthetic-{row}" for row in range(1, ROWS + 1)]


def test_two_seeds_give_two_tables_and_one_seed_one(tmp_path: Path) -> None:
    from threea.anonymize.open_table import open_table
    from threea.budget import Budget
    from threea.recipes import Independent
    from threea.testing import SeededNoise

    def table(seed: int) -> pa.Table:
        opened = open_table(hospital.stays(400), schema=hospital.schema(), budget=Budget(3.0), noise=SeededNoise(1))
        return Independent().run(opened, rows=ROWS, seed=seed).table

    assert table(1).equals(table(1))
    assert not table(1).equals(table(2))


def test_progress_counts_the_rows(release: threea.Release, tmp_path: Path, small_chunks: int) -> None:
    told: list[int] = []
    with publish.claim(tmp_path / "out") as claimed:
        publish.write(release, claimed, progress=told.append)
    assert told == [50, 100, 120]


def test_an_empty_folder_is_used(release: threea.Release, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o750)
    before = (tmp_path / "out").stat()
    release.save(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*FILES, "synthetic.parquet"])
    after = (tmp_path / "out").stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def refused(release: threea.Release, out: Path, form: str = "parquet") -> str:
    with pytest.raises(SettingError) as caught:
        release.save(out, form)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.fixture
def no_rows_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make drawing a row fail: a refusal comes before that."""

    def fail(*_: Any) -> None:
        raise AssertionError("rows were drawn before the refusal")

    monkeypatch.setattr(threea.Release, "batches", fail)


@pytest.mark.usefixtures("no_rows_drawn")
class TestRefusedBeforeWriting:
    def test_a_folder_that_holds_something(self, release: threea.Release, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "keep.txt").write_text("mine")
        assert refused(release, tmp_path / "out").endswith("must be a new or empty folder; choose another")
        assert (tmp_path / "out" / "keep.txt").read_text() == "mine"
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_a_file(self, release: threea.Release, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("mine")
        assert refused(release, tmp_path / "out").endswith("must be a new or empty folder; choose another")
        assert (tmp_path / "out").read_text() == "mine"

    def test_a_folder_in_a_folder_that_does_not_exist(self, release: threea.Release, tmp_path: Path) -> None:
        assert "does not exist; make it first" in refused(release, tmp_path / "nowhere" / "out")
        assert not list(tmp_path.iterdir())

    def test_a_folder_in_one_that_is_not_writable(
        self, release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert "is not writable; choose another" in refused(release, tmp_path / "out")

    def test_a_name_that_is_too_long(self, release: threea.Release, tmp_path: Path) -> None:
        assert "cannot be used: File name too long" in refused(release, tmp_path / ("x" * 300))

    @pytest.mark.parametrize("form", ["xlsx", "CSV", "", "parquet "])
    def test_an_unknown_format(self, release: threea.Release, tmp_path: Path, form: str) -> None:
        assert refused(release, tmp_path / "out", form) == f"format ({form}) must be parquet or csv"
        assert not list(tmp_path.iterdir())


class FullDisk:
    """A writer that fails after so many batches, as on a full disk."""

    def __init__(self, writer: Any, batches: int) -> None:
        self._writer, self._left = writer, batches

    def __enter__(self) -> "FullDisk":
        self._writer.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._writer.__exit__(*failure)

    def write(self, batch: pa.RecordBatch) -> None:
        if not self._left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._left -= 1
        self._writer.write(batch)


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("batches", [0, 1, 2])
@pytest.mark.usefixtures("small_chunks")
def test_a_full_disk_leaves_nothing_behind(
    release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, batches: int
) -> None:
    monkeypatch.setattr(publish, "RowWriter", lambda *args: FullDisk(RowWriter(*args), batches))
    message = refused(release, tmp_path / "out", form)
    assert "cannot be written: No space left on device; make room or choose another place" in message
    assert "writing the same release again costs nothing" in message
    assert not list(tmp_path.iterdir())


def test_no_room_for_the_first_file_leaves_nothing_behind(
    release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.mkdir", full)
    assert "No space left on device" in refused(release, tmp_path / "out")
    assert not list(tmp_path.iterdir())


class Stumble(Exception):
    """Not the user's mistake."""


def failing_at(call: int) -> Any:
    """Return a function that fails at its so-manieth call, and does nothing before."""
    calls = itertools.count()

    def act(*_: Any, **__: Any) -> None:
        if next(calls) == call:
            raise Stumble

    return act


@pytest.mark.parametrize("interrupt", [Stumble, KeyboardInterrupt])
def test_a_failure_midway_leaves_nothing_behind_and_is_not_hidden(
    release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    def fail(*_: Any) -> str:
        raise interrupt

    monkeypatch.setattr(report, "render", fail)
    with pytest.raises(interrupt):
        release.save(tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("call", [0, 1, 2])
def test_a_failure_between_batches_leaves_nothing_behind(release: threea.Release, tmp_path: Path, call: int) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(Stumble), publish.claim(tmp_path / "out") as claimed:
        publish.write(release, claimed, progress=failing_at(call))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not list((tmp_path / "out").iterdir())


def test_the_folder_is_not_there_before_it_is_whole(
    release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    real = report.render

    def watching(*args: Any) -> str:
        seen.append((tmp_path / "out").exists())
        return real(*args)

    monkeypatch.setattr(report, "render", watching)
    release.save(tmp_path / "out")
    assert seen == [False]
    assert len(list((tmp_path / "out").iterdir())) == len(FILES) + 1


def test_someone_takes_the_folder_meanwhile(release: threea.Release, tmp_path: Path) -> None:
    def take(_: int) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "theirs.txt").write_text("theirs")

    with (
        pytest.raises(SettingError, match="cannot be written: Directory not empty"),
        publish.claim(tmp_path / "out") as claimed,
    ):
        publish.write(release, claimed, progress=take)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["theirs.txt"]


def test_someone_fills_the_empty_folder_meanwhile(release: threea.Release, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()

    def take(_: int) -> None:
        (tmp_path / "out" / "schema.toml").write_text("theirs")

    with (
        pytest.raises(SettingError, match="cannot be written: Directory not empty"),
        publish.claim(tmp_path / "out") as claimed,
    ):
        publish.write(release, claimed, progress=take)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["schema.toml"]
    assert (tmp_path / "out" / "schema.toml").read_text() == "theirs"


def test_a_claimed_place_knows_its_format_and_is_let_go_by_saving(release: threea.Release, tmp_path: Path) -> None:
    made = release.save(publish.claim(tmp_path / "out", "csv"))
    assert tmp_path / "out" / "synthetic.csv" in made
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failed_save_can_be_repeated(
    release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(publish, "RowWriter", lambda *args: FullDisk(RowWriter(*args), 0))
        with pytest.raises(SettingError) as caught:
            release.save(tmp_path / "out")
    assert caught.value.__notes__ == ["no result was written; what was charged stays charged"]
    release.save(tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "synthetic.parquet").equals(release.table)


def test_what_is_checked_last_stops_everything(release: threea.Release, tmp_path: Path) -> None:
    def check() -> None:
        (staging,) = tmp_path.glob(f"{place.STAGING}*")
        assert len(list((staging / "contents").iterdir())) == len(FILES) + 1
        raise Stumble

    with pytest.raises(Stumble), publish.claim(tmp_path / "out") as claimed:
        publish.write(release, claimed, check=check)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exists", [False, True])
def test_power_loss_finds_nothing_under_a_name_that_is_not_on_disk(
    release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    """Every file is synced when its writing is done, its folder before the rename, and the folder above after it."""
    acts: list[tuple[str, str]] = []
    real_sync, real_rename = os.fsync, os.rename

    def sync(handle: int) -> None:
        acts.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        real_sync(handle)

    def rename(source: Path, target: Path) -> None:
        acts.append(("rename", str(target)))
        for file in [source] if source.is_file() else source.iterdir():
            # Not written to since it was synced: what a rename gives a name to is on disk.
            assert ("sync", str(file)) in acts, file
            assert file.stat().st_size == sizes[str(file)]
        real_rename(source, target)

    sizes: dict[str, int] = {}
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    with publish.claim(out) as claimed:
        monkeypatch.setattr(os, "fsync", lambda handle: (sizes.update(_size(handle)), sync(handle))[1])
        monkeypatch.setattr(os, "rename", rename)
        publish.write(release, claimed)
    contents = str(claimed.path(""))
    moves = [act for act in acts if act[0] == "rename"]
    if exists:
        assert moves[-1] == ("rename", str(out / "certificate.json"))
        assert len(moves) == len(FILES) + 1
        # The rest of the folder is on disk before the certificate has its name.
        assert acts[acts.index(moves[-1]) - 1] == ("sync", str(out))
        assert acts[-1] == ("sync", str(out))
    else:
        assert moves == [("rename", str(out))]
        assert acts.index(("sync", contents)) < acts.index(moves[0])
        assert acts[-1] == ("sync", str(tmp_path))


def _size(handle: int) -> dict[str, int]:
    return {os.readlink(f"/proc/self/fd/{handle}"): os.fstat(handle).st_size}


def test_a_disk_that_does_not_confirm_the_last_step_is_told_of(
    release: threea.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = place._sync_folder

    def sync(folder: Path) -> None:
        if folder == tmp_path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(folder)

    monkeypatch.setattr(place, "_sync_folder", sync)
    with pytest.raises(SettingError, match="is written, but may not outlast a power loss") as caught:
        release.save(tmp_path / "out")
    assert caught.value.__notes__ == ["the release was written; what was charged stays charged"]
    assert len(list((tmp_path / "out").iterdir())) == len(FILES) + 1
