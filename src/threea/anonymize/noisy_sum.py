"""Noise on an exact sum: how much of it an event asks for, and the answer that comes of it."""

from __future__ import annotations

import math

import numpy as np

from threea.anonymize.clipping import Norm, grid_step
from threea.anonymize.events import Gaussian, Pure, Sampled
from threea.anonymize.interior import Interior
from threea.anonymize.query import Answer, Query, Stack
from threea.backends import Backend
from threea.budget import Adjacency


def noisy_sum(
    interior: Interior, query: Query, event: Gaussian | Pure | Sampled, backend: Backend | None = None
) -> Answer:
    """Sum over the rows, or over a sample of them, and add the event's noise. The event must be paid for."""
    norm = Norm.L1 if isinstance(event, Pure) else Norm.L2
    step = grid_step(query, norm)
    scale, stddev = scale_of(query, event, interior.spending.budget.adjacency, interior.unit.max_rows)
    sums = interior.exact(query, norm, backend)
    noise = interior.noise.laplace if norm is Norm.L1 else interior.noise.gaussian
    value = noise(sums, scale) * np.float64(step)
    parts = query.parts(value, stddev) if isinstance(query, Stack) else ()
    return Answer(value.reshape(query.shape), stddev, parts)


def scale_of(
    query: Query, event: Gaussian | Pure | Sampled, adjacency: Adjacency, max_rows: int
) -> tuple[float, float]:
    """Return the noise's scale in grid steps, and its standard deviation in the query's own units.

    One unit moves a sum by its bound under add-remove. Under replace by twice that, or in L2 by the square root of 2
    times that where contributions have pairwise nonnegative inner products. Of a sample, the accountant knows the pair
    under replace; its noise is in units of one unit's bound.
    """
    replaced = adjacency is Adjacency.REPLACE
    if isinstance(event, Pure):
        step = grid_step(query, Norm.L1)
        scale = rounded_up(query.l1 * max_rows * (2 if replaced else 1) / step / event.epsilon)
        return scale, math.sqrt(2) * scale * step
    apart = (math.sqrt(2) if query.nonnegative else 2.0) if replaced and isinstance(event, Gaussian) else 1.0
    step = grid_step(query, Norm.L2)
    scale = rounded_up(event.noise_multiplier * query.l2 * max_rows * apart / step)
    return scale, scale * step


def rounded_up(scale: float) -> float:
    """Return a scale that the roundings of its computation did not make smaller."""
    return scale * (1 + 2.0**-50)
