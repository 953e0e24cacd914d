"""The accountant: never below the truth, close to it, bounded in memory at any epsilon."""

import inspect
import itertools
import math
import tracemalloc
from math import comb

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.events import Gaussian, NonPrivate, PartitionSelection, Pure, Sampled, from_json, to_json
from threea.anonymize.plan import PARTITION_SELECTION_SHARE, Plan, Step
from threea.budget import Adjacency, Budget, choice_range, delta_from, epsilon_from, mu_from
from threea.errors import SettingError, ThreeaError

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
RELATIONS = {
    ADD_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    REPLACE: dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def epsilon(*events, delta=1e-6, adjacency=ADD_REMOVE):
    lines = [Line(str(number), event) for number, event in enumerate(events)]
    return epsilon_of(lines, delta, adjacency)


def steps(**kinds):
    return [Step(name=kind, weight=weight, kind=globals()[kind]) for kind, weight in kinds.items()]


# The closed form of Gaussian sums.


@pytest.mark.parametrize("target", [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_gaussian_epsilon_agrees_with_privacy_loss_distributions(target, delta):
    mu = mu_from(target, delta)
    distribution = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=target / 2e4)
    assert epsilon(Gaussian(1 / mu), delta=delta) == pytest.approx(distribution.get_epsilon_for_delta(delta), rel=1e-3)


def test_gaussians_compose_by_adding_mu_squared():
    together = epsilon(Gaussian(3.0), Gaussian(4.0), Gaussian(12.0))
    mu = math.sqrt(1 / 9 + 1 / 16 + 1 / 144)
    assert together == pytest.approx(epsilon_from(mu, 1e-6), rel=1e-12)
    assert epsilon_of([Line("many", Gaussian(8.0), 16)], 1e-6, ADD_REMOVE) == pytest.approx(
        epsilon(Gaussian(2.0)), rel=1e-12
    )


@pytest.mark.parametrize(
    ("target", "delta", "mu"), [(1, 1 / 32561, 0.2880), (1, 1e-5, 0.2681), (10, 1 / 32561, 2.0893)]
)
def test_known_values(target, delta, mu):
    """Published with the ClustMix seed, to four decimals."""
    assert mu_from(target, delta) == pytest.approx(mu, abs=5e-5)


# The other events.


@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(("rate", "multiplier", "count"), [(0.01, 1.0, 300), (0.2, 2.0, 20), (0.9, 5.0, 3)])
def test_samples_are_accounted_as_dp_accounting_does(adjacency, rate, multiplier, count):
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
    if adjacency is REPLACE:
        # Its accountant has no event for this relation; its distribution of the pair has.
        one = pld.from_gaussian_mechanism(multiplier, sampling_prob=rate, neighboring_relation=RELATIONS[REPLACE])
        expected = one.self_compose(count).get_epsilon_for_delta(1e-6)
    else:
        accountant = PLDAccountant(RELATIONS[adjacency])
        expected = accountant.compose(event, count).get_epsilon(1e-6)
    ours = epsilon_of([Line("samples", Sampled(rate, multiplier), count)], 1e-6, adjacency)
    assert ours == pytest.approx(expected, rel=1e-2)


def test_replacing_a_sampled_unit_costs_more_than_removing_it():
    line = [Line("samples", Sampled(0.1, 1.0), 10)]
    assert epsilon_of(line, 1e-6, REPLACE) > epsilon_of(line, 1e-6, ADD_REMOVE)


def test_a_sample_of_everything_is_a_gaussian():
    assert epsilon(Sampled(1.0, 4.0)) == pytest.approx(epsilon(Gaussian(4.0)), rel=1e-3)
    assert epsilon(Sampled(1.0, 4.0), adjacency=REPLACE) == pytest.approx(epsilon(Gaussian(2.0)), rel=1e-3)


def optimal_composition(each, count, delta):
    """Return the least epsilon of `count` epsilon-DP mechanisms (Kairouz, Oh and Viswanath 2015, Theorem 3.3)."""

    def enough(total):
        terms = (
            comb(count, wrong) * max(math.exp((count - wrong) * each) - math.exp(total + wrong * each), 0.0)
            for wrong in range(count + 1)
        )
        return math.fsum(terms) / (1 + math.exp(each)) ** count <= delta

    low, high = 0.0, count * each
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@pytest.mark.parametrize(
    ("each", "count", "delta"), [(0.1, 4, 1e-3), (0.5, 10, 1e-6), (0.05, 50, 1e-5), (2.0, 3, 1e-9)]
)
def test_pure_events_compose_as_well_as_any_can(each, count, delta):
    best = optimal_composition(each, count, delta)
    ours = epsilon_of([Line("choices", Pure(each), count)], delta, ADD_REMOVE)
    assert best * (1 - 1e-9) <= ours <= best * 1.01


def test_one_pure_event_costs_its_epsilon_at_most():
    assert 0.99 < epsilon(Pure(1.0), delta=1e-12) <= 1.001


def test_thresholds_eat_delta():
    assert epsilon(PartitionSelection(4.0, 4e-7)) == epsilon(Gaussian(4.0), delta=6e-7)
    assert epsilon(PartitionSelection(4.0, 4e-7), PartitionSelection(4.0, 4e-7)) == pytest.approx(
        epsilon(Gaussian(4.0 / math.sqrt(2)), delta=2e-7), rel=1e-9
    )
    assert epsilon(PartitionSelection(4.0, 1e-6)) == math.inf


def test_rows_handed_out_cost_everything():
    assert epsilon(Gaussian(100.0), NonPrivate("a published method")) == math.inf


def test_no_events_cost_nothing():
    assert epsilon() == 0.0


EVENTS = st.one_of(
    st.builds(Gaussian, st.floats(0.5, 50)),
    st.builds(Pure, st.floats(0.01, 2)),
    st.builds(Sampled, st.sampled_from([0.01, 0.3, 1.0]), st.floats(0.5, 50)),
    st.builds(PartitionSelection, st.floats(0.5, 50), st.floats(1e-12, 1e-7)),
)


@settings(max_examples=10, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=3), EVENTS, st.sampled_from([ADD_REMOVE, REPLACE]))
def test_another_event_never_makes_it_cheaper(events, another, adjacency):
    # The grid of the whole is coarser than the grid of a part, so the part may be rounded up by less.
    before, after = epsilon(*events, adjacency=adjacency), epsilon(*events, another, adjacency=adjacency)
    assert after >= before * (1 - 1e-3)


@settings(max_examples=10, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.floats(1e-7, 1e-3), st.floats(1.1, 100))
def test_a_larger_delta_never_costs_more(events, delta, factor):
    assert epsilon(*events, delta=delta * factor) <= epsilon(*events, delta=delta)


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from([Gaussian(3.0), Sampled(0.3, 3.0), PartitionSelection(3.0, 1e-8), Pure(0.3)]), st.integers(1, 30)
)
def test_more_of_an_event_costs_more(event, count):
    def cost(times):
        return epsilon_of([Line("step", event, times)], 1e-6, ADD_REMOVE)

    assert cost(count + 1) > cost(count)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(-1.0),
        lambda: Gaussian(0.0),
        lambda: Gaussian(math.nan),
        lambda: Pure(-1.0),
        lambda: Pure(math.nan),
        lambda: Sampled(0.0, 1.0),
        lambda: Sampled(1.5, 1.0),
        lambda: Sampled(0.5, -1.0),
        lambda: PartitionSelection(1.0, -0.5),
        lambda: PartitionSelection(1.0, math.nan),
        lambda: PartitionSelection(-1.0, 1e-9),
    ],
    ids=lambda make: inspect.getsource(make).strip(" \n,").removeprefix("lambda: "),
)
def test_an_event_that_makes_no_sense_is_never_cheap(make):
    """Beside a costly event, a nonsensical one either fails, so that nothing is answered, or lowers no cost."""
    try:
        total = epsilon(Gaussian(0.5), make())
    except Exception:
        total = math.inf
    assert total >= epsilon(Gaussian(0.5))


def test_a_count_that_makes_no_sense_is_never_cheap():
    costly = [Line("costly", Gaussian(0.5))]
    try:
        total = epsilon_of([*costly, Line("refund", Gaussian(0.6), -1)], 1e-6, ADD_REMOVE)
    except ThreeaError:
        total = math.inf
    assert total >= epsilon_of(costly, 1e-6, ADD_REMOVE)


@given(EVENTS)
def test_events_survive_json(event):
    assert from_json(to_json(event)) == event


# Calibration.

MIXES = [
    steps(Gaussian=1.0),
    [Step(name="counts", weight=1.0), Step(name="gradients", weight=2.0, count=100)],
    steps(Gaussian=1.0, Pure=0.2),
    steps(Pure=1.0),
    steps(Gaussian=0.85, PartitionSelection=0.15),
    [
        *steps(Gaussian=1.0, Pure=0.3, PartitionSelection=0.2),
        Step(name="gradients", weight=1.0, kind=Sampled, rate=0.2, count=5),
    ],
]


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: "+".join(step.kind.__name__ for step in mix))
@pytest.mark.parametrize(("target", "adjacency"), itertools.product([0.01, 0.1, 1.0, 10.0], [ADD_REMOVE, REPLACE]))
def test_calibration_uses_up_the_budget_and_no_more(mix, target, adjacency):
    plan = Plan.calibrate(Budget(target, 1e-6, adjacency), mix)
    assert 0.99 * target <= plan.epsilon <= target
    assert plan.epsilon == epsilon_of(plan.lines, 1e-6, adjacency)
    assert [line.count for line in plan.lines] == [step.count for step in mix]
    assert [type(line.event) for line in plan.lines] == [step.kind for step in mix]


def test_weights_share_out_mu_squared():
    plan = Plan.calibrate(Budget(1.0), [Step(name="a", weight=3.0), Step(name="b", weight=1.0, count=4)])
    a, b = (line.event.noise_multiplier for line in plan.lines)
    assert (1 / a**2) / (4 / b**2) == pytest.approx(3.0)
    assert [line.share for line in plan.lines] == [0.75, 0.25]


def test_thresholds_take_their_share_of_delta():
    plan = Plan.calibrate(
        Budget(1.0, 1e-6), [*steps(Gaussian=1.0), Step(name="t", weight=1.0, kind=PartitionSelection, count=2)]
    )
    assert plan["t"].event.delta * 2 == pytest.approx(PARTITION_SELECTION_SHARE * 1e-6)


@pytest.mark.parametrize("target", [0.01, 100.0])
def test_calibration_reaches_the_ends_of_the_scale(target):
    plan = Plan.calibrate(Budget(target, 1e-6), steps(Gaussian=1.0, Pure=0.5, PartitionSelection=0.1))
    assert 0.99 * target <= plan.epsilon <= target


@pytest.mark.parametrize(
    ("lines", "least", "most"),
    [
        ([Line("noisy", Sampled(0.01, 50.0)), Line("choice", Pure(1e-4))], 1e-4, 0.01),
        ([Line("bare", Sampled(0.01, 0.1))], 80.0, 150.0),
    ],
    ids=["tiny epsilon", "huge epsilon"],
)
def test_memory_stays_bounded_at_any_epsilon(lines, least, most):
    """Peers' accountants took tens of gigabytes at tiny epsilon; 20,000 points of a grid need a few megabytes."""
    # What is loaded only once is not counted.
    epsilon(Sampled(0.5, 1.0))
    tracemalloc.start()
    total = epsilon_of(lines, 1e-6, ADD_REMOVE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert least < total < most
    assert peak < 30e6


def test_plans_are_refused_that_no_ledger_could_follow():
    with pytest.raises(SettingError, match="each name once"):
        Plan.calibrate(Budget(1.0), [Step(name="a", weight=1.0), Step(name="a", weight=1.0)])
    with pytest.raises(SettingError, match="named"):
        Plan.calibrate(Budget(1.0), [])
    with pytest.raises(SettingError, match="NonPrivate"):
        Plan.calibrate(Budget(1.0), [Step(name="a", weight=1.0, kind=NonPrivate)])
    with pytest.raises(KeyError):
        Plan.calibrate(Budget(1.0), steps(Gaussian=1.0))["another"]


@pytest.mark.parametrize(
    "wrong",
    [{"weight": 0.0}, {"weight": math.nan}, {"weight": -1.0}, {"count": 0}, {"rate": 0.0}, {"rate": 1.1}],
    ids=str,
)
def test_steps_are_checked_when_made(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Step(**{"name": "a", "weight": 1.0, **wrong})


# Choices and Gaussians together, in closed form.

CHOICES = [(0.2, 0.3, 1), (0.5, 0.1, 12), (1.0, 0.02, 200), (0.05, 1.0, 3), (3.0, 0.5, 20), (0.01, 0.002, 40)]


@pytest.mark.parametrize(("mu", "each", "count"), CHOICES)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_choices_beside_gaussians_agree_with_privacy_loss_distributions(mu, each, count, delta):
    """Between a distribution that is rounded down and one that is rounded up, on a fine grid."""
    ours = epsilon_of([Line("sums", Gaussian(1 / mu)), Line("choices", Pure(each), count)], delta, ADD_REMOVE)
    grid = max(ours, 1e-3) / 2e4
    bounds = []
    for pessimistic in (False, True):
        fine = {"value_discretization_interval": grid, "pessimistic_estimate": pessimistic}
        both = pld.from_gaussian_mechanism(1 / mu, **fine).compose(
            pld.from_randomized_response(2 / (1 + math.exp(each)), 2, **fine).self_compose(count)
        )
        bounds.append(both.get_epsilon_for_delta(delta))
    assert bounds[0] * (1 - 1e-6) <= ours <= bounds[1] * (1 + 1e-6)


@pytest.mark.parametrize(("each", "count", "delta"), [(0.1, 4, 1e-3), (0.5, 10, 1e-6), (2.0, 3, 1e-9)])
def test_choices_alone_compose_exactly(each, count, delta):
    best = optimal_composition(each, count, delta)
    ours = epsilon_of([Line("choices", Pure(each), count)], delta, ADD_REMOVE)
    assert best * (1 - 1e-12) <= ours <= best * (1 + 1e-8)


def test_lines_of_choices_compose_as_one_line_would():
    together = epsilon_of([Line("all", Pure(0.2), 12), Line("sums", Gaussian(2.0))], 1e-6, ADD_REMOVE)
    apart = [Line("some", Pure(0.2), 5), Line("others", Pure(0.2), 7), Line("sums", Gaussian(2.0))]
    assert epsilon_of(apart, 1e-6, ADD_REMOVE) == pytest.approx(together, rel=1e-8)


def test_very_many_choices_are_composed_on_a_grid():
    """The two ways agree where they meet, and the grid's is never below."""
    one_line = [Line("sums", Gaussian(5.0)), Line("choices", Pure(0.01), 100)]
    lines = [Line("sums", Gaussian(5.0)), *(Line(f"choices {n}", Pure(0.01), 25) for n in range(4))]
    exact, on_a_grid = (epsilon_of(each, 1e-6, ADD_REMOVE) for each in (one_line, lines))
    assert exact <= on_a_grid <= exact * 1.01


@pytest.mark.parametrize("each", [30.0, 800.0, 1e5])
@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_large_choices_cost_about_their_epsilon(each, mu):
    lines = [Line("choice", Pure(each)), *([Line("sums", Gaussian(1 / mu))] if mu else [])]
    assert 0.99 * each <= epsilon_of(lines, 1e-6, ADD_REMOVE) <= each + epsilon_from(mu or 1e-3, 1e-6) + 1e-3


def test_without_a_delta_epsilons_add_up_and_nothing_else_is_allowed():
    budget = Budget(1.0, 0)
    asked = [Step(name="a", weight=3, kind=Pure, count=7), Step(name="b", weight=1, kind=Pure)]
    lines = Plan.calibrate(budget, asked).lines
    assert [line.event.epsilon * line.count for line in lines] == pytest.approx([0.75, 0.25])
    assert 0.99 < epsilon_of(lines, 0.0, ADD_REMOVE) <= 1.0
    for other in (Gaussian(1.0), Sampled(0.5, 1.0), PartitionSelection(1.0, 1e-9), NonPrivate("test")):
        assert epsilon(Pure(0.1), other, delta=0.0) == math.inf
    for kind, reason in (
        (Gaussian, "no Gaussian noise"),
        (Sampled, "no Gaussian"),
        (PartitionSelection, "finding the schema"),
    ):
        with pytest.raises(SettingError, match=f"delta \\(0\\).*{reason}"):
            Plan.calibrate(budget, [*asked, Step(name="c", weight=1, kind=kind, rate=0.5)])


@pytest.mark.parametrize("mu", [1e-3, 0.1, 0.5, 1.0, 3.0, 9.9, 10.1, 30.0])
def test_losses_within_the_range_are_covered_by_gdp(mu):
    """Every pair whose losses lie in a range is told apart no better than by mu-GDP, and one pair just as well."""
    normal = mpmath.mpf(mu)
    width = mpmath.mpf(choice_range(mu))
    worst = mpmath.mpf(0)
    with mpmath.workdps(150):
        for logit in [-30, -5, -1, -0.1, 0, 0.1, 1, 5, 30]:
            p, q = (1 / (1 + mpmath.exp(-(logit + sign * width / 2))) for sign in (1, -1))
            between = _quantile(p) - _quantile(q)
            assert between <= normal
            worst = max(worst, between)
    assert worst > normal * (1 - mpmath.mpf(1e-6))


def _quantile(share):
    """Return the normal quantile, to as many digits as are worked with."""
    if share > 0.5:
        return -_quantile(1 - share)
    start = -mpmath.sqrt(2 * abs(mpmath.log(share))) if share < 0.01 else mpmath.mpf(0)
    return mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x)) - mpmath.log(share), start)


@pytest.mark.parametrize("mu", [0.2, 1.0, 4.0])
def test_the_exponential_mechanism_is_as_private_as_gdp_says(mu):
    """Exact deltas of small choices on neighbouring scores, at every epsilon, are at most those of mu-GDP."""
    rng = np.random.default_rng(0)
    scale = 2 / choice_range(mu)
    for _ in range(200):
        scores = rng.uniform(0, 6 * scale, rng.integers(2, 6))
        moved = scores + rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], scores.shape)
        before, after = (np.exp((values - values.max()) / scale) for values in (scores, moved))
        before, after = before / before.sum(), after / after.sum()
        for epsilon in (-1.0, 0.0, 0.1, 0.5, 1.0, 3.0):
            delta = np.maximum(before - math.exp(epsilon) * after, 0).sum()
            assert delta <= delta_from(mu, epsilon) + 1e-12
