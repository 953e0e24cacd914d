"""Rules in the schema: rows that break them with and without, what they cost in utility, how fast rare rows come."""

import dataclasses
import datetime
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import datasets, measure
from benchmarks.record import record
from threea.recipes import MST, Independent, LabelTree
from threea.session import synthesize
from threea.table import codec
from threea.table.schema import Schema

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data"))
SEEDS, EPSILON, LEARNER = 3, 1.0, "lightgbm"
CLINIC_ROWS, DRAWN, RARE, GIVEN_ROWS = 20_000, 100_000, 0.002, 10_000
RECIPES = {"labeltree": LabelTree(), "independent": Independent(), "mst": MST()}
LEVELS = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
"""Of education in Adult, whose number counts them from 1."""
EDUCATION = {
    "depends": "education -> education-num",
    "table": {level: number for number, level in enumerate(LEVELS, start=1)},
}

CITIES = {"Rome": "00100", "Oslo": "0150", "Bern": "3000", "Graz": "8010"}
CLINIC_COLUMNS: dict[str, dict[str, Any]] = {
    "died": {"kind": "boolean", "nullable": False},
    "sex": {"kind": "categorical", "categories": ["M", "F"]},
    "title": {"kind": "categorical", "categories": ["Mr", "Ms", "Dr"]},
    "city": {"kind": "categorical", "categories": list(CITIES)},
    "zip": {"kind": "categorical", "categories": list(CITIES.values())},
    "ward": {"kind": "categorical", "categories": ["paediatrics", "surgery", "other care"]},
    "age": {"kind": "integer", "lower": 0, "upper": 110},
    "pregnancies": {"kind": "integer", "lower": 0, "upper": 20},
    "referred": {"kind": "date", "lower": "2019-10-01", "upper": "2024-12-31"},
    "admitted": {"kind": "date", "lower": "2020-01-01", "upper": "2024-12-31", "nullable": False},
    "discharged": {"kind": "date", "lower": "2020-01-01", "upper": "2025-06-30"},
    "room": {"kind": "real", "lower": 0, "upper": 1000, "step": 0.01},
    "care": {"kind": "real", "lower": 0, "upper": 5000},
    "total": {"kind": "real", "lower": 0, "upper": 6000, "step": 0.01},
}
CLINIC_RULES: tuple[dict[str, Any], ...] = (
    {"order": "referred <= admitted <= discharged"},
    {"depends": "city -> zip", "table": CITIES},
    {"combinations": ["sex", "title"], "allowed": [["M", "Mr"], ["F", "Ms"], ["F", "Dr"], ["M", "Dr"]]},
    {"missing": "pregnancies", "when": {"sex": "M"}},
    {"range": "age", "upper": 17, "when": {"ward": "paediatrics"}},
    {"sum": "total = room + care"},
)
"""One of each kind; one column is ordered after another that may be missing, and so by redraws."""


def clinic(rows: int, died: float = 0.1, seed: int = 0) -> pa.Table:
    """Return simulated stays that keep the rules, some of their values missing."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["M", "F", ""], rows, p=[0.48, 0.48, 0.04])
    title = np.where(rng.random(rows) < 0.1, "Dr", np.where(sex == "M", "Mr", "Ms"))
    city, child = rng.choice(list(CITIES), rows), rng.random(rows) < 0.12
    admitted = rng.integers(0, 1800, rows)
    dead = rng.random(rows) < died
    stay = rng.geometric(np.where(dead, 0.08, 0.2)) - 1
    room, care = np.round(rng.uniform(0, 900, rows), 2), np.round(np.minimum(rng.exponential(400, rows), 5000), 2)
    ward = np.where(child, "paediatrics", rng.choice(["surgery", "other care"], rows))
    age = np.where(child, rng.integers(0, 18, rows), rng.integers(18, 100, rows))

    def days(since: Any, missing: float = 0.0) -> pa.Array:
        first = np.datetime64(datetime.date(2020, 1, 1))
        return pa.array((first + since).astype("datetime64[D]"), mask=rng.random(rows) < missing)

    return pa.table(
        {
            "died": dead,
            "sex": pa.array(sex, mask=sex == ""),
            "title": title,
            "city": city,
            "zip": [CITIES[name] for name in city],
            "ward": pa.array(ward, mask=rng.random(rows) < 0.03),
            "age": age,
            "pregnancies": pa.array(np.minimum(rng.poisson(1.5, rows), 20), mask=sex == "M"),
            "referred": days(admitted - rng.integers(0, 60, rows), missing=0.2),
            "admitted": days(admitted),
            "discharged": days(admitted + stay, missing=0.02),
            "room": room,
            "care": care,
            "total": np.round(room + care, 2),
        }
    )


def clinic_schema(*, rules: bool = True) -> Schema:
    """Return the public description of the stays, with or without rules."""
    return Schema.of(CLINIC_COLUMNS, "died", CLINIC_RULES if rules else ())


def broken(table: pa.Table, schema: Schema) -> dict[str, int]:
    """Return how many rows break each rule."""
    rows, columns = codec.encode(table, schema), {column.name: column for column in schema.valued}
    return {rule.text: int(rule.broken(rows, columns).sum()) for rule in schema.rules}


def kept(recipe: str) -> dict[str, Any]:
    """Count the rows that break each rule, drawn without the rules and with them."""
    table = clinic(CLINIC_ROWS)
    found: dict[str, Any] = {}
    for name, rules in (("without", False), ("with", True)):
        release = synthesize(
            table, schema=clinic_schema(rules=rules), epsilon=EPSILON, recipe=RECIPES[recipe], rows=DRAWN, seed=0
        )
        start = time.process_time()
        found[name] = broken(release.table, clinic_schema())
        found[f"seconds {name}"] = round(time.process_time() - start, 2)
    return found


def conditional(recipe: str) -> dict[str, float]:
    """Draw rows of a rare class, with rules, and return what that took."""
    table = clinic(100_000, died=RARE)
    release = synthesize(table, schema=clinic_schema(), epsilon=EPSILON, recipe=RECIPES[recipe], seed=0)
    wall, start = time.perf_counter(), time.process_time()
    drawn = release.sample(GIVEN_ROWS, given={"died": True}, seed=1)
    seconds = {"processor_seconds": time.process_time() - start, "seconds": time.perf_counter() - wall}
    assert drawn.num_rows == GIVEN_ROWS
    assert not any(broken(drawn, clinic_schema()).values())
    return {name: round(value, 2) for name, value in seconds.items()}


def adult() -> dict[str, Any]:
    """Score LightGBM trained on releases of Adult, with and without the rule that gives a level its number."""
    dataset = datasets.load("adult", DATA)
    assert dataset.schema is not None
    columns = {column.name: column for column in dataset.schema.columns}
    ruled = dataclasses.replace(dataset.schema, rules=Schema.of(_plain(dataset.schema), rules=[EDUCATION]).rules)
    found: dict[str, Any] = {"without": [], "with": []}
    wrong: dict[str, list[float]] = {"without": [], "with": []}
    for seed in range(SEEDS):
        train, test = dataset.split(seed)
        for name, schema in (("without", dataset.schema), ("with", ruled)):
            described = dataclasses.replace(dataset, schema=schema)
            made, _ = measure.released(
                described, train, LabelTree(), epsilon=EPSILON, delta=dataset.delta, adjacency="add-remove", seed=seed
            )
            figures = measure.scored(described, real=train, train=made, test=test, names=[LEARNER], seed=seed)
            found[name].append(round(figures[LEARNER]["auc"], 4))
            rows = codec.encode(made, dataset.schema)
            wrong[name].append(round(float(ruled.rules[0].broken(rows, columns).mean()), 4))
    return {
        name: {
            "auc": scores,
            "mean_auc": round(statistics.mean(scores), 4),
            "stdev": round(statistics.stdev(scores), 4),
            "share_broken": statistics.mean(wrong[name]),
        }
        for name, scores in found.items()
    }


def _plain(schema: Schema) -> dict[str, Any]:
    """Return what a rule about education needs to know of Adult's columns."""
    levels = {"kind": "categorical", "categories": list(schema["education"].categories), "nullable": False}
    return {"education": levels, "education-num": {"kind": "integer", "lower": 1, "upper": 16, "nullable": False}}


def main() -> None:
    """Measure all three."""
    results: dict[str, Any] = {
        "clinic": {name: kept(name) for name in RECIPES},
        "conditional": {name: conditional(name) for name in RECIPES},
    }
    print(results, flush=True)
    results["adult"] = adult()
    settings = {
        "epsilon": EPSILON,
        "clinic": {"rows": CLINIC_ROWS, "drawn": DRAWN, "delta": 1e-6, "simulated": True},
        "conditional": {"rows": 100_000, "share_of_class": RARE, "drawn": GIVEN_ROWS},
        "adult": {"seeds": SEEDS, "delta": "1 / training rows", "recipe": "labeltree", "learner": LEARNER},
    }
    record("rules", settings, results)


if __name__ == "__main__":
    main()
