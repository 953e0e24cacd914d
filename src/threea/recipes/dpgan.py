"""`dpgan`: a generator trained against a critic whose gradients are private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.private_gan import PrivateGan
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class DPGan(Recipe):
    """DPGAN."""

    name: ClassVar[str] = "dpgan"
    summary: ClassVar[str] = "a generator network trained against a critic with private gradients"
    epochs: float = 20.0
    rate: float = 0.02
    width: int = 64

    def __post_init__(self) -> None:
        _ = self.approximate

    @property
    def needs(self) -> dict[str, str]:
        """JAX to train with; drawing rows needs none."""
        return {"jax": "nets", "optax": "nets"}

    @property
    def approximate(self) -> PrivateGan:
        """L1: all steps."""
        return PrivateGan(epochs=self.epochs, rate=self.rate, width=self.width)
