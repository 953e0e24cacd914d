"""Columns named as ids are become ids where no value stands out; codes under such names stay what they are."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.describe import ids
from threea.describe.discover import discover
from threea.recipes import RECIPES, Independent
from threea.report.notes import notes
from threea.session import rehearse
from threea.table.schema import Kind, Schema
from threea.testing import SeededNoise

ROWS = 6_000
DICE = np.random.default_rng(3)
ILL = DICE.choice(["yes", "no"], ROWS).tolist()
IDS: dict[str, Any] = {
    "text": [f"P{number:06}" for number in DICE.permutation(ROWS)],
    "numbers": (10_000_000 + 7 * DICE.permutation(ROWS)).tolist(),
    "small numbers": (DICE.permutation(ROWS) // 8).tolist(),
    "written numbers": [str(number) for number in 500_000 + DICE.permutation(ROWS)],
}
CODES: dict[str, Any] = {
    "text": DICE.choice(["DE", "FR", "IT"], ROWS).tolist(),
    "few numbers": DICE.integers(1, 9, ROWS).tolist(),
    "some numbers": DICE.choice([3, 17, 130, 404, 999], ROWS).tolist(),
    "large numbers": DICE.choice([1000, 25_000, 40_000], ROWS, p=[0.5, 0.3, 0.2]).tolist(),
}


def found(values: list[Any], name: str = "patient_id", epsilon: float = 1.0) -> Schema:
    """Return the schema that is discovered; text is read as text without a declared type."""
    table = pa.table({name: values, "age": DICE.integers(0, 99, ROWS), "ill": ILL})
    opened = open_table(table, target="ill", budget=Budget(epsilon), noise=SeededNoise(5))
    return discover(opened, Independent().plan(opened)).schema


@pytest.mark.parametrize("epsilon", [1.0, 30.0])
@pytest.mark.parametrize("values", IDS.values(), ids=list(IDS))
def test_what_is_named_as_ids_are_and_shared_by_few_rows_is_one(values: list[Any], epsilon: float) -> None:
    assert found(values, epsilon=epsilon)["patient_id"].kind is Kind.ID
    assert found(values, "reading", epsilon)["reading"].kind is not Kind.ID


@pytest.mark.parametrize("epsilon", [1.0, 30.0])
@pytest.mark.parametrize("values", CODES.values(), ids=list(CODES))
def test_a_code_under_such_a_name_is_none(values: list[Any], epsilon: float) -> None:
    assert found(values, "country_id", epsilon)["country_id"].kind is not Kind.ID


def test_the_target_is_never_one() -> None:
    table = pa.table({"group_id": IDS["text"], "age": DICE.integers(0, 99, ROWS)})
    opened = open_table(table, target="group_id", budget=Budget(1.0), noise=SeededNoise(5))
    assert discover(opened, Independent().plan(opened)).schema["group_id"].kind is Kind.CATEGORICAL


@pytest.mark.parametrize(
    "name", ["labeltree", "independent", "mst", "aim", "privbayes", "mcgen", "clustmix", "gaussians"]
)
def test_a_release_has_made_up_ids_and_says_so(name: str) -> None:
    table = pa.table({"patient_id": IDS["numbers"], "age": DICE.integers(0, 99, ROWS), "mrn": IDS["text"], "ill": ILL})
    opened = open_table(table, target="ill", budget=Budget(1.0), noise=SeededNoise(1))
    release = RECIPES[name]().run(opened, rows=500, seed=1)
    for column in ("patient_id", "mrn"):
        drawn = release.table[column].to_pylist()
        assert len(set(drawn)) == 500
        assert set(drawn).isdisjoint(table[column].to_pylist())
    assert release.schema["age"].kind is Kind.INTEGER
    assert "Taken for ids by their names, and made up: patient_id, mrn; a schema says otherwise." in notes(release)


def test_the_receipt_says_so_before_anything_is_spent() -> None:
    table = pa.table({"patient_id": IDS["text"], "age": DICE.integers(0, 99, ROWS), "ill": ILL})
    assert "Named as ids are: patient_id. Unless" in str(rehearse(table, target="ill", epsilon=1.0))
    named = table.rename_columns(["patient", "age", "ill"])
    assert "Named as ids" not in str(rehearse(named, target="ill", epsilon=1.0))
    assert "Named as ids" not in str(rehearse(table, target="ill", unit="patient_id", epsilon=1.0))


def test_only_unknown_columns_are_looked_at() -> None:
    columns = {
        "row_id": {"kind": "integer", "lower": 0, "upper": 9},
        "seen_id": {"kind": "real", "lower": 0, "upper": 9},
    }
    assert ids.likely(Schema.of(columns)) == ("row_id",)
