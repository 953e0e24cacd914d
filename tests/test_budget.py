"""Budgets: checked when made, split without loss, converted both ways."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from threea.budget import LEAST_EPSILON, Adjacency, Budget, delta_from, epsilon_from, mu_from
from threea.errors import SettingError

EPSILONS, DELTAS = st.floats(1e-3, 50), st.floats(1e-12, 0.1)


@given(EPSILONS, DELTAS)
def test_mu_affords_the_budget_and_no_more(epsilon, delta):
    mu = mu_from(epsilon, delta)
    assert delta_from(mu, epsilon) <= delta
    assert delta_from(mu * (1 + 1e-6), epsilon) > delta


@given(EPSILONS, DELTAS)
def test_epsilon_and_mu_are_inverses(epsilon, delta):
    found = epsilon_from(mu_from(epsilon, delta), delta)
    assert found <= epsilon * (1 + 1e-9)
    # Where delta alone affords much, epsilon hangs on mu by a flat curve.
    assert found >= epsilon * (1 - 1e-6) - 1e-9


@given(st.floats(1e-3, 20), DELTAS)
def test_epsilon_is_rounded_up(mu, delta):
    assert delta_from(mu, epsilon_from(mu, delta)) <= delta * (1 + 1e-9)


@given(st.floats(0.05, 5), st.floats(0, 5))
def test_delta_is_the_most_that_any_threshold_betrays(mu, epsilon):
    """By definition: the largest excess of one Gaussian's mass over e^epsilon times the other's."""
    threshold = epsilon / mu + mu / 2
    excess = stats.norm.sf(threshold - mu) - math.exp(epsilon) * stats.norm.sf(threshold)
    assert delta_from(mu, epsilon) == pytest.approx(excess, rel=1e-6, abs=1e-15)
    for nearby in (threshold - 0.1, threshold + 0.1):
        assert stats.norm.sf(nearby - mu) - math.exp(epsilon) * stats.norm.sf(nearby) <= excess + 1e-15


@given(EPSILONS, DELTAS, st.floats(1.01, 3))
def test_more_budget_affords_more(epsilon, delta, factor):
    assert mu_from(epsilon * factor, delta) > mu_from(epsilon, delta)
    assert mu_from(epsilon, delta * factor) > mu_from(epsilon, delta)


@given(EPSILONS, st.floats(1e-12, 1e-3), st.lists(st.floats(0.01, 100), min_size=1, max_size=5))
def test_parts_compose_to_the_whole(epsilon, delta, weights):
    whole = Budget(epsilon, delta, Adjacency.REPLACE)
    shares = [weight / sum(weights) for weight in weights]
    if any(epsilon_from(whole.mu * math.sqrt(share), delta) < LEAST_EPSILON for share in shares):
        # So small a share that no budget can say it.
        return
    parts = whole.split(weights)
    assert math.fsum(part.mu**2 for part in parts) == pytest.approx(whole.mu**2, rel=1e-4)
    for part, share in zip(parts, shares, strict=True):
        assert part.mu**2 == pytest.approx(share * whole.mu**2, rel=1e-4)
        assert (part.delta, part.adjacency) == (delta, Adjacency.REPLACE)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"), [(1, 1 / 32561, 0.2880), (1, 1e-5, 0.2681), (10, 1 / 32561, 2.0893)]
)
def test_check_values(epsilon, delta, mu):
    assert Budget(epsilon, delta).mu == pytest.approx(mu, abs=5e-5)


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, "1", None])
def test_an_epsilon_that_is_none_is_refused(epsilon):
    with pytest.raises(SettingError, match="epsilon"):
        Budget(epsilon)


@pytest.mark.parametrize("delta", [1e-16, 1, -1e-9, 2, math.nan, "1e-6", None])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(SettingError, match="delta"):
        Budget(1.0, delta)


def test_adjacency_is_one_of_two_words():
    assert Budget(1.0, adjacency="replace").adjacency is Adjacency.REPLACE
    with pytest.raises(SettingError, match="add-remove or replace"):
        Budget(1.0, adjacency="swap")


@pytest.mark.parametrize("weights", [[], [0.0], [1.0, -1.0], [math.nan], [math.inf]], ids=str)
def test_weights_must_be_positive(weights):
    with pytest.raises(SettingError, match="weights"):
        Budget(1.0).split(weights)


def test_a_budget_is_a_value():
    budget = Budget(1.0, 1e-5)
    assert budget == Budget(1.0, 1e-5) == pickle.loads(pickle.dumps(budget))
    assert len({budget, Budget(1.0, 1e-5), Budget(1.0, 1e-6)}) == 2
    with pytest.raises(AttributeError):
        budget.epsilon = 2.0


def test_without_a_delta_epsilons_are_shared_out():
    pure = Budget(1.0, 0)
    assert pure.mu == 0
    parts = pure.split([3, 1])
    assert [part.epsilon for part in parts] == pytest.approx([0.75, 0.25])
    assert math.fsum(part.epsilon for part in parts) <= 1
    assert {part.delta for part in parts} == {0}
