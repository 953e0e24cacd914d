"""A model that learns from half of the pairs which side a row is on, and is tried on the other half."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from threea.errors import MissingExtra

Vector = NDArray[np.float64]
Pair = NDArray[np.int64]


def learned(sides: tuple[Vector, Vector], pair: Pair, seed: int) -> tuple[tuple[Vector, Vector], Pair]:
    """Score the rows of the second half of the pairs by a model of the first half.

    Args:
        sides: The features of either side's rows, as many of each.
        pair: The pair that each row of a side is of, increasing.
        seed: Makes it repeatable.

    Returns:
        How likely each row is to be on the first side, for either side's rows; and their pairs, from 0.

    Raises:
        MissingExtra: LightGBM is not installed.
    """
    try:
        import lightgbm
    except ImportError:
        raise MissingExtra("lightgbm", "evaluate") from None
    half = (int(pair[-1]) + 1) // 2
    taught = int(np.searchsorted(pair, half))
    settings = {"objective": "binary", "num_leaves": 8, "learning_rate": 0.05, "min_data_in_leaf": 20, "verbose": -1}
    fixed = {"seed": seed, "deterministic": True, "num_threads": 1, "force_row_wise": True}
    features, first = np.concatenate([side[:taught] for side in sides]), np.repeat([1, 0], taught)
    model = lightgbm.train(settings | fixed, lightgbm.Dataset(features, first), num_boost_round=100)
    scores = tuple(np.asarray(model.predict(side[taught:])) for side in sides)
    return (scores[0], scores[1]), pair[taught:] - half
