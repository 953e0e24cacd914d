"""Processor time and memory of `mst` and `aim` by the number of columns."""

import resource
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa

import threea
from benchmarks.record import record

COLUMNS, ROWS, RECIPES = (10, 20, 40), 20_000, ("mst", "aim")


def simulated(columns: int, rng: np.random.Generator) -> pa.Table:
    """Return rows of a chain: each column is the one before it with noise, every other one cut into five categories."""
    values, chain = {}, rng.standard_normal(ROWS)
    for number in range(columns):
        chain = 0.8 * chain + 0.6 * rng.standard_normal(ROWS)
        cut = number % 2 == 1
        values[f"c{number}"] = pa.array(np.digitize(chain, [-1, 0, 1, 2]).astype(str)) if cut else pa.array(chain)
    values["label"] = pa.array(np.where(chain > 1, "yes", "no"))
    return pa.table(values)


def measured(recipe: str, columns: int) -> tuple[float, float]:
    """Return processor seconds of one release, and the process's peak memory in MB."""
    table = simulated(columns - 1, np.random.default_rng(columns))
    kinds = {
        name: {"kind": "real", "lower": -5, "upper": 5}
        if pa.types.is_floating(table.schema.field(name).type)
        else {"kind": "categorical", "categories": sorted(table[name].unique().to_pylist())}
        for name in table.column_names
    }
    schema = threea.Schema.of(kinds, target="label")
    start = time.process_time()
    assert threea.synthesize(table, schema=schema, epsilon=1.0, recipe=recipe).table.num_rows
    return time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each in a process of its own."""
    results = []
    for columns in COLUMNS:
        for recipe in RECIPES:
            code = f"from benchmarks.graph_columns import measured; print(*measured({recipe!r}, {columns}))"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            seconds, memory = map(float, done.stdout.split())
            results.append(
                {"columns": columns, "recipe": recipe, "processor_seconds": round(seconds, 1), "mb": round(memory)}
            )
            print(results[-1], flush=True)
    record("graph_columns", {"rows": ROWS, "epsilon": 1}, results)


if __name__ == "__main__":
    main()
