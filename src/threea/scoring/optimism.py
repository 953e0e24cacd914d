"""What a score gains because the private rows had a part in the release; estimated without looking at them again.

Synthetic rows, as many as there are private ones, stand in for these: the recipe makes a release of them under the same
budget, a model learns from it, and scores both them and others. Another model, which they had no part in, scores the
same two tables; so what is easy or hard about either falls out, and the rest is the gain.

Reference:
    Efron (1983), Estimating the error rate of a prediction rule; his optimism, by a parametric bootstrap.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.errors import ThreeaError
from threea.framework import Recipe
from threea.release import Release
from threea.scoring.learner import Learned, learned
from threea.table import codec
from threea.table.schema import Chunk, Schema

Floats = NDArray[np.float64]

MOST_ROWS = 50_000
"""Of larger tables the gain is small, and to make releases of as many rows again takes long. Chosen."""
REPEATS = 2
_FRESH_ROWS = 20_000
_POOL = 8
"""Rows drawn for each one that stands in for a private one. Chosen."""


def gains(release: Release, recipe: Recipe, plan: Plan, model: Learned, elsewhere: float) -> dict[str, Floats]:
    """Return each figure's gain, one for each repeat; none if the table is large, or its size unknown.

    Args:
        release: What was made.
        recipe: By what.
        plan: Under which budget.
        model: Learned from it: it scores tables that it had no part in.
        elsewhere: The share of the budget that was spent on other questions than the recipe's own.
    """
    rows, stddev = release.summary.private_rows, release.summary.private_rows_stddev
    if rows is None or not 3 * stddev < rows < MOST_ROWS or release.summary.points is not None:
        return {}
    found: dict[str, list[float]] = {}
    schema = release.schema
    for repeat in range(REPEATS):
        rng = np.random.default_rng([release.seed, 2, repeat])
        stand_in = _independent(release, max(round(rows), 1), rng)
        fresh = release.source.sample(_FRESH_ROWS, rng)
        again = _learned_again(release, recipe, plan, stand_in, elsewhere, repeat)
        if again is None or again.classes != model.classes:
            continue
        tables = (schema.learned(stand_in), schema.learned(fresh))
        gained = [_less(exact(again, table, schema), exact(model, table, schema)) for table in tables]
        for name, value in _less(*gained).items():
            found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}


def _independent(release: Release, rows: int, rng: np.random.Generator) -> Chunk:
    """Draw rows that differ from what is likely by as much chance as private ones do.

    A model's own draws are more even than that: of as many rows, each cell has nearly as many as it should.
    """
    parts = []
    for count in rng.multinomial(rows, np.full(_POOL, 1 / _POOL)):
        chosen = rng.integers(0, rows, count)
        parts.append({name: values[chosen] for name, values in release.source.sample(rows, rng).items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _learned_again(
    release: Release, recipe: Recipe, plan: Plan, rows: Chunk, elsewhere: float, seed: int
) -> Learned | None:
    """Make a release of synthetic rows as the private ones' was made, and learn from it."""
    batch = codec.decode(rows, release.schema, release.layout, first_row=0)
    try:
        table = open_table(
            pa.Table.from_batches([batch], schema=release.layout),
            schema=release.schema.confirm(),
            budget=plan.budget,
            unit=release.unit.column,
            max_rows_per_unit=release.unit.max_rows,
        )
        made = recipe.run(table, rows=release.rows, seed=seed, plan=recipe.plan(table, elsewhere))
    except ThreeaError:
        # A table that cannot be released, of one class say, says nothing of the gain; and the score is paid for.
        return None
    return learned(release.schema.learned(next(made.chunks())), release.schema)


def _less(left: Mapping[str, float], right: Mapping[str, float]) -> dict[str, float]:
    return {name: left[name] - right[name] for name in left.keys() & right.keys()}


def exact(model: Learned, rows: Chunk, schema: Schema) -> dict[str, float]:
    """Return a model's figures on rows at hand."""
    truth, scores = rows[schema.target or ""], model.scores(rows)
    if not model.classes:
        known = ~np.isnan(truth)
        error = truth[known] - scores[0][known] * model.unit
        variance = max(float(truth[known].var()) if known.any() else 0.0, 1e-300)
        return (
            {"r2": float(1 - (error**2).mean() / variance), "mae": float(np.abs(error).mean())} if known.any() else {}
        )
    if len(model.classes) > 2:
        right = np.array(model.classes)[np.argmax(scores, axis=0)] == truth
        recalls = [right[truth == code].mean() for code in model.classes if (truth == code).any()]
        known = np.isin(truth, model.classes)
        if not known.any():
            return {}
        return {"accuracy": float(right[known].mean()), "balanced_accuracy": float(np.mean(recalls))}
    known = np.isin(truth, model.classes)
    positive, logits = truth[known] == model.classes[1], scores[0][known] * model.unit
    many, few = int(positive.sum()), int((~positive).sum())
    if not many or not few:
        return {}
    from scipy.stats import rankdata

    return {
        "auc": float((rankdata(logits)[positive].sum() - many * (many + 1) / 2) / (many * few)),
        "accuracy": float(((logits >= 0) == positive).mean()),
        "log_loss": float(np.logaddexp(0, np.where(positive, -logits, logits)).mean()),
        "calibration_bias": float((1 / (1 + np.exp(-np.clip(logits, -30, 30)))).mean() - positive.mean()),
    }
