"""One call, and recipes made from text."""

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import threea
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.approximate.gaussians import ClassGaussians
from threea.describe.propose_schema import propose_schema
from threea.describe.propose_schema import save as save_draft
from threea.errors import BudgetRefused, LedgerError, SettingError, UserError
from threea.ledger import Ledger
from threea.recipes import DEFAULT, RECIPES, Gaussians, Independent
from threea.session import make_recipe, prepare, rehearse, synthesize
from threea.table.schema import Schema


def refusal(name: str, settings: Mapping[str, str] | None = None) -> str:
    with pytest.raises(SettingError) as caught:
        make_recipe(name, settings)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_made_from_its_name(name: str) -> None:
    recipe = make_recipe(name)
    assert type(recipe) is RECIPES[name]
    assert recipe == make_recipe(name, {}) == RECIPES[name]()


def test_settings_are_read_from_text() -> None:
    assert make_recipe("independent", {"bins": "16"}) == Independent(bins=16)
    assert make_recipe("gaussians", {"image": "28,28"}) == Gaussians(image=(28, 28))
    assert make_recipe("gaussians", {"image": " 4, 7"}).approximate == ClassGaussians(image=(4, 7))


@pytest.mark.parametrize("name", ["independant", "Independent", "indep", "independent "])
def test_an_unknown_recipe_suggests_the_nearest(name: str) -> None:
    message = refusal(name)
    assert message.startswith(f"recipe ({name}) is unknown; did you mean independent? known: ")
    assert all(known in message for known in RECIPES)


def test_a_recipe_near_nothing_suggests_nothing() -> None:
    assert refusal("zzz") == f"recipe (zzz) is unknown; known: {', '.join(RECIPES)}"


def test_an_unknown_setting_suggests_the_nearest() -> None:
    assert (
        refusal("independent", {"bin": "3"})
        == "setting (bin) is unknown to independent; did you mean bins? known: bins"
    )
    assert refusal("independent", {"colour": "3"}) == "setting (colour) is unknown to independent; known: bins"
    assert "is unknown to independent" in refusal("independent", {"name": "x"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("many", "setting bins (many) must be of type int"),
        ("", "setting bins () must be of type int"),
        ("1.5", "setting bins (1.5) must be of type int"),
        ("1", "bins (1) must be from 2 to 1024"),
        ("-4", "bins (-4) must be from 2 to 1024"),
        ("99999999999", "bins (99999999999) must be from 2 to 1024"),
    ],
)
def test_bad_values(value: str, message: str) -> None:
    assert refusal("independent", {"bins": value}) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("28x28", "setting image (28x28) must be whole numbers with commas between"),
        ("", "setting image () must be whole numbers with commas between"),
        ("28", "image (28) must be a height and a width, such as 28,28"),
        ("1,2,3", "image (1,2,3) must be a height and a width, such as 28,28"),
        ("0,5", "image (0,5) must be a height and a width, such as 28,28"),
    ],
)
def test_bad_images(value: str, message: str) -> None:
    assert refusal("gaussians", {"image": value}) == message


def test_an_image_of_another_size_than_the_rows_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    recipe, ledger = Gaussians(image=(3, 5)), tmp_path / "ledger.db"
    with pytest.raises(SettingError, match=r"^image \(3,5\) must have as many pixels as numeric columns \(\d+\)$"):
        call(recipe=recipe, ledger=ledger, dataset="stays")
    assert Ledger(ledger).releases("stays") == []


@given(key=st.text(max_size=10), value=st.text(max_size=10))
def test_no_setting_crashes(key: str, value: str) -> None:
    for settings in ({key: value}, {"bins": value}):
        told = ""
        try:
            made = make_recipe("independent", settings)
        except SettingError as error:
            told = str(error)
        assert len(told.splitlines()) == 1 if told else 2 <= made.bins <= 1024  # type: ignore[attr-defined]


def call(**changed: Any) -> threea.Release:
    data = changed.pop("data", None)
    settings = {"schema": hospital.schema(), "epsilon": 1.0, "rows": 10} | changed
    return synthesize(hospital.stays(100) if data is None else data, **settings)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 0}, r"^epsilon \(0\) must be a number > 0"),
        ({"epsilon": float("inf")}, r"^epsilon \(inf\) must be"),
        ({"epsilon": float("nan")}, r"^epsilon \(nan\) must be"),
        ({"delta": 0}, r"^delta \(0\) affords no Gaussian noise"),
        ({"delta": 1.0}, r"^delta \(1.0\) must be 0, or from 1e-15 to below 1"),
        ({"adjacency": "swap"}, r"^adjacency \(swap\) must be add-remove or replace"),
        ({"recipe": "indep"}, r"^recipe \(indep\) is unknown"),
        ({"rows": 0}, r"^rows \(0\) must be a whole number, at least 1"),
        ({"rows": -5}, r"^rows \(-5\) must be a whole number, at least 1"),
        ({"seed": -1}, r"^seed \(-1\) must be"),
        ({"target": "income"}, r"^target \(income\) is not a column"),
        ({"unit": "person"}, r"^unit \(person\) is not a column"),
        ({"unit": "patient_id", "max_rows_per_unit": 0}, r"^max_rows_per_unit \(0\) must be at least 1"),
        ({"max_rows_per_unit": 3}, r"^max_rows_per_unit \(3\) needs a unit"),
        ({"data": [1, 2]}, r"^data \(list\) must be a path"),
    ],
)
def test_mistakes_are_told_in_one_line(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        call(**changed)
    assert len(str(caught.value).splitlines()) == 1


def test_a_release_by_default() -> None:
    release = synthesize(hospital.stays(300), schema=hospital.schema(), epsilon=5.0)
    assert release.recipe == make_recipe(DEFAULT).chosen(hospital.schema())[0].name
    assert isinstance(release.frame, pa.Table)
    assert release.plan.budget == threea.Budget(5.0, 1e-6)


def test_the_number_of_rows_is_noisy_unless_asked_for() -> None:
    """At epsilon 1 the noise on the count has a deviation of several rows.

    All of 12 noisy counts equal the true one with a probability under 1e-6 if each does with one under 0.3.
    """
    rows = 300
    counts = [synthesize(hospital.stays(rows), schema=hospital.schema(), epsilon=1.0).rows for _ in range(12)]
    assert any(count != rows for count in counts)
    assert call(rows=7).frame.num_rows == 7


def test_the_seed_repeats_sampling_not_noise() -> None:
    """Two noisy models agree in every count with a probability far under 1e-6: hundreds of counts, each with noise."""
    first, second = call(seed=3, rows=200), call(seed=3, rows=200)
    assert first.seed == second.seed
    assert not first.table.equals(second.table)
    assert first.table.equals(first.table)


def test_the_ledger_and_its_cap_are_kept(tmp_path: Any) -> None:
    spending = {"ledger": tmp_path / "ledger.db", "dataset": "stays", "cap": 1.5}
    with pytest.raises(LedgerError, match="does not exist; is the path mistyped"):
        call(**spending)
    call(**spending, new_ledger=True)
    with pytest.raises(BudgetRefused, match="requested epsilon 1"):
        call(**spending)


def test_one_call_takes_what_opening_and_running_take() -> None:
    """The one call has every argument of the two it stands for, and the budget's."""
    opening = set(inspect.signature(open_table).parameters) - {"budget", "noise", "transcript"}
    running = set(inspect.signature(Independent.run).parameters) - {"self", "table", "plan"}
    budget = set(inspect.signature(threea.Budget).parameters)
    own = set(inspect.signature(prepare).parameters) | set(inspect.signature(synthesize).parameters)
    assert own - {"options"} == opening | running | budget | {"recipe", "balance", "score", "resume"}


def test_a_schema_may_be_the_path_of_one(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(hospital.schema().to_toml())
    assert call(schema=str(path)).schema == call(schema=path).schema == call().schema


def test_what_is_prepared_spends_nothing_until_it_runs(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    options = {"schema": hospital.schema(), "epsilon": 1.0, "recipe": "independent", "dataset": "stays"}
    prepared = prepare(hospital.stays(100), **options, ledger=ledger)
    assert f"New ledger made: {ledger}." in str(prepared)
    assert Ledger(ledger).releases("stays") == []
    assert "New ledger" not in str(prepare(hospital.stays(100), **options, ledger=ledger))
    prepared.run()
    assert [row.epsilon for row in Ledger(ledger).releases("stays")] == [1.0]


def test_a_rehearsal_makes_no_ledger_writes_to_none_and_cannot_be_run(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    options = {"schema": hospital.schema(), "epsilon": 1.0, "recipe": "independent"}
    rehearsed = rehearse(hospital.stays(100), **options, ledger=ledger, dataset="stays")
    assert "nothing was spent, nothing written" in str(rehearsed)
    assert not ledger.exists()
    with pytest.raises(SettingError, match="a rehearsal cannot be run"):
        rehearsed.run()
    call(ledger=ledger, dataset="first", cap=1.5, new_ledger=True)
    rehearse(hospital.stays(90), **options, ledger=ledger, dataset="second")
    assert [row.name for row in Ledger(ledger).datasets()] == ["first"]
    with pytest.raises(BudgetRefused, match=r"requested epsilon 1, spent 1 of 1\.5, left 0\.5"):
        rehearse(hospital.stays(100), **options, ledger=ledger, dataset="first")


def test_csv_comes_back_as_csv_and_frames_as_parquet(tmp_path: Path) -> None:
    pa.csv.write_csv(hospital.stays(100), tmp_path / "stays.csv", pa.csv.WriteOptions(delimiter=";"))
    release = call(data=tmp_path / "stays.csv")
    files = {path.name for path in release.save(tmp_path / "a")}
    assert "synthetic.csv" in files
    header = (tmp_path / "a/synthetic.csv").read_text().splitlines()[0]
    assert header.replace('"', "").split(";") == hospital.stays(1).column_names
    assert "synthetic.parquet" in {path.name for path in release.save(tmp_path / "b", "parquet")}
    assert "synthetic.parquet" in {path.name for path in call().save(tmp_path / "c")}


def test_the_receipt_says_what_a_reader_must_know() -> None:
    def told(**options: Any) -> str:
        return str(prepare(hospital.stays(100), **({"schema": hospital.schema(), "epsilon": 1.0} | options)))

    assert "Classes are not drawn in their private ratio" in told(balance=True)
    assert "Classes are not drawn" not in told()
    assert "at least 2,000 (free, and learners gain); for another number, --rows N or --rows same" in told()
    assert "Synthetic rows" not in told(rows=10)
    assert "a single one counts; for more, --max-rows-per-unit" in told(unit="patient_id")
    assert "Warning: epsilon 50 is above 10" in told(epsilon=50.0)
    assert "of processor time" in told()
    assert "still as read from the rows" not in told()
    assert "cost (a number)" in told(schema=None, target="cost", target_kind="number")
    assert "prior_stays (classes, to be found)" in told(schema=None, target="prior_stays", target_kind="class")


def test_a_draft_that_nobody_touched_is_told_of(tmp_path: Path) -> None:
    """Also where NumPy integers, which are never missing, take something from a section."""
    pa.parquet.write_table(hospital.stays(200), tmp_path / "stays.parquet")
    drafted, notes = propose_schema(tmp_path / "stays.parquet", "died")
    save_draft(drafted, notes, tmp_path / "draft.toml")
    text = (tmp_path / "draft.toml").read_text().replace("confirmed = false", "confirmed = true")
    (tmp_path / "draft.toml").write_text(text)
    read = len(Schema.load(tmp_path / "draft.toml").untouched)
    frame = hospital.stays(200).to_pandas()
    for data in (tmp_path / "stays.parquet", frame):
        prepared = prepare(data, schema=tmp_path / "draft.toml", epsilon=1.0, recipe="independent", rows=5)
        told = f"{read} of 15 sections of the schema are still as read from the rows; nobody has said where they are"
        assert told in str(prepared)
    release = prepared.run()
    release.save(tmp_path / "out")
    certificate = json.loads((tmp_path / "out/certificate.json").read_text())
    assert len(certificate["schema_untouched"]) == read > 1
    report = (tmp_path / "out/report.html").read_text()
    assert "nobody has said where they are public" in report
    assert "The owner of the table wrote it" not in report
    assert call().certificate().schema_untouched == []
