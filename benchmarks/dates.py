"""Dates by the calendar: weekdays, months and times of day of a made-up table, with the default command.

Figures are total variation distances of the released dates' shares to the real ones', best at 0, and shares of rows;
each as mean, smallest and largest of the seeds. Beside them are those of the same releases with days drawn evenly
within bins. Run it as `python -m benchmarks dates`.
"""

import datetime
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.record import record
from threea.describe.propose_schema import propose_schema
from threea.release import Release
from threea.session import synthesize
from threea.table.calendar_cells import LABELS, MONTH, PER_DAY, TIME, WEEKDAY, CalendarCells

ROWS, SEEDS, EPSILON = 20_000, 10, 1.0
TARGET = "died"
FIRST = (datetime.date(2021, 1, 1) - datetime.date(1970, 1, 1)).days
DAYS = np.arange(FIRST, FIRST + 3 * 365)
WEEKEND = (5, 6)


def table(seed: int) -> pa.Table:
    """Make up stays: admitted on weekdays and in winter, seen in office hours; a birthday knows no calendar."""
    rng = np.random.default_rng(seed)
    age = rng.gamma(12, 5, ROWS)
    winter = np.where(np.isin(_cells(DAYS, MONTH), [11, 0, 1]), 2.5, 1.0)
    weekend = np.isin(_cells(DAYS, WEEKDAY), WEEKEND)
    usual = np.where(weekend, 0.05 * winter / winter[weekend].sum(), 0.95 * winter / winter[~weekend].sum())
    hours = rng.choice(24, ROWS, p=np.repeat([0.01, 0.085, 0.01], [7, 10, 7]) / 0.99)
    seconds = rng.integers(1, 3600, ROWS) * 10**6
    seen = rng.choice(DAYS, ROWS, p=usual) * PER_DAY + hours * PER_DAY // 24 + seconds
    days = {
        "admitted": rng.choice(DAYS, ROWS, p=usual),
        "born": np.floor(FIRST - 365.25 * age - rng.integers(0, 365, ROWS)),
    }
    return pa.table(
        {name: pa.array(values.astype(np.int32)).cast(pa.date32()) for name, values in days.items()}
        | {
            "seen": pa.array(seen).cast(pa.timestamp("us")),
            "billed": pa.array(rng.choice(DAYS, ROWS) * PER_DAY).cast(pa.timestamp("us")),
            "sex": pa.array(rng.choice(["f", "m"], ROWS)),
            "ward": pa.array(rng.choice(["medicine", "surgery", "children"], ROWS, p=[0.5, 0.4, 0.1])),
            TARGET: pa.array(np.where(rng.random(ROWS) < 1 / (1 + np.exp(6 - age / 15)), "yes", "no")),
        }
    )


def _cells(values: np.ndarray, part: str, moments: bool = False) -> np.ndarray:
    return CalendarCells(column="any", part=part, moments=moments).index(values)


def shares(rows: pa.Table, column: str, part: str) -> np.ndarray:
    """Return the shares of a column's dates in the cells of a part of the calendar."""
    moments = pa.types.is_timestamp(rows[column].type)
    known = rows[column].drop_null().cast(pa.int64() if moments else pa.int32()).to_numpy()
    return np.bincount(_cells(known, part, moments), minlength=len(LABELS[part])) / max(len(known), 1)


def apart(column: str, part: str) -> Callable[[pa.Table, pa.Table], float]:
    """Return how to tell how far the shares of a part of the calendar are off."""
    return lambda real, made: float(np.abs(shares(real, column, part) - shares(made, column, part)).sum() / 2)


def weekends(real: pa.Table, made: pa.Table) -> float:
    """Return the share of released admissions at a weekend; of real ones it is 0.05."""
    return float(shares(made, "admitted", WEEKDAY)[list(WEEKEND)].sum())


def sharp(real: pa.Table, made: pa.Table) -> float:
    """Return the share of released bills at midnight sharp; all real ones are."""
    return float(shares(made, "billed", TIME)[0])


FIGURES: dict[str, Callable[[pa.Table, pa.Table], float]] = {
    "admitted: share at weekends": weekends,
    "admitted: weekdays": apart("admitted", WEEKDAY),
    "admitted: months": apart("admitted", MONTH),
    "seen: weekdays": apart("seen", WEEKDAY),
    "seen: months": apart("seen", MONTH),
    "seen: times of day": apart("seen", TIME),
    "born: weekdays": apart("born", WEEKDAY),
    "born: months": apart("born", MONTH),
    "billed: share at midnight": sharp,
}
EVEN = {"born": 2, "billed": 2}
"""Parts of the calendar of which a column knows nothing: weekday and month."""


def made(seed: int, described: bool) -> tuple[pa.Table, Release]:
    """Make a release with the default command."""
    real = table(seed)
    schema = propose_schema(real, TARGET)[0].confirm() if described else None
    return real, synthesize(real, target=TARGET, schema=schema, epsilon=EPSILON, delta=1 / ROWS, seed=seed)


def main() -> None:
    """Measure with the drafted schema as it stands, and without one."""
    results: dict[str, Any] = {}
    for way, described in (("drafted schema", True), ("no schema", False)):
        releases = [made(seed, described) for seed in range(SEEDS)]
        evenly = [(real, replace(release, calendars=())) for real, release in releases]
        results[way] = {"by the calendar": _summary(releases), "evenly within bins": _summary(evenly)}
        weighed = [(c.cells.column, part) for _, release in releases for c in release.calendars for part in c.weights]
        results[way]["false alarms"] = {
            "alarms": sum(column in EVEN and part != TIME for column, part in weighed),
            "of": SEEDS * sum(EVEN.values()),
        }
    settings = {"rows": ROWS, "seeds": SEEDS, "epsilon": EPSILON, "delta": 1 / ROWS, "recipe": "auto"}
    record("dates", settings, results)


def _summary(releases: list[tuple[pa.Table, Release]]) -> dict[str, dict[str, float]]:
    tables = [(real, release.table) for real, release in releases]
    by_name = {name: [figure(*pair) for pair in tables] for name, figure in FIGURES.items()}
    return {
        name: {
            "mean": round(statistics.mean(values), 4),
            "smallest": round(min(values), 4),
            "largest": round(max(values), 4),
        }
        for name, values in by_name.items()
    }
