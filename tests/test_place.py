"""A place is claimed or refused, is one process's at a time, and keeps nothing of a process that was killed."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from threea.errors import SettingError
from threea.place import STAGING, Place, clean


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(place: Place) -> list[Path]:
    for name in ("rows", "report", "certificate"):
        with place.file(name) as file:
            file.write(name.encode())
    return place.publish()


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, where the tests may mount one."""
    folder = tmp_path / "volume"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_new_folder_appears_at_once(tmp_path: Path) -> None:
    with Place(tmp_path / "out") as place:
        assert not (tmp_path / "out").exists()
        assert fill(place) == [tmp_path / "out" / name for name in ("certificate", "report", "rows")]
        assert place.published
    assert names(tmp_path) == ["out"]
    assert place.published


@pytest.mark.parametrize("target", ["there", "missing"])
def test_a_link_to_an_empty_or_missing_folder_is_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(target)
    with Place(tmp_path / "link") as place:
        assert fill(place)[0] == tmp_path / "link" / "certificate"
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / target) == ["certificate", "report", "rows"]


def test_the_working_folder_stays_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Place(".") as place:
        fill(place)
    assert sorted(os.listdir()) == ["certificate", "report", "rows"]


def test_a_mount_point_is_filled_in_place(mounted: Path) -> None:
    with Place(mounted) as place:
        fill(place)
    assert names(mounted) == ["certificate", "report", "rows"]


def test_a_folder_that_cannot_be_renamed_onto_is_filled_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    real = os.rename

    def busy(source: Path, target: Path) -> None:
        if Path(target) == tmp_path / "out":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        real(source, target)

    monkeypatch.setattr(os, "rename", busy)
    with Place(tmp_path / "out") as place:
        fill(place)
    assert names(tmp_path / "out") == ["certificate", "report", "rows"]


@pytest.mark.parametrize("name", ["x" * 300, "\N{OGHAM LETTER BEITH}" * 100, "null\0byte"])
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match="cannot be used"):
        Place(tmp_path / name)
    assert not names(tmp_path)


@pytest.mark.parametrize("name", [b"\xff\xfe", "\N{OGHAM LETTER BEITH}".encode() * 85, b"new\nline"])
def test_any_name_that_the_file_system_takes_is_taken(tmp_path: Path, name: bytes) -> None:
    with Place(tmp_path / os.fsdecode(name)) as place:
        fill(place)
    assert os.listdir(os.fsencode(tmp_path)) == [name]


def test_where_folders_cannot_be_renamed_it_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, _: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(SettingError, match=r"cannot be used: Invalid cross-device link; .*make it, empty"):
        Place(tmp_path / "out")
    assert not names(tmp_path)


def test_one_process_has_it_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threea.place._PAUSE", 0.0)
    with Place(tmp_path / "out") as first:
        with pytest.raises(SettingError, match="is being written by another process"):
            Place(tmp_path / "out")
        with Place(tmp_path / "other") as other:
            fill(other)
        fill(first)
    assert names(tmp_path) == ["other", "out"]


def test_a_file_system_that_gives_everything_to_one_user_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with Place(tmp_path / "out") as place:
        fill(place)
    assert names(tmp_path) == ["out"]


def test_what_another_user_left_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{STAGING}0").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12345)
        clean(tmp_path)
    assert names(tmp_path) == [f"{STAGING}0"]
    clean(tmp_path)
    assert not names(tmp_path)


def test_where_there_are_no_locks_the_maker_has_it_and_nobody_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", no_locks)
    monkeypatch.setattr("threea.place._PAUSE", 0.0)
    with Place(tmp_path / "out") as place:
        clean(tmp_path)
        with pytest.raises(SettingError, match="is being written by another process"):
            Place(tmp_path / "out")
        fill(place)
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("move", [0, 1, 2])
def test_a_failing_move_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool, move: int) -> None:
    if exists:
        (tmp_path / "out").mkdir()
    with Place(tmp_path / "out") as place:
        real, left = os.rename, [move if exists else 0]

        def rename(source: Path, target: Path) -> None:
            if not left[0]:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            left[0] -= 1
            real(source, target)

        monkeypatch.setattr(os, "rename", rename)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            fill(place)
        assert not place.published
    assert not place.published
    assert names(tmp_path) == (["out"] if exists else [])
    assert not exists or not names(tmp_path / "out")


@pytest.mark.parametrize("exists", [False, True])
def test_an_interrupt_after_the_move_finds_it_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    if exists:
        (tmp_path / "out").mkdir()
    real, left = os.rename, [3 if exists else 1]

    def rename(source: Path, target: Path) -> None:
        real(source, target)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    place = Place(tmp_path / "out")
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(KeyboardInterrupt), place:
        fill(place)
    assert place.published
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["certificate", "report", "rows"]


# Stops at a marked moment until it is killed.
STUCK = textwrap.dedent("""
    import os, sys, time
    from threea.place import Place

    out, moment = sys.argv[1], sys.argv[2]
    def stick(at):
        if at == moment:
            print(at, flush=True)
            time.sleep(600)
    real, moves = os.rename, []
    place = Place(out)
    stick("claimed")
    def rename(source, target):
        real(source, target)
        moves.append(target)
        stick(f"moved {len(moves)}")
    os.rename = rename
    for name in ("rows", "report", "certificate"):
        with place.file(name) as file:
            file.write(name.encode())
            stick(f"writing {name}")
    place.publish()
""")


def stuck(out: Path, moment: str) -> subprocess.Popen[str]:
    """Start a process that claims a place and stops at a moment."""
    process = subprocess.Popen([sys.executable, "-c", STUCK, out, moment], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == moment
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("moment", ["claimed", "writing rows", "moved 1", "moved 2", "moved 3"])
def test_what_a_killed_process_left_goes_with_the_next_claim(tmp_path: Path, exists: bool, moment: str) -> None:
    if exists:
        (tmp_path / "out").mkdir()
    elif moment in ("moved 2", "moved 3"):
        pytest.skip("a new folder has one move")
    home = tmp_path / "out" if exists else tmp_path
    process = stuck(tmp_path / "out", moment)
    clean(home)
    assert list(home.glob(f"{STAGING}*")), "a living process's was removed"
    kill(process)
    whole = moment == ("moved 3" if exists else "moved 1")
    if whole:
        with pytest.raises(SettingError, match="must be a new or empty folder"):
            Place(tmp_path / "out")
        with Place(tmp_path / "next") as place:
            fill(place)
        assert names(tmp_path) == ["next", "out"]
    else:
        with Place(tmp_path / "out") as place:
            fill(place)
        assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["certificate", "report", "rows"]


def test_undoing_takes_no_file_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    kill(stuck(tmp_path / "out", "moved 1"))
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "theirs").replace(tmp_path / "out" / "rows")
    with pytest.raises(SettingError, match="must be a new or empty folder"):
        Place(tmp_path / "out")
    assert names(tmp_path / "out") == ["rows"]
    assert (tmp_path / "out" / "rows").read_text() == "theirs"


def test_remains_that_say_nothing_of_use_are_removed(tmp_path: Path) -> None:
    for number, text in enumerate(["", "[1]", '["mine"]', '{"../../x": 1}', json.dumps({"mine": 0})]):
        staging = tmp_path / f"{STAGING}{number}"
        (staging / "contents").mkdir(parents=True)
        (staging / "contents" / "rows").write_text("rows")
        (staging / "moves").write_text(text)
    (tmp_path / "mine").write_text("mine")
    clean(tmp_path)
    assert names(tmp_path) == ["mine"]


def test_a_link_named_like_a_staging_folder_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").write_text("kept")
    with Place(tmp_path / "out"):
        (name,) = [path.name for path in tmp_path.glob(f"{STAGING}*")]
    (tmp_path / name).symlink_to("mine")
    clean(tmp_path)
    monkeypatch.setattr("threea.place._PAUSE", 0.0)
    with pytest.raises(SettingError, match="is being written by another process"):
        Place(tmp_path / "out")
    assert names(tmp_path / "mine") == ["kept"]


def test_a_full_disk_leaves_nothing(mounted: Path) -> None:
    more = os.urandom(1 << 21)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)), Place(mounted / "out") as place, place.file("x") as x:
        x.write(more)
    assert not names(mounted)


def test_free_room_is_the_file_systems(mounted: Path) -> None:
    with Place(mounted / "out") as place:
        assert place.free is not None
        assert 0 < place.free <= 1 << 20


def test_room_is_taken_until_the_first_file_is_written(mounted: Path) -> None:
    with Place(mounted / "out") as place:
        before = place.free
        assert before is not None
        place.reserve(600_000, 4)
        assert place.free is not None
        assert place.free < before - 590_000
        with place.file("rows") as file:
            assert place.free > before - 100_000
            file.write(b"rows")
    assert names(mounted) == []


@pytest.mark.parametrize("claimed", ["out", "."])
def test_too_little_room_is_refused_and_nothing_is_left(mounted: Path, claimed: str) -> None:
    with Place(mounted / claimed) as place, pytest.raises(SettingError, match=r"too little room: .* MB free, 2\.0 MB"):
        place.reserve(2_000_000, 4)
    assert names(mounted) == []


def test_too_few_files_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "nr_inodes=8", "none", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with Place(folder / "out") as place, pytest.raises(SettingError, match="10 files needed: No space left"):
            place.reserve(1000, 10)
        assert names(folder) == []
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_room_that_the_system_does_not_give_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: int
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with Place(tmp_path / "out") as place, pytest.raises(SettingError, match=os.strerror(failure)):
        place.reserve(1000, 2)
    assert names(tmp_path) == []


def test_a_file_system_that_cannot_reserve_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    with Place(tmp_path / "out") as place:
        place.reserve(3_000_000, 2)
        assert [file.stat().st_size for file in tmp_path.rglob("bytes")] == [3_000_000]
