"""A scikit-learn style estimator: fit on private rows, sample synthetic ones. Needs the extra `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from threea.errors import MissingExtra, SettingError
from threea.release import Release
from threea.session import make_recipe, synthesize
from threea.table.schema import Schema

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtra("scikit-learn", "evaluate") from None

_TARGET = "target"


class Synthesizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Synthetic rows from private ones, in scikit-learn's words.

    `fit` spends the whole budget; `sample` is free, as often as you like.

    Guarantees:
        - What `sample` returns is (epsilon, delta)-differentially private for each row that was fitted, as
          ``release_.guarantee`` says. The estimator keeps no row.

    Args:
        epsilon: Bound on the privacy loss.
        delta: Probability with which the bound may fail; well under one in the number of rows.
        recipe: The name of a recipe.
        settings: Of the recipe.
        schema: The table's public description, target included; found through the private table, from the same
            budget, if not given.
        ledger: Where spending is written down.
        dataset: The owner's name for the rows, in the ledger.
        random_state: Seeds sampling. Noise cannot be seeded, so no two fits are alike.

    Attributes:
        release_: The release, with certificate, report and model (`threea.Release`).
        n_features_in_: How many features were seen.
        feature_names_in_: Their names, if X has names that are all text.

    Example:
        >>> from threea import hospital
        >>> stays = hospital.stays(500).to_pandas()
        >>> fitted = Synthesizer(epsilon=1.0, recipe="independent").fit(stays[["age", "ward"]], stays["died"])
        >>> X, y = fitted.sample(10)
        >>> X.shape, y.dtype == stays["died"].dtype
        ((10, 2), True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        recipe: str = "auto",
        settings: Mapping[str, str] | None = None,
        schema: Schema | None = None,
        ledger: str | None = None,
        dataset: str = "unnamed",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.recipe = recipe
        self.settings = settings
        self.schema = schema
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Make a release of the rows.

        Cost:
            (epsilon, delta), written to the ledger before the first answer.

        Args:
            X: Features: a pandas or polars frame, an Arrow table, or an array of numbers.
            y: What models will learn to predict: a class or a number for each row; None if there is nothing.
        """
        table, target = self._joined(X, y)
        self.release_: Release = synthesize(
            table,
            epsilon=self.epsilon,
            delta=self.delta,
            target=target if self.schema is None else None,
            target_kind=None if target is None or self.schema else _kind(y),
            schema=self.schema,
            recipe=make_recipe(self.recipe, self.settings),
            ledger=self.ledger,
            dataset=self.dataset,
        )
        self._target = target
        return self

    def sample(self, n_samples: int = 1, given: Mapping[str, Any] | None = None) -> Any:
        """Draw rows. Free, for they follow from what was paid for.

        Args:
            n_samples: How many.
            given: Only such rows: by column, a value or a list of them, or ``(lower, upper)`` with None for no bound.

        Returns:
            X and y, of the kinds that were fitted; X alone if there was no y.
        """
        check_is_fitted(self)
        rows = self.release_.sample(n_samples, given=given, seed=self.random_state)
        if self._arrays:
            names = [name for name in rows.schema.names if name != self._target]
            features = np.column_stack([rows[name].to_numpy() for name in names])
            return features if self._target is None else (features, rows[self._target].to_numpy())
        if self._target is None:
            return rows
        if isinstance(rows, pa.Table):
            return rows.drop_columns([self._target]), rows[self._target]
        features = rows.drop(columns=[self._target]) if hasattr(rows, "iloc") else rows.drop(self._target)
        return features, rows[self._target]

    def _joined(self, features: Any, y: Any) -> tuple[Any, str | None]:
        """Return features and target as one table, and the target's name."""
        self._arrays = not (hasattr(features, "columns") or isinstance(features, pa.Table))
        if self._arrays:
            return self._from_arrays(features, y)
        validate_data(self, features, skip_check_array=True)
        if y is None:
            return features, None
        target = self._name(y, list(features.schema.names if isinstance(features, pa.Table) else features.columns))
        if isinstance(features, pa.Table):
            return features.append_column(target, _chunked(y)), target
        if hasattr(features, "iloc"):
            return features.assign(**{target: np.asarray(y) if not hasattr(y, "array") else y.array}), target
        return features.with_columns(y.alias(target)), target

    def _from_arrays(self, features: Any, y: Any) -> tuple[pa.Table, str | None]:
        if y is None:
            features, values = validate_data(self, features, ensure_min_samples=2), None
        else:
            features, values = validate_data(self, features, y, ensure_min_samples=2, y_numeric=False)
        columns = {f"x{position}": pa.array(column) for position, column in enumerate(features.T)}
        if values is not None:
            columns[_TARGET] = pa.array(values)
        return pa.table(columns), None if values is None else _TARGET

    def _name(self, y: Any, taken: list[str]) -> str:
        """Return the target's name: the schema's, its own, or a plain one."""
        own = self.schema.target if self.schema is not None else getattr(y, "name", None)
        name = own if isinstance(own, str) and own else _TARGET
        if name in taken:
            raise SettingError(f"y ({name}) has the name of a column of X; rename it")
        return name


def _chunked(values: Any) -> Any:
    return values if isinstance(values, pa.ChunkedArray | pa.Array) else pa.array(values)


def _kind(y: Any) -> str | None:
    """Return whether a target is a class or a number, by its declared type where that says so."""
    return "number" if getattr(getattr(y, "dtype", None), "kind", "") == "f" else None
