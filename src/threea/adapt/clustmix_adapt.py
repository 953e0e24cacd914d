"""ClustMix's Adapt and Anonymize stages, proven: adapt the centroids for free, then measure the rows around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from threea.adapt.kip import check, induce
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.approximate.mixture import MIXTURES, MixtureModel
from threea.errors import SettingError
from threea.table.schema import Schema

_TARGETS = 4096
"""Points drawn from the private density for the inducing points to predict. Chosen: eight batches."""
_SEED = 20_250_102
"""Of these draws; a mixture is fitted to noisy answers, so any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InducedMixture:
    """Adapt the centroids, then measure the mixtures of the rows nearest to each (Algorithm 2, lines 10 to 20).

    Adapting looks at no rows: the inducing points predict points drawn from the private density. Measuring is one look,
    in which each row adds to one cluster only.

    Args:
        alpha: On the distance to the clusters' centroids, as in Eq. 5: 1 keeps them, 0 is all for the task.
        regularisation: Of the kernel ridge regression; lambda in the paper.
        weight: Its share of the budget.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    alpha: float
    regularisation: float
    weight: float

    def __post_init__(self) -> None:
        check(self.alpha, self.regularisation)

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for one count and one sum per cluster."""
        return (Step(name=MIXTURES, weight=self.weight),) if schema.features else ()

    def adapt(self, model: MixtureModel, table: PrivateTable, plan: Plan) -> MixtureModel:
        """Move the centroids and send the rows to them; a table without features has none.

        Raises:
            SettingError: The model is no mixture.
        """
        if not isinstance(model, MixtureModel):
            raise SettingError(f"inducing points move the clusters of a mixture, not of a {type(model).__name__}")
        if not model.columns:
            return model
        rng = np.random.default_rng(_SEED)
        target = model.drawn(_TARGETS, rng) if self.alpha < 1 else (model.centroids, model.classes)
        induced = induce(
            model.centroids, model.classes, *target, alpha=self.alpha, regularisation=self.regularisation, rng=rng
        )
        return model.measured(table, plan, MIXTURES, induced.points)
