"""A numeric column's noisy histogram, as scores of its cells and as values by rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import Answer
from threea.anonymize.vectors import SCORE_BITS
from threea.approximate.coordinates import tilted
from threea.approximate.denoise import proportions
from threea.table.cells import Bins, Cells

Floats = NDArray[np.float64]

_SURE = 1e-3
"""How far off, between bounds of -1 and 1, the mean may stay that a histogram is moved to."""


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A numeric column's noisy histogram, in the order of its values."""

    cells: Bins
    counts: Floats
    scores: tuple[int, ...]
    variance: float
    missing: float
    cumulative: Floats
    """Where each stretch of values ends, as a share of the values that are not missing."""
    lower: Floats
    upper: Floats
    places: Floats
    """Where each stretch lies between the column's bounds, from -1 to 1."""

    @classmethod
    def of(cls, cells: Cells, answer: Answer, rows: float) -> ColumnShape:
        """Merge bins that noise drowns, and lay special values among the bins."""
        assert isinstance(cells, Bins)
        edges = np.array(cells.edges)
        bins, special = len(edges) - 1, len(cells.special)
        counts = answer.value.copy()
        groups = int(np.clip(rows / max(3 * answer.stddev, 1e-9), min(2, bins), bins))
        for group in np.array_split(np.arange(special, special + bins), groups):
            counts[group] = counts[group].mean()
        share = proportions(counts)
        missing = float(share[-1]) if cells.missing else 0.0
        known = share[: special + bins]
        known = known / known.sum() if known.sum() > 0 else np.full(len(known), 1 / len(known))
        places = (
            np.concatenate(
                [np.interp(cells.special, edges, np.arange(bins + 1)), np.arange(bins) + 0.5]  # special values first
            )
            * (2 / bins)
            - 1
        )
        mean = float(known @ places)
        scores = np.rint((places - mean) * 2.0**SCORE_BITS).astype(int).tolist()
        order = np.argsort(places, kind="stable")
        lower = np.concatenate([cells.special, edges[:-1]])
        upper = np.concatenate([cells.special, edges[1:]])
        return cls(
            cells=cells,
            counts=answer.value,
            scores=(*scores, 0) if cells.missing else tuple(scores),
            variance=float(known @ (places - mean) ** 2) + 1e-9,
            missing=missing,
            cumulative=np.cumsum(known[order]),
            lower=lower[order],
            upper=upper[order],
            places=places[order],
        )

    @property
    def score(self) -> Floats:
        """The scores of its cells, between bounds of -1 and 1 less the mean."""
        return np.array(self.scores) / 2.0**SCORE_BITS

    @property
    def offset(self) -> float:
        """By how much its mean was moved since cells were scored."""
        scored_from = float(self.places.max() - self.score.max())
        return float(np.diff(self.cumulative, prepend=0.0) @ self.places) - scored_from

    def moved(self, offset: float) -> ColumnShape:
        """Bend the histogram until its mean, between the bounds, is this much higher."""
        share = np.diff(self.cumulative, prepend=0.0)
        wanted = np.clip(share @ self.places + offset, self.places.min(), self.places.max())
        moved = tilted(share[None], self.places[:, None], np.array([[wanted]]), np.array([_SURE]))[0]
        variance = float(moved @ (self.places - moved @ self.places) ** 2) + 1e-9
        return replace(self, cumulative=np.cumsum(moved), variance=variance)

    def values(self, ranks: Floats, rng: np.random.Generator) -> Floats:
        """Return the value at each rank, a number from 0 to 1; some missing."""
        starts = np.concatenate([[0.0], self.cumulative[:-1]])
        stretch = np.searchsorted(self.cumulative, ranks, side="right").clip(max=len(starts) - 1)
        width = self.cumulative[stretch] - starts[stretch]
        part = np.divide(ranks - starts[stretch], width, out=np.zeros_like(ranks), where=width > 0).clip(0.0, 1.0)
        lower, upper = self.lower[stretch], self.upper[stretch]
        # A special value is a stretch of one point, which may be 0 or less where bins are logarithmic.
        point = lower >= upper
        bins = np.where(point, self.cells.edges[0], lower), np.where(point, self.cells.edges[1], upper)
        values = np.where(point, lower, self.cells.spread(*bins, part))
        if self.missing > 0:
            values[rng.random(len(values)) < self.missing] = np.nan
        return values
