"""`aim`: the tables that a graphical model fits worst, one after another. For general statistics, whatever the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.adaptive import Adaptive
from threea.errors import SettingError
from threea.framework import Recipe

_WORKLOADS = {"target": 4, "all": 1}


@dataclass(frozen=True, kw_only=True)
class AIM(Recipe):
    """draft"""

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = "the tables of columns that a graphical model fits worst, one by one; general statistics"
    workload: str = "target"
    max_model_size: float = 80.0
    bins: int = 32
    iterations: int = 1000

    @property
    def approximate(self) -> Adaptive:
        return Adaptive(
            bins=self.bins,
            max_model_size=self.max_model_size,
            target_weight=_WORKLOADS[self.workload],
            iterations=self.iterations,
        )
