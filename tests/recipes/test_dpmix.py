"""`dpmix`: a finite set of rows, and what each setting does to the events."""

from __future__ import annotations

from typing import Any

import pytest

import threea
from threea import hospital
from threea.anonymize.events import Sampled
from threea.budget import Budget
from threea.errors import SettingError
from threea.recipes import RECIPES, DPMix
from threea.session import synthesize

STAYS = hospital.stays(400)


def test_a_release_is_a_set_of_its_own_size() -> None:
    release = synthesize(STAYS, schema=hospital.schema(), epsilon=4.0, recipe=DPMix(points=20))
    assert release.certificate().recipe == "dpmix"
    assert RECIPES["dpmix"] is DPMix
    died = release.table["died"].to_pylist()
    assert release.rows == len(died) == release.model.size
    assert died.count(True) in (0, 20)
    assert died.count(False) in (0, 20)
    with pytest.raises(SettingError, match=r"^rows \(50\) cannot be chosen"):
        synthesize(STAYS, schema=hospital.schema(), epsilon=4.0, recipe=DPMix(points=20), rows=50)


@pytest.mark.parametrize(("points", "rate"), [(5, 0.01), (50, 0.02)])
def test_settings_are_what_is_charged(points: int, rate: float) -> None:
    table = threea.open_table(STAYS, schema=hospital.schema(), budget=Budget(1.0))
    (line,) = DPMix(points=points, rate=rate).plan(table).lines
    assert isinstance(line.event, Sampled)
    assert (line.count, line.event.rate) == (points, rate)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"points": 0}, r"points \(0\) must be a whole number"),
        ({"rate": 0.0}, r"rate \(0.0\) must be from"),
    ],
)
def test_settings_are_checked_when_made(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=f"^{says}"):
        DPMix(**settings)
