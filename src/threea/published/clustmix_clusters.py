"""Clusters of at least l_min rows each: ClustMix's Approximate stage as published, and DPMix's random groups.

Both read the rows (`expose`), so what is made of them has no proven guarantee. The scalar that rules everything is
mu = sqrt(C*D) / (l*sigma) (Theorem 2, Eq. 7): the plan turns (epsilon, delta) into mu, and with it a largest standard
deviation sigma_max says how many rows a cluster needs, and the number of its rows says how much noise its mean gets.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian
from threea.anonymize.plan import Plan, Step
from threea.errors import InputError, InternalError, SettingError
from threea.model_summary import Histogram
from threea.published.constrained_gmm import COVARIANCES, Covariance, constrained_means, means, mixture
from threea.published.scaling import SCALINGS, Floats, Name, Scaling
from threea.published.size_constrained_assignment import NoSolution
from threea.table.schema import Chunk, Column, Schema

Integers = NDArray[np.int64]
STEP = "mixtures"
MOST_CELLS, MOST_CLUSTERS = 1_000_000, 100
"""Rows times clusters, and clusters, of one assignment; a class with more is cut into more slices."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Source:
    """The private rows that have a class, and what the noise of their means is reckoned from.

    Args:
        chunk: The rows' encoded columns.
        labels: Each row's class.
        columns: The columns to be mixed.
        target: The column that the classes are of; none if rows have no classes.
        reach: sigma * l: the noise of a mean of l rows has this standard deviation over l.
        rng: What noise is drawn from.
    """

    chunk: Chunk
    labels: Integers
    columns: tuple[Column, ...]
    target: Column | None
    reach: float
    rng: np.random.Generator

    @classmethod
    def of(cls, table: PrivateTable, plan: Plan, reason: str) -> Source:
        """Read the rows, once.

        Cost:
            A `NonPrivate` event.

        Raises:
            InputError: No row has a class, or there is no column besides the target.
        """
        schema, event = table.schema, plan[STEP].event
        assert isinstance(event, Gaussian)
        target = schema[schema.target] if schema.target is not None and schema[schema.target].kind.listed else None
        columns = schema.features if target else schema.modelled
        if not columns:
            raise InputError("the target is the only column; there is nothing to mix")
        exposed = table.expose(reason)
        labels = exposed.rows[target.name] if target else np.zeros(exposed.count, np.int64)
        if not (labels >= 0).any():
            raise InputError("no row has a class that the schema lists; there is nothing to learn from")
        classes = len(target.categories) + target.open_ended if target else 1
        # Eq. 7 is about one row; a unit may have several, all in one cluster.
        reach = math.sqrt(classes * len(columns)) * table.unit.max_rows * event.noise_multiplier
        return cls(
            chunk={name: values[labels >= 0] for name, values in exposed.rows.items()},
            labels=labels[labels >= 0],
            columns=columns,
            target=target,
            reach=reach,
            rng=exposed.rng,
        )

    def least(self, sigma_max: float) -> int:
        """Return l_min, how many rows a mean needs for noise of at most sigma_max (Eq. 7)."""
        return max(math.ceil(self.reach / sigma_max), 1)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Clusters:
    """Private rows in clusters, not anonymized yet: what an Adapt stage gets, and nothing that may be released.

    Args:
        source: The rows.
        scaling: How they become points of the unit cube, and back.
        values: These points.
        regions: Each row's slice; clusters lie within one.
        memberships: Each row's cluster.
        least: l_min, how many rows a cluster has at least; a class with fewer is one cluster.
    """

    source: Source
    scaling: Scaling
    values: Floats
    regions: Integers
    memberships: Integers
    least: int

    @property
    def centroids(self) -> Floats:
        """The clusters' means."""
        return means(self.values, self.memberships)

    @property
    def labels(self) -> Integers:
        """The clusters' classes."""
        return self.source.labels[self._firsts]

    @property
    def slices(self) -> Integers:
        """The clusters' slices."""
        return self.regions[self._firsts]

    @property
    def blocks(self) -> list[tuple[Integers, Integers]]:
        """Which rows and which clusters belong together, by class and slice."""
        return [(rows, np.unique(self.memberships[rows])) for rows in _blocks(self.source.labels, self.regions)]

    @property
    def _firsts(self) -> Integers:
        return np.unique(self.memberships, return_index=True)[1]

    @property
    def rows(self) -> int:
        """How many points will be released."""
        return int(self.memberships.max()) + 1

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """None: there are no noisy counts."""
        return {}

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
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
        timeout: Seconds for the components of a class in a slice; then constrained k-means does it instead.

    Reference:
        Madl, Xu, Choudhury, Howard 2023, Algorithm 2; Jitta and Klami 2018.
    """

    sigma_max: float = 0.05
    scaling: Name = "quantile"
    slices: int = 1
    covariance: Covariance = "isotropic"
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma_max < math.inf:
            raise SettingError(f"sigma_max ({self.sigma_max}) must be a number > 0")
        if self.scaling not in SCALINGS:
            raise SettingError(f"scaling ({self.scaling}) must be one of {', '.join(SCALINGS)}")
        if self.covariance not in COVARIANCES:
            raise SettingError(f"covariance ({self.covariance}) must be one of {', '.join(COVARIANCES)}")
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
        return self.cluster(Source.of(table, plan, "ClustMix as published"))

    def cluster(self, source: Source) -> Clusters:
        """Cluster rows that were read."""
        scaling = Scaling.of(self.scaling, source.columns, source.chunk)
        values, least = scaling.encode(source.chunk), source.least(self.sigma_max)
        regions = sliced(values, source.labels, self.slices, least, source.rng)
        memberships = np.zeros(len(values), np.int64)
        count = 0
        for rows in _blocks(source.labels, regions):
            memberships[rows] = count + self._mixture(values[rows], least, source.rng)
            count = int(memberships[rows].max()) + 1
        return Clusters(
            source=source, scaling=scaling, values=values, regions=regions, memberships=memberships, least=least
        )

    def _mixture(self, values: Floats, least: int, rng: np.random.Generator) -> Integers:
        count = max(len(values) // least, 1)
        if count == 1:
            return np.zeros(len(values), np.int64)
        try:
            return mixture(values, count, least, self.covariance, rng, time.monotonic() + self.timeout)
        except (NoSolution, np.linalg.LinAlgError):
            return constrained_means(values, count, least, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGroups:
    """DPMix's mixtures: rows put together at random, within their class, each row in one group.

    Lee et al. mix rows of all classes, and their labels with them. A table whose target is a list has no place for
    half a label, so groups are of one class here and points keep a label, as in ClustMix; the noise is ClustMix's too.

    Args:
        sigma_max: The largest standard deviation that the noise may have, where all columns reach from 0 to 1.
        scaling: `minmax` or `quantile`.

    Reference:
        Lee, Kim, Lee, Suh and Ramchandran 2019.
    """

    sigma_max: float = 0.05
    scaling: Name = "quantile"

    def __post_init__(self) -> None:
        SizeConstrained(sigma_max=self.sigma_max, scaling=self.scaling)

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Plan the noise of the group means."""
        return (Step(name=STEP, weight=1.0),)

    def fit(self, table: PrivateTable, plan: Plan) -> Clusters:
        """Read the rows and group them.

        Cost:
            A `NonPrivate` event.
        """
        source = Source.of(table, plan, "DPMix as published")
        scaling = Scaling.of(self.scaling, source.columns, source.chunk)
        values, least = scaling.encode(source.chunk), source.least(self.sigma_max)
        regions, memberships = np.zeros((2, len(values)), np.int64)
        count = 0
        for rows in _blocks(source.labels, regions):
            groups = max(len(rows) // least, 1)
            memberships[source.rng.permutation(rows)] = count + np.arange(len(rows)) % groups
            count += groups
        return Clusters(
            source=source, scaling=scaling, values=values, regions=regions, memberships=memberships, least=least
        )


def _blocks(labels: Integers, regions: Integers) -> list[Integers]:
    """Return the rows of each class in each region, where there are any."""
    _, block = np.unique(labels * (regions.max() + 1) + regions, return_inverse=True)
    return np.split(np.argsort(block, kind="stable"), np.cumsum(np.bincount(block))[:-1])


def sliced(values: Floats, labels: Integers, slices: int, least: int, rng: np.random.Generator) -> Integers:
    """Cut the rows into regions at random, and return each row's.

    Guarantees:
        - A class has at least `least` rows in a region, or none, or less than that in all.
    """

    def cut(rows: Integers, count: int) -> list[Integers]:
        # Equal values are cut between at random, or a column of few values could not be cut at all.
        feature = values[rows, rng.integers(values.shape[1])]
        order = rows[np.lexsort((rng.random(len(rows)), feature))]
        cuts = np.sort(rng.choice(len(rows) - 1, min(count, len(rows)) - 1, replace=False)) + 1
        return np.split(order, cuts)

    too_many = min(math.isqrt(MOST_CELLS * least), MOST_CLUSTERS * least)
    pending, parts = cut(np.arange(len(values)), slices), []
    while pending:
        rows = pending.pop()
        if np.bincount(labels[rows]).max() > too_many:
            pending += cut(rows, 2)
        else:
            parts.append(rows)
    regions = np.zeros(len(values), np.int64)
    for place, rows in enumerate(parts):
        regions[rows] = place
    for label in np.unique(labels):
        sizes = np.bincount(regions[labels == label])
        few = (labels == label) & (sizes < least)[np.minimum(regions, len(sizes) - 1)]
        regions[few] = sizes.argmax()
    return regions
