"""Tables laid out for engines: the same rows in other files, other order, other cuts, with nothing in some of them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from test_backends import AGES, LEAVES, SCHEMA, recut, shuffled

from threea import hospital
from threea.anonymize.open_table import _Labels, _Marks, open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Grouped, Stack
from threea.backends import open_engine
from threea.budget import Budget
from threea.testing import SilentNoise

KEY = b"k" * 32
STAYS = hospital.stays(900)
# Equal rows, in different parts: of these, so many count as of any others.
TABLE = pa.concat_tables([STAYS, STAYS.slice(0, 40), STAYS.slice(20, 40)]).combine_chunks()
PARTITIONS = tuple(range(1, 8))

SENT = [query for kind, asked in LEAVES.items() if kind not in ("Features", "Grouped") for query in asked[-2:]]
QUERY = Stack((*SENT, Grouped(SCHEMA["lactate"].cells(4), AGES)))
"""All kinds of queries but those of functions that a test made up, which no worker could import."""


def written(table: pa.Table, folder: Path, parts: int) -> Path:
    """Write a table as so many files, permuted, an empty one among them from four on."""
    folder = folder / f"parts-{parts}"
    folder.mkdir()
    mixed = shuffled(table, parts) if parts > 1 else table
    inner = np.sort(np.random.default_rng(parts).integers(0, table.num_rows, max(parts - 1, 0))).tolist()
    if parts >= 4:
        inner[1] = inner[0]
    ends = [0, *inner, table.num_rows]
    for number in range(parts):
        piece = mixed.slice(ends[number], ends[number + 1] - ends[number])
        pq.write_table(piece, folder / f"{number}.parquet", row_group_size=150)
    return folder


@functools.cache
def expected(law: Any) -> Any:
    """Return what a law's outcome is on the table in memory."""
    return law(TABLE)


def sums(data: Any, **engine: Any) -> Any:
    """Every query's exact sum."""
    plan = Plan.calibrate(Budget(1.0), [Step(name="all", weight=1.0)])
    table = open_table(data, schema=SCHEMA, budget=Budget(1.0), noise=SilentNoise(), **engine)
    return table.measure(QUERY, plan["all"]).value.tolist()


def kept(data: Any, **engine: Any) -> Any:
    """The fingerprint of the rows that count, and how many they are, for several bounds on a person's rows."""
    backend, _ = open_engine(data, **engine)
    found = []
    for max_rows in (1, 3):
        view = backend.bounded("patient_id", max_rows, KEY)
        marks, counts = view.sum(_Marks(KEY), view.layout.names), view.sum(_Labels("died"), ["died"])
        found.append([*marks.tolist(), *counts.tolist()])
    return found


def samples(data: Any, **engine: Any) -> Any:
    """The fingerprints of samples of rows, equal ones among them, and of persons with at most two rows each."""
    backend, _ = open_engine(data, **engine)
    found = []
    for whole in (backend, backend.bounded("patient_id", 2, KEY)):
        for number in range(2):
            view = whole.sample(0.3, bytes([number] * 16))
            found.append(
                [*view.sum(_Marks(KEY), view.layout.names).tolist(), *view.sum(_Labels("died"), ["died"]).tolist()]
            )
    return found


def values(data: Any, **engine: Any) -> Any:
    """How many rows hold each value, of a column of each type that can be discovered."""
    backend, _ = open_engine(data, **engine)
    return [backend.count_values(column) for column in ("ward", "diagnosis")]


def release(recipe: Any, data: Any, **engine: Any) -> Any:
    """The synthetic table, with everything found through the private table, of persons."""
    options = {"target": "died", "unit": "patient_id", "max_rows_per_unit": 2}
    table = open_table(data, budget=Budget(8.0, 1e-3), noise=SilentNoise(), **options, **engine)
    return recipe.run(table, rows=300, seed=1).table


def recut_in_memory(table: pa.Table, parts: int) -> pa.Table:
    """Return the same rows in other chunks, in another order."""
    return recut(shuffled(table, parts), list(range(0, table.num_rows, table.num_rows // parts)))
