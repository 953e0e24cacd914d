"""A finite set of rows, released as they are: what methods make that mix rows and do not fit a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from threea.model_summary import ModelSummary
from threea.table.conditions import Given, fits, nothing_fits
from threea.table.schema import Chunk


@dataclass(frozen=True, slots=True)
class Points:
    """Synthetic rows, each released once: S in the papers.

    Args:
        chunk: Encoded columns.
        settings: What a search chose to make them with, by the names in the recipe; empty without a search.
        noise: Of the answers they were made from, by the plan's line.
        class_shares: Share of the points and noisy share of the private rows, by the target's code.
    """

    chunk: Chunk
    settings: Mapping[str, Any] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    class_shares: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(next(iter(self.chunk.values())))

    @property
    def summary(self) -> ModelSummary:
        """The rows themselves, and what they were made with; how many private rows there are was not asked."""
        return ModelSummary(noise=self.noise, class_shares=self.class_shares, settings=self.settings, points=self.chunk)

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw with replacement from them, or from those that fit."""
        fitting = np.flatnonzero(fits(self.chunk, given)) if given else np.arange(self.size)
        if given and not len(fitting):
            raise nothing_fits(given)
        chosen = fitting[rng.integers(0, len(fitting), rows)]
        return {name: values[chosen] for name, values in self.chunk.items()}
