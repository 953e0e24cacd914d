"""Makes the golden files of the current version: a model file of each kind, and rows drawn from it.

Run once for a new version, from the root: ``python tests/golden/make.py``. Files of earlier versions stay as they are.
All rows behind them are made up.
"""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.anonymize.open_tables import open_tables
from threea.budget import Budget
from threea.linked import PreparedTables, planned
from threea.model_file import VERSION, load_release, load_tables, packed
from threea.recipes import RECIPES, PrivBayes
from threea.testing import CASES, SeededNoise

HERE = Path(__file__).parent
CREATED = "2026-01-01T00:00:00+00:00"
KINDS = {
    "taught": ("labeltree", "plain", 100.0, {}),
    "tree": ("labeltree", "numeric target", 10.0, {"alpha": 1.0}),
    "histograms": ("independent", "no target", 10.0, {"bins": 4}),
    "gaussians": ("gaussians", "plain", 10.0, {"bins": 4}),
    "mixture": ("clustmix", "plain", 5.0, {}),
    "network": ("privbayes", "plain", 1000.0, {"theta": 0.5, "degree": 2}),
    "gaussian_clusters": ("mcgen", "plain", 10.0, {"k": 0.2}),
    "points": ("dpmix", "plain", 10.0, {"points": 4}),
    "graphical": ("aim", "plain", 10.0, {"bins": 4}),
    "generator": ("dpmerf", "plain", 10.0, {"features": 8, "iterations": 3, "batch": 8, "width": 4}),
    "published": ("dpmix-published", "plain", 10.0, {"points": 4}),
    "dated": ("independent", "weekdays", 1000.0, {"bins": 2}),
}
WEEKDAYS = CASES["plain"].table.filter(pc.less(pc.day_of_week(CASES["plain"].table["seen"]), 5))
TABLES = {**CASES, "weekdays": replace(CASES["plain"], table=WEEKDAYS)}


def release_of(kind):
    name, case, epsilon, settings = KINDS[kind]
    columns = ("person", "colour", "length", "age", "seen", "label")
    case = TABLES[case].only(*columns)
    table = open_table(
        case.table,
        schema=case.schema,
        budget=Budget(epsilon),
        noise=SeededNoise(1),
        unit="person",
        max_rows_per_unit=2,
        accept_unproven=True,
    )
    return replace(RECIPES[name](**settings).run(table, seed=3), created=CREATED)


def two_tables(rows=300, epsilon=1000.0, noise=1, theta=1.0):
    """Return a release of simulated patients and their stays."""
    schema, child_schema = hospital.schemas()
    tables = open_tables(
        *hospital.patients_and_stays(rows),
        key="patient_id",
        children_at_most=5,
        budget=Budget(epsilon),
        schema=schema,
        child_schema=child_schema,
        noise=SeededNoise(noise),
    )
    recipe = PrivBayes(theta=theta)
    prepared = PreparedTables(
        recipe=recipe,
        reason="",
        child_recipe=recipe,
        child_share=0.75,
        tables=tables,
        plan=planned(tables, recipe, recipe),
        rows=None,
        seed=3,
        costs=(),
        ledger=None,
    )
    made = prepared.run()
    return replace(made, parents=replace(made.parents, created=CREATED))


def drawn(release):
    """Return a few rows, as JSON has them."""
    return json.loads(json.dumps(release.sample(6, seed=1).to_pylist(), default=str))


def both_drawn(release):
    """Return a few parents and their children, as JSON has them."""
    return [json.loads(json.dumps(table.to_pylist(), default=str)) for table in release.sample(6, seed=1)]


if __name__ == "__main__":
    for kind in KINDS:
        path = HERE / f"{kind}-{VERSION}.threea"
        path.write_bytes(packed(release_of(kind)))
        path.with_suffix(".json").write_text(json.dumps(drawn(load_release(path)), indent=1) + "\n")
    path = HERE / "two_tables" / f"linked-{VERSION}.threea"
    path.write_bytes(packed(two_tables()))
    path.with_suffix(".json").write_text(json.dumps(both_drawn(load_tables(path)), indent=1) + "\n")
