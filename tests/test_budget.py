"""Budgets: the closed forms of Gaussian privacy agree with published values and one another; nonsense is refused."""

import dataclasses
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from threea.budget import Adjacency, Budget, check_delta, check_epsilon, delta_from, epsilon_from, mu_from
from threea.errors import SettingError

# No deadline: a busy machine is no failure.
LAW = settings(max_examples=100, deadline=None)
EPSILONS = st.floats(0.01, 50.0)
DELTAS = st.floats(-12.0, -1.0).map(lambda power: 10.0**power)
MUS = st.floats(0.01, 8.0)
ADULT_ROWS = 32561


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [(1, 1 / ADULT_ROWS, 0.2880), (1, 1e-5, 0.2681), (10, 1 / ADULT_ROWS, 2.0893)],
)
def test_mu_agrees_with_the_published_check_values(epsilon: float, delta: float, mu: float) -> None:
    assert mu_from(epsilon, delta) == pytest.approx(mu, abs=5e-5)
    assert Budget(epsilon, delta).mu == mu_from(epsilon, delta)


def smallest_mixture(classes: int, features: int, mu: float, sigma: float) -> int:
    """Return how many rows ClustMix must mix for its noise to stay at sigma."""
    return math.ceil(math.sqrt(classes * features) / (mu * sigma))


def test_mu_gives_the_mixture_sizes_of_clustmix() -> None:
    assert smallest_mixture(2, 14, mu_from(1, 1 / ADULT_ROWS), 0.2) == 92
    assert smallest_mixture(10, 784, mu_from(1, 1e-5), 0.2) == pytest.approx(1652, abs=1)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 0.0), (0.3, 0.5), (1.0, 1.0), (2.5, 0.1), (2.5, 9.0)])
def test_delta_is_the_overlap_of_two_gaussians(mu: float, epsilon: float) -> None:
    """The definition: how much mass N(mu, 1) has above e^epsilon times N(0, 1)."""
    crossing = epsilon / mu + mu / 2
    excess, _ = quad(lambda x: norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), crossing, crossing + 40, limit=200)
    assert delta_from(mu, epsilon) == pytest.approx(excess, rel=1e-6)


@LAW
@given(EPSILONS, DELTAS)
def test_mu_from_is_inverse_to_delta_from(epsilon: float, delta: float) -> None:
    mu = mu_from(epsilon, delta)
    assert delta_from(mu, epsilon) == pytest.approx(delta, rel=1e-7)
    assert delta_from(mu, epsilon) <= delta, "rounded down, so that the budget is never exceeded"


@LAW
@given(EPSILONS, DELTAS)
def test_epsilon_from_is_inverse_to_mu_from(epsilon: float, delta: float) -> None:
    found = epsilon_from(mu_from(epsilon, delta), delta)
    assert found == pytest.approx(epsilon, rel=1e-7)
    assert found <= epsilon, "what a budget affords is within the budget"


@LAW
@given(MUS, DELTAS)
def test_epsilon_from_keeps_delta(mu: float, delta: float) -> None:
    epsilon = epsilon_from(mu, delta)
    assert delta_from(mu, epsilon) <= delta
    if epsilon > 0:
        assert delta_from(mu, epsilon * (1 - 1e-6)) > delta, "no larger than need be"


def test_epsilon_is_zero_where_delta_covers_everything() -> None:
    assert epsilon_from(0.1, 2 * delta_from(0.1, 0.0)) == 0.0


@LAW
@given(EPSILONS, DELTAS, st.floats(1.001, 10.0))
def test_more_budget_affords_a_larger_mu(epsilon: float, delta: float, factor: float) -> None:
    assert mu_from(epsilon * factor, delta) > mu_from(epsilon, delta)
    assert mu_from(epsilon, min(delta * factor, 0.999)) > mu_from(epsilon, delta)


@LAW
@given(MUS, DELTAS, st.floats(0.0, 20.0), st.floats(1.001, 10.0))
def test_a_larger_mu_costs_more(mu: float, delta: float, epsilon: float, factor: float) -> None:
    assert delta_from(mu * factor, epsilon) >= delta_from(mu, epsilon)
    assert epsilon_from(mu * factor, delta) >= epsilon_from(mu, delta)


@LAW
@given(MUS, st.floats(0.0, 20.0), st.floats(0.001, 20.0))
def test_delta_falls_as_epsilon_grows(mu: float, epsilon: float, more: float) -> None:
    assert 0.0 <= delta_from(mu, epsilon + more) <= delta_from(mu, epsilon) <= 1.0


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 700.0, 1e4, 1e8])
@pytest.mark.parametrize("delta", [1e-300, 1e-15, 1e-6, 0.5, 0.999999])
def test_extreme_budgets_have_a_mu(epsilon: float, delta: float) -> None:
    mu = Budget(epsilon, delta).mu
    assert math.isfinite(mu)
    assert mu > 0
    assert delta_from(mu, epsilon) <= delta


def test_rho_is_half_the_square_of_mu() -> None:
    assert Budget(2.0).rho == Budget(2.0).mu ** 2 / 2


# A part whose epsilon at this delta is 0 is no budget: shares are bounded from below, and delta from above.
@LAW
@given(
    st.floats(0.1, 50.0),
    st.floats(-12.0, -4.0).map(lambda power: 10.0**power),
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=6),
    st.sampled_from(list(Adjacency)),
)
def test_parts_of_a_split_compose_to_the_whole(
    epsilon: float, delta: float, weights: list[float], adjacency: Adjacency
) -> None:
    whole = Budget(epsilon, delta, adjacency)
    parts = whole.split(weights)
    assert math.fsum(part.mu**2 for part in parts) == pytest.approx(whole.mu**2, rel=1e-6)
    assert [part.mu**2 / whole.mu**2 for part in parts] == pytest.approx(
        [weight / math.fsum(weights) for weight in weights], rel=1e-6
    )
    assert {(part.delta, part.adjacency) for part in parts} == {(delta, adjacency)}


def test_a_split_in_one_part_is_the_budget() -> None:
    (part,) = Budget(1.0, 1e-5).split([3.0])
    assert part.epsilon == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("weights", [[], [0.0], [1.0, -1.0], [1.0, math.nan], [math.inf, 1.0]])
def test_weights_that_cannot_share_a_budget_are_refused(weights: list[float]) -> None:
    with pytest.raises(SettingError, match=r"^weights .* must be positive numbers$"):
        Budget(1.0).split(weights)


@pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, math.nan, math.inf, -math.inf, "1", None])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon: Any) -> None:
    for make in (Budget, check_epsilon):
        with pytest.raises(SettingError) as refusal:
            make(epsilon)
        assert str(refusal.value) == f"epsilon ({epsilon}) must be a finite number > 0; 1 is a common choice"


@pytest.mark.parametrize("delta", [0, 0.0, 1, 1.0, -1e-6, 2.0, math.nan, math.inf, "1e-6", None])
def test_a_delta_that_is_no_budget_is_refused(delta: Any) -> None:
    for make in (lambda value: Budget(1.0, value), check_delta):
        with pytest.raises(SettingError) as refusal:
            make(delta)
        message = str(refusal.value)
        assert message.startswith(f"delta ({delta}) must be > 0 and < 1; ")
        assert "\n" not in message


def test_an_unknown_adjacency_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^adjacency \(swap\) must be add-remove or replace$"):
        Budget(1.0, 1e-6, "swap")  # type: ignore[arg-type]


def test_a_budget_is_a_value() -> None:
    budget = Budget(1.0, 1e-5, "replace")  # type: ignore[arg-type]
    assert budget.adjacency is Adjacency.REPLACE
    assert budget == Budget(1.0, 1e-5, Adjacency.REPLACE) != Budget(1.0, 1e-5)
    assert pickle.loads(pickle.dumps(budget)) == budget
    assert hash(budget) == hash(dataclasses.replace(budget))
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 2.0  # type: ignore[misc]
