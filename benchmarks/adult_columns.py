"""How far each column of Adult's default release is from the private rows: total variation, and hours of 40.

Cells are those of `threea evaluate`: a value that one row in a hundred holds has a cell of its own, and other numbers
are in twenty ranges of equally many real rows. `values` is the distance value by value, for whole numbers and
categories: what no range hides.
"""

import statistics
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import datasets
from benchmarks.adult import DATA
from benchmarks.measure import released, rows_drawn
from benchmarks.record import record
from threea.evaluate.fidelity import values
from threea.evaluate.fidelity.marginals import Sorted, mean_total_variation, total_variation
from threea.recipes import Auto

SEEDS, EPSILON, HELD_OUT = 5, 1.0, 0.25


def value_by_value(real: Any, made: Any) -> float:
    """Return the total variation distance of two columns, every value by itself."""
    shares: dict[Any, list[float]] = {}
    for place, column in enumerate((real, made)):
        for value, count in zip(*(found.to_pylist() for found in pc.value_counts(column).flatten()), strict=True):
            shares.setdefault(value, [0.0, 0.0])[place] = count / len(column)
    return sum(abs(left - right) for left, right in shares.values()) / 2


def measured(seed: int) -> dict[str, Any]:
    """Make a release of one split, and compare it with the rows that it was made from."""
    dataset = datasets.load("adult", DATA.parent)
    train, _ = dataset.split(seed, HELD_OUT)
    rows, delta = rows_drawn(train.num_rows, train.num_columns), 1 / train.num_rows
    made, _ = released(
        dataset, train, Auto(), epsilon=EPSILON, delta=delta, adjacency="add-remove", seed=seed, rows=rows
    )
    schema = dataset.schema
    assert schema is not None
    chunks = [values.as_they_are(table, schema) for table in (train, made)]
    cells = values.cells_of(chunks[0], chunks[1], schema)
    left, right = (Sorted.into(cells, chunk, seed) for chunk in chunks)
    share = [float(np.mean(table["hours-per-week"].to_numpy() == 40)) for table in (train, made)]
    return {
        "columns": {
            column.name: float(total_variation(left, right, [place])[0]) for place, column in enumerate(schema.valued)
        },
        "values": {
            name: value_by_value(train[name], made[name])
            for name in train.column_names
            if not pa.types.is_floating(train.schema.field(name).type)
        },
        **mean_total_variation(left, right, seed),
        "hours of 40: share off by": abs(share[0] - share[1]),
    }


def main() -> None:
    """Measure some splits."""
    found = [measured(seed) for seed in range(SEEDS)]
    results: dict[str, Any] = {
        part: {
            name: {
                "mean": round(statistics.mean(one[part][name] for one in found), 4),
                "largest": round(max(one[part][name] for one in found), 4),
            }
            for name in found[0][part]
        }
        for part in ("columns", "values")
    }
    for name in ("tv1", "tv2", "tv3", "hours of 40: share off by"):
        results[name] = {
            "mean": round(statistics.mean(one[name] for one in found), 4),
            "largest": round(max(one[name] for one in found), 4),
        }
    record("adult_columns", {"epsilon": EPSILON, "seeds": SEEDS, "held_out": HELD_OUT, "recipe": "auto"}, results)
