"""The models that tell what a table is worth: fitted on one table, tested on another.

Each learner is a classifier, or its sibling for numbers if the target is numeric. Nothing is tuned: the settings are
the same for every table of a dataset, so that scores differ by the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.errors import InputError, SettingError
from threea.evaluate.evidence import Matrix
from threea.evaluate.utility import metrics
from threea.evaluate.utility.onehot import OneHot, frequent_codes
from threea.evaluate.utility.threads import load, side_by_side
from threea.scoring.learner import RARE as SCORED_RARE
from threea.scoring.learner import SETTINGS as LIGHTGBM

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Floats]
"""From features to probabilities of the classes seen in training, or to numbers."""

SETTINGS: dict[str, dict[str, Any]] = {
    "lightgbm": LIGHTGBM,
    "logistic": {"C": 1.0, "max_iter": 200, "categories": 50, "rows": 50_000},
    "svm": {"C": 1.0, "kernel": "rbf", "gamma": "scale", "categories": 50, "rows": 4_000, "test_rows": 10_000},
    "boosting": {"max_iter": 100, "learning_rate": 0.1, "max_leaf_nodes": 31, "rows": 200_000},
    "forest": {"n_estimators": 100, "min_samples_leaf": 5, "rows": 20_000},
}
"""Every learner's settings. `rows` and `test_rows` bound how many rows it is fitted and tested on, drawn at random;
`categories` is how many of a column's commonest categories have an indicator of their own."""

LEARNERS = tuple(SETTINGS)

RARE: dict[str, Any] = {"below_share": SCORED_RARE["below_share"], "lightgbm": SCORED_RARE["settings"]}
"""As of a release's own score."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be learned, decided from the real training rows alone and then the same for every table.

    Args:
        labels: Codes of the classes that the real training rows have; empty for a numeric target.
        positive: Which of two labels is the rarer, counted as positive; None for many classes or a numeric target.
        settings: Each learner's settings.
        rare: Whether the rarer of two classes is so rare that the settings for it apply.
    """

    labels: tuple[int, ...]
    positive: int | None
    settings: dict[str, dict[str, Any]]
    rare: bool

    @classmethod
    def of(cls, real: Matrix) -> Task:
        """Decide from the real training rows.

        Raises:
            InputError: They have no target, or only one class of it.
        """
        real = real.labelled()
        if not len(real.target):
            raise InputError("the target is missing in every training row; there is nothing to learn")
        if not real.classes:
            return cls((), None, SETTINGS, False)
        labels, counts = np.unique(real.target.astype(np.int64), return_counts=True)
        if len(labels) < 2:
            raise InputError("train has 1 class of the target; it needs at least 2")
        two = len(labels) == 2
        rare = bool(two and counts.min() < RARE["below_share"] * counts.sum())
        settings = SETTINGS | ({"lightgbm": SETTINGS["lightgbm"] | RARE["lightgbm"]} if rare else {})
        # The later of two equally common classes: "yes" rather than "no", 1 rather than 0.
        positive = int(labels[1] if counts[1] <= counts[0] else labels[0]) if two else None
        return cls(tuple(int(label) for label in labels), positive, settings, rare)

    @property
    def numeric(self) -> bool:
        """Whether the target is a number."""
        return not self.labels

    def testable(self, test: Matrix) -> Matrix:
        """Return the rows whose target is known and, if a class, one that can be learned."""
        test = test.labelled()
        return test if self.numeric else test.rows(np.isin(test.target, self.labels))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A learner fitted to a table.

    Args:
        learner: Its name.
        task: What it learned.
        seen: Codes of the classes that its table had; empty for a numeric target.
        rows: How many rows it was fitted on.
        inner: From features to probabilities of the classes seen, or to numbers.
        gains: How much each feature was used, for LightGBM.
    """

    learner: str
    task: Task
    seen: NDArray[np.int64]
    rows: int
    inner: Predict
    gains: Floats | None = None

    def predict(self, values: Floats) -> Floats:
        """Return a probability for each of the task's labels, or a number, for each row.

        Classes that the training table lacked have probability 0; classes that only it had are left out.
        """
        predicted = self.inner(values)
        if self.task.numeric:
            return predicted
        spread = np.zeros((len(values), max(*self.task.labels, *self.seen, 0) + 1))
        spread[:, self.seen] = predicted
        spread = spread[:, self.task.labels]
        total = spread.sum(axis=1, keepdims=True)
        return np.where(total > 0, spread / np.where(total > 0, total, 1.0), 1 / len(self.task.labels))

    def figures(self, test: Matrix) -> tuple[metrics.Figures, int]:
        """Return the figures on a test table, for any weighting of its rows, and the number of these rows.

        Rows that have weights of their own count by both.
        """
        test = self.tested(test)
        if not len(test.target):
            raise InputError("no test row has a class that the training rows have; there is nothing to score")
        predicted = self.predict(test.values)
        if self.task.numeric:
            return metrics.regression(predicted, test.target), len(test.target)
        own = np.ones(len(test.target)) if test.weights is None else test.weights
        truth = np.searchsorted(self.task.labels, test.target.astype(np.int64))
        positive = None if self.task.positive is None else self.task.labels.index(self.task.positive)
        figures = metrics.classification(predicted, truth, positive)
        return lambda weights: figures(weights * own), len(test.target)

    def tested(self, test: Matrix) -> Matrix:
        """Return the rows of a table that it is tested on."""
        return _sampled(self.task.testable(test), self.task.settings[self.learner].get("test_rows"), seed=0)

    def calibration(self, test: Matrix) -> list[dict[str, float]]:
        """Return the calibration curve on a test table, of the positive of two classes; empty of anything else."""
        test = self.tested(test)
        if self.task.positive is None or not len(test.target):
            return []
        told = self.predict(test.values)[:, self.task.labels.index(self.task.positive)]
        return metrics.calibration_curve(told, test.target == self.task.positive)


def score(learner: str, train: Matrix, test: Matrix, seed: int, task: Task | None = None) -> dict[str, float]:
    """Fit a learner on one table and score it on another.

    Args:
        learner: One of `LEARNERS`.
        train: Rows to learn from.
        test: Rows to score on.
        seed: Makes it repeatable.
        task: What is to be learned, `Task.of` the real training rows; give it whenever `train` is not these rows.

    Returns:
        auc, accuracy, f1, average_precision, calibration_error, brier, or for a numeric target r2, rmse, mae,
        spearman (see `metrics.MEANINGS`); NaN where undefined.

    Raises:
        SettingError: No such learner.
        MissingExtra: scikit-learn or LightGBM is not installed.
    """
    if learner not in SETTINGS:
        raise SettingError(f"learner ({learner}) is unknown; known: {', '.join(LEARNERS)}")
    chosen = task or Task.of(train)
    figures, rows = side_by_side({learner: lambda: fit(learner, train, seed, chosen).figures(test)})[learner]
    return {name: float(values[0]) for name, values in figures(np.ones((1, rows))).items()}


def fit(learner: str, train: Matrix, seed: int, task: Task) -> Fitted:
    """Fit a learner to those rows of a table whose target is known.

    A table that has nothing to learn from (one class, no features, no rows) gives a constant prediction. Call it
    through `side_by_side`, which keeps each fit to one thread.
    """
    train = _sampled(train.labelled(), task.settings[learner].get("rows"), seed)
    rows = len(train.target)
    if task.numeric:
        seen, target = np.zeros(0, np.int64), train.target
        constant = not rows or bool(np.all(target == target[0]))
    else:
        seen, codes = np.unique(train.target.astype(np.int64), return_inverse=True)
        target, constant = codes.astype(np.float64), len(seen) < 2
    if constant or not train.names:
        return Fitted(learner, task, seen, rows, _constant(target, train.weights, len(seen), task))
    settings = {k: v for k, v in task.settings[learner].items() if k not in ("rows", "test_rows")}
    inner, gains = _FITTERS[learner](replace(train, target=target), len(seen), settings, seed)
    return Fitted(learner, task, seen, rows, inner, gains)


def _constant(target: Floats, weights: Floats | None, classes: int, task: Task) -> Predict:
    """Predict the mean, or how common each class is."""
    if task.numeric:
        held = np.array(target.mean() if len(target) else 0.0)
    else:
        counts = np.bincount(target.astype(np.int64), weights, minlength=classes)
        held = counts / (counts.sum() or 1.0)
    return lambda values: np.broadcast_to(held, (len(values), *held.shape))


def _sampled(matrix: Matrix, bound: int | None, seed: int) -> Matrix:
    """Return at most so many of the rows, drawn at random."""
    if bound is None or len(matrix.target) <= bound:
        return matrix
    return matrix.rows(np.sort(np.random.default_rng(seed).choice(len(matrix.target), bound, replace=False)))


# Below: one function per learner; `classes` is 0 for a numeric target, which is scaled back where the learner needs it.


def _lightgbm(train: Matrix, classes: int, settings: dict[str, Any], seed: int) -> tuple[Predict, Floats | None]:
    lightgbm = load("lightgbm")
    objective = {0: {"objective": "regression"}, 2: {"objective": "binary"}}
    parameters = {
        **settings,
        **objective.get(classes, {"objective": "multiclass", "num_class": classes}),
        **{"seed": seed, "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1},
    }
    names = [f"f{index}" for index in range(len(train.names))]  # it takes no commas, brackets or quotes in names
    rows = lightgbm.Dataset(
        train.values,
        train.target,
        weight=train.weights,
        feature_name=names,
        categorical_feature=[names[index] for index in train.categorical],
        params=parameters,
    )
    model = lightgbm.train(parameters, rows)

    def predict(values: Floats) -> Floats:
        predicted: Floats = model.predict(values)
        return np.column_stack([1 - predicted, predicted]) if classes == 2 else predicted

    return predict, np.asarray(model.feature_importance("gain"), dtype=np.float64)


def _logistic(train: Matrix, classes: int, settings: dict[str, Any], seed: int) -> tuple[Predict, Floats | None]:
    linear = load("sklearn.linear_model")
    encoder = OneHot.of(train, settings.pop("categories"))
    if not classes:
        return _scaled(linear.Ridge(alpha=1 / settings["C"]), encoder, train), None
    model = linear.LogisticRegression(**settings)
    model.fit(encoder(train.values), train.target, train.weights)
    return lambda values: model.predict_proba(encoder(values)), None


def _svm(train: Matrix, classes: int, settings: dict[str, Any], seed: int) -> tuple[Predict, Floats | None]:
    svm = load("sklearn.svm")
    encoder = OneHot.of(train, settings.pop("categories"))
    if not classes:
        return _scaled(svm.SVR(**settings), encoder, train), None
    # Distances from the margin become probabilities by Platt's sigmoid, fitted to every fourth row, which the machine
    # did not see; unless these lack a class.
    kept = np.arange(len(train.target)) % 4 == 3
    if len(np.unique(train.target[kept])) < classes or len(np.unique(train.target[~kept])) < classes:
        fitted_on, calibrated_on = train, train
    else:
        fitted_on, calibrated_on = train.rows(~kept), train.rows(kept)
    machine = svm.SVC(**settings, random_state=seed)
    machine.fit(encoder(fitted_on.values), fitted_on.target, fitted_on.weights)

    def distances(values: Floats) -> Floats:
        return np.asarray(machine.decision_function(encoder(values))).reshape(len(values), -1)

    sigmoid = load("sklearn.linear_model").LogisticRegression(max_iter=1000)
    sigmoid.fit(distances(calibrated_on.values), calibrated_on.target, calibrated_on.weights)
    return lambda values: sigmoid.predict_proba(distances(values)), None


def _boosting(train: Matrix, classes: int, settings: dict[str, Any], seed: int) -> tuple[Predict, Floats | None]:
    ensemble = load("sklearn.ensemble")
    chosen = ensemble.HistGradientBoostingClassifier if classes else ensemble.HistGradientBoostingRegressor
    model = chosen(
        **settings,
        categorical_features=list(train.categorical) or None,
        # It would set rows aside, and fail where a class has one.
        early_stopping=False,
        random_state=seed,
    )
    codes = frequent_codes(train, model.max_bins)
    # It cannot bin a column without any value: such a one says nothing, and becomes a constant.
    hollow = np.isnan(train.values).all(axis=0)
    model.fit(np.where(hollow, 0.0, codes(train.values)), train.target, train.weights)
    predict = model.predict_proba if classes else model.predict
    return lambda values: predict(np.where(hollow, 0.0, codes(values))), None


def _forest(train: Matrix, classes: int, settings: dict[str, Any], seed: int) -> tuple[Predict, Floats | None]:
    ensemble = load("sklearn.ensemble")
    chosen = ensemble.RandomForestClassifier if classes else ensemble.RandomForestRegressor
    model = chosen(**settings, random_state=seed).fit(train.values, train.target, train.weights)
    return lambda values: model.predict_proba(values) if classes else model.predict(values), None


def _scaled(model: Any, encoder: OneHot, train: Matrix) -> Predict:
    """Fit a regression whose penalty or margin would depend on the target's unit, to the target in standard units."""
    centre, spread = train.target.mean(), train.target.std()
    model.fit(encoder(train.values), (train.target - centre) / spread)
    return lambda values: model.predict(encoder(values)) * spread + centre


_FITTERS: dict[str, Callable[..., tuple[Predict, Floats | None]]] = {
    "lightgbm": _lightgbm,
    "logistic": _logistic,
    "svm": _svm,
    "boosting": _boosting,
    "forest": _forest,
}
