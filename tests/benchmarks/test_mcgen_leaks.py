"""MC-GEN as published gives away more than it claims, by its clusters and by the noise of its code.

Noise is seeded, so that the tests pass or fail for good; were the claim true, fresh noise would show this much with a
chance of at most 1e-6.
"""

import numpy as np
import pytest

from benchmarks import mcgen_leaks, published_leaks
from threea.recipes import RECIPES
from threea.testing import SeededNoise

SURE, TRIALS = 1 - 1e-6, 150
CLAIMED = published_leaks.BUDGET.epsilon


def found(name):
    attack = mcgen_leaks.attacks()[name]
    runs = published_leaks.collected(published_leaks.parts(attack, TRIALS, SeededNoise, batch=TRIALS))
    return published_leaks.bounds(mcgen_leaks.mode(name), runs, SURE)["epsilon"]


@pytest.mark.parametrize("name", ["clusters", "code"])
def test_mcgen_as_published_leaks_more_than_it_claims(name):
    assert found(name) > CLAIMED


def test_with_one_cluster_the_noise_of_the_paper_is_not_caught():
    """So what is caught above is the clusters, and the code, and not the attack's own doing."""
    assert found("one cluster") <= CLAIMED


@pytest.mark.parametrize("pair", ["clusters", "noise"])
def test_the_tables_differ_in_one_row(pair):
    left, right = (table["amount"].to_numpy() for table in mcgen_leaks.neighbours(pair))
    assert (left != right).sum() == 1
    assert (left.min(), left.max()) == (right.min(), right.max()) == (0.0, 1.0)
    assert len(left) == 500


def test_the_proven_form_is_attacked_if_there_is_one(monkeypatch):
    monkeypatch.setitem(RECIPES, "mcgen", RECIPES["independent"])
    attacks = mcgen_leaks.attacks()
    assert {mcgen_leaks.mode(name) for name in attacks} == {"published", "proven"}
    assert attacks["proven"].tables == attacks["clusters"].tables


def test_what_is_looked_at():
    amounts = np.array([0.0, 0.5, 1.0, 1.0])
    attack = mcgen_leaks.attacks()["clusters"]
    seen = {
        s: published_leaks.Attack(attack.recipe, attack.tables, s).seen(amounts) for s in ("mean", "spread", "lopsided")
    }
    assert seen == {"mean": 0.625, "spread": 0.1875, "lopsided": 0.03125}
