"""A release without a delta: pure epsilon from the plan to the report."""

import json
from pathlib import Path

import pytest

import threea
from threea import hospital
from threea.audit.replay import Setting, replay
from threea.budget import Budget
from threea.errors import SettingError
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.recipes import MCGen, PrivBayes, RonGauss
from threea.session import prepare

PURE: list[Recipe] = [PrivBayes(noise="laplace", degree=1), MCGen(noise="laplace"), RonGauss(noise="laplace")]
EVERY = pytest.mark.parametrize("recipe", PURE, ids=lambda recipe: recipe.name)


@EVERY
def test_a_release_without_a_delta_says_so_everywhere(recipe: Recipe, tmp_path: Path) -> None:
    rows, schema, ledger = hospital.stays(), hospital.schema().confirm(), tmp_path / "ledger.db"
    options = {"unit": "patient_id", "ledger": ledger, "rows": 100}
    prepared = prepare(rows, schema=schema, recipe=recipe, epsilon=1.0, delta=0, **options)
    assert "epsilon 1, delta 0, add-remove" in str(prepared)
    assert "pure epsilon" in str(prepared)
    release = prepared.run()
    assert release.guarantee == "proven"
    release.save(tmp_path / "out")
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["delta"] == 0
    assert certificate["accounted_epsilon"] == pytest.approx(1.0)
    assert "without exception" in (tmp_path / "out" / "report.html").read_text()
    (entry,) = Ledger(ledger).releases()
    assert (entry.epsilon, entry.delta) == (1.0, 0.0)
    assert threea.load_release(tmp_path / "out").plan.budget == Budget(1.0, 0.0)


@pytest.mark.parametrize(("noise", "hinted"), [("laplace", True), ("gaussian", False)])
def test_a_delta_that_nothing_needs_is_named_before_it_is_spent(noise: str, hinted: bool) -> None:
    options = {"schema": hospital.schema().confirm(), "recipe": MCGen(noise=noise), "epsilon": 1.0}
    assert ("with --delta 0 the promise is pure epsilon" in str(prepare(hospital.stays(), **options))) == hinted


def test_gaussian_noise_is_refused_without_a_delta() -> None:
    with pytest.raises(SettingError, match=r"delta \(0\) affords no Gaussian noise, which histograms given the label"):
        prepare(hospital.stays(), schema=hospital.schema().confirm(), recipe="independent", epsilon=1.0, delta=0)


def test_a_schema_cannot_be_found_without_a_delta() -> None:
    with pytest.raises(SettingError, match=r"delta \(0\) cannot pay for finding the schema; give a schema"):
        prepare(hospital.stays(), target="died", recipe=PURE[0], epsilon=1.0, delta=0)


def test_a_replay_without_a_delta_leaves_out_what_must_be_found() -> None:
    questions = replay(PURE[-1], budget=Budget(1.0, 0), among=[Setting(), Setting(known=False)])
    assert {question.event for question in questions} == {"Pure"}
    assert all(question.tightest >= 0.99 and not question.over for question in questions)
