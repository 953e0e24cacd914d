"""`aim`: the tables that a graphical model fits worst, one after another. For general statistics, whatever the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.adaptive import Adaptive
from threea.errors import SettingError
from threea.framework import Recipe

WORKLOADS = {"target": 2, "all": 1}
"""How many times as much the target's pairs weigh; chosen."""


@dataclass(frozen=True, kw_only=True)
class AIM(Recipe):
    """Approximate by a graphical model, to which is added, again and again, the table that it fits worst.

    The steps of Algorithm 4, each look at the rows a noisy sum or a private choice; in brackets its share of the
    budget:

    1. Count every column alone [.2], and start from independent columns (line 8). Cells of less than three standard
       deviations of the noise are merged, and drawn by their noisy counts.
    2. Choose a column or a pair that keeps the model small: the exponential mechanism, by how many rows its table
       differs from the model's, less what noise would hide, times how much of the workload it touches [.08 for all
       choices] (lines 11 to 13).
    3. Count the chosen table [.72 for all], and fit the model to all noisy tables by mirror descent (lines 14, 15).
    4. If the model changed less than noise would, later rounds get twice the budget (lines 16 to 18). Go on at 2 until
       all is spent.
    5. Draw rows from the model.

    Args:
        workload: ``target`` if tables with the target weigh more, ``all`` if all weigh alike; so they do where there is
            no target.
        max_model_size: Of the model's tables, in MB: with more, columns may depend on more others.
        bins: How many bins numeric columns are cut into.
        iterations: Steps of mirror descent at the end, at most; a tenth of it after each round.

    Example:
        >>> AIM(workload="all").guarantee.value
        'proven'

    Reference:
        McKenna, Mullins, Sheldon and Miklau 2022, AIM: an adaptive and iterative mechanism for differentially private
        synthetic data.
    """

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = "the tables of columns that a graphical model fits worst, one by one; general statistics"
    workload: str = "target"
    max_model_size: float = 8.0
    bins: int = 32
    iterations: int = 1000

    def __post_init__(self) -> None:
        if self.workload not in WORKLOADS:
            raise SettingError(f"workload ({self.workload}) must be one of {', '.join(WORKLOADS)}")
        if not 0.01 <= self.max_model_size <= 1024:
            raise SettingError(f"max_model_size ({self.max_model_size:g}) must be from 0.01 to 1024 MB")
        if not 2 <= self.bins <= 1024:
            raise SettingError(f"bins ({self.bins}) must be from 2 to 1024")
        if not 1 <= self.iterations <= 100_000:
            raise SettingError(f"iterations ({self.iterations}) must be from 1 to 100000")

    @property
    def approximate(self) -> Adaptive:
        """L1: what a task there is says only which tables weigh more."""
        return Adaptive(
            bins=self.bins,
            max_model_size=self.max_model_size,
            target_weight=WORKLOADS[self.workload],
            iterations=self.iterations,
        )
