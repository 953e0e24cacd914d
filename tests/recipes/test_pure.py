"""A release without a delta: pure epsilon from the plan to the report."""

import dataclasses
import json
from pathlib import Path

import pytest

import threea
from threea import hospital
from threea.anonymize.events import Pure
from threea.anonymize.ledger import Ledger
from threea.anonymize.plan import Step
from threea.approximate.histograms import LabelHistograms
from threea.audit.replay import replay, settings
from threea.budget import Budget
from threea.errors import SettingError
from threea.recipes import Independent
from threea.session import prepare
from threea.table.schema import Schema


class LaplaceHistograms(LabelHistograms):
    """The same counts, with Laplace noise."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        return tuple(dataclasses.replace(step, kind=Pure) for step in super().steps(schema))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PureIndependent(Independent):
    """Naive Bayes with Laplace noise."""

    @property
    def approximate(self) -> LaplaceHistograms:
        return LaplaceHistograms(bins=self.bins)


def test_a_release_without_a_delta_says_so_everywhere(tmp_path: Path) -> None:
    rows, schema, ledger = hospital.stays(), hospital.schema().confirm(), tmp_path / "ledger.db"
    prepared = prepare(
        rows, schema=schema, recipe=PureIndependent(), epsilon=1.0, delta=0, unit="patient_id", ledger=ledger
    )
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


def test_gaussian_noise_is_refused_without_a_delta() -> None:
    with pytest.raises(SettingError, match=r"delta \(0\) affords no Gaussian noise, which histograms given the label"):
        prepare(hospital.stays(), schema=hospital.schema().confirm(), recipe="independent", epsilon=1.0, delta=0)


def test_a_schema_cannot_be_found_without_a_delta() -> None:
    with pytest.raises(SettingError, match=r"delta \(0\) cannot pay for finding the schema; give a schema"):
        prepare(hospital.stays(), target="died", recipe=PureIndependent(), epsilon=1.0, delta=0)


def test_pure_questions_change_by_no_more_than_their_price() -> None:
    questions = replay(PureIndependent(), budget=Budget(1.0, 0), among=list(settings(thorough=False)))
    assert {question.event for question in questions} == {"Pure"}
    assert all(question.tightest >= 0.99 and not question.over for question in questions)
