"""A model that tries to tell real from synthetic rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.evidence import Evidence, Matrix, listed_places, numbers
from threea.evaluate.utility import metrics
from threea.evaluate.utility.learners import SETTINGS, Fitted, Task, fit
from threea.evaluate.utility.threads import side_by_side

ROWS, FOLDS = 20_000, 4


def detector(evidence: Evidence, seed: int = 0) -> dict[str, Any]:
    """Try to tell the release's rows from training rows, equally many; each is judged by a model that never saw it.

    Nor did that model see another row of the same person, whom it would recognise.

    Returns:
        ``auc`` (value and interval: 0.5 cannot tell, 1 always can), ``rows`` (of each kind), ``folds``, ``interval``,
        ``settings`` and ``reading``.
    """
    tables = [evidence.train, evidence.synthetic]
    rows = min(ROWS, *(table.num_rows for table in tables))
    rng = np.random.default_rng([seed, 2])
    drawn = [np.sort(rng.choice(table.num_rows, rows, replace=False)) for table in tables]
    chosen = [table.take(order) for table, order in zip(tables, drawn, strict=True)]
    units = [evidence.units[0][drawn[0]], evidence.released_units[drawn[1]]]
    columns = evidence.schema.valued
    values = np.concatenate(numbers(chosen, columns))
    target = np.repeat([0.0, 1.0], rows)
    table = Matrix(tuple(c.name for c in columns), values, listed_places(columns), target, ("real", "synthetic"))
    fold = np.concatenate([_folds(people, rng) for people in units])
    task = Task((0, 1), 1, SETTINGS, False)
    fits = {str(k): partial(fit, "lightgbm", table.rows(fold != k), seed, task) for k in range(FOLDS)}
    models: list[Fitted] = list(side_by_side(fits).values())
    probabilities = np.zeros(2 * rows)
    for number, model in enumerate(models):
        probabilities[fold == number] = model.predict(values[fold == number])[:, 1]
    # Nobody is in both tables: released rows have numbers that no real ones have.
    people = np.concatenate([units[0], units[0].max() + 1 + units[1]])
    resampled = metrics.draws(metrics.auc(probabilities, target == 1), 2 * rows, seed, people)
    return {
        "auc": metrics.summary(resampled["auc"]),
        "rows": rows,
        "folds": FOLDS,
        "interval": metrics.INTERVAL,
        "settings": SETTINGS["lightgbm"],
        "reading": "0.5: it cannot tell them apart; 1: it always can, be it by a trifle such as the number of "
        "decimals; well under 0.5: the same rows are in both tables",
    }


def _folds(units: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Put people into folds of as equally many rows as they allow.

    Equally many of each kind in every fold: an uneven fold would shift its model's scores against the others'.
    """
    person = np.unique(units, return_inverse=True)[1]
    rows = np.bincount(person)
    order = rng.permutation(len(rows))
    before = np.empty(len(rows), np.int64)
    before[order] = np.cumsum(rows[order]) - rows[order]
    fold: NDArray[np.int64] = (before * FOLDS // len(units))[person]
    return fold
