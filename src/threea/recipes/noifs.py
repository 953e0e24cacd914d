"""`noifs`: MC-GEN without the feature sets, the paper's own comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.multilevel import MultiLevel
from threea.recipes.mcgen import MCGen


@dataclass(frozen=True, kw_only=True)
class NOIFS(MCGen):
    """As `mcgen`, with all features in one set: step 2 and its share of the budget fall away.

    Example:
        >>> NOIFS(k=0.5).approximate.feature_sets
        False

    Reference:
        Li, Zhuang and Chang 2023, MC-GEN, section 5.4.2 (NOIFS).
    """

    name: ClassVar[str] = "noifs"
    summary: ClassVar[str] = "mcgen without feature sets: clusters of the rows in all features"

    @property
    def approximate(self) -> MultiLevel:
        """L1: all levels but the first."""
        return MultiLevel(k=self.k, feature_sets=False, iterations=self.iterations, noise=self.noise)
