"""How often `threea evaluate` accuses a release that never saw the training rows, and whether it catches copies.

Every release here is of other people than the training rows, drawn from the same simulated population, so that each
sign is a false alarm. The copies are the opposite: they hold training rows, and must be caught.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.record import RESULTS, record
from threea.evaluate.attacks import attacks
from threea.evaluate.attacks.decision import SHARE
from threea.evaluate.divided import SHARE as SPLIT_SHARE
from threea.evaluate.divided import told_apart
from threea.evaluate.evidence import Evidence
from threea.evaluate.intervals import clopper_pearson
from threea.table.schema import Schema

RELEASES = 200
ROWS_A_PERSON = {"rows": 1, "few": 3, "many": 20, "unequal": 8}
"""Mean rows a person. `rows` has no column that names the person; the number is the same for all in `many`, Poisson in
`few`, and geometric in `unequal`."""
PERSONS, HOLDOUTS = (120, 400, 1500), (0.5, 0.2)
MADE = ("fresh", "independent", "oversampled")
"""Rows of other people; rows that the recipe `independent` makes of other people; five times as many of the first."""
COPIES = {"whole": 1.0, "half": 0.5, "tenth": 0.1}
"""Which share of the training rows a release copies; the other rows are fresh."""
COPY_PERSONS = (400, 1500)
EPSILON, CHUNK = 1.0, 10


@dataclass(frozen=True, slots=True)
class Case:
    """A release to evaluate.

    Args:
        persons: How many people the training and holdout rows are of, together.
        rows: How many rows they have, a key of `ROWS_A_PERSON`.
        holdout: The share of the people held out.
        made: How the release was made, one of `MADE` or a key of `COPIES`.
    """

    persons: int
    rows: str
    holdout: float
    made: str


def independent_cases(count: int) -> Iterator[Case]:
    """Return cases of releases that saw no training row, all combinations in turn."""
    grid = [
        Case(persons, rows, holdout, made)
        for persons in PERSONS
        for rows in ROWS_A_PERSON
        for holdout in HOLDOUTS
        for made in MADE
    ]
    # A stride that shares no factor with the grid: a short run too meets every kind of case.
    return (grid[number * 31 % len(grid)] for number in range(count))


def copies() -> Iterator[Case]:
    """Return the cases of releases that copy training rows."""
    return (
        Case(persons, rows, holdout, made)
        for made in COPIES
        for persons in COPY_PERSONS
        for rows in ROWS_A_PERSON
        for holdout in HOLDOUTS
    )


def people(count: int, rows: str, rng: np.random.Generator) -> pa.Table:
    """Return rows of simulated people: most of what a row says is the person's, and the same in all of their rows."""
    mean = ROWS_A_PERSON[rows]
    drawn = {"few": rng.poisson(mean - 1, count) + 1, "unequal": rng.geometric(1 / mean, count)}
    person = np.repeat(np.arange(count), drawn.get(rows, np.full(count, mean)))
    age, level = rng.integers(18, 95, count), rng.normal(0, 1, count)
    region, sex = rng.choice(6, count, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01]), rng.integers(0, 2, count)
    size = len(person)
    cost = np.exp(6 + 0.8 * level[person] + rng.normal(0, 0.2, size))
    risk = 1 / (1 + np.exp(2 - 0.03 * (age[person] - 50) - level[person]))
    names = np.array([f"p{number:.0f}" for number in rng.integers(0, 2**52, count)])
    return pa.table(
        {
            "person": names[person],
            "age": age[person],
            "sex": np.array(["f", "m"])[sex[person]],
            "region": np.array(list("abcdef"))[region[person]],
            "country": np.repeat("x", size),
            "weight": np.round(60 + 10 * level[person] + 0.2 * age[person] + rng.normal(0, 1, size), 1),
            "code": rng.choice(np.array([f"c{number}" for number in range(30)]), size),
            "cost": np.round(cost, 2),
            "days": rng.poisson(4, size),
            "died": rng.random(size) < risk,
        }
    )


def schema(rows: str) -> Schema:
    """Return the schema of such a table, without the person where no column names one."""
    person: dict[str, dict[str, Any]] = {} if rows == "rows" else {"person": {"kind": "id"}}
    return Schema.of(
        person
        | {
            "age": {"kind": "integer", "lower": 18, "upper": 95},
            "sex": {"kind": "categorical", "categories": ["f", "m"]},
            "region": {"kind": "categorical", "categories": list("abcdef")},
            "country": {"kind": "categorical", "categories": ["x", "y"]},
            "weight": {"kind": "real", "lower": 0.0, "upper": 200.0},
            "code": {"kind": "categorical", "categories": [f"c{number}" for number in range(30)]},
            "cost": {"kind": "real", "lower": 1.0, "upper": 50_000.0, "log": True},
            "days": {"kind": "integer", "lower": 0, "upper": 60},
            "died": {"kind": "boolean"},
        },
        target="died",
    )
