"""`mst`: a spanning tree of pairs of columns, chosen privately. For general statistics, with or without a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.spanning_tree import SpanningTree
from threea.errors import SettingError
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class MST(Recipe):
    """Approximate by a maximum spanning tree of pairs of columns, and the distribution that fits their noisy tables.

    The steps of the paper, each look at the rows a noisy sum or a private choice; in brackets its share of the budget:

    1. Count every column alone [1/3]. Cells of less than three standard deviations of the noise are merged, and drawn
       by their noisy counts.
    2. Choose a spanning tree, pair by pair: the exponential mechanism, by how many rows a pair's table differs from
       what independent columns would give [1/3].
    3. Count the chosen pairs [1/3].
    4. Fit the distribution to all noisy tables by mirror descent (Private-PGM), and draw rows from it.

    Args:
        bins: How many bins numeric columns are cut into.
        iterations: Steps of mirror descent: more fit the noisy tables better, and their noise.

    Example:
        >>> MST(bins=16).guarantee.value
        'proven'

    Reference:
        McKenna, Miklau and Sheldon 2021, Winning the NIST contest: a general and scalable approach to differentially
        private synthetic data.
    """

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "a spanning tree of pairs of columns; general statistics, with or without a target"
    bins: int = 32
    iterations: int = 1000

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= 1024:
            raise SettingError(f"bins ({self.bins}) must be from 2 to 1024")
        if not 1 <= self.iterations <= 100_000:
            raise SettingError(f"iterations ({self.iterations}) must be from 1 to 100000")

    @property
    def approximate(self) -> SpanningTree:
        """L1: no stage knows of a task."""
        return SpanningTree(bins=self.bins, iterations=self.iterations)
