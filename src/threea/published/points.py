"""What a published method releases: a set of rows, not a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from threea.model_summary import Histogram
from threea.table.schema import Chunk


@dataclass(frozen=True, slots=True)
class Points:
    """A finite set of synthetic rows: S in the papers.

    Args:
        chunk: Encoded columns.
        settings: What a search chose to make them with, by the names in the recipe; empty without a search.
    """

    chunk: Chunk
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(next(iter(self.chunk.values())))

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """None: there are no noisy counts."""
        return {}

    def points(self, start: int, stop: int) -> Chunk:
        """Return the rows from one position up to, not including, another."""
        return {name: values[start:stop] for name, values in self.chunk.items()}

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Draw from them with replacement."""
        chosen = rng.integers(0, self.rows, rows)
        return {name: values[chosen] for name, values in self.chunk.items()}
