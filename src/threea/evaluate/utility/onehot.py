"""Features as learners without notions of categories and missing values need them; made from the training table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.evidence import Matrix

Floats = NDArray[np.float64]

_FAR = 10.0
"""Where standard units are cut off: a value far outside the training table's must not decide alone."""


@dataclass(frozen=True, slots=True)
class OneHot:
    """Numbers in standard units, an indicator per common category, and one for missing where the training table has it.

    Args:
        numeric: Position, mean and spread of each number, and whether it was ever missing.
        listed: Position of each category column and the codes that have an indicator; NaN among them for missing.
    """

    numeric: tuple[tuple[int, float, float, bool], ...]
    listed: tuple[tuple[int, Floats, bool], ...]

    @classmethod
    def of(cls, train: Matrix, categories: int) -> OneHot:
        """Read means and common categories off the training table."""
        numeric, listed = [], []
        for index, column in enumerate(train.values.T):
            known = column[~np.isnan(column)]
            missing = len(known) < len(column)
            if index in train.categorical:
                listed.append((index, _common(known, categories), missing))
            else:
                centre, spread = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
                # A constant has no unit.
                spread = spread if spread > 1e-12 * max(abs(centre), 1e-300) else 1.0
                numeric.append((index, float(centre), float(spread), missing))
        return cls(tuple(numeric), tuple(listed))

    def __call__(self, values: Floats) -> Floats:
        """Turn features into indicators and standard units."""
        parts: list[Floats] = [np.zeros((len(values), 0))]
        for index, centre, spread, missing in self.numeric:
            column = values[:, index]
            scaled = np.clip((column - centre) / spread, -_FAR, _FAR)
            parts.append(np.nan_to_num(scaled, nan=0.0)[:, None])
            parts += [np.isnan(column)[:, None].astype(float)] if missing else []
        for index, codes, missing in self.listed:
            column = values[:, index]
            parts.append((column[:, None] == codes).astype(float))
            parts += [np.isnan(column)[:, None].astype(float)] if missing else []
        return np.hstack(parts)


def frequent_codes(train: Matrix, limit: int) -> Callable[[Floats], Floats]:
    """Return a function that numbers each column's `limit` commonest categories from 0; others become missing."""
    common = {index: _common(train.values[:, index], limit) for index in train.categorical}

    def renumber(values: Floats) -> Floats:
        values = values.copy()
        for index, codes in common.items():
            column = values[:, index]
            position = np.searchsorted(codes, column).clip(max=max(len(codes) - 1, 0))
            known = codes[position] == column if len(codes) else np.zeros(len(column), np.bool_)
            values[:, index] = np.where(known, position, np.nan)
        return values

    return renumber


def _common(codes: Floats, limit: int) -> Floats:
    """Return the commonest codes, in rising order."""
    distinct, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
    kept: Floats = np.sort(distinct[np.argsort(-counts, kind="stable")[:limit]])
    return kept
