"""What `threea release` takes and says: dialects, forms, dry runs, help, versions, and clean ends."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import threea as package
from threea import cli, hospital, interrupts
from threea.evaluate.evidence import Evidence
from threea.ledger import Ledger
from threea.table.dialect import MULTILINE, Dialect
from threea.table.schema import Schema

FAST = ("--recipe", "independent", "--rows", 20)


@pytest.fixture
def threea(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in a folder of its own; return exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def described(tmp_path):
    path = tmp_path / "described.toml"
    path.write_text(hospital.schema().to_toml())
    return path


@pytest.fixture
def stays(tmp_path):
    path = tmp_path / "stays.parquet"
    pq.write_table(hospital.stays(200), path)
    return path


def refused(result, *words):
    code, _, err = result
    assert (code, err.count("\n")) == (2, 1), err
    assert err.startswith("error: ")
    for word in words:
        assert word in err
    return True


GERMAN = "alter;gewicht;tag;gestorben\n" + "".join(
    f"{20 + n};{60 + n},5;{1 + n % 28:02}.03.2024;{'ja' if n % 3 else 'nein – spät'}\n" for n in range(60)
)
GERMAN_SCHEMA = """
confirmed = true
target = "gestorben"
[column.alter]
kind = "integer"
lower = 0
upper = 120
[column.gewicht]
kind = "real"
lower = 60.0
upper = 120.0
[column.tag]
kind = "date"
lower = "2024-03-01"
upper = "2024-03-31"
[column.gestorben]
kind = "categorical"
categories = ["ja", "nein – spät"]
"""


def test_a_file_is_read_as_its_options_say_and_comes_back_as_csv(threea, tmp_path):
    (tmp_path / "daten.csv").write_bytes(GERMAN.encode("cp1252"))
    (tmp_path / "schema.toml").write_text(GERMAN_SCHEMA)
    options = ("--encoding", "cp1252", "--decimal", ",", "--date-format", "%d.%m.%Y", "--epsilon", 1000, "--out", "r")
    code, _, err = threea("release", "daten.csv", "--schema", "schema.toml", "--separator", ";", *options, *FAST)
    assert (code, err) == (0, "")
    check_german(tmp_path / "r/synthetic.csv")
    assert threea("release", "daten.csv", "--schema", "schema.toml", "--epsilon", 1, "--out", "s")[0] == 2


def test_columns_of_types_that_are_not_supported_can_be_dropped(threea, tmp_path):
    rows = {"x": [float(n % 7) for n in range(300)], "y": ["a", "b", "c"] * 100}
    table = pa.table({**rows, "blob": [b"secret-17"] * 300, "list": [[1]] * 300})
    pq.write_table(table, tmp_path / "t.parquet")
    arguments = ("release", "t.parquet", "--target", "y", "--epsilon", 100, *FAST)
    assert refused(
        threea(*arguments, "--out", "r"), "columns blob (binary), list (list<element: int64>) have types that are not"
    )
    assert refused(threea(*arguments, "--drop", "blub", "--out", "r"), "drop (blub) is not a column; columns are: x, y")
    options = ("--drop", "blob", "--drop", "list")
    assert threea(*arguments, *options, "--out", "r")[0] == 0
    assert pq.read_schema(tmp_path / "r/synthetic.parquet").names == ["x", "y"]
    assert refused(threea("schema", "t.parquet", "--target", "y"), "have types that are not supported")
    assert threea("schema", "t.parquet", "--target", "y", *options)[0] == 0
    assert '[column."blob"]\ndrop = true\n' in (tmp_path / "schema.toml").read_text()
    again = ("release", "t.parquet", "--schema", "schema.toml", "--confirm-schema", "--epsilon", 100, *FAST)
    assert threea(*again, "--out", "s")[0] == 0
    # The schema that is released says so, too, so that it describes the same table.
    assert threea("release", "t.parquet", "--schema", "s/schema.toml", "--epsilon", 1, *FAST, "--out", "u")[0] == 0


def check_german(path):
    """Check that rows are written as the file was that they stand for, and that every column holds something."""
    head, *lines = path.read_bytes().decode("cp1252").splitlines()
    assert head == "alter;gewicht;tag;gestorben"
    weights, days, deaths = zip(*(line.split(";")[1:] for line in lines), strict=True)
    # Read as if in English, every weight and every day would be missing; noise alone makes a few so.
    assert max(weights.count(""), days.count("")) < len(lines) / 2
    assert all(re.fullmatch(r"(\d+(,\d+)?)?", weight) for weight in weights)
    assert any("," in weight for weight in weights)
    assert all(re.fullmatch(r"(\d\d\.\d\d\.202[45])?", day) for day in days)
    assert set(deaths) <= {"ja", "nein – spät", ""}


def test_a_drafted_schema_says_how_its_file_is_read(threea, tmp_path):
    """Options that were forgotten cost a budget once: nothing was read of two columns, and nothing was said."""
    (tmp_path / "daten.csv").write_bytes(GERMAN.encode("cp1252"))
    draft = ("schema", "daten.csv", "--target", "gestorben", "--encoding", "cp1252")
    assert threea(*draft, "--out", "seen.toml")[0] == 0
    assert threea(*draft, "--decimal", ",", "--date-format", "%d.%m.%Y", "--out", "said.toml")[0] == 0
    seen, said = (Schema.load(tmp_path / name) for name in ("seen.toml", "said.toml"))
    assert seen == said
    read_as = Dialect(separator=";", encoding="cp1252", decimal=",", date_format="%d.%m.%Y")
    assert said.reading == read_as
    arguments = ("release", "daten.csv", "--schema", "said.toml", "--confirm-schema", *FAST)
    code, _, err = threea(*arguments, "--epsilon", 1000, "--out", "r")
    assert (code, err) == (0, "")
    check_german(tmp_path / "r/synthetic.csv")
    assert Schema.load(tmp_path / "r/schema.toml").reading == read_as
    code, _, err = threea("sample", "r", "--rows", 30, "--out", "more.csv")
    assert (code, err) == (0, "")
    check_german(tmp_path / "more.csv")
    code, _, err = threea("split", "daten.csv", "--schema", "said.toml", "--out", "cut", "--seed", 1)
    assert (code, err) == (0, "")
    parts = [(tmp_path / "cut" / name).read_bytes().decode("cp1252") for name in ("train.csv", "holdout.csv")]
    assert sorted(line for part in parts for line in part.splitlines()[1:]) == sorted(GERMAN.splitlines()[1:])
    ways = ("--train", "cut/train.csv", "--holdout", "cut/holdout.csv")
    code, _, err = threea("evaluate", "r", *ways, "--dry-run")
    assert (code, err) == (0, "")
    evidence = Evidence.load("r", tmp_path / "cut/train.csv", tmp_path / "cut/holdout.csv")
    for table in (evidence.synthetic, evidence.train, evidence.holdout):
        assert table["gewicht"].type == pa.float64()
        assert table["tag"].type == pa.date32()
        assert max(table["gewicht"].null_count, table["tag"].null_count) < table.num_rows / 2


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--decimal", "."), "decimal (.) disagrees with the schema's [reading] (,); leave it out or mend the schema"),
        (("--date-format", "%m/%d/%Y"), "date_format (%m/%d/%Y) disagrees with the schema's [reading] (%d.%m.%Y)"),
        (("--encoding", "utf-8"), "encoding (utf-8) disagrees with the schema's [reading] (cp1252)"),
        (("--separator", ","), "separator (,) disagrees with the schema's [reading] (;)"),
        (("--multiline",), "multiline (True) disagrees with the schema's [reading] (False)"),
        (("--sheet", "x"), "sheet (x) is of an Excel file, and the data is a CSV file; leave it out"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_option_that_disagrees_with_the_schema_is_refused_while_nothing_is_spent(threea, tmp_path, option, message):
    (tmp_path / "daten.csv").write_bytes(GERMAN.encode("cp1252"))
    reading = '[reading]\nseparator = ";"\nencoding = "cp1252"\ndecimal = ","\ndate_format = "%d.%m.%Y"\n'
    (tmp_path / "s.toml").write_text(GERMAN_SCHEMA.replace("[column.alter]", f"{reading}[column.alter]"))
    spent = ("--ledger", "ledger.db", "--epsilon", 1, "--out", "r")
    assert refused(threea("release", "daten.csv", "--schema", "s.toml", *spent, *option), message)
    assert refused(threea("split", "daten.csv", "--schema", "s.toml", "--out", "cut", *option), message)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["daten.csv", "s.toml"]
    agreeing = ("--decimal", ",", "--encoding", "CP1252", "--separator", ";", "--date-format", "%d.%m.%Y")
    assert threea("split", "daten.csv", "--schema", "s.toml", "--out", "cut", *agreeing)[0] == 0


def test_quotes_that_do_not_close_are_refused_before_anything_is_spent(threea, tmp_path):
    lines = [f"{n},canary-{n},{n % 2}" for n in range(50)]
    lines[20], lines[30] = '20,"canary-20,1', '30,"said ""hi""",1'
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]))
    arguments = ("release", "t.csv", "--target", "y", "--epsilon", 1, "--out", "r", *FAST)
    result = threea(*arguments, "--ledger", "ledger.db")
    assert refused(result, "t.csv cannot be read as CSV: a line has a quote that is not closed in it; mend the file")
    assert "canary" not in result[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_line_breaks_in_values_are_read_where_the_owner_says_so_and_the_certificate_says_it_too(threea, tmp_path):
    lines = [f'{n},"two\nlines",{n % 2}' for n in range(50)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]))
    arguments = ("release", "t.csv", "--target", "y", "--epsilon", 5, "--format", "csv", *FAST)
    assert threea(*arguments, "--multiline", "--out", "r")[0] == 0
    stated = json.loads((tmp_path / "r/certificate.json").read_text())
    assert stated["assumptions"] == [MULTILINE]
    assert Schema.load(tmp_path / "r/schema.toml").reading.multiline
    assert refused(threea(*arguments, "--out", "s"), "a line has a quote that is not closed in it", "multiline = true")


def test_a_target_of_whole_numbers_can_be_said_to_be_a_class(threea, tmp_path):
    table = pa.table({"x": [float(n % 7) for n in range(300)], "y": [n % 2 for n in range(300)]})
    pq.write_table(table, tmp_path / "t.parquet")
    arguments = ("release", "t.parquet", "--target", "y", "--epsilon", 5, "--dry-run", "--out", "r")
    assert "for y (classes, to be found)" in threea(*arguments, "--target-kind", "class")[1]
    assert "for y (a number)" in threea(*arguments, "--target-kind", "number")[1]
    assert refused(threea(*arguments, "--target-kind", "thing"), "target kind (thing) must be class or number")


def test_parquet_comes_back_as_parquet_and_format_overrides(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--schema", described, "--epsilon", 1, *FAST)
    assert threea(*arguments, "--out", "a")[0] == threea(*arguments, "--format", "csv", "--out", "b")[0] == 0
    assert (tmp_path / "a/synthetic.parquet").exists()
    assert (tmp_path / "b/synthetic.csv").exists()


def test_text_that_a_spreadsheet_might_run_is_made_inert_by_choice(threea, tmp_path):
    words = ["=1+1", "+49", "-x", "@sum", "\tq", "plain", "a=b"]
    table = pa.table({"note": words * 40, "money": [-float(n) for n in range(280)], "y": ["a", "b"] * 140})
    pq.write_table(table, tmp_path / "t.parquet")
    listed = json.dumps(words)
    (tmp_path / "s.toml").write_text(
        'confirmed = true\ntarget = "y"\n'
        f'[column.note]\nkind = "categorical"\ncategories = {listed}\nnullable = false\n'
        '[column.money]\nkind = "real"\nlower = -300\nupper = 0\n'
        '[column.y]\nkind = "categorical"\ncategories = ["a", "b"]\n'
    )
    arguments = ("release", "t.parquet", "--schema", "s.toml", "--epsilon", 1000, "--recipe", "independent")
    quiet, told = (
        threea(*arguments, "--format", "csv", *options, "--out", name)
        for options, name in ((("--spreadsheet-safe",), "safe"), ((), "bare"))
    )
    assert quiet[0] == told[0] == 0
    said = "A spreadsheet would run text in column note as formulas: it begins with =, +, - or @."
    assert said not in quiet[1]
    assert said in " ".join(told[1].split())
    assert "--spreadsheet-safe" in told[1]
    safe, bare = (pa.csv.read_csv(tmp_path / name / "synthetic.csv") for name in ("safe", "bare"))
    assert set(safe["note"].to_pylist()) == {"'=1+1", "'+49", "'-x", "'@sum", "'\tq", "plain", "a=b"}
    assert set(bare["note"].to_pylist()) == set(words)
    assert safe["money"].type == pa.float64()
    certificates = [json.loads((tmp_path / name / "certificate.json").read_text()) for name in ("safe", "bare")]
    assert [certificate["spreadsheet_safe"] for certificate in certificates] == [True, False]
    reports = [(tmp_path / name / "report.html").read_text() for name in ("safe", "bare")]
    assert ["apostrophe" in report for report in reports] == [True, False]
    assert ["A spreadsheet would run text in column note" in report for report in reports] == [False, True]
    for options in (("--format", "parquet"), ()):
        assert refused(threea(*arguments, *options, "--spreadsheet-safe", "--out", "r"), "csv")


def test_a_dry_run_prints_the_receipt_and_leaves_no_trace(threea, stays, described, tmp_path):
    before = sorted(tmp_path.iterdir())
    arguments = ("release", stays, "--schema", described, "--epsilon", 1, "--out", "r", "--dry-run")
    code, out, err = threea(*arguments, "--ledger", "ledger.db", "--cap", 2, "--new-ledger")
    assert (code, err) == (0, "")
    assert "share of budget" in out
    assert re.search(
        r"It makes at most \d+ passes over the rows: [\d.]+ MB read, (about \d+|a few) \w+ on \d+ worker", out
    )
    assert "nothing was spent, nothing written" in out
    assert sorted(tmp_path.iterdir()) == before


def test_a_dry_run_enters_nothing_into_a_ledger_and_minds_its_cap(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--schema", described, "--ledger", "ledger.db", "--epsilon", 1, *FAST)
    assert threea(*arguments, "--cap", 1.5, "--new-ledger", "--out", "a")[0] == 0
    assert threea(*arguments, "--dataset", "another", "--out", "b", "--dry-run")[0] == 0
    with Ledger(tmp_path / "ledger.db") as book:
        assert [(row.name, row.spent) for row in book.datasets()] == [("stays", 1.0)]
    code, _, err = threea(*arguments, "--out", "c", "--dry-run")
    assert code == 3
    assert "left 0.5" in err


@pytest.mark.parametrize("there", [False, True])
def test_a_dry_run_minds_the_cap_that_it_is_given(threea, stays, described, tmp_path, there):
    arguments = ("release", stays, "--schema", described, "--epsilon", 1, "--rows", 100, "--ledger", "ledger.db")
    named = (*arguments, "--dataset", "stays")
    if there:
        assert threea(*named, "--out", "first")[0] == 0
    new, cap, spent = ((), 1.5, 1) if there else (("--new-ledger",), 0.5, 0)
    code, _, err = threea(*named, *new, "--cap", cap, "--out", "second", "--dry-run")
    assert (code, err.count("\n")) == (3, 1)
    assert f"requested epsilon 1, spent {spent} of {cap}, left 0.5" in err
    assert (tmp_path / "ledger.db").exists() == there
    assert threea(*named, *new, "--cap", cap, "--out", "second")[0] == 3


def test_a_new_ledger_is_told_of_and_must_be_meant_where_there_is_a_cap(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--schema", described, "--epsilon", 1, *FAST)
    mistyped = threea(*arguments, "--ledger", "legder.db", "--cap", 3, "--out", "a")
    assert refused(mistyped, "legder.db does not exist", "--new-ledger")
    assert not (tmp_path / "legder.db").exists()
    assert "New ledger made: ledger.db" in threea(*arguments, "--ledger", "ledger.db", "--out", "b")[1]
    assert "New ledger made" not in threea(*arguments, "--ledger", "ledger.db", "--cap", 3, "--out", "c")[1]
    assert refused(threea(*arguments, "--new-ledger", "--out", "d"), "--new-ledger needs a --ledger")


def test_a_refused_table_makes_no_ledger(threea, described, tmp_path):
    (tmp_path / "bad.csv").write_text("a,y\n")
    arguments = ("release", "bad.csv", "--target", "y", "--epsilon", 1, "--out", "r")
    assert refused(threea(*arguments, "--ledger", "ledger.db", "--cap", 3, "--new-ledger"), "no rows")
    assert not (tmp_path / "ledger.db").exists()


def test_rows_are_a_number_or_same(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--schema", described, "--epsilon", 50, "--out", "r")
    assert refused(threea(*arguments, "--rows", "many"), "rows (many) must be a whole number, at least 1, or same")
    code, out, _ = threea(*arguments, "--rows", "same")
    assert code == 0
    assert "as many as the noisy count" in out
    assert "2,000" not in out


def test_only_classes_can_be_balanced(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--epsilon", 1, "--balance", "--out", "r")
    assert refused(
        threea(*arguments, "--target", "cost", "--target-kind", "number"), "balance needs a target with classes"
    )
    assert refused(threea(*arguments, "--schema", described, "--recipe", "dpmix"), "a ratio of their own")


def test_a_ratio_of_classes_that_is_not_the_private_one_is_told_of_first(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--schema", described, "--epsilon", 50, "--rows", 50)
    code, out, _ = threea(*arguments, "--out", "as-they-occur")
    assert code == 0
    assert "rebalanced" not in out
    assert "private ratio" not in out
    code, out, _ = threea(*arguments, "--balance", "--out", "r")
    assert code == 0
    lines = out.splitlines()
    assert any(line.startswith("Classes are not drawn in their private ratio") for line in lines)
    assert lines.index(next(line for line in lines if line.startswith("Note: Classes were rebalanced"))) < lines.index(
        next(line for line in lines if line.startswith("Guarantee:"))
    )
    report = (tmp_path / "r/report.html").read_text()
    assert report.index("another ratio than the private table") < report.index("What is promised")


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_help_is_help(threea, arguments):
    code, out, err = threea(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: threea [OPTIONS] COMMAND")
    assert "\n  release " in out


COMMANDS = ["demo", "release", "schema", "ledger", "recipes", "evaluate", "audit", "benchmark"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_short_help(threea, command):
    code, out, _ = threea(command, "-h")
    assert code == 0
    assert out.startswith(f"Usage: threea {command}")


def test_the_version_is_shown(threea):
    assert threea("--version")[:2] == (0, f"threea {package.__version__}\n")


def test_python_runs_the_package():
    done = subprocess.run([sys.executable, "-m", "threea", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"threea {package.__version__}\n"


def odd(kind, values):
    return pa.table({"u": pa.array(values * 50, kind), "y": ["a", "b"] * 50, "x": [float(n) for n in range(100)]})


UNITS = {
    "binary": odd(pa.binary(), [b"a", b"\xff"]),
    "uuid": odd(pa.binary(16), [b"a" * 16, b"b" * 16]),
    "list": odd(pa.list_(pa.int64()), [[1], [2]]),
    "struct": odd(pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": 2}]),
    "duration": odd(pa.duration("s"), [1, 2]),
    "time": odd(pa.time32("s"), [1, 2]),
}


@pytest.mark.parametrize("kind", UNITS)
def test_a_unit_of_a_type_that_names_nobody_is_refused(threea, tmp_path, kind):
    pq.write_table(UNITS[kind], tmp_path / "t.parquet")
    arguments = ("release", "t.parquet", "--target", "y", "--unit", "u", "--epsilon", 1, "--out", "r", *FAST)
    assert refused(threea(*arguments, "--ledger", "l.db"), "column u has type", "not supported")
    assert not (tmp_path / "l.db").exists()


def test_a_unit_that_the_schema_has_not_is_refused(threea, stays, tmp_path):
    text = hospital.schema().to_toml()
    start = text.index('[column."patient_id"]')
    (tmp_path / "s.toml").write_text(text[:start] + text[text.index("[column", start + 1) :])
    arguments = ("release", stays, "--schema", "s.toml", "--unit", "patient_id", "--epsilon", 1, "--out", "r")
    assert refused(threea(*arguments), "column patient_id: the schema has not")


@pytest.mark.parametrize("name", ["n" * 300, "caf\udce9"], ids=["too long", "not UTF-8"])
@pytest.mark.parametrize("option", ["data", "--schema", "--ledger", "--target", "--dataset"])
def test_names_that_no_file_can_have_are_refused(threea, stays, described, tmp_path, name, option):
    arguments = {"data": stays, "--schema": described, "--ledger": "l.db", "--target": "died", "--dataset": "stays"}
    arguments[option] = f"{name}.csv" if option == "data" else name
    data = arguments.pop("data")
    if (option, name) == ("--ledger", "caf\udce9"):
        arguments["--dry-run"] = ""
    options = [part for pair in arguments.items() for part in pair if part != ""]
    code, _, err = threea("release", data, *options, "--epsilon", 1, "--out", "r", *FAST)
    assert code in ((0, 2) if "--dry-run" in arguments else (2,))
    assert err.count("\n") == (code == 2)
    assert "internal" not in err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("text", ["null", "3", '"x"', "[]", "[" * 100_000, "{}", "{"])
def test_a_certificate_that_is_none_is_refused(threea, stays, described, tmp_path, text):
    threea("release", stays, "--schema", described, "--epsilon", 1, "--out", "r", *FAST)
    (tmp_path / "r/certificate.json").write_text(text)
    assert refused(threea("evaluate", "r", "--train", stays, "--holdout", stays, "--out", "e"), "certificate.json")


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "{a=" * 3000], ids=["lists", "tables"])
def test_a_schema_nested_too_deeply_is_refused(threea, stays, tmp_path, text):
    (tmp_path / "deep.toml").write_text(text)
    assert refused(threea("release", stays, "--schema", "deep.toml", "--epsilon", 1, "--out", "r"), "nested too deeply")


@pytest.mark.parametrize("option", [("--seed", -5), ("--rows", 0)])
def test_numbers_that_cannot_be_are_refused_before_anything_is_opened(threea, stays, described, tmp_path, option):
    arguments = ("release", stays, "--schema", described, "--epsilon", 1, "--ledger", "l.db", "--out", "r", *option)
    assert refused(threea(*arguments), str(option[1]))
    assert not (tmp_path / "l.db").exists()


ESCAPE = "\x1b]0;owned\x07"


def test_names_from_files_do_not_steer_the_terminal(threea, tmp_path):
    name = f"died{ESCAPE}"
    pq.write_table(pa.table({name: ["a", "b"] * 50, f"x{ESCAPE}": range(100)}), tmp_path / "t.parquet")
    said = [threea("schema", "t.parquet", "--target", name), threea("schema", "t.parquet", "--target", ESCAPE)]
    said.append(threea("release", "t.parquet", "--target", name, "--epsilon", 1, "--ledger", "l.db", "--out", "r"))
    said.append(threea("release", "t.parquet", "--target", ESCAPE, "--epsilon", 1, "--out", "q"))
    said.append(threea("ledger", "l.db"))
    said.append(threea("audit", ESCAPE))
    said.append(threea("evaluate", ESCAPE, "--train", "t.parquet", "--holdout", "t.parquet"))
    assert not any("\x1b" in text or "\x07" in text for _, out, err in said for text in (out, err))
    assert said[2][0] == 0


def interrupted(code, *arguments, ready):
    """Run code as a group of its own, interrupt the group when it is ready, return exit code and standard error."""
    prelude = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", prelude + code, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            ready(process)
            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, err


def test_workers_of_an_audit_say_nothing_when_interrupted():
    """Early, while they load, a worker that heard the interrupt would print a traceback."""

    def two_workers(process):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while len(children.read_text().split()) < 3:
            assert process.poll() is None
            time.sleep(0.01)

    if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
        pytest.skip("needs to see a process's children")
    code = "from threea.cli import main, measuring; measuring._cores = lambda: 2; main()"
    returned, err = interrupted(code, "audit", "independent", "--trials", "400", ready=two_workers)
    assert (returned, err.count("\n")) == (130, 1), err
    assert err.startswith("interrupted: ")


def test_an_interrupt_that_a_library_mistakes_for_its_own_error_is_still_one(capsys, monkeypatch):
    def mistaken(**_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("numpy could not be loaded") from None

    monkeypatch.setattr(cli, "app", mistaken)
    monkeypatch.setattr(signal, "default_int_handler", signal.getsignal(signal.SIGINT))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 130
    assert capsys.readouterr().err.startswith("interrupted: ")


def test_the_interpreter_has_its_interrupts_back():
    usual = signal.getsignal(signal.SIGINT)
    with interrupts.noted():
        pass
    assert signal.getsignal(signal.SIGINT) is usual


def test_a_terminal_that_lacks_characters_is_no_bug_after_the_charge(stays, described, tmp_path):
    """In a locale of ASCII alone a release was charged and written, and ended as an internal error."""
    arguments = ["--schema", described, *map(str, FAST), "--epsilon", "1", "--out", tmp_path / "d\u00e9"]
    command = [sys.executable, "-m", "threea", "release", stays, *map(str, arguments)]
    ascii_only = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "TZ": ":/nowhere"}
    done = subprocess.run(command, capture_output=True, env=os.environ | ascii_only, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"d\\xe9/certificate.json\n" in done.stdout


def test_a_folder_with_a_line_break_in_its_name_is_one_line(threea, stays, described):
    code, out, _ = threea("release", stays, "--schema", described, *FAST, "--epsilon", 1, "--out", "new\nline")
    assert code == 0
    assert "  new\\nline/certificate.json\n" in out
    code, _, err = threea("release", stays, "--schema", described, *FAST, "--epsilon", 1, "--out", "new\nline")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_signal_ends_a_release_as_an_interrupt_does(stays, described, tmp_path, name, exists):
    """TERM and HUP ended it without a word on the charge, and left a staging folder in a folder that was there."""
    out, ledger = tmp_path / "r", tmp_path / "ledger.db"
    if exists:
        out.mkdir()
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from threea import publish\n"
        f"publish._fill = lambda *_: os.kill(os.getpid(), signal.{name})\n"
        "from threea.cli import main\n"
        "main()\n"
    )
    arguments = ["--schema", described, "--recipe", "independent", "--epsilon", "1", "--ledger", ledger, "--out", out]
    command = [sys.executable, "-c", code, "release", stays, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 128 + getattr(signal, name)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("interrupted: no result was written; what was charged stays charged; the same again")
    assert out.exists() == exists
    assert not list(tmp_path.rglob(".threea-staging-*"))


def test_a_second_signal_of_a_shutdown_does_not_break_what_is_undone():
    with interrupts.noted() as numbers:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert numbers == [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM]
        assert interrupts.code_of(numbers) == 143


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.noted():
            signal.raise_signal(signal.SIGHUP)
            interrupts.check()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_is_swallowed_while_modules_load_charges_nothing(threea, tmp_path, monkeypatch, name):
    from threea import session

    real = session.prepare

    def swallowing(*arguments, **options):
        with contextlib.suppress(BaseException):
            signal.raise_signal(getattr(signal, name))
        return real(*arguments, **options)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(session, "prepare", swallowing)
        code, _, err = threea("demo", "--out", tmp_path / "demo")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, err) == (128 + getattr(signal, name), "interrupted: no result was written; nothing was charged\n")
    assert not (tmp_path / "demo").exists()


def test_an_interrupt_while_the_command_line_loads_is_one_line():
    code = (
        "import builtins, signal\n"
        "usual = builtins.__import__\n"
        "def load(name, *more):\n"
        "    if name == 'typer': signal.raise_signal(signal.SIGINT)\n"
        "    return usual(name, *more)\n"
        "builtins.__import__ = load\n"
        "from threea.__main__ import main\n"
        "main()\n"
    )
    prelude = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    done = subprocess.run([sys.executable, "-c", prelude + code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted: nothing was done\n")


def test_a_score_is_said_on_the_terminal_and_certified(threea, stays, described, tmp_path, monkeypatch):
    from threea.scoring import learner, optimism

    monkeypatch.setitem(learner.SETTINGS, "num_iterations", 2)
    monkeypatch.setattr(optimism, "REPEATS", 0)
    out = tmp_path / "out"
    options = ("--schema", described, "--epsilon", 50, "--score", 0.2, "--rows", 300, "--out", out)
    code, said, err = threea("release", stays, *options)
    assert (code, err) == (0, "")
    stated = json.loads((out / "certificate.json").read_text())
    assert stated["score"]["sentence"] in " ".join(said.split())


def test_a_score_that_cannot_be_is_refused(threea, stays, described):
    asked = ("release", stays, "--schema", described, "--epsilon", 1, "--out", "out", *FAST)
    assert refused(threea(*asked, "--score", "much"), "score (much) must be a number")
    assert refused(threea(*asked, "--score", 0.9), "score (0.9) must be a share of the budget, from 0 to 0.5")
    assert not Path("out").exists()
