"""What training a generator takes in processor time, against the number of multiplications that predicts it."""

import resource
import time
from typing import Any

import numpy as np

from benchmarks.record import record
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.cost import cost_of
from threea.recipes import DPMerf, LaplaceGAN
from threea.table.schema import Schema

SHAPES = ((20, 100), (100, 1000), (784, 1000))
"""Numeric columns, and random features."""
ITERATIONS, ROWS = 60, 500


def made_up(columns: int) -> tuple[Any, Schema]:
    """Return rows of even numbers, and their schema."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    names = [f"c{number}" for number in range(columns)]
    table = pa.table({**{name: rng.random(ROWS) for name in names}, "y": rng.choice(["a", "b"], ROWS)})
    kinds: dict[str, Any] = {name: {"kind": "real", "lower": 0, "upper": 1, "nullable": False} for name in names}
    listed = {"kind": "categorical", "categories": ["a", "b"], "nullable": False}
    return table, Schema.of({**kinds, "y": listed}, target="y")


def main() -> None:
    """Train a little, on tables of some shapes."""
    results = []
    LaplaceGAN(iterations=2).run(open_table(hospital.stays(50), schema=hospital.schema(), budget=Budget(1.0)))
    for columns, features in SHAPES:
        table, schema = made_up(columns)
        for recipe in (DPMerf(features=features, iterations=ITERATIONS), LaplaceGAN(iterations=ITERATIONS)):
            start = time.process_time()
            recipe.run(open_table(table, schema=schema, budget=Budget(1.0)))
            predicted = cost_of(recipe.name, schema, training=recipe.training)
            assert predicted is not None
            results.append(
                {
                    "recipe": recipe.name,
                    "columns": columns,
                    "features": features,
                    "multiplications": recipe.training(columns),
                    "cpu_seconds": round(time.process_time() - start, 2),
                    "predicted_at_most": round(predicted.seconds, 2),
                    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                }
            )
    record("network_times", {"iterations": ITERATIONS, "rows": ROWS}, results)
