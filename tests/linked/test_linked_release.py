"""Two tables released together: keys that fit, counts of children within noise, one budget, whole or not at all."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import threea
from threea import cli, hospital
from threea.errors import BudgetRefused, InputError, SchemaError, SettingError
from threea.ledger import Ledger
from threea.linked import LinkedRelease, rehearse_tables
from threea.recipes import DPMix, PrivBayes
from threea.table.linked_columns import COUNT
from threea.table.schema import Schema

GOLDEN = Path(__file__).parents[1] / "golden"
PATIENTS, STAYS = hospital.patients_and_stays(1_500)
SCHEMA, CHILD_SCHEMA = hospital.schemas()
ASKED: dict[str, Any] = {
    "key": "patient_id",
    "children_at_most": 5,
    "schema": SCHEMA,
    "child_schema": CHILD_SCHEMA,
    "epsilon": 3.0,
}


def _make() -> Any:
    found = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


MAKE = _make()


@pytest.fixture(scope="module")
def release() -> LinkedRelease:
    return threea.synthesize_tables(PATIENTS, STAYS, rows=2_000, seed=4, **ASKED)


@pytest.fixture(scope="module")
def saved(release: LinkedRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linked") / "release"
    release.save(folder)
    return folder


def children_of(parents: pa.Table, children: pa.Table) -> list[int]:
    counts = Counter(children["patient_id"].to_pylist())
    return [counts.get(key, 0) for key in parents["patient_id"].to_pylist()]


def test_every_child_names_one_parent_and_keys_are_made_up(release: LinkedRelease) -> None:
    parents, children = release.frames
    keys = parents["patient_id"].to_pylist()
    assert len(set(keys)) == len(keys) == 2_000
    assert set(children["patient_id"].to_pylist()) <= set(keys)
    assert set(keys).isdisjoint(PATIENTS["patient_id"].to_pylist())
    counts = children_of(parents, children)
    assert 0 in counts, "parents without children are parents, too"
    assert max(counts) <= 5
    assert parents.schema.equals(PATIENTS.schema.remove_metadata())
    assert children.schema.equals(STAYS.schema.remove_metadata())
    assert release.guarantee == "proven"


def test_numbers_of_children_are_within_noise() -> None:
    """Counted with noise of a fixed seed, so it passes always or never; false-alarm rate under 1e-5 for other seeds."""
    made = MAKE.two_tables(rows=4_000, epsilon=1.0, noise=7, theta=4.0)
    patients, stays = hospital.patients_and_stays(4_000)
    private = np.bincount(np.minimum(children_of(patients, stays), 5), minlength=6)
    drawn = np.bincount(children_of(*made.sample(50_000, seed=0)), minlength=6)
    shares, stddev = drawn / drawn.sum(), made.parents.summary.noise["one-way tables"]
    assert (private > 10).all()
    for share, count in zip(shares, private, strict=True):
        # Counts are noisy, small ones may be taken for none, and rows are drawn by chance.
        chance = np.sqrt(share / 50_000) * len(patients)
        assert abs(share * len(patients) - count) < 5 * (stddev + chance)


def test_children_are_drawn_given_their_parent() -> None:
    """Of simulated patients only the young are on the paediatric ward; noise is of a fixed seed."""
    parents, children = MAKE.two_tables(rows=4_000, epsilon=100.0, noise=2, theta=4.0).sample(20_000, seed=0)
    born = dict(zip(parents["patient_id"].to_pylist(), parents["born"].to_pylist(), strict=True))
    young = np.array([born[key] > 2000 for key in children["patient_id"].to_pylist()])
    there = np.array([ward == "paediatrics" for ward in children["ward"].to_pylist()])
    assert there[young].mean() > 0.4 > 0.02 > there[~young].mean()


def test_one_entry_in_the_ledger_pays_for_both_tables(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    made = threea.synthesize_tables(PATIENTS, STAYS, ledger=path, dataset="clinic", cap=4.0, new_ledger=True, **ASKED)
    certificate = json.loads(made.certificate().to_json())
    with Ledger(path) as ledger:
        (row,) = ledger.releases()
        assert (row.dataset, row.epsilon, row.delta) == ("clinic", 3.0, 1e-6)
        charged = Counter(charge.line for charge in ledger.charges(row.id))
        assert certificate["ledger_head"] == ledger.head.to_json()
    assert charged == {event["name"]: event["count"] for event in certificate["events"]}
    assert {name.split(":")[0] for name in charged} == {"parents", "children"}
    assert certificate["accounted_epsilon"] <= certificate["epsilon"] == 3.0
    assert certificate["max_rows_per_unit"] == certificate["children"]["children_read"] == 1
    with pytest.raises(BudgetRefused):
        threea.synthesize_tables(PATIENTS, STAYS, ledger=path, dataset="clinic", **ASKED)
    # The same rows under another name are noticed, and so are other terms.
    with pytest.raises(threea.errors.LedgerError, match="holds these rows under the name 'clinic'"):
        threea.prepare_tables(PATIENTS, STAYS, ledger=path, dataset="other", **ASKED)
    with pytest.raises(threea.errors.LedgerError, match="cannot be added to"):
        threea.prepare_tables(PATIENTS, STAYS, ledger=path, dataset="clinic", **ASKED | {"children_read": 3})


def test_settings_that_matter_change_the_events() -> None:
    def noise(**more: Any) -> dict[str, Any]:
        prepared = threea.prepare_tables(PATIENTS, STAYS, **ASKED | more)
        children = prepared.tables.children
        own = children.stddev(threea.anonymize.query.Count(), prepared.plan["children: one-way tables"])
        return {line.name: line.event for line in prepared.plan.lines} | {"of a child": own}

    usual, shared, read = noise(children_read=2), noise(children_read=2, child_share=0.5), noise(children_read=4)
    assert all(usual[name] != shared[name] for name in usual)
    assert read["of a child"] == pytest.approx(2 * usual["of a child"])
    assert noise(children_read=2, children_at_most=1)["of a child"] == pytest.approx(usual["of a child"] / 2), (
        "no more than there can be"
    )


def test_it_is_saved_whole_and_draws_the_same_again(release: LinkedRelease, saved: Path) -> None:
    names = {"certificate.json", "children.parquet", "children.toml", "model.threea", "parents.parquet"}
    assert {file.name for file in saved.iterdir()} == names | {"parents.toml", "report.html"}
    certificate = json.loads((saved / "certificate.json").read_text())
    own = certificate["children"]
    for stated, name in (
        (certificate["synthetic_sha256"], "parents.parquet"),
        (own["synthetic_sha256"], "children.parquet"),
        (certificate["schema_sha256"], "parents.toml"),
        (own["schema_sha256"], "children.toml"),
        (certificate["model_sha256"], "model.threea"),
        (certificate["report_sha256"], "report.html"),
    ):
        assert stated == hashlib.sha256((saved / name).read_bytes()).hexdigest()
    parents, children = (pq.read_table(saved / f"{name}.parquet") for name in ("parents", "children"))
    assert (certificate["rows"], own["rows"]) == (parents.num_rows, children.num_rows)
    assert Schema.load(saved / "parents.toml") == SCHEMA
    assert Schema.load(saved / "children.toml") == CHILD_SCHEMA
    loaded = threea.load_tables(saved)
    for table, again, drawn in zip((parents, children), loaded.frames, release.sample(2_000, seed=4), strict=True):
        assert table.equals(again)
        assert table.equals(drawn)
    page = (saved / "report.html").read_text()
    assert f"{children.num_rows:,} made-up children" in page
    assert COUNT in page
    assert "meant for learning" not in page
    assert not any(key in page for key in ("P000001", "P000002"))


def test_a_release_of_two_tables_is_not_read_as_one(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a release of two tables; read it in Python with load_tables$"):
        threea.load_release(saved)
    threea.synthesize(STAYS, schema=CHILD_SCHEMA, epsilon=1.0, rows=5, recipe="independent").save(tmp_path / "one")
    with pytest.raises(InputError, match=r"is a release of one table; read it with load_release$"):
        threea.load_tables(tmp_path / "one")


def test_a_file_of_this_version_draws_the_same_rows() -> None:
    file = GOLDEN / "two_tables" / "linked-1.threea"
    drawn, expected = MAKE.both_drawn(threea.load_tables(file)), json.loads(file.with_suffix(".json").read_text())
    for rows, wanted in zip(drawn, expected, strict=True):
        assert len(rows) == len(wanted) > 0
        for row, known in zip(rows, wanted, strict=True):
            assert row.keys() == known.keys()
            for name, value in known.items():
                assert row[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)
    assert threea.load_tables(file).guarantee == "none", "made with noise for tests"


def numbered(kind: pa.DataType, parents: int = 60) -> tuple[pa.Table, pa.Table]:
    """Return tables whose keys are whole numbers."""
    keys = pa.array(range(parents), pa.int64()).cast(kind)
    above = pa.table({"patient_id": keys, "sex": ["F", "M"] * (parents // 2)})
    return above, pa.table({"patient_id": keys, "died": [True, False] * (parents // 2)})


NUMBERED = {
    "schema": Schema.of({"patient_id": {"kind": "id"}, "sex": {"kind": "categorical", "categories": ["F", "M"]}}),
    "child_schema": Schema.of({"patient_id": {"kind": "id"}, "died": {"kind": "boolean"}}),
}


def test_whole_number_keys_stay_whole_numbers_and_are_never_repeated() -> None:
    asked = ASKED | NUMBERED
    narrow = threea.synthesize_tables(*numbered(pa.int8()), **asked)
    assert narrow.parents.rows_note == "There are no more keys of the type of patient_id."
    parents, children = narrow.frames
    keys = parents["patient_id"].to_pylist()
    assert parents["patient_id"].type == children["patient_id"].type == pa.int8()
    assert len(set(keys)) == len(keys) == 127, "there are no more of this type"
    assert set(children["patient_id"].to_pylist()) <= set(keys)
    with pytest.raises(SettingError, match=r"^rows \(128\) must be at most 127: column patient_id has no more"):
        threea.prepare_tables(*numbered(pa.int8()), rows=128, **asked)
    made = threea.synthesize_tables(*numbered(pa.int64()), rows=200, **asked)
    assert made.frames[0]["patient_id"].to_pylist() == list(range(1, 201))
    with pytest.raises(SettingError, match="must be at most 9"):
        made.sample(2**60)


def test_frames_come_back_as_they_went_in() -> None:
    pandas = pytest.importorskip("pandas")
    above, below = (table.to_pandas() for table in numbered(pa.int64()))
    below["died"] = below["died"].astype("boolean")
    parents, children = threea.synthesize_tables(above, below, rows=30, **ASKED | NUMBERED).frames
    assert isinstance(parents, pandas.DataFrame)
    assert list(parents.dtypes) == list(above.dtypes)
    assert list(children.dtypes) == list(below.dtypes)
    assert children["patient_id"].isin(parents["patient_id"]).all()


def test_pure_epsilon() -> None:
    made = threea.synthesize_tables(*numbered(pa.int64()), delta=0, rows=30, **ASKED | NUMBERED)
    assert {event["event"] for event in made.certificate().events} == {"Pure"}
    assert made.parents.accounted_epsilon <= 3.0


def test_other_recipes_may_draw_the_parents() -> None:
    made = threea.synthesize_tables(PATIENTS, STAYS, recipe="independent", rows=50, **ASKED)
    assert {event["name"].split(": ")[1] for event in made.certificate().events} >= {"histograms given the label"}
    parents, children = made.frames
    assert set(children["patient_id"].to_pylist()) <= set(parents["patient_id"].to_pylist())


def test_a_parent_table_with_a_target_keeps_it() -> None:
    asked = ASKED | {"schema": replace(SCHEMA, target="sex")}
    made = threea.synthesize_tables(PATIENTS, STAYS, recipe="labeltree", rows=50, **asked)
    assert made.schema.target == "sex"
    assert made.frames[0].num_rows == 50


def test_rules_of_both_tables_are_kept() -> None:
    """Of parents as in one table, of children by mending; noise is of no matter."""
    rng = np.random.default_rng(0)
    entered, left = rng.integers(0, 50, (2, 400))
    start, end = rng.integers(0, 30, (2, 400))
    cities = np.array(["Bonn", "Köln"])[rng.integers(0, 2, 400)]
    zips = np.where(cities == "Bonn", "53", "50")
    above = pa.table(
        {"patient_id": range(400), "entered": np.minimum(entered, left), "left": np.maximum(entered, left)}
    )
    below = pa.table({"patient_id": rng.integers(0, 400, 400), "start": start, "end": end, "city": cities, "zip": zips})
    below = below.append_column("ward", pa.array(rng.choice(["a", "b"], 400)))
    day = {"kind": "integer", "lower": 0, "upper": 50, "nullable": False}
    key = {"patient_id": {"kind": "id"}}
    schema = Schema.of(key | {"entered": day, "left": day}, rules=[{"order": "entered <= left"}])
    child_schema = Schema.of(
        key
        | {"start": day, "end": day}
        | {"city": {"kind": "categorical", "categories": ["Bonn", "Köln"], "nullable": False}}
        | {"zip": {"kind": "categorical", "categories": ["53", "50"], "nullable": False}}
        | {"ward": {"kind": "categorical", "categories": ["a", "b"], "nullable": False}},
        rules=[
            {"order": "start < end"},
            {"depends": "city -> zip", "table": {"Bonn": "53", "Köln": "50"}},
            {"combinations": ["city", "ward"], "allowed": [["Bonn", "a"], ["Köln", "a"], ["Köln", "b"]]},
        ],
    )
    made = threea.synthesize_tables(
        above, below, rows=2_000, **ASKED | {"schema": schema, "child_schema": child_schema}
    )
    parents, children = made.frames
    assert parents.num_rows == 2_000
    assert (parents["entered"].to_numpy() <= parents["left"].to_numpy()).all()
    assert (children["start"].to_numpy() < children["end"].to_numpy()).all()
    triples = set(zip(*(children[name].to_pylist() for name in ("city", "zip", "ward")), strict=True))
    assert triples == {("Bonn", "53", "a"), ("Köln", "50", "a"), ("Köln", "50", "b")}
    assert len(made.certificate().schema_rules) == 1
    kept = [rule["kept"] for rule in made.certificate().children["schema_rules"]]
    assert kept == ["by construction", "by construction", "by mending"]
    assert made.parents.sample(3).num_rows == 3


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "key": ({"key": "person"}, SettingError, r"^key of the parent table \(person\) is not a column; columns are: "),
    "no children": ({"children_at_most": 0}, SettingError, r"^children_at_most \(0\) must be a whole number from 1 to"),
    "many": (
        {"children_at_most": 101},
        SettingError,
        r"^children_at_most \(101\) must be a whole number from 1 to 100$",
    ),
    "none read": ({"children_read": 0}, SettingError, r"^children_read \(0\) must be a whole number, at least 1$"),
    "share": ({"child_share": 1.0}, SettingError, r"^child_share \(1\) must be from 0.05 to 0.95$"),
    "dask": ({"engine": "dask"}, SettingError, r"^engine \(dask\) of two tables must be memory or files$"),
    "unproven": ({"recipe": "adsgan"}, SettingError, r"^recipe \(adsgan\) has no proof; two tables are released by"),
    "fixed": ({"recipe": DPMix()}, SettingError, r"^recipe \(dpmix\) makes a fixed set of rows; for two tables"),
    "child": ({"child_recipe": "aim"}, SettingError, r"^child recipe \(aim\) cannot draw rows given their parent's"),
    "rows": ({"rows": 0}, SettingError, r"^rows \(0\) must be a whole number, at least 1$"),
    "unconfirmed": ({"child_schema": replace(CHILD_SCHEMA, confirmed=False)}, SchemaError, r"^the schema is not conf"),
    "other schema": ({"child_schema": SCHEMA}, SchemaError, r"the data has not; schema and data must have the same"),
    "modelled key": (
        {"schema": Schema.of(hospital.PATIENTS_PUBLIC | {"patient_id": {"kind": "categorical", "categories": ["a"]}})},
        SchemaError,
        r"^column patient_id: the unit must be of kind id, not categorical",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_in_a_line_before_anything_is_spent(name: str, tmp_path: Path) -> None:
    options, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message) as refused:
        threea.prepare_tables(PATIENTS, STAYS, ledger=tmp_path / "new.db", **ASKED | options)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "new.db").exists()


def test_tables_that_do_not_fit_together_are_refused() -> None:
    above, below = numbered(pa.int64())
    asked = ASKED | NUMBERED
    as_text = below.set_column(0, "patient_id", below["patient_id"].cast(pa.string()))
    as_floats = below.set_column(0, "patient_id", below["patient_id"].cast(pa.float64()))
    others = below.set_column(0, "patient_id", pa.array(range(1000, 1060)))
    with pytest.raises(SettingError, match=r"^key \(patient_id\) is text in one table and whole numbers in the other"):
        threea.prepare_tables(above, as_text, **asked)
    with pytest.raises(SettingError, match=r"of the child table has type double; it must be text or whole numbers$"):
        threea.prepare_tables(above, as_floats, **asked)
    with pytest.raises(InputError, match=r"^no row of the child table has a patient_id that the parent table has"):
        threea.prepare_tables(above, others, **asked)
    with pytest.raises(InputError, match=r"^the table has no rows"):
        threea.prepare_tables(above, below.slice(0, 0), **asked)
    named = Schema.of({"patient_id": {"kind": "id"}, "parent.died": {"kind": "boolean"}})
    with pytest.raises(SchemaError, match=r"^column parent.died of the child table must not begin with parent\.;"):
        threea.prepare_tables(
            above, below.rename_columns(["patient_id", "parent.died"]), **asked | {"child_schema": named}
        )
    ids = Schema.of({"patient_id": {"kind": "id"}, "died": {"kind": "id"}})
    with pytest.raises(SchemaError, match=r"^every column of the child table is of kind id"):
        threea.prepare_tables(above, below, **asked | {"child_schema": ids})


def test_the_receipt_says_whom_it_protects_and_who_gets_what(tmp_path: Path) -> None:
    prepared = rehearse_tables(PATIENTS, STAYS, ledger=tmp_path / "none.db", **ASKED)
    text = str(prepared)
    assert "1 parent, its children counted up to 5, at most 1 of them read." in text
    assert "on 75% of the budget; a parent gets from 0 to 5." in text
    assert "A rehearsal: nothing was spent, nothing written." in text
    assert sum(line.share for line in prepared.plan.lines if line.name.startswith("children: ")) == pytest.approx(0.75)
    with pytest.raises(SettingError, match=r"^a rehearsal cannot be run"):
        prepared.run()
    assert not (tmp_path / "none.db").exists()


@pytest.fixture
def command(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(PATIENTS, "patients.csv")
    pyarrow.csv.write_csv(STAYS, "stays.csv")
    Path("patients.toml").write_text(SCHEMA.to_toml())
    Path("stays.toml").write_text(CHILD_SCHEMA.to_toml())

    def run(*arguments: Any) -> tuple[int, str, str]:
        given = [
            "release-tables",
            "patients.csv",
            "stays.csv",
            "--schema",
            "patients.toml",
            "--child-schema",
            "stays.toml",
        ]
        given += ["--key", "patient_id", "--children-at-most", 5, "--epsilon", 1, *arguments]
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, given)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return run


def test_the_command_line(command: Any) -> None:
    code, out, err = command("--rows", 80, "--out", "release", "--ledger", "l.db")
    assert (code, err) == (0, "")
    assert "Guarantee: proven. 80 synthetic parents and their children at epsilon 1, delta 1e-06." in out
    parents, children = (pyarrow.csv.read_csv(f"release/{name}.csv") for name in ("parents", "children"))
    assert parents.num_rows == 80
    assert set(children["patient_id"].to_pylist()) <= set(parents["patient_id"].to_pylist())
    assert children.column_names == STAYS.column_names
    assert isinstance(threea.load_tables("release").children.model, object)
    code, out, err = command("--out", "release")
    assert (code, err.count("\n")) == (2, 1)
    assert "must be a new or empty folder" in err
    code, out, err = command("--out", "other", "--ledger", "l.db", "--dry-run", "--set", "degree=1")
    assert (code, err) == (0, "")
    assert not Path("other").exists()
    code, out, err = command("--out", "other", "--dry-run", "--json")
    told = json.loads(out)
    assert (code, err, told["dry_run"]) == (0, "", True)
    assert "epsilon 1, delta 1e-06, add-remove" in told["receipt"][0]
    code, out, err = command("--out", "other", "--ledger", "l.db", "--cap", 1)
    assert code == 3
    assert not Path("other").exists()
    code, out, err = command("--out", "other", "--cap", 1)
    assert (code, err) == (2, "error: --cap needs a --ledger to remember what was spent; name a file\n")


def test_a_release_that_fails_midway_says_what_was_charged(
    command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*arguments: Any) -> None:
        raise InputError("the children cannot be read")

    monkeypatch.setattr("threea.approximate.conditional_net.one_way", fails)
    code, _, err = command("--out", "release", "--ledger", "l.db")
    assert code == 2
    assert err.endswith("the children cannot be read; no result was written; what was charged stays charged\n")
    assert not (tmp_path / "release").exists()
    with Ledger(tmp_path / "l.db") as ledger:
        assert [row.spent for row in ledger.datasets()] == [1.0]


def test_privbayes_may_be_set_for_the_children() -> None:
    asked = ASKED | NUMBERED | {"child_recipe": PrivBayes(degree=0)}
    prepared = threea.prepare_tables(*numbered(pa.int64()), **asked)
    assert [line.name for line in prepared.plan.lines if line.name.startswith("children")] == [
        "children: one-way tables"
    ]
    assert prepared.run().frames[1].num_rows > 0
