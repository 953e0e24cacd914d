"""`dpmix`: a finite set of rows, and what each setting does to the events."""

from __future__ import annotations

import math
from typing import Any

import pytest

import threea
from threea import hospital
from threea.anonymize.events import Sampled
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.recipes import RECIPES, DPMix
from threea.recipes.dpmix import ASSUMPTIONS
from threea.session import synthesize

STAYS = hospital.stays(400)


def test_a_release_is_a_set_of_its_own_size() -> None:
    release = synthesize(STAYS, schema=hospital.schema(), epsilon=4.0, recipe=DPMix(points=20))
    assert release.certificate().recipe == "dpmix"
    assert RECIPES["dpmix"] is DPMix
    died = release.table["died"].to_pylist()
    assert release.rows == len(died) == release.model.rows
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
        ({"mode": "improved"}, r"mode \(improved\) must be proven or published"),
        ({"sigma_max": 0.0}, r"sigma_max \(0.0\) must be"),
    ],
)
def test_settings_are_checked_when_made(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=f"^{says}"):
        DPMix(**settings)


def test_as_published_it_is_claimed_and_says_why_it_is_not_proven() -> None:
    options: dict[str, Any] = {"schema": hospital.schema(), "epsilon": 1.0, "recipe": DPMix(mode="published")}
    with pytest.raises(SettingError, match="--accept-unproven"):
        synthesize(STAYS, **options)
    release = synthesize(STAYS, accept_unproven=True, **options)
    certificate = release.certificate()
    assert certificate.guarantee is Guarantee.CLAIMED
    assert certificate.accounted_epsilon == math.inf
    assert set(ASSUMPTIONS) < set(certificate.assumptions)
    assert release.table.num_rows == release.model.rows == release.rows


def test_as_published_less_noise_takes_larger_groups() -> None:
    """The number of points follows from the group's size alone, so this is no matter of chance."""
    stays = hospital.stays(3_000)
    rows = [
        synthesize(
            stays,
            schema=hospital.schema(),
            epsilon=4.0,
            recipe=DPMix(mode="published", sigma_max=sigma_max),
            accept_unproven=True,
        ).rows
        for sigma_max in (0.05, 0.5)
    ]
    assert rows[0] < rows[1]
