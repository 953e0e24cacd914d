"""Rows to clusters at the least cost, with so many rows at least in each: the E-step of a size-constrained mixture.

It is a transport problem, solved exactly in two moves. Prices: a cluster that is short of rows pays for more, one that
has too many pays less, until almost all sizes are right. Repair: what is still wrong is mended one row at a time along
the cheapest chain of moves from cluster to cluster (successive shortest paths), which keeps the assignment optimal.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_COLD, _WARM = (150, 0.97, 4.0), (60, 0.93, 1.0)
"""How many rounds prices are sought in, by how much steps shrink in each, and the first step in typical differences of
cost: from nothing, and from the prices of a similar problem."""


class NoSolution(Exception):
    """The time is up."""


def assign(
    costs: Floats, l_min: int, prices: Floats | None = None, deadline: float = np.inf
) -> tuple[Integers, Floats]:
    """Give every row a cluster so that the sum of the costs is the smallest that there is.

    Guarantees:
        - Every cluster gets at least `l_min` rows.
        - No other such assignment costs less, up to rounding.

    Args:
        costs: Of each row (first axis) in each cluster.
        l_min: How many rows a cluster has at least.
        prices: What was returned for similar costs, to start from.
        deadline: When to give up, as `time.monotonic` counts.

    Returns:
        The cluster of each row, and what clusters paid in the first move.

    Raises:
        SettingError: There are too few rows.
        NoSolution: The time is up.

    Example:
        >>> assign(np.array([[0.0, 5.0], [0.0, 1.0], [0.0, 7.0], [0.0, 3.0]]), 2)[0]
        array([0, 1, 0, 1])
    """
    rows, clusters = costs.shape
    if rows < clusters * l_min:
        raise SettingError(f"{rows} rows are too few for {clusters} clusters of {l_min}; make fewer or smaller ones")
    if clusters == 1:
        return np.zeros(rows, np.int64), np.zeros(1)
    prices = _priced(costs, l_min, prices, deadline)
    return _repaired(costs, l_min, prices, deadline), prices


def _priced(costs: Floats, l_min: int, prices: Floats | None, deadline: float) -> Floats:
    """Search prices, none below 0, by which clusters of their own accord get about the rows they need."""
    nearest = np.partition(costs, 1, axis=1)
    price = np.zeros(costs.shape[1]) if prices is None else prices
    rounds, cooling, first = _COLD if prices is None else _WARM
    step = first * float(np.median(nearest[:, 1] - nearest[:, 0]))
    best, fewest = price, np.inf
    for _ in range(rounds):
        if time.monotonic() > deadline:
            raise NoSolution
        lacking = l_min - np.bincount(np.argmin(costs - price, axis=1), minlength=len(price))
        short = np.maximum(lacking, 0).sum()
        if short < fewest:
            best, fewest = price, short
        if not short:
            break
        price = np.maximum(price + step * np.clip(lacking / l_min, -1, 1), 0)
        step *= cooling
    return best


def _repaired(costs: Floats, l_min: int, prices: Floats, deadline: float) -> Integers:
    """Start from what the prices give and move rows along cheapest chains until every cluster has enough.

    Besides the clusters there is a pool, the last node, that takes what clusters have beyond `l_min`. A cluster with a
    price may keep nothing beyond it, or the price would be wrong: its surplus has to go, to another or to the pool.
    """
    rows, pool = costs.shape
    labels: Integers = np.argmin(costs - prices, axis=1)
    surplus = np.where(prices == 0, np.maximum(np.bincount(labels, minlength=pool) - l_min, 0), 0)
    excess = np.append(np.bincount(labels, minlength=pool) - l_min - surplus, surplus.sum() - rows + pool * l_min)
    moves = np.full((pool + 1, pool + 1), np.inf)
    movers = np.zeros((pool, pool), np.int64)

    def price_moves(cluster: int) -> None:
        """Find the cheapest row to move from a cluster to each other."""
        members = np.flatnonzero(labels == cluster)
        moves[cluster, :pool] = np.inf
        if len(members):
            extra = costs[members] - costs[members, cluster, None]
            cheapest = extra.argmin(axis=0)
            moves[cluster, :pool], movers[cluster] = extra[cheapest, np.arange(pool)], members[cheapest]
            moves[cluster, cluster] = np.inf
        moves[pool, cluster] = 0.0 if surplus[cluster] else np.inf

    for cluster in range(pool):
        price_moves(cluster)
    moves[:pool, pool] = 0.0
    tolerance = 1e-12 * float(np.abs(costs).max())
    while (excess > 0).any():
        if time.monotonic() > deadline:
            raise NoSolution
        chain = _cheapest_chain(moves, excess, tolerance)
        excess[chain[0]] -= 1
        excess[chain[-1]] += 1
        for source, sink in itertools.pairwise(chain):
            if sink == pool:
                surplus[source] += 1
            elif source == pool:
                surplus[sink] -= 1
            else:
                labels[movers[source, sink]] = sink
        for cluster in set(chain) - {pool}:
            price_moves(cluster)
    return labels


def _cheapest_chain(moves: Floats, excess: Integers, tolerance: float) -> list[int]:
    """Return the nodes of the cheapest path from one that has too many to one that has too few (Bellman and Ford)."""
    nodes = np.arange(len(excess))
    distance = np.where(excess > 0, 0.0, np.inf)
    previous = np.full(len(excess), -1)
    for _ in nodes:
        through = distance[:, None] + moves
        nearest = through.argmin(axis=0)
        reached = through[nearest, nodes]
        shorter = reached < distance - tolerance
        if not shorter.any():
            break
        distance[shorter], previous[shorter] = reached[shorter], nearest[shorter]
    node = int(np.argmin(np.where(excess < 0, distance, np.inf)))
    chain = [node]
    while previous[node] >= 0:
        node = int(previous[node])
        chain.append(node)
    return chain[::-1]
