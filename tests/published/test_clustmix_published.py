"""`clustmix-published`: what it promises, and what its certificate says."""

import json
import math
from dataclasses import asdict

import pytest

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.published.clustmix import ASSUMPTIONS, SEARCHED
from threea.published.clustmix_clusters import SizeConstrained
from threea.published.clustmix_mixing import Mixing
from threea.recipes import RECIPES, ClustMixPublished
from threea.testing import SeededNoise

STAYS = hospital.stays(300)


def opened(**options):
    return open_table(STAYS, schema=hospital.schema(), budget=Budget(1.0), **options)


def test_it_is_claimed_and_says_why_it_is_not_proven():
    assert RECIPES["clustmix-published"] is ClustMixPublished
    release = ClustMixPublished(sigma_max=0.3).run(opened(accept_unproven=True))
    certificate = release.certificate()
    assert certificate.guarantee is Guarantee.CLAIMED
    assert certificate.accounted_epsilon == math.inf
    assert set(ASSUMPTIONS) < set(certificate.assumptions)
    assert SEARCHED not in certificate.assumptions
    assert release.table.num_rows == release.rows > 1


def test_it_is_refused_unless_allowed():
    with pytest.raises(SettingError, match="--accept-unproven"):
        ClustMixPublished().plan(opened())


def test_random_groups_are_as_large_as_clusters():
    """The number of points follows from the groups' size alone, so this is no matter of chance."""
    recipes = [ClustMixPublished(sigma_max=0.3, clusters=clusters) for clusters in ("constrained", "random")]
    kept, mixed = (recipe.run(opened(accept_unproven=True, noise=SeededNoise(0))) for recipe in recipes)
    assert kept.rows == mixed.rows > 2
    assert not kept.table.equals(mixed.table)


def test_the_certificate_states_the_settings_that_a_search_chose(monkeypatch):
    for module in ("jax", "optax", "optuna", "lightgbm"):
        pytest.importorskip(module)
    scores, made, mixed = iter([0.3, 0.9, 0.5]), [], []
    cluster, anonymized = SizeConstrained.cluster, Mixing.anonymized
    monkeypatch.setattr(SizeConstrained, "cluster", lambda self, *read: made.append(self) or cluster(self, *read))
    monkeypatch.setattr(Mixing, "anonymized", lambda self, found: mixed.append(self) or anonymized(self, found))
    monkeypatch.setattr(Mixing, "_kernel_inducing_points", lambda self, clusters: clusters.centroids)
    monkeypatch.setattr("threea.published.clustmix_search.utility", lambda points, exposed: next(scores))
    recipe = ClustMixPublished(sigma_max=0.2, search=3)
    table = opened(accept_unproven=True, noise=SeededNoise(0))
    certificate = recipe.run(table).certificate()
    chosen = {
        "sigma_max": made[1].sigma_max,
        "scaling": made[1].scaling,
        "alpha": mixed[1].alpha,
        "regularisation": mixed[1].regularisation,
    }
    assert certificate.settings == {**asdict(recipe), **chosen}
    assert chosen["sigma_max"] != recipe.sigma_max
    assert chosen["alpha"] != recipe.alpha
    assert SEARCHED in certificate.assumptions
    assert json.loads(certificate.to_json())["settings"]["sigma_max"] == chosen["sigma_max"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 1.1},
        {"regularisation": 0.0},
        {"sigma_max": 0.0},
        {"scaling": "none"},
        {"slices": 0},
        {"covariance": "round"},
        {"clusters": "guessed"},
        {"search": -1},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=rf"^{name} \("):
        ClustMixPublished(**wrong)
