"""The draft as the owner gets it: private, whole, in one line; and files as they come from elsewhere."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from threea import cli, hospital
from threea.cli import terminal
from threea.describe import propose_schema
from threea.table.schema import Kind, Schema

CANARY = "Xanthippe-7731"


@pytest.fixture
def threea(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code, *capsys.readouterr())  # type: ignore[return-value]

    monkeypatch.chdir(tmp_path)
    return run


def one_line(result: tuple[int, str, str]) -> str:
    code, _, err = result
    assert code == 2, err
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert CANARY not in err
    return err


def test_a_draft_is_private_from_its_first_byte(threea: Any, tmp_path: Path) -> None:
    pq.write_table(hospital.stays(300), tmp_path / "stays.parquet")
    before = os.umask(0)
    try:
        code, out, _ = threea("schema", "stays.parquet", "--target", "died", "--unit", "patient_id")
    finally:
        os.umask(before)
    assert code == 0
    assert stat.S_IMODE((tmp_path / "schema.toml").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["schema.toml", "stays.parquet"]
    assert "Target died: 2 classes. Ids, never read: patient_id." in out
    drafted = Schema.load(tmp_path / "schema.toml")
    assert (drafted.confirmed, drafted["patient_id"].kind) == (False, Kind.ID)
    assert "patient_id" not in drafted.untouched


def test_a_draft_appears_whole_or_not_at_all(threea: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(hospital.stays(300), tmp_path / "stays.parquet")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    assert "No space left on device" in one_line(threea("schema", "stays.parquet", "--target", "died"))
    assert [path.name for path in tmp_path.iterdir()] == ["stays.parquet"]


@pytest.mark.parametrize("out", ["stays.parquet", "missing/schema.toml", "x" * 300, "\udcff.toml"])
def test_a_place_that_cannot_be_used_is_refused_before_reading(
    threea: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    pq.write_table(hospital.stays(300), tmp_path / "stays.parquet")
    monkeypatch.setattr(propose_schema, "propose_schema", lambda *_: pytest.fail("the rows were read"))
    before = (tmp_path / "stays.parquet").read_bytes()
    assert "out (" in one_line(threea("schema", "stays.parquet", "--target", "died", "--out", out))
    assert (tmp_path / "stays.parquet").read_bytes() == before


def test_a_zero_one_target_is_drafted_as_a_class(threea: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,outcome\n" + "".join(f"{20 + row % 60},{row % 2}\n" for row in range(90)))
    code, out, _ = threea("schema", "rows.csv", "--target", "outcome")
    assert code == 0
    assert "Target outcome: 2 classes. No column looks like an id." in out
    assert Schema.load(tmp_path / "schema.toml")["outcome"].categories == ("0", "1")


def test_a_german_spreadsheet(threea: Any, tmp_path: Path) -> None:
    lines = [f"{row % 28 + 1}.03.2020;{row},5;{'schön' if row % 2 else 'gut'}\n" for row in range(60)]
    (tmp_path / "rows.csv").write_bytes(("tag;menge;güte\n" + "".join(lines)).encode("cp1252"))
    plain = ("schema", "rows.csv", "--target", "güte")
    assert "its text is not UTF-8; if it comes from Excel, try --encoding cp1252" in one_line(threea(*plain))
    options = ("--encoding", "cp1252", "--decimal", ",", "--date-format", "%d.%m.%Y")
    assert threea(*plain, *options)[0] == 0
    drafted = Schema.load(tmp_path / "schema.toml")
    assert [column.kind for column in drafted.columns] == [Kind.DATE, Kind.REAL, Kind.CATEGORICAL]
    assert (drafted["menge"].upper, drafted["güte"].categories) == (60.0, ("gut", "schön"))


@pytest.mark.parametrize("separator", ["|", "tab", "\\t"])
def test_the_separator_may_be_said(threea: Any, tmp_path: Path, separator: str) -> None:
    between = "|" if separator == "|" else "\t"
    (tmp_path / "rows.csv").write_text("".join(between.join(row) + "\n" for row in ("ab", "12", "34")))
    assert threea("schema", "rows.csv", "--target", "b", "--separator", separator)[0] == 0
    assert [column.name for column in Schema.load(tmp_path / "schema.toml").columns] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--separator", ";;"), "separator (;;) must be one character"),
        (("--decimal", ";"), "decimal (;) must be a point or a comma"),
        (("--encoding", "klingon"), "encoding (klingon) is unknown"),
        (("--date-format", "%B"), "date_format (%B) may hold each of"),
        (("--unit", "whom"), "unit (whom) is not a column; columns are: a, b"),
        (("--unit", "b"), "target (b) is of kind id"),
    ],
)
def test_options_that_are_refused(threea: Any, tmp_path: Path, options: tuple[str, ...], word: str) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    assert word in one_line(threea("schema", "rows.csv", "--target", "b", *options))
    assert not (tmp_path / "schema.toml").exists()


def test_a_file_without_a_header_line_shows_no_value(threea: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"39,{CANARY},1\n40,{CANARY},0\n")
    assert "does it lack a header line?" in one_line(threea("schema", "rows.csv", "--target", "income"))


def test_names_do_not_steer_the_terminal(threea: Any, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202e\nnew line"
    pq.write_table(pa.table({evil: [0, 1] * 60, "x": range(120)}), tmp_path / "rows.parquet")
    err = one_line(threea("schema", "rows.parquet", "--target", "y"))
    code, out, _ = threea("schema", "rows.parquet", "--target", evil)
    assert code == 0
    assert r"\u202e\nnew line: 2 classes" in out
    for text in (err, out):
        assert r"\x1b]0;owned\x07\x9b2J\u202e" in text
        assert all(character.isprintable() or character == "\n" for character in text)


def test_tables_and_lines_spell_out_control_characters(capsys: Any) -> None:
    terminal.table(["head"], [["\x1b[31mred\x07"]])
    terminal.say("two\nlines\udcff")
    terminal.complain("bell\x07")
    out, err = capsys.readouterr()
    assert r"\x1b[31mred\x07" in out
    assert "two\nlines\\udcff\n" in out
    assert err == "bell\\x07\n"


def test_a_path_that_is_not_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    code = "from threea.cli import main; main()"
    command = [sys.executable.encode(), b"-c", code.encode(), b"schema", os.fsencode(tmp_path) + b"/\xff.csv"]
    done = subprocess.run([*command, b"--target", b"y"], capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"the path is not UTF-8, or holds a null; rename the file" in done.stderr


def test_drafting_loads_nothing_it_does_not_need(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    code = """
import sys
from threea.cli import main
try:
    main()
finally:
    print(sorted({"scipy", "dp_accounting", "opendp", "polars", "jax", "sklearn"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "schema", tmp_path / "rows.csv", "--target", "b", "--out", tmp_path / "out.toml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr
