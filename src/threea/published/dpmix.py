"""`dpmix-published`: each synthetic row is the mean of l rows drawn at random, plus noise, after its paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from threea.anonymize.accountant import epsilon_of
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.approximate.points import Points
from threea.approximate.random_mixing import Coordinates
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.published.exposed_rows import ExposedRows
from threea.table.schema import Schema

STEP, REASON = "mixtures", "DPMix as published"
_ORDERS = (*range(2, 17), *range(18, 33, 2), 40, 48, 64, 96, 128)
"""Orders of Rényi divergence that are tried; fewer than dp_accounting's own, which take five times as long. Chosen."""
_CLOSE = 1.01
"""The noise is at most so many times what the bound asks for. Chosen."""

ASSUMPTIONS = (
    "the number of rows of each class is taken as public: the noise is reckoned from it, and which classes have points "
    "tells which have rows",
    "a row is taken to change the mixtures of its own class only; one that changes its class moves two, and both sizes",
    "the bound is on replacing a row of a class of known size; the noise is the same under either adjacency",
    "a person's rows, where there may be several, are taken to be drawn into a mixture all together",
    "noise is drawn in floating point",
)
"""What the claim takes for granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomMixtures:
    """Draw l rows of a class without replacement, take their mean, add noise; again for each of T points.

    Args:
        points: T, for each class.
        mixing_degree: l; all rows of a class that has fewer.
    """

    points: int
    mixing_degree: int

    def __post_init__(self) -> None:
        for name in ("points", "mixing_degree"):
            value = getattr(self, name)
            if not (isinstance(value, int) and 1 <= value <= 100_000):
                raise SettingError(f"{name} ({value}) must be a whole number from 1 to 100000")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Reserve the budget for T mixtures; how far drawing hides a row is known once the rows have been counted."""
        return (Step(name=STEP, weight=1.0, count=self.points),)

    def fit(self, table: PrivateTable, plan: Plan) -> Points:
        """Read the rows and mix them.

        Cost:
            A `NonPrivate` event.
        """
        exposed, budget = ExposedRows.of(table, REASON), plan.budget
        columns = tuple(Coordinates(column) for column in exposed.columns)
        vectors = np.hstack([column.vectors(exposed.chunk[column.column.name]) for column in columns])
        epsilon = epsilon_of((plan[STEP].line,), budget.delta, budget.adjacency)
        # A column is between -1 and 1: replacing a row moves a sum by at most 2 in each.
        sensitivity = 2 * math.sqrt(len(columns)) * exposed.rows_per_unit
        classes, mixtures = np.unique(exposed.labels), []
        for c in classes:
            x_c = vectors[exposed.labels == c]
            l_c = min(self.mixing_degree, len(x_c))
            sigma = sensitivity / l_c * noise_multiplier(len(x_c), l_c, self.points, epsilon, budget.delta)
            for _ in range(self.points):
                drawn = exposed.rng.choice(len(x_c), l_c, replace=False, shuffle=False)
                mixtures.append(x_c[drawn].mean(axis=0) + sigma * exposed.rng.standard_normal(x_c.shape[1]))
        parts = np.split(np.array(mixtures), np.cumsum([column.size for column in columns])[:-1], axis=1)
        chunk = {
            column.column.name: column.draw(part, exposed.rng) for column, part in zip(columns, parts, strict=True)
        }
        if exposed.target:
            chunk[exposed.target.name] = np.repeat(classes, self.points)
        return Points(chunk)


def noise_multiplier(rows: int, drawn: int, count: int, epsilon: float, delta: float) -> float:
    """Return the noise, over a sum's sensitivity, with which `count` sums over fresh draws are (epsilon, delta)-DP.

    By Rényi differential privacy of draws without replacement, for neighbours in which a row is replaced.

    Reference:
        Wang, Balle and Kasiviswanathan 2019, Subsampled Rényi differential privacy and analytical moments accountant.
    """
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    def cost(noise: float) -> float:
        gaussian = dp_accounting.GaussianDpEvent(noise)
        sampled = dp_accounting.SampledWithoutReplacementDpEvent(rows, drawn, gaussian) if drawn < rows else gaussian
        accountant = RdpAccountant(_ORDERS, dp_accounting.NeighboringRelation.REPLACE_ONE)
        return float(accountant.compose(sampled, count).get_epsilon(delta))

    low = high = 1.0
    while cost(high) > epsilon:
        low, high = high, 2 * high
    while cost(low) <= epsilon:
        low, high = low / 2, low
    while high > _CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if cost(middle) <= epsilon else (middle, high)
    return high


@dataclass(frozen=True, kw_only=True)
class DPMixPublished(Recipe):
    """Mix a fixed number of random rows and add noise, after the paper.

    1. Draw l rows at random, without replacement.
    2. Their mean, plus Gaussian noise of standard deviation sigma on every number, is a synthetic row.
    3. Do so T times. Each row is in a mixture with probability l/N, and sigma is such that T draws together are
       (epsilon, delta)-DP.

    What was chosen here, because the paper's way does not fit a table, or to have one accounting that is known to hold:

    - Draws add up by Rényi accounting of draws without replacement (Wang, Balle and Kasiviswanathan 2019), for
      neighbours in which a row is replaced.
    - Its labels are mixed over all classes, as one-hot vectors, and get noise too: a model learns from half labels. A
      listed target holds no half label, so here rows are mixed within a class, N is the class's number of rows, and a
      point has the class of its rows. A numeric target is mixed like any column.
    - Its numbers are pixels. Here a column's place between its public bounds is mixed, a listed value by its code;
      special and missing values count as shares, and are drawn with these.
    - It seeks the l that is best on a task. That would be one more look at the rows; here l is a setting.

    Args:
        points: T, how many rows to make of each class.
        mixing_degree: l, how many rows a mixture has.

    Example:
        >>> DPMixPublished().guarantee.value
        'claimed'

    Reference:
        Lee, Kim, Lee, Suh and Ramchandran 2019, Synthesizing differentially private datasets using random mixing.
    """

    name: ClassVar[str] = "dpmix-published"
    summary: ClassVar[str] = "random mixing of a fixed number of rows, after its paper, without a proof"
    guarantee: ClassVar[Guarantee] = Guarantee.CLAIMED
    assumptions: ClassVar[tuple[str, ...]] = ASSUMPTIONS
    fixed: ClassVar[bool] = True
    points: int = 100
    mixing_degree: int = 100

    @property
    def approximate(self) -> RandomMixtures:
        """All steps."""
        return RandomMixtures(points=self.points, mixing_degree=self.mixing_degree)
