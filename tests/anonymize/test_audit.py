"""Attack the door as a black box: can its answers on two neighbouring tables be told apart more often than claimed?

The attacker knows both tables, asks the same query of one of them many times over, and says "larger" whenever the
answer passes the middle between the two true answers: the best test there is against Gaussian noise. Clopper-Pearson
bounds on how often it is right and wrong give a lower bound on mu, and so on epsilon at the claimed delta (Nasr et al.
2023). The bound holds with confidence 1 - 1e-6: that is the false-alarm rate of "the claim is broken". With so many
runs the bound is above half of the claimed epsilon except with probability below 1e-6.
"""

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from threea.anonymize.noise import SecureNoise
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Features, Marginal, Stack
from threea.budget import Adjacency, Budget, epsilon_from
from threea.table.schema import Schema
from threea.testing import SilentNoise

FALSE_ALARM = 1e-6
CLAIMED_EPSILON, DELTA = 8.0, 1e-5
SCHEMA = Schema.of(
    {
        "sex": {"kind": "categorical", "categories": ["F", "M"], "nullable": False},
        "age": {"kind": "real", "lower": 0, "upper": 100, "nullable": False},
        "died": {"kind": "boolean", "nullable": False},
    }
)
COMMON = [{"sex": "F", "age": 30.0, "died": False}, {"sex": "M", "age": 60.0, "died": True}]
VICTIM, OTHER = {"sex": "M", "age": 1e6, "died": False}, {"sex": "F", "age": -5.0, "died": True}

MARGINALS = Stack(tuple(Marginal((SCHEMA[name].cells(4),)) for name in ("sex", "age", "died")))
SIGNED = Features(
    function=lambda chunk: np.where(chunk["died"], -1.0, 1.0) * 1e3, columns=("died",), shape=(1,), l2=1.0
)


def answers(rows, query, budget, runs, noise):
    """Ask one query many times, each time with the whole budget's noise; the audit does not care for the total."""
    each = Step(name="step", weight=1.0)
    event = Plan.calibrate(budget, [each]).lines[0].event
    whole = Plan.calibrate(
        Budget(epsilon_from(math.sqrt(runs) / event.noise_multiplier, DELTA), DELTA, budget.adjacency),
        [Step(name="step", weight=1.0, count=runs)],
    )
    table = open_table(pa.Table.from_pylist(rows), schema=SCHEMA, budget=whole.budget, noise=noise)
    charge = whole["step"]
    assert charge.event.noise_multiplier == pytest.approx(event.noise_multiplier, rel=1e-9)
    return np.array([table.measure(query, charge).value.ravel() for _ in range(runs)])


def proportion(hits, runs):
    """Return Clopper-Pearson bounds; each of the two used fails with probability FALSE_ALARM / 2."""
    low = stats.beta.ppf(FALSE_ALARM / 2, hits, runs - hits + 1) if hits else 0.0
    high = stats.beta.isf(FALSE_ALARM / 2, hits + 1, runs - hits) if hits < runs else 1.0
    return low, high


def audit(query, pair, adjacency=Adjacency.ADD_REMOVE, runs=1500, noise=None):
    """Return a lower bound on epsilon from answers on two tables."""
    budget = Budget(CLAIMED_EPSILON, DELTA, adjacency)
    # The attacker knows both tables, so the threshold is not fitted to the noisy answers.
    (lower,), (upper,) = (answers(rows, query, budget, 1, SilentNoise()) for rows in pair)
    middle = (upper + lower) @ (upper - lower) / 2
    before, after = (answers(rows, query, budget, runs, noise) @ (upper - lower) for rows in pair)
    right, _ = proportion(int(np.sum(after > middle)), runs)
    _, wrong = proportion(int(np.sum(before > middle)), runs)
    mu = stats.norm.ppf(right) - stats.norm.ppf(wrong)
    return epsilon_from(mu, DELTA) if mu > 0 else 0.0


ADDED = (COMMON, [*COMMON, VICTIM])
REPLACED = ([*COMMON, OTHER], [*COMMON, VICTIM])


def test_a_count_keeps_its_claim_and_no_more():
    assert CLAIMED_EPSILON / 2 < audit(Count(), ADDED) < CLAIMED_EPSILON


def test_a_stack_of_marginals_keeps_its_claim_and_no_more():
    """The victim adds to one cell of each marginal."""
    assert CLAIMED_EPSILON / 2 < audit(MARGINALS, ADDED) < CLAIMED_EPSILON


def test_a_replaced_row_keeps_its_claim_and_no_more():
    """Contributions that point apart: the worst case of replacement."""
    assert CLAIMED_EPSILON / 2 < audit(SIGNED, REPLACED, Adjacency.REPLACE) < CLAIMED_EPSILON


class HalvedNoise(SecureNoise):
    """A mutant: half the noise that was paid for."""

    def gaussian(self, sums, scale):
        return super().gaussian(sums, scale / 2)


@pytest.mark.parametrize("query", [Count(), MARGINALS], ids=["count", "marginals"])
def test_halved_noise_is_caught(query):
    assert audit(query, ADDED, runs=800, noise=HalvedNoise()) > CLAIMED_EPSILON
