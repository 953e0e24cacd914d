"""The certificate: what it says, and that its JSON is JSON."""

import dataclasses
import datetime
import json
from typing import Any

import pytest

import threea
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Certificate, ClassShare, Guarantee
from threea.recipes import Independent
from threea.testing import SeededNoise


def facts(**changed: Any) -> dict[str, Any]:
    return {
        "threea_version": "0", "recipe": "r", "settings": {"bins": 2}, "guarantee": Guarantee.PROVEN, "epsilon": 1.0,
        "accounted_epsilon": 0.5, "delta": 1e-6, "adjacency": "add-remove", "unit": "row",
        "unit_column": None, "max_rows_per_unit": 1,        "events": [], "arithmetic": "exact",
        "assumptions": [], "rows": 5, "schema_origin": "owner", "schema_sha256": "ab", "classes": None,
    } | changed  # fmt: skip


def strictly(text: str) -> dict[str, Any]:
    """Read JSON without the numbers that only Python takes for JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    read: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return read


def test_json_says_what_the_certificate_says() -> None:
    certificate = Certificate(**facts())
    read = strictly(certificate.to_json())
    assert {key: read[key] for key in facts()} == facts()
    assert certificate.to_json().endswith("}\n")


def test_classes_are_written_with_their_weights() -> None:
    shares = [ClassShare("no", 0.75, 0.9), ClassShare("yes", 0.25, 0.1)]
    read = strictly(Certificate(**facts(classes=[share.to_json() for share in shares])).to_json())["classes"]
    assert [each["class"] for each in read] == ["no", "yes"]
    assert [each["weight"] for each in read] == pytest.approx([1.2, 0.4])
    assert sum(each["weight"] * each["share"] for each in read) == pytest.approx(1)


def test_infinity_is_written_as_text() -> None:
    assert strictly(Certificate(**facts(accounted_epsilon=float("inf"))).to_json())["accounted_epsilon"] == "inf"


def test_created_is_a_time_in_utc_just_now() -> None:
    created = datetime.datetime.fromisoformat(Certificate(**facts()).created)
    assert created.utcoffset() == datetime.timedelta(0)
    assert abs(datetime.datetime.now(datetime.UTC) - created) < datetime.timedelta(hours=1)


def test_certificates_are_frozen() -> None:
    certificate = Certificate(**facts())
    with pytest.raises(AttributeError):
        certificate.epsilon = 0.1  # type: ignore[misc]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_proven_release_states_its_budget_and_what_was_accounted(adjacency: str) -> None:
    release = threea.synthesize(
        hospital.stays(200), schema=hospital.schema(), epsilon=2.0, delta=1e-5, adjacency=adjacency, rows=10
    )
    read = strictly(release.certificate().to_json())
    assert (read["guarantee"], read["epsilon"], read["delta"], read["adjacency"]) == ("proven", 2.0, 1e-5, adjacency)
    assert 0.99 * 2.0 <= read["accounted_epsilon"] <= 2.0
    assert [event["name"] for event in read["events"]] == [line.name for line in release.plan.lines]
    assert (read["recipe"], read["settings"]) == ("labeltree", {"alpha": 0.0, "teacher": 0.4, "waves": 0.0})
    assert (read["unit"], read["assumptions"], read["rows"]) == ("row", [], 10)
    assert (read["unit_column"], read["max_rows_per_unit"]) == (None, 1)
    assert read["arithmetic"] == "fixed-point int64, discrete noise"
    assert (read["schema_origin"], read["threea_version"]) == ("owner", threea.__version__)


def test_a_unit_is_named() -> None:
    release = threea.synthesize(
        hospital.stays(200), schema=hospital.schema(), epsilon=2.0, unit="patient_id", max_rows_per_unit=3, rows=10
    )
    certificate = release.certificate()
    assert certificate.unit == "all rows of one patient_id, of which at most 3 count"
    assert (certificate.unit_column, certificate.max_rows_per_unit) == ("patient_id", 3)


def test_a_discovered_schema_is_said_to_be() -> None:
    release = threea.synthesize(hospital.stays(200), target="died", unit="patient_id", epsilon=2.0, rows=10)
    assert release.certificate().schema_origin == "discovered"


def test_noise_for_tests_leaves_no_guarantee() -> None:
    table = open_table(hospital.stays(200), schema=hospital.schema(), budget=Budget(1.0), noise=SeededNoise(0))
    read = strictly(Independent().run(table, rows=10).certificate().to_json())
    assert (read["guarantee"], read["accounted_epsilon"]) == ("none", "inf")
    assert len(read["assumptions"]) == 1


def test_spending_above_the_budget_leaves_no_guarantee() -> None:
    """The certificate states what happened, not what was planned."""
    release = threea.synthesize(hospital.stays(200), schema=hospital.schema(), epsilon=1.0, recipe="independent")
    assert release.certificate().guarantee is Guarantee.PROVEN
    line, dates = release.spent
    twice = dataclasses.replace(release, spent=(dataclasses.replace(line, count=2), dates))
    read = strictly(twice.certificate().to_json())
    assert (read["guarantee"], [event["count"] for event in read["events"]]) == ("none", [2, 1])
    assert read["accounted_epsilon"] > 1.0


def test_events_that_were_planned_and_not_charged_are_not_stated() -> None:
    table = hospital.stays(200).select(["age", "creatinine"])
    release = threea.synthesize(table.to_pandas().astype(str).astype(object), target="age", epsilon=1.0)
    planned, stated = ([line.name for line in lines] for lines in (release.plan.lines, release.spent))
    assert "discover categories" in planned
    assert set(stated) <= set(planned)
    assert [event["name"] for event in release.certificate().events] == stated
