"""Our attacks beside anonymeter's (Giomi et al. 2022), on the same tables: one private release, and one that copies.

anonymeter wants numpy below 2, so it lives in an environment of its own, made for the occasion in a temporary folder.
Both see the columns without missing values (anonymeter's distance to a missing number is not a number), and numbers
scaled by the range that the rows span, as anonymeter scales them.
"""

import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROWS, TARGETS, PREDICATES, ATTEMPTS, TOGETHER, EPSILON, LEVEL = 4000, 1000, 500, 10_000, 4, 1.0, 0.95
RELEASES = {"independent": f"epsilon {EPSILON}", "copy": "the training rows themselves"}
SECRETS = ("died", "diagnosis", "ward", "admission_type")
HALVES = (
    ("admitted", "ward", "age", "diagnosis", "cost"),
    ("admission_type", "sex", "prior_stays", "length_of_stay", "died"),
)


def main() -> None:
    """Make the tables, attack them with both, and write down what each found."""
    from benchmarks.record import record

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        python = install(folder / "environment")
        if python is None:
            return
        make_tables(folder)
        theirs = json.loads(subprocess.check_output([python, "-P", "-W", "ignore", __file__, str(folder)]))
        ours = evaluate_ours(folder)
    version = theirs.pop("version")
    results = {
        release: {
            attack: {
                "threea": ours[release][attack],
                "anonymeter": theirs_here,
                "intervals_overlap": overlap(ours[release][attack]["interval"], theirs_here["interval"]),
            }
            for attack, theirs_here in attacks.items()
        }
        for release, attacks in theirs.items()
    }
    settings = {
        "anonymeter": version,
        "rows": ROWS,
        "targets": TARGETS,
        "predicates": PREDICATES,
        "attempts_at_predicates": ATTEMPTS,
        "columns_together": TOGETHER,
        "level": LEVEL,
        "releases": RELEASES,
        "figures": "risk over control: (train - control) / (1 - control), Wilson's estimates",
    }
    record("anonymeter", settings, results)


def install(folder: Path) -> str | None:
    """Make an environment with anonymeter; say so and return nothing if that cannot be done."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "anonymeter"], capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"skipped: anonymeter cannot be installed here ({reason})")
        return None
    return python


def overlap(left: list[float], right: list[float]) -> bool:
    """Return whether two intervals have a point in common."""
    return left[0] <= right[1] and right[0] <= left[1]


def make_tables(folder: Path) -> None:
    """Write the private rows, rows kept apart, and two releases."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    import threea
    from threea import hospital

    train, holdout = (hospital.stays(ROWS, seed=seed) for seed in (1, 2))
    release = threea.synthesize(
        train, schema=hospital.schema(), epsilon=EPSILON, recipe="independent", rows=ROWS, seed=0
    ).frame
    for name, table in (("train", train), ("holdout", holdout), ("independent", release), ("copy", train)):
        chosen = table.select([column for half in HALVES for column in half])
        days = pc.divide(chosen["admitted"].cast(pa.int64()).cast(pa.float64()), 86_400e6)
        died = pc.if_else(chosen["died"], "yes", "no")
        chosen = chosen.set_column(0, "admitted", days).set_column(chosen.num_columns - 1, "died", died)
        pq.write_table(chosen, folder / f"{name}.parquet")


def result(train: int, control: int, attacks: int, risk: Any, interval: Any, seconds: float) -> dict[str, Any]:
    """Return one attack's figures."""
    return {
        "train_successes": int(train),
        "control_successes": int(control),
        "attacks": attacks,
        "risk": round(float(risk), 4),
        "interval": [round(float(end), 4) for end in interval],
        "seconds": round(seconds, 2),
    }


def evaluate_ours(folder: Path) -> dict[str, Any]:
    """Attack with threea's own parts, over the same columns and as often."""
    return {release: attack_ours(folder, release) for release in RELEASES}


def attack_ours(folder: Path, release: str) -> dict[str, Any]:
    """Run threea's attacks on one release."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from threea.evaluate.attacks import inference, singling
    from threea.evaluate.attacks.nearness import Pool, raw_values, scaled
    from threea.evaluate.intervals import risk

    tables = [pq.read_table(folder / f"{name}.parquet") for name in (release, "train", "holdout")]
    schema = spanned(pa.concat_tables(tables))
    raw = raw_values(tables, schema)
    names = [column.name for column in schema.modelled]
    rng = np.random.default_rng(0)
    released, train, control = (scaled(rng.permutation(values), schema) for values in raw)
    pool, targets = Pool.of(released), (train[:TARGETS], control[:TARGETS])
    columns = [np.ascontiguousarray(values.T) for values in raw]
    halves = [[names.index(name) for name in half] for half in HALVES]

    def single_out(drawn: list[Any]) -> list[Any]:
        return [
            np.array([singling.matches(rows, predicate) == 1 for predicate in drawn[:PREDICATES]])
            for rows in columns[1:]
        ]

    def infer(secret: str) -> list[Any]:
        index = names.index(secret)
        return [released[inference.guesses(pool, rows, [index])[0], index] == rows[:, index] for rows in targets]

    ways: dict[str, Callable[[], list[Any]]] = {
        "singling out, one column": lambda: single_out(singling.univariate(columns[0], schema, rng)),
        "singling out, several columns": lambda: single_out(
            singling.multivariate(columns[0], schema, rng, (TOGETHER,))
        ),
        "linkability": lambda: [inference.linked_rows(pool, rows, halves) for rows in targets],
        **{f"inference of {secret}": partial(infer, secret) for secret in SECRETS},
    }
    results = {}
    for name, attack in ways.items():
        start = time.perf_counter()
        hits, base = attack()
        seconds = time.perf_counter() - start
        results[name] = result(hits.sum(), base.sum(), len(hits), *risk(hits, base), seconds)
    return results


def spanned(table: Any) -> Any:
    """Return a schema whose bounds are the range of the rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from threea.table.schema import Schema

    columns: dict[str, dict[str, Any]] = {}
    for field in table.schema:
        if pa.types.is_string(field.type):
            words = sorted(pc.unique(table[field.name]).to_pylist())
            columns[field.name] = {"kind": "categorical", "categories": words}
        else:
            ends = pc.min_max(table[field.name]).as_py()
            kind = "integer" if pa.types.is_integer(field.type) else "real"
            columns[field.name] = {"kind": kind, "lower": ends["min"], "upper": ends["max"]}
    return Schema.of(columns, target="died")


def evaluate_theirs(folder: Path) -> dict[str, Any]:
    """Attack with anonymeter; runs in its own environment."""
    import importlib.metadata

    import numpy as np
    import pandas
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    np.random.seed(0)
    train, control = (pandas.read_parquet(folder / f"{name}.parquet") for name in ("train", "holdout"))
    results: dict[str, Any] = {"version": importlib.metadata.version("anonymeter")}
    for release in RELEASES:
        tables = {"ori": train, "syn": pandas.read_parquet(folder / f"{release}.parquet"), "control": control}
        single = partial(SinglingOutEvaluator, **tables, n_attacks=PREDICATES)
        ways = {
            "singling out, one column": (single(n_cols=1, seed=0), {"mode": "univariate"}),
            "singling out, several columns": (
                single(n_cols=TOGETHER, max_attempts=ATTEMPTS, seed=0),
                {"mode": "multivariate"},
            ),
            "linkability": (
                LinkabilityEvaluator(**tables, aux_cols=tuple(map(list, HALVES)), n_attacks=TARGETS, n_neighbors=1),
                {},
            ),
        }
        for secret in SECRETS:
            known = [name for name in train.columns if name != secret]
            evaluator = InferenceEvaluator(**tables, aux_cols=known, secret=secret, n_attacks=TARGETS)
            ways[f"inference of {secret}"] = (evaluator, {})
        results[release] = {name: theirs(*way) for name, way in ways.items()}
    return results


def theirs(evaluator: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Run one of anonymeter's evaluators."""
    start = time.perf_counter()
    evaluator.evaluate(**options)
    seconds = time.perf_counter() - start
    results, risk = evaluator.results(LEVEL), evaluator.risk(LEVEL)
    return result(results.n_success, results.n_control, results.n_attacks_ori, *risk, seconds)


if __name__ == "__main__":
    print(json.dumps(evaluate_theirs(Path(sys.argv[1]))))
