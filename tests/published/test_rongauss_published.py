"""`rongauss-published`: the noise of its paper, the subspace, and what the claim takes for granted."""

import itertools
import math

import numpy as np
import pytest

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.published.rongauss import ASSUMPTIONS, ProjectedGaussians
from threea.recipes import RECIPES, RonGaussPublished

STAYS = hospital.stays(300)


class Recorded(np.random.Generator):
    """Seeded, and notes the scales it is asked for."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))
        self.asked = []

    def laplace(self, loc, scale, size):
        self.asked.append((scale, size))
        return np.zeros(size)


def test_it_is_claimed_and_says_why_it_is_not_proven():
    assert RECIPES["rongauss-published"] is RonGaussPublished
    options = {"schema": hospital.schema(), "budget": Budget(1.0)}
    with pytest.raises(SettingError, match="--accept-unproven"):
        RonGaussPublished().plan(open_table(STAYS, **options))
    release = RonGaussPublished().run(open_table(STAYS, accept_unproven=True, **options))
    certificate = release.certificate()
    assert certificate.guarantee is Guarantee.CLAIMED
    assert set(ASSUMPTIONS) <= set(certificate.assumptions)
    assert release.table["died"].to_pylist() == STAYS["died"].to_pylist()


def test_scales_are_those_of_the_paper():
    recorded = Recorded()
    values = np.random.default_rng(0).uniform(-1, 1, (50, 9))
    ProjectedGaussians(dimensions=4, mean_share=0.25).synthesized(values, 2.0, recorded)
    assert recorded.asked == [(3 / (50 * 0.5), 9), (2 * 2 / (50 * 1.5), (4, 4))]


def test_rows_lie_on_a_subspace_around_the_mean():
    """Without noise; a fixed seed. Second moments of rows at length 1 add up to what the subspace keeps of them."""
    values = np.random.default_rng(0).normal(0.5, 0.3, (3000, 8))
    drawn = ProjectedGaussians(dimensions=3, mean_share=0.5).synthesized(values, 1.0, Recorded())
    assert np.linalg.matrix_rank(drawn, tol=1e-9) == 3
    whole = ProjectedGaussians(dimensions=8, mean_share=0.5).synthesized(values, 1.0, Recorded())
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    np.testing.assert_allclose(whole.mean(axis=0), unit.mean(axis=0), atol=0.05)
    assert (whole - unit.mean(axis=0)).var(axis=0).sum() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("p", [5, 6, 16])
def test_second_moments_can_change_by_more_than_the_paper_reckons_with(p):
    """As the assumptions say: rows of length 1 whose products differ by about p in all, against 2 sqrt(p)."""
    x = np.ones(p) / math.sqrt(p)
    y = x * np.where(np.arange(p) < p // 2, -1, 1)
    changed = np.abs(np.outer(x, x) - np.outer(y, y)).sum()
    assert changed > 2 * math.sqrt(p)
    assert changed == pytest.approx(p if p % 2 == 0 else p - 1 / p)


def test_up_to_four_directions_no_signs_do():
    for p in (1, 2, 3, 4):
        rows = [np.array(signs) / math.sqrt(p) for signs in itertools.product((-1, 1), repeat=p)]
        most = max(np.abs(np.outer(x, x) - np.outer(y, y)).sum() for x in rows for y in rows)
        assert most <= 2 * math.sqrt(p) + 1e-12


@pytest.mark.parametrize("wrong", [{"dimensions": 0}, {"dimensions": 2.5}, {"mean_share": 0.0}, {"mean_share": 1.0}])
def test_settings_are_checked_when_made(wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=rf"^{name} \("):
        RonGaussPublished(**wrong)
