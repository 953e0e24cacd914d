"""A scikit-learn style estimator: fit on private rows, sample synthetic ones. Needs the extra `evaluate`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

import numpy as np
import pyarrow as pa

from threea.backends.objects import as_text, categories_as_text
from threea.errors import InputError, MissingExtra, SettingError
from threea.release import Release
from threea.session import make_recipe, synthesize
from threea.table.layout import is_text, undeclared
from threea.table.schema import Column, Kind, Schema

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import (
        assert_all_finite,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
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

        Lists and arrays of objects or text declare no type: their values are read one by one, as those of a CSV file.

        Cost:
            (epsilon, delta), written to the ledger before the first answer.

        Args:
            X: Features: a pandas or polars frame, an Arrow table, an array of numbers, or rows of any values.
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
            if self._target is None:
                return features
            return features, _labels(rows[self._target], self.release_.schema[self._target])
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
        check_consistent_length(features, y)
        if isinstance(features, pa.Table):
            return features.append_column(*_column(target, y)), target
        if hasattr(features, "iloc"):
            return features.assign(**{target: _beside(features, y)}), target
        if not hasattr(y, "alias"):
            raise SettingError(f"y ({type(y).__name__}) must be a polars Series, as X is a polars frame; convert it")
        return features.with_columns(y.alias(target)), target

    def _from_arrays(self, features: Any, y: Any) -> tuple[pa.Table, str | None]:
        if not _declares(features):
            features = _objects(features)
        if not hasattr(features, "toarray"):
            # A stand-in for the values: scikit-learn's word on a wrong shape would show them.
            validate_data(self, np.broadcast_to(0.0, features.shape), ensure_min_samples=2)
        if _declares(features):
            features = validate_data(self, features)
        columns = {f"x{place}": values for place, values in enumerate(features.T)}
        if y is not None:
            check_consistent_length(features, y)
            columns[_TARGET] = _checked(y) if isinstance(y, np.ndarray) and _declares(y) else y
        fields, arrays = zip(*(_column(name, values) for name, values in columns.items()), strict=True)
        return pa.Table.from_arrays(list(arrays), schema=pa.schema(fields)), None if y is None else _TARGET

    def _name(self, y: Any, taken: list[str]) -> str:
        """Return the target's name: the schema's, its own, or a plain one."""
        own = self.schema.target if self.schema is not None else getattr(y, "name", None)
        name = own if isinstance(own, str) and own else _TARGET
        if name in taken:
            raise SettingError(f"y ({name}) has the name of a column of X; rename it")
        return name


class FitError(InputError, TypeError, ValueError):
    """What is fitted cannot be read; scikit-learn's own names for that hold, too."""


def _labels(target: pa.ChunkedArray, column: Column) -> Any:
    """Return classes as an array; those that are whole numbers as such, by the names that the schema has for them."""
    whole = all(word.isdecimal() and str(int(word)) == word for word in column.categories)
    numbers = column.kind is Kind.CATEGORICAL and whole and not column.open_ended and is_text(target.type)
    return (target.cast(pa.int64()) if numbers else target).to_numpy()


def _declares(values: Any) -> bool:
    """Tell whether values declare a type: lists and arrays of objects or text do not."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind == "c":
        raise FitError("Complex data not supported; give their real and imaginary parts as two columns")
    return isinstance(values, pa.Array | pa.ChunkedArray) or hasattr(values, "toarray") or kind not in "OSU"


def _checked(y: Any) -> Any:
    """Return an array of numbers as scikit-learn takes a target: of one dimension, and finite."""
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    return y


def _objects(rows: Any) -> Any:
    """Return rows of Python objects as an array of them, each as it is."""
    array = None
    with suppress(Exception):
        array = np.array(rows, dtype=object)
    if array is None:
        raise FitError(f"X ({type(rows).__name__}) must be a table, an array or rows of equally many values")
    return array


def _beside(features: Any, values: Any) -> Any:
    """Return values as a column of a pandas frame that declares what they declare: a list, nothing."""
    if not (hasattr(values, "array") or (isinstance(values, np.ndarray) and _declares(values))):
        array = np.empty(len(values), object)
        array[:] = list(values)
        values = array
    # Without a dtype, pandas would look for one among the objects.
    series = sys.modules["pandas"].Series
    return series(getattr(values, "array", values), index=features.index, dtype=values.dtype)


def _column(name: str, values: Any) -> tuple[pa.Field, Any]:
    """Return values as a column with the type that they declare, or as text, one by one, if they declare none."""
    if _declares(values):
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
        return pa.field(name, array.type), array
    if hasattr(values, "columns") or getattr(values, "ndim", 1) != 1:
        raise FitError(f"y ({type(values).__name__}) must be one column")
    category = type(getattr(values, "dtype", None)).__name__ == "CategoricalDtype"
    text = (categories_as_text if category else as_text)(values)
    if text is None:
        raise FitError(f"column {name}: every argument must be a string, a number, a truth value or a date; convert it")
    return undeclared(name), text


def _kind(y: Any) -> str | None:
    """Return whether a target is a class or a number, by its declared type where that says so."""
    return "number" if getattr(getattr(y, "dtype", None), "kind", "") == "f" else None
