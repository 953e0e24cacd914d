"""GANs as published: what they promise, their losses, their accounting, and rows of every kind."""

import dataclasses
import itertools

import numpy as np
import pytest

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import InputError, SettingError
from threea.published import adsgan, laplacegan
from threea.published.pate_accounting import ORDERS, MomentsAccountant, moments
from threea.published.pategan import PATEGANPublished
from threea.recipes import ADSGAN, RECIPES, LaplaceGANPublished
from threea.testing import SeededNoise

jax = pytest.importorskip("jax")

STAYS = hospital.stays(120)
SMALL = {
    "laplacegan-published": LaplaceGANPublished(latent=2, width=4, iterations=3, batch=16),
    "adsgan": ADSGAN(latent=2, width=4, iterations=3, batch=16, critics=2),
    "pategan-published": PATEGANPublished(teachers=6, latent=2, width=4, batch=8, most_iterations=3),
}
GUARANTEES = {"laplacegan-published": "none", "adsgan": "none", "pategan-published": "claimed"}


def opened(data=STAYS, **options):
    given = {"schema": hospital.schema(), "budget": Budget(1.0), "noise": SeededNoise(1), "accept_unproven": True}
    return open_table(data, **{**given, **options})


@pytest.mark.parametrize("name", SMALL)
def test_it_says_why_it_is_not_proven(name):
    recipe = SMALL[name]
    assert type(recipe) is RECIPES[name]
    assert recipe.guarantee == type(recipe)().guarantee == Guarantee(GUARANTEES[name])
    with pytest.raises(SettingError, match="--accept-unproven"):
        recipe.plan(opened(accept_unproven=False))
    release = recipe.run(opened(), rows=None if recipe.fixed else 50, seed=1)
    assert set(recipe.assumptions) <= set(release.certificate().assumptions)
    assert release.table.num_rows == (120 if recipe.fixed else 50)
    assert release.table.schema.equals(STAYS.schema)
    # What is drawn hangs on random numbers, and is not one row again and again.
    assert len(set(release.table["age"].to_pylist())) > 1


@pytest.mark.parametrize("name", SMALL)
def test_every_column_may_be_the_target_or_none(name):
    for target in (None, "length_of_stay"):
        schema = dataclasses.replace(hospital.schema(), target=target)
        release = SMALL[name].run(opened(schema=schema), seed=1)
        assert release.table.schema.equals(STAYS.schema)


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        (LaplaceGANPublished, {"width": 1}),
        (LaplaceGANPublished, {"sensitivity": -1.0}),
        (ADSGAN, {"critics": 0}),
        (ADSGAN, {"identifiability": -0.1}),
        (PATEGANPublished, {"teachers": 0}),
        (PATEGANPublished, {"votes_noise": 0.0}),
        (PATEGANPublished, {"split": "mine"}),
    ],
)
def test_settings_outside_their_bounds_are_refused(recipe, settings):
    (name,) = settings
    with pytest.raises(SettingError, match=name):
        recipe(**settings)


def layers(*sizes):
    rng = np.random.default_rng(0)
    pairs = itertools.pairwise(sizes)
    return tuple((rng.normal(size=pair).astype(np.float32), np.zeros(pair[1], np.float32)) for pair in pairs)


def test_noise_is_laplace_on_the_first_hidden_layer():
    network, key = layers(3, 4, 1), jax.random.key(0)
    vectors, classes = np.ones((5, 2), np.float32), np.ones((5, 1), np.float32)
    clean, noisy = (laplacegan._logits(network, vectors, classes, key, scale) for scale in (0.0, 2.0))
    drawn = 2.0 * jax.random.laplace(key, (5, 4))
    np.testing.assert_allclose(noisy - clean, (drawn @ network[1][0])[:, 0], rtol=1e-4, atol=1e-5)


def test_the_gradient_below_the_noise_uses_the_rows_as_they_are():
    """The reason why it protects nobody: with a linear layer above, the noise has no say in the gradient below."""
    network, key = layers(3, 4, 1), jax.random.key(0)
    vectors, classes = np.full((5, 2), 3.0, np.float32), np.ones((5, 1), np.float32)

    def slope(scale):
        return jax.grad(lambda own: laplacegan._logits(own, vectors, classes, key, scale).sum())(network)[0][0]

    np.testing.assert_array_equal(slope(0.0), slope(1e6))
    assert np.abs(slope(1e6)).max() > 0


def test_the_generator_is_paid_for_distance():
    generator, critic, key = layers(2 + 3 + 1, 4, 3), layers(4, 4, 1), jax.random.key(0)
    batch = (np.zeros((6, 3), np.float32), np.ones((6, 1), np.float32))
    fixed = (np.zeros((3, 0), np.float32), np.zeros(2, np.float32))
    near, far = (adsgan._generate(generator, critic, key, batch, *fixed, weight) for weight in (0.0, 2.0))
    made = adsgan._made(generator, key, batch, *fixed)
    assert float(near - far) == pytest.approx(2 * float(np.linalg.norm(made, axis=1).mean()), rel=1e-4)


def test_moments_are_those_of_the_paper():
    """Without agreement 2 lambda^2 l (l + 1); with it, by how likely noise turns the vote."""
    none, all_agree = moments(0.1, np.array([0.0, 150.0]))
    np.testing.assert_allclose(none, 0.02 * ORDERS * (ORDERS + 1))
    q, order = (2 + 15) / (4 * np.exp(15)), 20
    bound = np.log((1 - q) * ((1 - q) / (1 - np.exp(0.2) * q)) ** order + q * np.exp(0.2 * order))
    assert all_agree[order - 1] == pytest.approx(bound, rel=1e-6)
    accountant = MomentsAccountant(0.1, 1e-5)
    accountant.add(np.zeros(3))
    spent = (3 * 0.02 * ORDERS * (ORDERS + 1) + np.log(1e5)) / ORDERS
    assert accountant.epsilon == pytest.approx(spent.min())


def test_epsilon_is_looked_at_after_the_first_iteration():
    """As in the paper: however much it costs, one iteration is made."""
    told = []
    recipe = dataclasses.replace(SMALL["pategan-published"], votes_noise=1.0)
    recipe.run(opened(), rows=10, seed=1, progress=lambda stage, done, of: told.append((stage, done)))
    iterations = [stage for stage, _ in told if stage.startswith("training")]
    assert len(iterations) == 1
    assert float(iterations[0].split()[-1]) > 1.0


def test_teachers_have_disjoint_parts_unless_the_split_is_the_codes():
    inputs = np.arange(20, dtype=np.float32)[:, None]
    paper, code = (
        dataclasses.replace(SMALL["pategan-published"], split=split).approximate._parts(
            inputs, np.random.default_rng(0)
        )[:, :, 0]
        for split in ("paper", "code")
    )
    assert paper.shape == code.shape == (6, 3)
    assert len(np.unique(paper)) == 18
    assert (code == paper[-1]).all()
    assert PATEGANPublished(split="code").guarantee is Guarantee.NONE


def test_more_teachers_than_rows_are_refused():
    with pytest.raises(InputError, match="teachers"):
        dataclasses.replace(SMALL["pategan-published"], teachers=121).run(opened())
