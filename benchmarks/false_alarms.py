"""How often `threea evaluate` accuses a release that never saw the training rows, and whether it catches copies.

Every release here is of other people than the training rows, drawn from the same simulated population, so that each
sign is a false alarm. The copies are the opposite: they hold training rows, and must be caught.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.record import RESULTS, record, source
from threea.evaluate.attacks import attacks, decision
from threea.evaluate.divided import SHARE, told_apart
from threea.evaluate.evidence import Evidence
from threea.evaluate.intervals import clopper_pearson
from threea.evaluate.utility.baseline import independent_rows
from threea.table.schema import Schema

RELEASES = 200
ROWS_A_PERSON = {"rows": 1, "few": 3, "many": 20, "unequal": 8}
"""Mean rows a person. `rows` has no column that names the person; the number is the same for all in `many`, Poisson in
`few`, and geometric in `unequal`."""
PERSONS, HOLDOUTS = (220, 500, 1500), (0.5, 0.2)
MADE = ("fresh", "independent", "oversampled")
"""Rows of other people; rows that the recipe `independent` makes of other people; five times as many of the first."""
COPIES = {"whole": 1.0, "half": 0.5, "tenth": 0.1}
"""Which share of the training rows a release copies; the other rows are fresh."""
COPY_PERSONS = (500, 1500)
LEVEL = 0.95
RECORD = RESULTS / "false_alarms.runs.jsonl"
"""Where runs are kept until all are done: a benchmark broken off goes on from there, at the same commit."""


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
        for persons in COPY_PERSONS
        for holdout in HOLDOUTS
        for rows in ROWS_A_PERSON
        for made in COPIES
    )


def evidence(case: Case, seed: int) -> Evidence:
    """Draw the tables of a case: training rows, rows held out, and a release."""
    rng = np.random.default_rng([seed, 7])
    held = round(case.persons * case.holdout)
    train, holdout = people(case.persons - held, case.rows, rng), people(held, case.rows, rng)
    unit = None if case.rows == "rows" else "person"
    certificate = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove", "unit_column": unit}
    certificate |= {"max_rows_per_unit": ROWS_A_PERSON[case.rows]}
    fresh = people(case.persons * (5 if case.made == "oversampled" else 1), case.rows, rng)
    names = [column.name for column in schema(case.rows).columns]
    train, holdout, synthetic = (table.select(names) for table in (train, holdout, fresh))
    if case.made == "independent":
        rows, how = independent_rows(Evidence(schema(case.rows), certificate, synthetic, synthetic, synthetic), seed)
        if rows is None:
            raise RuntimeError(f"independent rows of {case} were {how}")
        synthetic = rows
    if case.made in COPIES:
        copied = rng.permutation(train.num_rows)[: round(COPIES[case.made] * train.num_rows)]
        synthetic = pa.concat_tables([train.take(copied), fresh.select(names).slice(0, train.num_rows - len(copied))])
    return Evidence(schema(case.rows), certificate, synthetic, train, holdout, unit=unit)


def measured(case: Case, seed: int) -> dict[str, Any]:
    """Evaluate a case: which attacks found a sign, and whether training and holdout rows were told apart."""
    start = time.process_time()
    shown = evidence(case, seed)
    found, split = attacks(shown, seed), told_apart(shown, seed)
    return {
        **asdict(case),
        "seed": seed,
        "attacked": bool(found["attacks"]),
        "signs": found["signs"],
        "told_apart": not split["random"],
        "processor_seconds": round(time.process_time() - start, 1),
    }


def share(count: int, of: int) -> dict[str, Any]:
    """Return a share with its exact interval."""
    return {"count": count, "of": of, "interval": [round(end, 4) for end in clopper_pearson(count, of, LEVEL)]}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many releases were accused: in all, by each attack, and by each kind of release."""
    by_attack = Counter(name for run in runs for name in run["signs"])
    kinds = {key: sorted({run[key] for run in runs}, key=str) for key in ("persons", "rows", "holdout", "made")}

    def accused(chosen: Iterable[dict[str, Any]]) -> dict[str, Any]:
        signs = [bool(run["signs"]) for run in chosen]
        return share(sum(signs), len(signs))

    return {
        "accused": accused(runs),
        "told_apart": share(sum(run["told_apart"] for run in runs), len(runs)),
        "not_attacked": sum(not run["attacked"] for run in runs),
        "by_attack": {name: share(count, len(runs)) for name, count in sorted(by_attack.items())},
        "by_kind": {
            key: {str(value): accused(run for run in runs if run[key] == value) for value in values}
            for key, values in kinds.items()
        },
        "processor_seconds": round(sum(run["processor_seconds"] for run in runs)),
    }


def kept(commit: str) -> dict[str, dict[str, Any]]:
    """Return the runs at a commit that were broken off, and forget what else is written down, half a line too."""
    whole = (
        [line for line in RECORD.read_text().splitlines(keepends=True) if line.endswith("}\n")]
        if RECORD.exists()
        else []
    )
    entries = [entry for entry in map(json.loads, whole) if entry["commit"] == commit]
    RECORD.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return {entry["key"]: entry["run"] for entry in entries}


def main(releases: int = RELEASES) -> None:
    """Evaluate so many independent releases, and the copies; write down how many were accused."""
    commit = source()["commit"]
    known = kept(commit)
    runs: dict[str, list[dict[str, Any]]] = {"independent": [], "copies": []}
    for kind, cases in (("independent", independent_cases(releases)), ("copies", islice(copies(), releases // 4))):
        for seed, case in enumerate(cases):
            key = f"{kind} {seed} {case}"
            if key not in known:
                known[key] = measured(case, seed)
                print(key, known[key]["signs"], known[key]["processor_seconds"], flush=True)
                with RECORD.open("a") as file:
                    file.write(json.dumps({"commit": commit, "key": key, "run": known[key]}) + "\n")
            runs[kind].append(known[key])
    settings = {
        "releases": releases,
        "stated": {"accused": decision.SHARE, "told_apart": SHARE},
        "persons": PERSONS,
        "rows_a_person": ROWS_A_PERSON,
        "holdout": HOLDOUTS,
        "made": MADE,
        "copies": COPIES,
        "level": LEVEL,
    }
    results = {kind: summary(found) for kind, found in runs.items()}
    results["copies"] |= {"missed": [run for run in runs["copies"] if not run["signs"]]}
    record("false_alarms", settings, results)
    RECORD.unlink()


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


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
