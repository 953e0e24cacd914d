"""`clustmix`: clusters within each class, centroids adapted to the task, and mixtures of the rows around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from threea.adapt.inducing import induce
from threea.anonymize.accountant import Plan, Step
from threea.anonymize.door import PrivateTable
from threea.approximate.mixture import MIXTURES, Mixture, MixtureModel
from threea.errors import SettingError
from threea.framework import Model, Recipe
from threea.schema import Schema

HISTOGRAMS, CLUSTERS, ANONYMIZE = 0.15, 0.2, 0.65
"""Shares of the budget: to score the columns, to find the clusters, and to measure the adapted ones."""
_TARGET = 4096
"""Points drawn from the private density for the inducing points to predict."""
_DRAWN = 20_250_102
"""Seeds these draws; a mixture is fitted to noisy answers, so any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InducedMixture:
    """Adapt the centroids, then measure the mixtures of the rows nearest to each (Algorithm 2, lines 10 to 20).

    Adapting looks at no rows: the inducing points predict points drawn from the private density. Measuring is one look,
    in which each row adds to one cluster only.

    Args:
        alpha: On the distance to the clusters' centroids, as in Eq. 5: 1 keeps them, 0 is all for the task.
        regularisation: Of the kernel ridge regression; lambda in the paper.
    """

    alpha: float
    regularisation: float

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for one count and one sum per cluster."""
        return (Step(name=MIXTURES, weight=ANONYMIZE),) if schema.features else ()

    def adapt(self, model: Model, table: PrivateTable, plan: Plan) -> Model:
        """Move the centroids and send the rows to them; a table without features has none."""
        assert isinstance(model, MixtureModel)
        if not model.columns:
            return model
        rng = np.random.default_rng(_DRAWN)
        target = model.drawn(_TARGET, rng) if self.alpha < 1 else (model.centroids, model.classes)
        induced = induce(
            model.centroids, model.classes, *target, alpha=self.alpha, regularisation=self.regularisation, rng=rng
        )
        return model.measured(table, plan, MIXTURES, induced.points)


@dataclass(frozen=True, kw_only=True)
class ClustMix(Recipe):
    """Approximate by clusters, adapt by kernel inducing points, anonymize by mixing the rows of each cluster.

    Args:
        mode: `proven`, in which every look at the rows is paid for.
        sigma_max: The most noise on a coordinate of a cluster's mean, where an indicator counts 1: more means more and
            smaller clusters.
        alpha: On the distance to the clusters' centroids, as in Eq. 5: 1 keeps them, 0 is all for the task. Less than 1
            needs the extra `nets`.
        regularisation: Of the kernel ridge regression; lambda in the paper.
        iterations: How often the centroids of the clusters move.

    Example:
        >>> ClustMix(alpha=0.5).sigma_max
        0.02

    Reference:
        Approximate, Adapt, Anonymize (3A), Algorithm 2 and Eq. 5.
    """

    name: ClassVar[str] = "clustmix"
    summary: ClassVar[str] = "clusters within each class, adapted to the task, and mixtures of the rows around them"
    mode: Literal["proven"] = "proven"
    sigma_max: float = 0.02
    alpha: float = 1.0
    regularisation: float = 1e-3
    iterations: int = 3

    def __post_init__(self) -> None:
        if self.mode != "proven":
            raise SettingError(f"mode ({self.mode}) must be proven")
        if not 0 <= self.alpha <= 1:
            raise SettingError(f"alpha ({self.alpha}) must be from 0 to 1")
        if not 0 < self.regularisation < np.inf:
            raise SettingError(f"regularisation ({self.regularisation}) must be > 0")
        assert self.approximate

    @property
    def approximate(self) -> Mixture:
        """Histograms of all columns, then noisy k-means within each class (lines 3 to 9)."""
        return Mixture(sigma_max=self.sigma_max, iterations=self.iterations, histograms=HISTOGRAMS, clusters=CLUSTERS)

    @property
    def adapt(self) -> InducedMixture:
        """Kernel inducing points, free of charge, and the mixtures (lines 10 to 21)."""
        return InducedMixture(alpha=self.alpha, regularisation=self.regularisation)
