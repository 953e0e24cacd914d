"""The components of a Gaussian mixture whose sizes are bounded from below, and their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from threea.errors import MissingExtra
from threea.published.size_constrained_assignment import Floats, Integers, assign

Covariance = Literal["isotropic", "diagonal", "full"]
_ROUNDS, _SETTLED = 10, 0.01
"""How often components are fitted at most; no more once so small a share of the rows changes component."""
_LEAST_VARIANCE = 1e-4
"""Of a component, in each direction: rows that are all the same must not make a spike of infinite density."""


def mixture(
    values: Floats, count: int, l_min: int, covariance: Covariance, rng: np.random.Generator, deadline: float
) -> Integers:
    """Fit a size-constrained mixture by hard expectation maximization.

    Raises:
        NoSolution: The time is up.
    """
    memberships, _ = assign(squared_distances(values, _spread_out(values, count, rng)), l_min, deadline=deadline)
    prices = None
    for _ in range(_ROUNDS):
        before = memberships
        costs = _DENSITIES[covariance](values, memberships)
        memberships, prices = assign(costs, l_min, prices, deadline)
        if (before != memberships).mean() < _SETTLED:
            break
    return memberships


def _spread_out(values: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draw rows as first means, each the likelier the farther it is from those before (k-means++)."""
    centres = values[rng.integers(len(values), size=count)]
    nearest = np.full(len(values), np.inf)
    for index in range(1, count):
        nearest = np.minimum(nearest, squared_distances(values, centres[index - 1, None])[:, 0])
        if nearest.any():
            centres[index] = values[rng.choice(len(values), p=nearest / nearest.sum())]
    return centres


def constrained_means(values: Floats, count: int, l_min: int, rng: np.random.Generator) -> Integers:
    """Cluster by k-means under the same constraint: what the paper reverts to when the mixture fails.

    Raises:
        MissingExtra: k-means-constrained is not installed.
    """
    try:
        from k_means_constrained import KMeansConstrained
    except ImportError:
        raise MissingExtra("k-means-constrained", "published") from None
    seed = int(rng.integers(1 << 31))
    model = KMeansConstrained(count, size_min=l_min, n_init=1, max_iter=_ROUNDS, random_state=seed)
    return np.asarray(model.fit_predict(values), np.int64)


def squared_distances(values: Floats, centres: Floats) -> Floats:
    """Return how far each row is from each centre, squared."""
    products = (values**2).sum(axis=1)[:, None] - 2 * values @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(products, 0.0))


def means(values: Floats, memberships: Integers) -> Floats:
    """Return the mean of each cluster's rows."""
    order = np.argsort(memberships, kind="stable")
    sizes = np.bincount(memberships)
    sums: Floats = np.add.reduceat(values[order], np.cumsum(sizes) - sizes, axis=0)
    return sums / sizes[:, None]


# Below: what it costs each row to be in each component, minus its log density there, up to a constant.


def _isotropic(values: Floats, memberships: Integers) -> Floats:
    centres = means(values, memberships)
    spread = means((values - centres[memberships]) ** 2, memberships).mean(axis=1) + _LEAST_VARIANCE
    costs: Floats = squared_distances(values, centres) / (2 * spread) + values.shape[1] / 2 * np.log(spread)
    return costs


def _diagonal(values: Floats, memberships: Integers) -> Floats:
    centres = means(values, memberships)
    spread = means((values - centres[memberships]) ** 2, memberships) + _LEAST_VARIANCE
    squares = (values**2) @ (1 / spread).T - 2 * values @ (centres / spread).T + (centres**2 / spread).sum(axis=1)
    costs: Floats = squares / 2 + np.log(spread).sum(axis=1) / 2
    return costs


def _full(values: Floats, memberships: Integers) -> Floats:
    centres = means(values, memberships)
    costs = np.empty((len(values), len(centres)))
    for component, centre in enumerate(centres):
        inside = values[memberships == component] - centre
        covariance = inside.T @ inside / len(inside) + _LEAST_VARIANCE * np.eye(values.shape[1])
        root = np.linalg.cholesky(covariance)
        squares = (np.linalg.solve(root, (values - centre).T) ** 2).sum(axis=0)
        costs[:, component] = squares / 2 + np.log(np.diag(root)).sum()
    return costs


_DENSITIES: dict[str, Callable[[Floats, Integers], Floats]] = {
    "isotropic": _isotropic,
    "diagonal": _diagonal,
    "full": _full,
}
COVARIANCES = tuple(_DENSITIES)
