"""ClustMix's search for settings as published: run it again and again, and keep what does best on the private rows.

Nothing of this is paid for. The paper searches by HEBO; Optuna's tree-structured Parzen estimator stands in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.approximate.points import Points
from threea.errors import MissingExtra, SettingError
from threea.published.clustmix_clusters import Clusters, SizeConstrained
from threea.published.clustmix_mixing import Mixing
from threea.published.exposed_rows import ExposedRows
from threea.published.scaling import SCALINGS
from threea.table.schema import Chunk, Column, Schema

LIGHTGBM: dict[str, Any] = {"num_iterations": 200, "learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20}
"""The classifier that settings are judged by: LightGBM's own, but for twice the trees. Chosen."""
POINTS = (40, 1000)
"""sigma_max is searched where about so many points come out: a boosted tree learns nothing from fewer.
(LightGBM wants 20 rows in a leaf; with many more the search takes hours.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Try settings of the clusters and their mixing; keep the points from which a classifier learns most.

    The classifier is LightGBM. It is trained on the points and tested on all the private rows they were made from, by
    the area under the ROC curve for two classes, by accuracy for more. The settings given are tried first.

    Args:
        approximate: How rows are clustered; sigma_max and the scaling are searched.
        mixing: How clusters become points; alpha and lambda are searched.
        trials: How many settings are tried.

    Reference:
        Madl, Xu, Choudhury, Howard 2023, "Hyperparameter tuning".
    """

    approximate: SizeConstrained
    mixing: Mixing
    trials: int = 30

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise SettingError(f"trials ({self.trials}) must be at least 1")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Nothing: the noise is planned with the clusters, and the search is not paid for."""
        return ()

    def adapt(self, model: Clusters, table: PrivateTable, plan: Plan) -> Points:
        """Search, and return the best points, which tell the settings that made them.

        Raises:
            SettingError: The model has no clusters, or the target no classes, so nothing says which points are best.
            MissingExtra: Optuna or LightGBM is not installed.
        """
        if not isinstance(model, Clusters):
            raise SettingError(f"the search needs clusters of rows, not a {type(model).__name__}")
        exposed = model.exposed
        if exposed.target is None:
            raise SettingError(f"search ({self.trials}) needs a target with classes; set search=0")
        best, highest = None, -np.inf
        given = self.approximate.sigma_max
        fewest, most = (model.sigma_l * points / len(exposed.labels) for points in POINTS)
        study = _study(int(exposed.rng.integers(1 << 31)))
        study.enqueue_trial(
            {
                "sigma_max": given,
                "scaling": self.approximate.scaling,
                "alpha": self.mixing.alpha,
                "regularisation": self.mixing.regularisation,
            }
        )
        for number in range(self.trials):
            trial = study.ask()
            approximate = replace(
                self.approximate,
                sigma_max=trial.suggest_float("sigma_max", min(fewest, given), max(most, given), log=True),
                scaling=trial.suggest_categorical("scaling", SCALINGS),
            )
            mixing = replace(
                self.mixing,
                alpha=trial.suggest_float("alpha", 0.0, 1.0),
                regularisation=trial.suggest_float("regularisation", 1e-6, 1.0, log=True),
            )
            points = mixing.anonymized(approximate.cluster(exposed, model.sigma_l) if number else model)
            points = replace(points, settings=trial.params)
            score = utility(points, exposed)
            study.tell(trial, score)
            if score > highest:
                best, highest = points, score
        assert best is not None
        return best


def utility(points: Points, exposed: ExposedRows) -> float:
    """Return how well a classifier trained on the points does on the private rows; 0 if they are of one class."""
    try:
        import lightgbm
        from sklearn.metrics import roc_auc_score
    except ImportError as error:
        raise MissingExtra(str(error.name), "evaluate") from None
    assert exposed.target is not None
    seen, codes = np.unique(points.chunk[exposed.target.name], return_inverse=True)
    if len(seen) < 2:
        return 0.0
    kinds = {"objective": "binary"} if len(seen) == 2 else {"objective": "multiclass", "num_class": len(seen)}
    settings = LIGHTGBM | kinds | {"num_threads": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1}
    listed = [index for index, column in enumerate(exposed.columns) if column.kind.listed]
    rows = lightgbm.Dataset(_matrix(points.chunk, exposed.columns), codes, categorical_feature=listed, params=settings)
    predicted = lightgbm.train(settings, rows).predict(_matrix(exposed.chunk, exposed.columns))
    if len(seen) > 2:
        return float((seen[predicted.argmax(axis=1)] == exposed.labels).mean())
    return float(roc_auc_score(exposed.labels == seen[1], predicted))


def _matrix(chunk: Chunk, columns: Sequence[Column]) -> NDArray[np.float64]:
    def numbers(column: Column) -> NDArray[np.float64]:
        values = chunk[column.name]
        return np.where(values < 0, np.nan, values) if column.kind.listed else values

    return np.column_stack([numbers(column) for column in columns])


def _study(seed: int) -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "published") from None
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    finally:
        optuna.logging.set_verbosity(before)
