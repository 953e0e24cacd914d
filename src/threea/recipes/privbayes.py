"""`privbayes`: a Bayesian network of all columns, chosen privately, and a noisy table for each of its AP pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from threea.approximate.bayes_net import BayesNet
from threea.errors import SettingError
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class PrivBayes(Recipe):
    """GreedyBayes with private selection, NoisyConditionals, and ancestral sampling.

    In brackets the share of the budget, where `beta` is 0.1:

    1. Count every attribute's cells: the one-way tables, which give Pr[X] and n [.18 for all].
    2. Start the network N with the target; without one, with the first attribute.
    3. Choose an AP pair (X, parent set) by the exponential mechanism, X not in N and its parents in N: it is as good as
       R(X, parents) = 1/2 sum |Pr[X, parents] - Pr[X] Pr[parents]|, less what noise and chance alone would make of it
       [.1 for all pairs]. Only tables that are theta-useful are looked at: their cells hold on average theta times the
       noise's scale. Attributes are generalised (their cells put together) until they are. The target is a parent of
       all others where it fits.
    4. Count the table of the pair [.72 for all tables], and draw X given its parents from it. Go on with 3 until all
       attributes are in N. Where no table is useful, for too large a theta or too few rows, an attribute has no parents
       (degree 0), and what a pair would have cost counts it twice more.
    5. Draw rows from N, parents first.

    The paper chooses the whole structure first, then counts all tables. Here each pair is counted as soon as it is
    chosen, so that Pr[parents] is known from N, that is by noisy answers alone: then R moves by a row in n, not by
    3/n + 2/n**2, and needs no private n. Where N has the parents wrong together, that adds to R.

    Args:
        noise: ``gaussian``, or ``laplace`` as in the paper: then every question is pure epsilon.
        theta: How useful a table must be; more means fewer cells and parents.
        beta: Share of the budget for the structure.
        degree: How many parents an attribute has at most; 0 draws every column by itself.

    Example:
        >>> PrivBayes(noise="laplace")
        PrivBayes(noise='laplace', theta=4.0, beta=0.1, degree=3)

    Reference:
        Zhang, Cormode, Procopiuc, Srivastava and Xiao 2014 and 2017.
    """

    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = "a Bayesian network of all columns, chosen privately, with a noisy table for each"
    noise: Literal["gaussian", "laplace"] = "gaussian"
    theta: float = 4.0
    beta: float = 0.1
    degree: int = 3

    def __post_init__(self) -> None:
        if self.noise not in ("gaussian", "laplace"):
            raise SettingError(f"noise ({self.noise}) must be gaussian or laplace")
        if not (math.isfinite(self.theta) and self.theta > 0):
            raise SettingError(f"theta ({self.theta}) must be a number above 0; the paper's is 4")
        if not 0.01 <= self.beta <= 0.9:
            raise SettingError(f"beta ({self.beta}) must be from 0.01 to 0.9")
        if not 0 <= self.degree <= 5:
            raise SettingError(f"degree ({self.degree}) must be from 0 to 5")

    @property
    def approximate(self) -> BayesNet:
        """L1: the distribution of the rows (steps 1 to 5)."""
        return BayesNet(noise=self.noise, theta=self.theta, beta=self.beta, degree=self.degree)
