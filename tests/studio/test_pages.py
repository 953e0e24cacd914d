"""From a table to a release through the pages: what the owner is asked, what is refused; all else is `session`'s."""

import datetime
import html
import json
import re
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import fields as dataclass_fields
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import workbook
from typer.testing import CliRunner
from visiting import fields, problem

from threea import cli, load_release, studio
from threea.describe.propose_schema import propose_schema
from threea.errors import MissingExtra, SchemaError
from threea.evaluate import evaluation
from threea.evaluate.evidence import Evidence
from threea.ledger import Ledger
from threea.session import prepare, rehearse
from threea.studio import pictures, work
from threea.studio.choices import prepare_options
from threea.studio.jobs import Job
from threea.studio.schema_form import ColumnForm
from threea.table.schema import Column, Kind, Origin, Schema


def budget_form(visitor, table, **changed):
    form = fields(visitor.get(f"table/{table}/budget"))
    return {**form, "recipe": "independent", "rows": "200", "act": "receipt", **changed}


def receipt_of(answer):
    text = re.search(r"<pre[^>]*>(.*?)</pre>", answer.text, re.DOTALL)[1]
    return html.unescape(re.sub("<[^>]*>", "", text))


def finished(visitor):
    """Wait for the last job."""
    job = list(visitor.studio.jobs._jobs.values())[-1]
    end = time.monotonic() + 120
    while not job.outcome and time.monotonic() < end:
        time.sleep(0.05)
    return job


def test_the_first_rows_are_shown_to_the_owner_and_marked_private(visitor):
    table = visitor.open("stays.csv")
    text = visitor.get(f"table/{table}").text
    assert "Private: for your eyes" in text
    assert (visitor.folder / "stays.csv").read_text().splitlines()[1].split(",")[0].strip('"') in text
    assert "P00" not in visitor.get().text


def test_how_a_csv_file_is_written_is_tried_out_with_a_preview(visitor):
    lines = "name;born;height\nJürgen;31.01.1960;1,85\nAnna;01.02.1970;1,70\n"
    (visitor.folder / "excel.csv").write_bytes(lines.encode("cp1252"))
    table = visitor.open("excel.csv")
    broken = visitor.get(f"table/{table}")
    assert "its text is not UTF-8" in problem(broken)
    said = {"separator": ";", "encoding": "cp1252", "decimal": ",", "date_format": "%d.%m.%Y"}
    text = visitor.post(f"table/{table}/read", said).text
    for shown in ("Jürgen", "1960-01-31", "1.85"):
        assert f"<td>{shown}</td>" in text
    refused = visitor.post(f"table/{table}/read", {**said, "date_format": "%d"})
    assert refused.status_code == 422
    assert "needs a day, a month and a year" in problem(refused)


def test_a_broken_file_says_what_is_wrong_by_the_names_of_fields_and_without_a_value(visitor):
    (visitor.folder / "broken.csv").write_text("name,age\nVERY-PRIVATE,3\n1,2,3\n")
    table = visitor.open("broken.csv")
    answer = visitor.get(f"table/{table}")
    said = problem(answer)
    assert said == (
        "broken.csv cannot be read as CSV: a row has more or fewer values than the header; mend the file, or see"
        " “Separator”"
    )
    assert "VERY-PRIVATE" not in answer.text


def test_nothing_is_confirmed_but_by_a_tick_that_names_what_is_as_read(visitor):
    table = visitor.open("stays.csv")
    chosen = {"target": "died", "unit": "patient_id", "how": "propose"}
    form = fields(visitor.post(f"table/{table}/describe", chosen))
    address = f"table/{table}/schema"
    silent = visitor.post(address, form)
    assert "not confirmed as public" in problem(silent)
    unnamed = visitor.post(address, {**form, "public": "yes"})
    assert "5 of 6 columns are still as read from the rows" in problem(unnamed)
    names = [column.name for column in visitor.studio.tables[table].proposed.columns]
    age, ward = names.index("age"), names.index("ward")
    edited = {**form, "public": "yes", f"{age}-upper": "120", f"{ward}-source": "the hospital's web page"}
    fewer = visitor.post(address, edited)
    assert "3 of 6 columns" in problem(fewer)
    assert fields(fewer)[f"{age}-upper"] == "120"
    assert visitor.studio.tables[table].confirmed is None
    for named in ('["cost"]', "no list", '{"cost": 1}'):
        assert visitor.post(address, {**edited, "as_read": named}).status_code == 422
    done = visitor.post(address, {**edited, "as_read": json.dumps(["admitted", "cost", "died"])})
    assert done.url.path.endswith("/budget")
    schema = visitor.studio.tables[table].confirmed
    assert schema.confirmed
    assert schema.untouched == ("admitted", "cost", "died")
    written = visitor.get(f"table/{table}/schema.toml").text
    assert "# Public: the hospital's web page" in written
    assert Schema.from_toml(written) == schema


def test_a_column_may_have_spaces_around_its_name(visitor):
    (visitor.folder / "spaced.csv").write_text("a, b\n" + "1, x\n2, y\n" * 20)
    table = visitor.open("spaced.csv")
    answer = visitor.post(f"table/{table}/describe", {"target": " b", "how": "propose"})
    assert answer.url.path.endswith("/schema")
    assert visitor.studio.tables[table].proposed.target == " b"


def test_a_column_that_cannot_be_so_is_told_beside_it(visitor):
    table = visitor.open("stays.csv")
    form = fields(visitor.post(f"table/{table}/describe", {"target": "died", "how": "propose"}))
    names = [column.name for column in visitor.studio.tables[table].proposed.columns]
    wrong = visitor.post(f"table/{table}/schema", {**form, f"{names.index('age')}-lower": "many", "public": "yes"})
    assert "1 of 6 columns cannot be as described" in problem(wrong)
    assert "column age: (many) must be a number" in wrong.text


@pytest.mark.parametrize(
    "column",
    [
        Column(
            name="a", kind=Kind.CATEGORICAL, categories=("x", "", ' " y', '"q"', "two\nlines", "é;,"), nullable=True
        ),
        Column(name="b", kind=Kind.ORDINAL, categories=("low", "high"), open_ended=True),
        Column(name="c", kind=Kind.REAL, lower=0.1, upper=1e300, special=(0.0, -999.5), log=True),
        Column(name="d", kind=Kind.INTEGER, lower=-5, upper=2**60, edges=(0.0, 10.0, 20.0), nullable=False),
        Column(name="cents", kind=Kind.REAL, lower=0.0, upper=99.5, step=0.01, edges=(0.0, 50.005, 99.5)),
        Column(name="wages", kind=Kind.INTEGER, lower=0, upper=90_000, step=10_000),
        Column(name="e", kind=Kind.DATE, lower=0.0, upper=3650.0, special=(12.0,)),
        Column(name="f", kind=Kind.DATETIME, lower=0.0, upper=1.7e15 + 1),
        Column(name="g", kind=Kind.BOOLEAN),
        Column(name="h", kind=Kind.ID, nullable=False),
    ],
    ids=lambda column: f"{column.kind}-{column.name}",
)
def test_a_column_comes_back_from_the_form_as_it_went_in(column):
    marked = Column(**{**{f: getattr(column, f) for f in column.__slots__}, "as_read": column.digest})
    assert ColumnForm.of(marked).column(marked) == column
    assert ColumnForm.of(marked).column(marked).as_read == column.digest
    assert ColumnForm.of(marked, source="a law").column(marked).as_read == ""


def test_fields_that_a_kind_does_not_have_are_left_out():
    before = Column(name="a", kind=Kind.INTEGER, lower=0, upper=9, special=(5.0,))
    form = ColumnForm.of(before)
    listed = ColumnForm(name="a", kind="categorical", categories="1\r\n2", lower=form.lower, special=form.special)
    assert listed.column(before) == Column(name="a", kind=Kind.CATEGORICAL, categories=("1", "2"), nullable=False)
    with pytest.raises(SchemaError, match="kind"):
        ColumnForm(name="a", kind="undeclared").column(before)


def test_a_step_can_be_typed_and_taken_away():
    before = Column(name="a", kind=Kind.REAL, lower=0.0, upper=9.0)
    stepped = replace(ColumnForm.of(before), step="0.5").column(before)
    assert stepped.step == 0.5
    assert replace(ColumnForm.of(stepped), step="").column(stepped) == before
    with pytest.raises(SchemaError, match=r"step \(100\) must be"):
        replace(ColumnForm.of(before), step="100").column(before)
    day = Column(name="d", kind=Kind.DATE, lower=0.0, upper=365.0)
    assert replace(ColumnForm.of(day), step="7").column(day) == day, "moments have no step"


def test_what_a_schema_says_beyond_the_form_stays_as_it_was(visitor):
    schema, notes = propose_schema(visitor.folder / "stays.csv", "died")
    found = replace(schema, origin=Origin.RELEASED, source="ab12")
    (visitor.folder / "schema.toml").write_text(found.to_toml(notes, marks=True))
    table = visitor.described(how="file", schema="schema.toml", unit="")
    confirmed = visitor.studio.tables[table].confirmed
    assert replace(confirmed, confirmed=False) == found
    # Whatever else a schema comes to hold: nothing but columns, target and confirmation is the form's to change.
    others = [field.name for field in dataclass_fields(Schema) if field.name not in ("columns", "target", "confirmed")]
    assert {"origin", "source"} <= set(others)
    assert all(getattr(confirmed, name) == getattr(found, name) for name in others)


def test_the_noise_of_each_answer_is_drawn_beside_what_epsilon_means(visitor):
    table = visitor.described()
    assert "the noise of each answer" not in visitor.get(f"table/{table}/budget").text
    shown = {}
    for epsilon in ("1", "4"):
        drawn = visitor.post(f"table/{table}/budget", budget_form(visitor, table, epsilon=epsilon, act="draw"))
        assert drawn.url.path.endswith("/budget")
        assert "the noise of each answer" in drawn.text
        shown[epsilon] = [question.noise for question in visitor.studio.tables[table].noise]
    assert shown["1"] != shown["4"]
    assert visitor.studio.tables[table].receipt is None
    wrong = visitor.post(f"table/{table}/budget", budget_form(visitor, table, epsilon="0", act="draw"))
    assert "the noise of each answer" not in wrong.text
    assert sorted(path.name for path in visitor.folder.iterdir()) == ["stays.csv"]


def test_a_score_is_ordered(visitor):
    table = visitor.described()
    answer = visitor.post(f"table/{table}/budget", budget_form(visitor, table, score="0.05"))
    assert answer.url.path.endswith("/receipt")
    assert visitor.studio.tables[table].receipt.order["options"]["score"] == 0.05
    refused = visitor.post(f"table/{table}/budget", budget_form(visitor, table, score="1.5"))
    assert refused.status_code == 422


def test_a_sheet_is_chosen_with_a_preview(visitor):
    rows = [["age", "when", "died"], [61, datetime.date(2024, 1, 31), True], [40, "1.2.2024", False]]
    workbook.write(visitor.folder / "stays.xlsx", rows, sheet="Stays", others=["Notes"])
    table = visitor.open("stays.xlsx")
    unsaid = visitor.get(f"table/{table}")
    assert "name one with “Sheet”" in problem(unsaid)
    assert '<option value="Notes"' in unsaid.text
    read = visitor.post(f"table/{table}/read", {"sheet": "Stays", "decimal": ".", "date_format": "%d.%m.%Y"})
    assert problem(read) is None
    for shown in ("61", "2024-01-31", "2024-02-01", "true"):
        assert f"<td>{shown}</td>" in read.text
    visitor.post(f"table/{table}/describe", {"target": "died", "how": "discover"})
    assert fields(visitor.get(f"table/{table}/budget"))["form"] == "csv"
    (visitor.folder / "broken.xlsx").write_bytes(b"no sheet")
    assert "cannot be read as Excel" in problem(visitor.get(f"table/{visitor.open('broken.xlsx')}"))


def test_the_receipt_is_the_command_lines_and_pythons(visitor, monkeypatch, capsys):
    table = visitor.described()
    answer = visitor.post(f"table/{table}/budget", budget_form(visitor, table, cap="3"))
    assert answer.url.path.endswith("/receipt")
    assert "The ledger then has 2 left of 3." in answer.text
    order = visitor.studio.tables[table].receipt.order
    assert receipt_of(answer) == str(rehearse(order["data"], **prepare_options(order)))
    schema = visitor.folder / "schema.toml"
    schema.write_text(visitor.get(f"table/{table}/schema.toml").text)
    flags = [
        "--epsilon",
        "1",
        "--recipe",
        "independent",
        "--rows",
        "200",
        "--unit",
        "patient_id",
        "--cap",
        "3",
        "--new-ledger",
        "--dry-run",
    ]
    paths = ["--schema", schema, "--out", visitor.folder / "x", "--ledger", visitor.folder / "ledger.db"]
    monkeypatch.setattr(sys, "argv", ["threea", "release", str(visitor.folder / "stays.csv"), *flags, *map(str, paths)])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().out.rstrip("\n") == receipt_of(answer)


def test_a_release_is_made_whole_and_then_refused_beyond_the_cap(visitor):
    table = visitor.described()
    receipt = visitor.post(f"table/{table}/budget", budget_form(visitor, table, cap="1.5"))
    order = visitor.studio.tables[table].receipt.order
    stale = visitor.post(f"table/{table}/run", {"receipt": "0" * 64})
    assert (stale.status_code, "changed in another tab" in problem(stale)) == (409, True)
    visitor.post(f"table/{table}/run", {"receipt": fields(receipt)["receipt"]})
    job = finished(visitor)
    assert (job.outcome, job.message) == ("done", "Guarantee: proven. 200 synthetic rows.")
    ended = visitor.get(f"job/{job.id}")
    assert "Look at the release" in ended.text
    told = visitor.get(f"job/{job.id}/events").text
    assert json.loads(told.removeprefix("data: "))["ended"] is True
    certificate = json.loads((visitor.folder / "stays-release" / "certificate.json").read_text())
    assert certificate["guarantee"] == "proven"
    assert certificate["schema_untouched"] == ["admitted", "ward", "age", "cost", "died"]
    assert certificate["unit_column"] == "patient_id"
    assert certificate["ledger_head"] is not None
    assert job.receipt.startswith(receipt_of(receipt).splitlines()[0])
    # The same in Python gives the same certificate, but for noise, time and ledger.
    options = prepare_options(order) | {"ledger": None, "new_ledger": False}
    twin = json.loads(prepare(order["data"], **options).run().certificate().to_json())
    own = {"created", "synthetic_sha256", "model_sha256", "report_sha256", "ledger_head"}
    same = {key: twin[key] for key in twin if key not in own}
    assert {key: certificate[key] for key in same} == same
    # And so does the command line.
    (visitor.folder / "schema.toml").write_text(order["schema"])
    flags = ["--epsilon", "1", "--recipe", "independent", "--rows", "200", "--unit", "patient_id"]
    paths = ["--schema", visitor.folder / "schema.toml", "--out", visitor.uploads / "typed"]
    done = CliRunner().invoke(cli.app, ["release", str(visitor.folder / "stays.csv"), *flags, *map(str, paths)])
    assert done.exit_code == 0
    typed = json.loads((visitor.uploads / "typed" / "certificate.json").read_text())
    assert {key: typed[key] for key in same} == same

    page = visitor.get("release?folder=stays-release")
    assert "guarantee: proven" in page.text
    file = visitor.get("release/file?folder=stays-release&name=synthetic.csv")
    assert file.content == (visitor.folder / "stays-release" / "synthetic.csv").read_bytes()
    assert "attachment" in file.headers["content-disposition"]
    wanted = {"folder": "stays-release", "rows": "50", "form": "parquet", "conditions": "died=false\nage>=10"}
    drawn = visitor.post("release/rows", wanted)
    assert problem(drawn) is None
    (visitor.folder / "more.parquet").write_bytes(drawn.content)
    rows = pq.read_table(visitor.folder / "more.parquet")
    assert rows.num_rows == 50
    assert set(rows["died"].to_pylist()) == {False}
    assert min(rows["age"].to_pylist()) >= 10
    assert not list(visitor.uploads.rglob("*more*"))
    assert "unknown" in problem(visitor.post("release/rows", {**wanted, "conditions": "dead=true"}))
    for number in ("many", "1.5", "0", "nan"):
        assert visitor.post("release/rows", {**wanted, "rows": number}).status_code == 422
    assert load_release(visitor.folder / "stays-release").schema.target == "died"

    again = budget_form(visitor, table)
    assert again["ledger"] == "file:ledger.db"
    assert again["out"] == "stays-release-2"
    refused = visitor.post(f"table/{table}/budget", again)
    assert refused.status_code == 409
    assert "requested epsilon 1, spent 1 of 1.5, left 0.5" in problem(refused)
    ledger = visitor.get("ledger").text
    assert "left 0.5" in ledger
    with Ledger(visitor.folder / "ledger.db") as book:
        assert [row.charged == row.planned for row in book.releases()] == [True]


def test_wrong_choices_are_refused_before_anything_is_made(visitor):
    table = visitor.described()
    for name, value in {
        "epsilon": "0",
        "delta": "2",
        "rows": "some",
        "cap": "-1",
        "form": "xls",
        "recipe": "dpmix-published",
        "settings": "bins",
        "max_rows_per_unit": "x",
        "adjacency": "near",
        "out": "",
    }.items():
        answer = visitor.post(f"table/{table}/budget", budget_form(visitor, table, **{name: value}))
        assert answer.status_code == 422, name
        assert problem(answer)
        assert fields(answer)[name] == value or name in ("form", "recipe", "adjacency")
    assert sorted(path.name for path in visitor.folder.iterdir()) == ["stays.csv"]


def test_other_databases_are_not_taken_for_ledgers(visitor):
    with closing(sqlite3.connect(visitor.folder / "other.db")) as other:
        other.execute("CREATE TABLE t (a)")
    (visitor.folder / "empty.db").touch()
    Ledger(visitor.folder / "ours.db", create=True).close()
    assert visitor.studio.folder.ledgers() == ["ours.db"]
    text = visitor.get("ledger").text
    assert "ours.db" in text
    assert "other.db" not in text


def test_bounds_can_be_left_to_be_found_privately(visitor):
    table = visitor.open("stays.csv")
    answer = visitor.post(f"table/{table}/describe", {"target": "died", "how": "discover"})
    assert answer.url.path.endswith("/budget")
    receipt = visitor.post(f"table/{table}/budget", budget_form(visitor, table))
    assert "discover" in receipt_of(receipt)
    assert visitor.studio.tables[table].receipt.order["schema"] is None


def test_a_schema_of_the_folder_is_taken_up_and_confirmed_anew(visitor):
    schema, notes = propose_schema(visitor.folder / "stays.csv", "died")
    (visitor.folder / "schema.toml").write_text(schema.to_toml(notes, marks=True))
    table = visitor.open("stays.csv")
    chosen = {"target": "died", "how": "file", "schema": "schema.toml"}
    page = visitor.post(f"table/{table}/describe", chosen)
    assert page.url.path.endswith("/schema")
    assert "as read from the rows" in page.text
    assert visitor.studio.tables[table].confirmed is None
    (visitor.folder / "schema.toml").write_text('[column.x]\nkind = "boolean"\n')
    assert "not the table's" in problem(visitor.post(f"table/{table}/describe", chosen))


def test_the_picture_says_what_kairouz_and_others_proved():
    assert pictures.most_found(0.0, 1.0, 1e-3) == pytest.approx(1e-3)
    for epsilon in (0.01, 1.0, 10.0, 1000.0):
        corner = 1 / (1 + pictures.math.exp(min(epsilon, 700.0)))
        # Where both bounds meet, guesses at even odds are right as often as the best guess is.
        right = (pictures.most_found(corner, epsilon, 0.0) + 1 - corner) / 2
        assert right == pytest.approx(pictures.words.best_guess(epsilon, 0.0))


def test_an_evaluation_is_put_beside_the_release_behind_a_red_line(visitor, monkeypatch):
    release = visitor.folder / "release"
    release.mkdir()
    (release / "certificate.json").write_text("{}")
    assert "do not release" in visitor.get("evaluate?folder=release").text
    form = {"folder": "release", "train": "stays.csv", "holdout": "stays.csv"}
    for wrong in ({"train": "../x.csv"}, {"holdout": "gone.csv"}, {"holdout": "open:gone"}):
        assert visitor.post("evaluate", {**form, **wrong}).status_code == 422
    said = []
    monkeypatch.setattr(Evidence, "load", lambda *given: given)
    monkeypatch.setattr(evaluation, "evaluate", lambda evidence, progress: progress("attacks") or {"warnings": ["w"]})
    monkeypatch.setattr(evaluation, "save", lambda scores, evidence, out: said.append(out))
    monkeypatch.setattr("threea.evaluate.owner_report.answers", lambda scores: [])
    monkeypatch.setattr(work, "tell", lambda **told: said.append(told))
    order = {"release": str(release), "out": str(visitor.folder / "e"), "train": "a", "holdout": "b", "dialect": None}
    work.evaluate(order, lambda **told: said.append(told))
    assert said[0]["stage"] == "reading the tables"
    assert visitor.folder / "e" in said
    assert said[-1]["outcome"] == "done"
    made = visitor.folder / "release-evaluation"
    made.mkdir()
    (made / "owner-report.html").write_text("for the owner")
    assert "sandbox" in visitor.get("evaluation?folder=release-evaluation").headers["content-security-policy"]
    assert "evaluation?folder=release-evaluation" in visitor.get("release?folder=release").text
    started = []
    monkeypatch.setattr(Job, "start", lambda self, order: started.append(order))
    assert visitor.post("evaluate", form).status_code == 200
    assert started[0]["out"] == str(visitor.folder / "release-evaluation-2")


def test_without_the_extra_it_says_how_to_install_it(monkeypatch, tmp_path):
    find = studio.importlib.util.find_spec
    monkeypatch.setattr(studio.importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    with pytest.raises(MissingExtra, match=r"uvicorn is not installed; .*'threea\[studio\]'.* -e '\.\[studio\]'"):
        studio.serve(tmp_path)
