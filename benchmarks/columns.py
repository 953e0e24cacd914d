"""Time of a release by the number of columns: half numbers, half categories, each depending on the one before it."""

import statistics
import time

import numpy as np
import pyarrow as pa

from benchmarks.record import record

COLUMNS, ROWS, REPEATS = (20, 50, 100, 200), 20_000, 1


def simulated(columns: int, rng: np.random.Generator) -> pa.Table:
    """Return rows of a chain: each column is the one before it with noise, every other one cut into five categories."""
    values, chain = {}, rng.standard_normal(ROWS)
    for number in range(columns):
        chain = 0.8 * chain + 0.6 * rng.standard_normal(ROWS)
        cut = number % 2 == 1
        values[f"c{number}"] = pa.array(np.digitize(chain, [-1, 0, 1, 2]).astype(str)) if cut else pa.array(chain)
    values["label"] = pa.array(np.where(chain > 1, "yes", "no"))
    return pa.table(values)


def main() -> None:
    """Release tables of growing width with both recipes, and compare within this run."""
    import threea

    results = []
    for columns in COLUMNS:
        table = simulated(columns, np.random.default_rng(columns))
        kinds = {
            name: {"kind": "real", "lower": -5, "upper": 5}
            if pa.types.is_floating(table.schema.field(name).type)
            else {"kind": "categorical", "categories": sorted(table[name].unique().to_pylist())}
            for name in table.column_names
        }
        schema = threea.Schema.of(kinds, target="label")
        seconds = {}
        for recipe in ("independent", "labeltree"):
            figures = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                assert threea.synthesize(table, schema=schema, epsilon=1.0, recipe=recipe).table.num_rows
                figures.append(time.perf_counter() - start)
            seconds[recipe] = statistics.median(figures)
        ratio = seconds["labeltree"] / seconds["independent"]
        results.append({"columns": columns, "seconds": seconds, "ratio": ratio})
        print(results[-1])
    record("columns", {"rows": ROWS, "repeats": REPEATS, "median": True, "epsilon": 1}, results)
