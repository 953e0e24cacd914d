"""`privbayes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.bayes_net import BayesNet
from threea.errors import SettingError
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class PrivBayes(Recipe):
    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = "a Bayesian network of all columns, chosen privately, with a noisy table for each"
    noise: str = "gaussian"
    theta: float = 4.0
    beta: float = 0.15
    degree: int = 3

    @property
    def approximate(self) -> BayesNet:
        return BayesNet(noise=self.noise, theta=self.theta, beta=self.beta, degree=self.degree)
