"""`independent`: P(y) and P(feature | y), each feature drawn given the label. The bar every other recipe must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.histograms import LabelHistograms
from threea.errors import SettingError
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class Independent(Recipe):
    """Naive Bayes, turned round to make rows.

    1. Count every feature's cells by class: one question, with the whole budget. A class has as many rows as its
       counts add up to.
    2. Draw a class, and every feature given the class.

    Args:
        bins: How many bins numeric columns are cut into.

    Example:
        >>> Independent(bins=16)
        Independent(bins=16)
    """

    name: ClassVar[str] = "independent"
    summary: ClassVar[str] = "each feature drawn given the label; simple, fast, hard to beat at small epsilon"
    bins: int = 32

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= 1024:
            raise SettingError(f"bins ({self.bins}) must be from 2 to 1024")

    @property
    def approximate(self) -> LabelHistograms:
        """L1: one stack of (label, feature) histograms takes the whole budget."""
        return LabelHistograms(bins=self.bins)
