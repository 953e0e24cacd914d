"""Clusters of at least l_min rows each: ClustMix's Approximate stage as published.

It reads the rows, so what is made of them has no proven guarantee. The scalar that rules everything is
mu = sqrt(C*D) / (l*sigma) (Theorem 2, Eq. 7): the plan turns (epsilon, delta) into mu, and with it a largest standard
deviation sigma_max says how many rows a cluster needs, and the number of its rows says how much noise its mean gets.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian
from threea.anonymize.plan import Plan, Step
from threea.errors import InternalError, SettingError
from threea.model_summary import ModelSummary
from threea.published.constrained_gmm import COVARIANCES, Covariance, constrained_means, means, mixture
from threea.published.exposed_rows import ExposedRows
from threea.published.scaling import SCALINGS, Floats, Name, Scaling
from threea.published.size_constrained_assignment import NoSolution
from threea.table.conditions import Given
from threea.table.schema import Chunk, Schema

Integers = NDArray[np.int64]
Grouping = Literal["constrained", "random"]
STEP, REASON = "mixtures", "ClustMix as published"
MOST_CELLS, MOST_CLUSTERS = 1_000_000, 100
"""Rows times clusters, and clusters, of one assignment; a class with more is cut into more slices. Chosen: more would
take minutes and gigabytes."""


def noise_of(rows: ExposedRows, plan: Plan) -> float:
    """Return sigma * l: the noise on a mean of l rows has this standard deviation over l.

    Eq. 7 has mu = sqrt(C*D) / (l*sigma), for C classes and D columns; the plan says which mu is (epsilon, delta).
    """
    event = plan[STEP].event
    assert isinstance(event, Gaussian)
    # Eq. 7 is about one row; a unit may have several, all in one cluster.
    return math.sqrt(rows.classes * len(rows.columns)) * rows.rows_per_unit * event.noise_multiplier


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Clusters:
    """Private rows in clusters, not anonymized yet: what an Adapt stage gets, and nothing that may be released.

    Args:
        exposed: The rows.
        sigma_l: sigma * l, by which noise is reckoned.
        scaling: How they become points of the unit cube, and back.
        values: These points.
        regions: Each row's slice; clusters lie within one.
        memberships: Each row's cluster.
        l_min: How many rows a cluster has at least; a class with fewer is one cluster.
    """

    exposed: ExposedRows
    sigma_l: float
    scaling: Scaling
    values: Floats
    regions: Integers
    memberships: Integers
    l_min: int

    @property
    def centroids(self) -> Floats:
        """The clusters' means."""
        return means(self.values, self.memberships)

    @property
    def labels(self) -> Integers:
        """The clusters' classes."""
        return self.exposed.labels[self._firsts]

    @property
    def slices(self) -> Integers:
        """The clusters' slices."""
        return self.regions[self._firsts]

    @property
    def blocks(self) -> list[tuple[Integers, Integers]]:
        """Which rows and which clusters belong together, by class and slice."""
        return [(rows, np.unique(self.memberships[rows])) for rows in _blocks(self.exposed.labels, self.regions)]

    @property
    def _firsts(self) -> Integers:
        return np.unique(self.memberships, return_index=True)[1]

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.memberships.max()) + 1

    @property
    def summary(self) -> ModelSummary:
        """Nothing: there are no noisy answers."""
        return ModelSummary()

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Refuse: these are means of private rows without noise.

        Raises:
            InternalError: Always.
        """
        raise InternalError("clusters must be anonymized before anything is drawn from them")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeConstrained:
    """A mixture of Gaussians whose components have at least l_min rows each, for every class (Algorithm 2, to line 9).

    Maximizes Eq. 3 by turns: the parameters of each component given its rows, then the rows of each component given
    the parameters, exactly, under the constraint. A class gets as many components as its rows allow; with fewer rows
    than l_min it is a single one, which then gets more noise than sigma_max. Rows without a class are left out. Where
    the target is a number, or there is none, all rows are one class and the target is a column like others.

    The rows are first cut into slices by a random feature, at the values of rows drawn uniformly. A slice with too few
    rows of a class leaves them to the one that has most of them. Slices that would take too long are cut again.

    Args:
        sigma_max: The largest standard deviation that the noise may have, where all columns reach from 0 to 1.
        scaling: `minmax` or `quantile`.
        slices: How many slices at least.
        covariance: Of a component: `isotropic`, `diagonal` or `full`.
        clusters: `constrained`, or `random`: rows of a class are put together at random, to see what clusters add.
        timeout: Seconds for the components of a class in a slice; then constrained k-means does it instead.

    Reference:
        Madl, Xu, Choudhury, Howard 2023, Algorithm 2; Jitta and Klami 2018.
    """

    sigma_max: float = 0.05
    scaling: Name = "quantile"
    slices: int = 1
    covariance: Covariance = "isotropic"
    clusters: Grouping = "constrained"
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma_max < math.inf:
            raise SettingError(f"sigma_max ({self.sigma_max}) must be a number > 0")
        if self.scaling not in SCALINGS:
            raise SettingError(f"scaling ({self.scaling}) must be one of {', '.join(SCALINGS)}")
        if self.covariance not in COVARIANCES:
            raise SettingError(f"covariance ({self.covariance}) must be one of {', '.join(COVARIANCES)}")
        if self.clusters not in get_args(Grouping):
            raise SettingError(f"clusters ({self.clusters}) must be constrained or random")
        if self.slices < 1:
            raise SettingError(f"slices ({self.slices}) must be at least 1")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Plan the noise of the cluster means, as if each row could change one mean only."""
        return (Step(name=STEP, weight=1.0),)

    def fit(self, table: PrivateTable, plan: Plan) -> Clusters:
        """Read the rows and cluster them.

        Cost:
            A `NonPrivate` event.
        """
        exposed = ExposedRows.of(table, REASON)
        return self.cluster(exposed, noise_of(exposed, plan))

    def cluster(self, exposed: ExposedRows, sigma_l: float) -> Clusters:
        """Cluster rows that were read."""
        scaling = Scaling.of(self.scaling, exposed.columns, exposed.chunk)
        values, labels, rng = scaling.encode(exposed.chunk), exposed.labels, exposed.rng
        l_min = max(math.ceil(sigma_l / self.sigma_max), 1)
        regions = sliced(values, labels, self.slices, l_min, rng)
        memberships = np.zeros(len(values), np.int64)
        count = 0
        for rows in _blocks(labels, regions):
            n = max(len(rows) // l_min, 1)
            memberships[rows] = count + self._members(values[rows], n, l_min, rng)
            count += n
        return Clusters(
            exposed=exposed,
            sigma_l=sigma_l,
            scaling=scaling,
            values=values,
            regions=regions,
            memberships=memberships,
            l_min=l_min,
        )

    def _members(self, values: Floats, n: int, l_min: int, rng: np.random.Generator) -> Integers:
        """Return the cluster of each row of a class in a region, from 0 to n - 1."""
        if self.clusters == "random":
            return rng.permutation(np.arange(len(values)) % n)
        if n == 1:
            return np.zeros(len(values), np.int64)
        try:
            return mixture(values, n, l_min, self.covariance, rng, time.monotonic() + self.timeout)
        except (NoSolution, np.linalg.LinAlgError):
            return constrained_means(values, n, l_min, rng)


def _blocks(labels: Integers, regions: Integers) -> list[Integers]:
    """Return the rows of each class in each region, where there are any."""
    _, block = np.unique(labels * (regions.max() + 1) + regions, return_inverse=True)
    return np.split(np.argsort(block, kind="stable"), np.cumsum(np.bincount(block))[:-1])


def sliced(values: Floats, labels: Integers, slices: int, l_min: int, rng: np.random.Generator) -> Integers:
    """Cut the rows into regions at random, and return each row's.

    Guarantees:
        - A class has at least `l_min` rows in a region, or none, or less than that in all.
    """

    def cut(rows: Integers, count: int) -> list[Integers]:
        # Equal values are cut between at random, or a column of few values could not be cut at all.
        feature = values[rows, rng.integers(values.shape[1])]
        order = rows[np.lexsort((rng.random(len(rows)), feature))]
        cuts = np.sort(rng.choice(len(rows) - 1, min(count, len(rows)) - 1, replace=False)) + 1
        return np.split(order, cuts)

    too_many = min(math.isqrt(MOST_CELLS * l_min), MOST_CLUSTERS * l_min)
    pending, parts = cut(np.arange(len(values)), slices), []
    while pending:
        rows = pending.pop()
        if np.bincount(labels[rows]).max() > too_many:
            pending += cut(rows, 2)
        else:
            parts.append(rows)
    regions = np.zeros(len(values), np.int64)
    for region, rows in enumerate(parts):
        regions[rows] = region
    for label in np.unique(labels):
        sizes = np.bincount(regions[labels == label])
        few = (labels == label) & (sizes < l_min)[np.minimum(regions, len(sizes) - 1)]
        regions[few] = sizes.argmax()
    return regions
