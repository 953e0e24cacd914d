"""`dpmix-published`: means of l rows of a class, the noise of the paper's accounting, and what it takes for granted."""

import math

import dp_accounting
import numpy as np
import pyarrow as pa
import pytest
from dp_accounting.rdp import RdpAccountant

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget, mu_from
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.published import dpmix
from threea.published.dpmix import ASSUMPTIONS, noise_multiplier
from threea.recipes import RECIPES, DPMixPublished
from threea.table.schema import Schema
from threea.testing import SeededNoise

ROWS, COLUMNS = 400, 30
STAYS = hospital.stays(400)
SCHEMA = Schema.of(
    {f"f{n}": {"kind": "real", "lower": 0.0, "upper": 1.0, "nullable": False} for n in range(COLUMNS)}
    | {"label": {"kind": "categorical", "categories": ["no", "yes", "never"], "nullable": False}},
    target="label",
)


def blobs():
    """Return rows around 0.4 in one class and 0.6 in the other; one class has none."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], ROWS // 2)
    values = np.clip(0.4 + 0.2 * labels[:, None] + rng.normal(0, 0.05, (ROWS, COLUMNS)), 0, 1)
    return (
        values,
        labels,
        pa.table({f"f{n}": values[:, n] for n in range(COLUMNS)} | {"label": np.array(["no", "yes"])[labels]}),
    )


def released(**settings):
    table = open_table(blobs()[2], schema=SCHEMA, budget=Budget(1.0, 1e-5), noise=SeededNoise(0), accept_unproven=True)
    return DPMixPublished(**settings).run(table)


def points_of(release):
    return np.column_stack([release.model.chunk[f"f{n}"] for n in range(COLUMNS)])


def test_it_is_claimed_and_says_why_it_is_not_proven():
    assert RECIPES["dpmix-published"] is DPMixPublished
    recipe, options = DPMixPublished(points=10, mixing_degree=20), {"schema": hospital.schema(), "budget": Budget(1.0)}
    with pytest.raises(SettingError, match="--accept-unproven"):
        recipe.plan(open_table(STAYS, **options))
    release = recipe.run(open_table(STAYS, accept_unproven=True, **options))
    certificate = release.certificate()
    assert certificate.guarantee is Guarantee.CLAIMED
    assert certificate.accounted_epsilon == math.inf
    assert set(ASSUMPTIONS) < set(certificate.assumptions)
    assert release.table.num_rows == release.rows == 20


def test_a_point_is_the_mean_of_l_rows_of_its_class(monkeypatch):
    """Without noise, points of one row are rows, and those of all their mean."""
    monkeypatch.setattr(dpmix, "noise_multiplier", lambda *sizes: 0.0)
    values, labels, _ = blobs()
    single = released(points=5, mixing_degree=1)
    assert single.model.chunk["label"].tolist() == [0] * 5 + [1] * 5
    for point, label in zip(points_of(single), single.model.chunk["label"], strict=True):
        assert np.abs(values[labels == label] - point).max(axis=1).min() < 1e-9
    whole = released(points=2, mixing_degree=1000)
    means = np.repeat([values[labels == c].mean(axis=0) for c in (0, 1)], 2, axis=0)
    assert np.abs(points_of(whole) - means).max() < 1e-9


def test_mixtures_are_drawn_anew_without_replacement(monkeypatch):
    monkeypatch.setattr(dpmix, "noise_multiplier", lambda *sizes: 0.0)
    values, labels, _ = blobs()
    points = points_of(released(points=40, mixing_degree=50))
    spread = points[:40].std(axis=0) / values[labels == 0].std(axis=0)
    # Means of 50 of 200 rows: 1/sqrt(50) of a row's spread, and sqrt(3/4) of that without replacement. A fixed seed.
    assert spread.mean() == pytest.approx(math.sqrt(0.75 / 50), rel=0.1)
    assert len(np.unique(points, axis=0)) == 80


def test_noise_has_the_spread_of_the_accounting(monkeypatch):
    """A fixed seed; with another, the standard deviation would be off by this much once in 1e6 times."""
    asked = []

    def multiplier(*sizes):
        asked.append(sizes)
        return 1.0

    monkeypatch.setattr(dpmix, "noise_multiplier", multiplier)
    # Of all rows the mean is always the same: what varies is noise, on places from -1 to 1: amounts vary half as much.
    points = points_of(released(points=60, mixing_degree=ROWS))
    sigma = 2 * math.sqrt(COLUMNS) / (ROWS // 2) / 2
    assert points[:60].std(axis=0, ddof=1).mean() == pytest.approx(sigma, rel=4.9 / math.sqrt(2 * 59 * COLUMNS))
    assert [sizes[:3] for sizes in asked] == [(ROWS // 2, ROWS // 2, 60)] * 2
    assert asked[0][3:] == (pytest.approx(1.0, rel=1e-3), 1e-5)


@pytest.mark.parametrize(("rows", "drawn", "count"), [(1000, 10, 20), (500, 100, 5), (200, 200, 30)])
def test_the_noise_costs_the_budget_and_no_more(rows, drawn, count):
    noise = noise_multiplier(rows, drawn, count, 1.0, 1e-5)
    event = dp_accounting.GaussianDpEvent(noise)
    if drawn < rows:
        event = dp_accounting.SampledWithoutReplacementDpEvent(rows, drawn, event)
    cost = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE).compose(event, count)
    # The accountant's own orders are more than ours, so it may say a little less.
    assert 0.9 < cost.get_epsilon(1e-5) <= 1.0
    # Drawing all rows hides none: Gaussian noise alone would do with this much, by the exact formula.
    if drawn == rows:
        assert noise >= math.sqrt(count) / mu_from(1.0, 1e-5)


def test_drawing_fewer_rows_needs_less_noise_on_their_sum():
    few, many = (noise_multiplier(1000, drawn, 10, 1.0, 1e-5) for drawn in (20, 200))
    assert few < many / 3


@pytest.mark.parametrize("wrong", [{"points": 0}, {"points": 2.5}, {"mixing_degree": 0}])
def test_settings_are_checked_when_made(wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=rf"^{name} \("):
        DPMixPublished(**wrong)
