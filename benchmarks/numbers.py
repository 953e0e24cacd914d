"""Numbers as people know them: codes, spikes, steps, ranges and weekdays of a made-up table, with the default command.

All figures are shares of rows, and best at 0. Run it as `python -m benchmarks numbers`; what an earlier version gave
stays in the result under its own name.
"""

import datetime
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.record import RESULTS, record
from threea.describe.propose_schema import propose_schema
from threea.session import synthesize
from threea.table.schema import Schema

ROWS, SEEDS, EPSILON = 20_000, 3, 1.0
TARGET = "bought"
RATES = np.array([0.5, 0.75, 1.25, 1.9, 2.4, 2.9, 3.5, 4.25, 4.99, 6.0])
DAYS = 730
FIRST_DAY = datetime.date(2022, 1, 1)


def table(seed: int) -> pa.Table:
    """Make up a table whose numbers have what people know of them."""
    rng = np.random.default_rng(seed)
    bought = rng.random(ROWS) < 0.3
    usual = np.clip(np.round(rng.normal(38, 12, ROWS)), 1, 99)
    office = np.array([0.3 if (FIRST_DAY + datetime.timedelta(day)).weekday() > 4 else 1.0 for day in range(DAYS)])
    wage = np.exp(rng.normal(10.8 + 0.2 * bought, 0.5))
    days = rng.choice(DAYS, ROWS, p=office / office.sum())
    return pa.table(
        {
            "days_since": np.where(rng.random(ROWS) < 0.96, 999, rng.integers(0, 28, ROWS)),
            "weight": np.where(rng.random(ROWS) < 0.08, -99.0, np.round(rng.normal(70 + 5 * bought, 12), 1)),
            "score": np.where(rng.random(ROWS) < 0.05, -99, rng.integers(0, 121, ROWS)),
            "hours": np.where(rng.random(ROWS) < 0.47, 40, usual).astype(np.int64),
            "rate": rng.choice(RATES, ROWS, p=np.array([1, 2, 3, 4, 5, 5, 4, 3, 2, 1]) / 30),
            "wage": (np.clip(np.round(wage / 1e4), 1, None) * 10_000).astype(np.int64),
            "price": np.round(np.exp(rng.normal(3 + 0.3 * bought, 0.8)), 2),
            "zip": rng.choice([90001, 90210, 92101, 93701, 94103, 95814], ROWS) + rng.integers(0, 90, ROWS),
            "longitude": rng.normal(-119.5, 1.2, ROWS),
            "year": np.clip(np.round(rng.normal(1990, 15, ROWS)), 1940, 2020).astype(np.int64),
            "ward": pa.array(rng.choice(["north", "south", "west"], ROWS)),
            "day": pa.array(days + (FIRST_DAY - datetime.date(1970, 1, 1)).days, pa.int32()).cast(pa.date32()),
            TARGET: pa.array(np.where(bought, "yes", "no")),
        }
    )


def numbers(rows: pa.Table, column: str) -> np.ndarray:
    """Return a column's numbers, missing ones left out."""
    return rows[column].drop_null().to_numpy().astype(float)


def share_of(column: str, value: float) -> Callable[[pa.Table, pa.Table], float]:
    """Return how to tell by how much the share of a value is off."""

    def off(real: pa.Table, made: pa.Table) -> float:
        return abs(float(np.mean(numbers(real, column) == value) - np.mean(numbers(made, column) == value)))

    return off


def outside(column: str) -> Callable[[pa.Table, pa.Table], float]:
    """Return how to tell how many numbers lie beyond the real ones."""

    def off(real: pa.Table, made: pa.Table) -> float:
        low, high = numbers(real, column).min(), numbers(real, column).max()
        values = numbers(made, column)
        return float(np.mean((values < low) | (values > high)))

    return off


def between(column: str, low: float, high: float) -> Callable[[pa.Table, pa.Table], float]:
    """Return how to tell how many numbers lie where none can."""

    def off(real: pa.Table, made: pa.Table) -> float:
        values = numbers(made, column)
        return float(np.mean((values > low) & (values < high)))

    return off


def unlisted(column: str) -> Callable[[pa.Table, pa.Table], float]:
    """Return how to tell how many numbers are none of the real ones."""

    def off(real: pa.Table, made: pa.Table) -> float:
        return float(np.mean(~np.isin(numbers(made, column), np.unique(numbers(real, column)))))

    return off


def off_step(column: str, per_unit: float) -> Callable[[pa.Table, pa.Table], float]:
    """Return how to tell how many numbers are no multiples of a step, given how many steps make one."""

    def off(real: pa.Table, made: pa.Table) -> float:
        places = numbers(made, column) * per_unit
        return float(np.mean(np.abs(places - np.round(places)) > 1e-6))

    return off


def phantoms(real: pa.Table, made: pa.Table) -> float:
    """Return the largest share of missing or other values in a column: there are none."""
    missing = [made[name].null_count / made.num_rows for name in made.column_names]
    other = float(pc.mean(pc.fill_null(pc.equal(made["ward"], "other"), False)).as_py())
    return max(*missing, other)


def weekdays(real: pa.Table, made: pa.Table) -> float:
    """Return the total variation distance of the days of the week."""
    shares = []
    for rows in (real, made):
        days = pc.day_of_week(rows["day"].drop_null()).to_numpy()
        shares.append(np.bincount(days, minlength=7) / max(len(days), 1))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


FIGURES: dict[str, Callable[[pa.Table, pa.Table], float]] = {
    "code 999 of days_since: share off by": share_of("days_since", 999),
    "days_since between 27 and 999": between("days_since", 27, 999),
    "code -99 of weight: share off by": share_of("weight", -99),
    "weight between -99 and 15": between("weight", -99, 15),
    "code -99 of score: share off by": share_of("score", -99),
    "score between -99 and 0": between("score", -99, 0),
    "hours of 40: share off by": share_of("hours", 40),
    "rate not among the 10": unlisted("rate"),
    "wage no multiple of 10,000": off_step("wage", 1e-4),
    "price no multiple of a cent": off_step("price", 100),
    "zip outside the real range": outside("zip"),
    "longitude outside the real range": outside("longitude"),
    "year outside the real range": outside("year"),
    "missing or other where there are none": phantoms,
    "weekdays: total variation distance": weekdays,
}


def figures(seed: int, described: bool) -> dict[str, float]:
    """Make a release with the default command, and compare it with the real rows."""
    real = table(seed)
    schema: Schema | None = propose_schema(real, TARGET)[0].confirm() if described else None
    release = synthesize(real, target=TARGET, schema=schema, epsilon=EPSILON, delta=1 / ROWS, seed=seed)
    return {name: figure(real, release.table) for name, figure in FIGURES.items()}


def main() -> None:
    """Measure with the drafted schema as it stands, and without one."""
    results: dict[str, Any] = {}
    for way, described in (("drafted schema", True), ("no schema", False)):
        by_seed = [figures(seed, described) for seed in range(SEEDS)]
        results[way] = {name: round(statistics.mean(cell[name] for cell in by_seed), 4) for name in FIGURES}
    kept = RESULTS / "numbers.json"
    if kept.exists() and "before" in (earlier := json.loads(kept.read_text())["results"]):
        results["before"] = earlier["before"]
    settings = {"rows": ROWS, "seeds": SEEDS, "epsilon": EPSILON, "delta": 1 / ROWS, "recipe": "auto"}
    record("numbers", settings, results)
