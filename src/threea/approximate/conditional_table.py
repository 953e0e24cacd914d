"""From a noisy table of an attribute and its parents to the attribute's distribution given them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from threea.approximate.denoise import shrunk

Floats = NDArray[np.float64]

_FLOOR = 1e-6
"""In rows: what X may be at all, it may be whatever its parents are, so that conditions on X can be met."""
_FITTINGS = 20


def conditional(counts: Floats, parents: Floats, own: Floats, stddev: float) -> Floats:
    """Return the distribution of X given its parents.

    Parent by parent, X is as it is given those before, unless the counts say more than noise would. Then all rows are
    fitted so that X as a whole is as its one-way table says.

    Args:
        counts: Noisy counts, an axis for each parent, X last.
        parents: The parents' distribution, flat.
        own: The distribution of X.
        stddev: Of the noise on a count.

    Returns:
        A row for each combination of the parents' cells.

    Example:
        >>> counts = np.array([[400.0, 100.0], [100.0, 400.0]])
        >>> conditional(counts, np.array([0.5, 0.5]), np.array([0.5, 0.5]), stddev=1.0).round(1)
        array([[0.8, 0.2],
               [0.2, 0.8]])
        >>> conditional(counts, np.array([0.5, 0.5]), np.array([0.5, 0.5]), stddev=400.0).round(1)
        array([[0.5, 0.5],
               [0.5, 0.5]])
    """
    known = own
    for axis in range(counts.ndim - 1):
        later = tuple(range(axis + 1, counts.ndim - 1))
        told, before = counts.sum(axis=later), known[..., None, :]
        noise = stddev * math.sqrt(math.prod(counts.shape[each] for each in later))
        expected = np.maximum(told.sum(axis=-1, keepdims=True), 0.0) * before
        moved = np.maximum(shrunk(told, expected, noise), 0.0) * (before > 0) + _FLOOR * before
        known = moved / moved.sum(axis=-1, keepdims=True)
    given: Floats = known.reshape(-1, counts.shape[-1])
    for _ in range(_FITTINGS):
        overall = parents @ given
        given = given * np.divide(own, overall, out=np.zeros_like(own), where=overall > 0)
        given = given / given.sum(axis=1, keepdims=True)
    return given
