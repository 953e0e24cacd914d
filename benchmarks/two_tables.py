"""Two tables released together: how far parents, their number of children and these are from the private ones.

How many children are read, and which share of the budget they get, was chosen on simulated patients and their stays;
Diabetes 130-US Hospitals is reported only.
"""

import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.record import record
from threea import hospital
from threea.evaluate.fidelity import marginals
from threea.linked import synthesize_tables
from threea.table.linked_columns import COUNT
from threea.table.schema import Schema

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data"))
SEEDS, EPSILON, MOST = 3, 1.0, 12
READ, SHARES = (1, 2, 3, MOST), (0.5, 0.75, 0.9)
Tables = tuple[pa.Table, pa.Table, Schema, Schema]

_DRUG = {"kind": "categorical", "categories": ["No", "Steady", "Up", "Down"]}
_AGES = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]
PATIENTS: dict[str, dict[str, Any]] = {
    "patient_nbr": {"kind": "id"},
    "race": {
        "kind": "categorical",
        "categories": ["AfricanAmerican", "Asian", "Caucasian", "Hispanic", "Other"],
        "open_ended": True,
    },
    "gender": {"kind": "categorical", "categories": ["Female", "Male"], "open_ended": True},
}
STAYS: dict[str, dict[str, Any]] = {
    "patient_nbr": {"kind": "id"},
    "age": {"kind": "ordinal", "categories": _AGES, "open_ended": True},
    "time_in_hospital": {"kind": "integer", "lower": 1, "upper": 14},
    "num_lab_procedures": {"kind": "integer", "lower": 1, "upper": 132},
    "num_medications": {"kind": "integer", "lower": 1, "upper": 81},
    "number_diagnoses": {"kind": "integer", "lower": 1, "upper": 16},
    "insulin": _DRUG,
    "metformin": _DRUG,
    "change": {"kind": "categorical", "categories": ["No", "Ch"]},
    "diabetesMed": {"kind": "categorical", "categories": ["No", "Yes"]},
    "readmitted": {"kind": "categorical", "categories": ["NO", "<30", ">30"]},
}
"""As the dataset's own documentation describes its columns."""


def simulated() -> Tables:
    """Return the embedded patients and their stays."""
    return *hospital.patients_and_stays(), *hospital.schemas()


def diabetes130() -> Tables:
    """Return patients, as their first row has them, and their stays; the target is whether they come back."""
    table = pq.read_table(DATA / "diabetes130_hospitals.parquet")
    _, first = np.unique(table["patient_nbr"].to_numpy(), return_index=True)
    parents = table.select(list(PATIENTS)).take(pa.array(first))
    return parents, table.select(list(STAYS)), Schema.of(PATIENTS), Schema.of(STAYS, target="readmitted")


def joined(parents: pa.Table, children: pa.Table, key: str) -> tuple[pa.Table, pa.Table]:
    """Return parents with their number of children, and children with their parent's columns."""
    place = {name: row for row, name in enumerate(parents[key].to_pylist())}
    parent_of = np.array([place[name] for name in children[key].to_pylist()], np.int64)
    counts = np.minimum(np.bincount(parent_of, minlength=len(parents)), MOST)
    beside = parents.drop_columns([key]).take(pa.array(parent_of))
    return parents.append_column(COUNT, pa.array(counts)), pa.table(
        {
            **{name: children[name] for name in children.column_names},
            **{name: beside[name] for name in beside.column_names},
        }
    )


def distances(tables: Tables, released: tuple[pa.Table, pa.Table]) -> dict[str, float]:
    """Return mean total variation distances: of numbers of children, columns, and pairs within and across tables."""
    parents, children, schema, child_schema = tables
    key = parents.column_names[0]
    count = {COUNT: {"kind": "integer", "lower": 0, "upper": MOST, "edges": list(range(MOST + 2))}}
    above = Schema((*schema.columns, *Schema.of(count).columns))
    below = Schema((*child_schema.columns, *(column for column in schema.columns if column.name != key)))
    both = [joined(*pair, key) for pair in ((parents, children), released)]
    up, down = (
        [marginals.Sorted.of(pair[place], described, seed=0) for pair in both]
        for place, described in enumerate((above, below))
    )
    own, all_columns = len(child_schema.modelled), len(below.modelled)
    inside = [(i, j) for i in range(own) for j in range(i + 1, own)]
    across = [(i, j) for i in range(own) for j in range(own, all_columns)]
    with_count = [(i, len(above.modelled) - 1) for i in range(len(above.modelled) - 1)]
    chosen = {
        "count": (up, [(len(above.modelled) - 1,)]),
        "parent and count": (up, with_count),
        "child columns": (down, [(i,) for i in range(own)]),
        "child pairs": (down, inside),
        "child and parent": (down, across),
    }
    return {
        name: statistics.mean(float(marginals.total_variation(*views, columns)[0]) for columns in subsets)
        for name, (views, subsets) in chosen.items()
    }


def measured(tables: Tables, **options: Any) -> dict[str, Any]:
    """Make releases, and return their mean distances, the spread over seeds and the processor time."""
    parents, children, schema, child_schema = tables
    cells, start = [], time.process_time()
    for seed in range(SEEDS):
        release = synthesize_tables(
            parents,
            children,
            key=parents.column_names[0],
            children_at_most=MOST,
            schema=schema,
            child_schema=child_schema,
            epsilon=EPSILON,
            delta=1 / parents.num_rows,
            rows=parents.num_rows,
            seed=seed,
            **options,
        )
        cells.append(distances(tables, release.frames))
    seconds = (time.process_time() - start) / SEEDS
    found = {
        name: {
            "mean": round(statistics.mean(cell[name] for cell in cells), 4),
            "stddev": round(statistics.stdev(cell[name] for cell in cells), 4),
        }
        for name in cells[0]
    }
    print(options, found, round(seconds, 1), flush=True)
    return {**found, "processor_seconds": round(seconds, 1)}


def main() -> None:
    """Measure how many children to read, and their share, on made-up tables; then what was chosen on real ones."""
    made_up, real = simulated(), diabetes130()
    results = {
        "simulated": {
            "read": {str(read): measured(made_up, children_read=read) for read in READ},
            "share": {f"{share:.0%}": measured(made_up, child_share=share) for share in SHARES},
        },
        "diabetes130": {"read": {str(read): measured(real, children_read=read) for read in READ}},
        "sizes": {
            name: {"parents": tables[0].num_rows, "children": tables[1].num_rows}
            for name, tables in (("simulated", made_up), ("diabetes130", real))
        },
    }
    settings = {"epsilon": EPSILON, "delta": "1 / parents", "seeds": SEEDS, "children_at_most": MOST}
    record("two_tables", {**settings, "chosen_on": "simulated"}, results)


if __name__ == "__main__":
    main()
