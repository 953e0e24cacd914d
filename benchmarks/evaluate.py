"""How long `threea evaluate` takes on Adult: release three quarters of the rows, evaluate against the rest."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.adult import DATA, HELD_OUT
from benchmarks.record import record, timed

COMMAND = "from threea.cli import main; main()"


def main() -> None:
    """Time both commands in processes of their own."""
    rows = pq.read_table(DATA).drop_columns("split")
    held_out = np.random.default_rng(0).random(rows.num_rows) < HELD_OUT
    with tempfile.TemporaryDirectory() as scratch:
        train, holdout, release = (
            str(Path(scratch) / name) for name in ("train.parquet", "holdout.parquet", "release")
        )
        pq.write_table(rows.filter(~held_out), train)
        pq.write_table(rows.filter(held_out), holdout)
        results = {
            "release": timed(
                ["-c", COMMAND, "release", train, "--target", "income", "--epsilon", "1", "--out", release]
            ),
            "evaluate": timed(["-c", COMMAND, "evaluate", release, "--train", train, "--holdout", holdout]),
        }
    record("evaluate", {"dataset": "adult", "epsilon": 1, "held_out": HELD_OUT}, results)
