"""Whether training and holdout rows were divided at random, as far as their values show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from threea.evaluate.areas import area_figure
from threea.evaluate.evidence import Evidence, numbers
from threea.evaluate.learned import learned
from threea.evaluate.pairs import Pairs

SHARE = 0.01
"""The share of random divisions that are called otherwise, at most."""
ROWS, FEWEST = 20_000, 20


def told_apart(evidence: Evidence, seed: int = 0) -> dict[str, Any]:
    """Try to tell training from holdout rows: if that works they were not divided at random, as attacks assume.

    A model learns from half of the people, as many of either side and with equally many rows, and is tried on others.

    Guarantees:
        - Of divisions of people at random, at most `SHARE` are called otherwise.

    Returns:
        ``auc`` (a figure, or no value where there are too few people) and whether the division looks ``random``.
    """
    rng = np.random.default_rng([seed, 6])
    pairs = Pairs.of(*evidence.units, rng, ROWS)
    if pairs.count < FEWEST:
        return {"auc": {"value": None, "interval": None}, "random": True}
    tables = [evidence.train.take(pa.array(pairs.train)), evidence.holdout.take(pa.array(pairs.holdout))]
    train, holdout = numbers(tables, evidence.schema.valued)
    scores, pair = learned((train, holdout), pairs.pair, seed)
    auc = area_figure("area under the curve", scores, pair, rng)
    return {"auc": auc, "random": auc["p"] > SHARE}
