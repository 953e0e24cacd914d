"""`mcgen`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.multilevel import MultiLevel
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class McGen(Recipe):
    """MC-GEN."""

    name: ClassVar[str] = "mcgen"
    summary: ClassVar[str] = "feature sets, clusters of the rows in each, and a noisy Gaussian in each cluster"
    k: float = 1.0
    iterations: int = 2
    noise: str = "gaussian"

    def __post_init__(self) -> None:
        _ = self.approximate

    @property
    def approximate(self) -> MultiLevel:
        """L1."""
        return MultiLevel(k=self.k, iterations=self.iterations, noise=self.noise)
