"""A recipe of threea, under the same conditions as its peers: one process, one core, fit and sample timed apart."""

import dataclasses
import json
import sys
import time
from pathlib import Path

import exchange


def main() -> None:
    """Run the job's recipe on its table, which is not binned: recipes do that themselves."""
    import pyarrow.parquet as pq

    import threea
    from threea.session import make_recipe

    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    table = pq.read_table(folder / "train.parquet")
    start = time.perf_counter()
    release = threea.synthesize(
        table,
        schema=threea.Schema.load(folder / "schema.toml"),
        epsilon=job["epsilon"],
        delta=job["delta"],
        recipe=dataclasses.replace(make_recipe(job["recipe"]), **job["settings"]),
        seed=job["seed"],
        accept_unproven=job["accept_unproven"],
    )
    fitted = time.perf_counter()
    rows = release.table
    sampled = time.perf_counter()
    pq.write_table(rows, folder / "synthetic.parquet")
    exchange.write_report(folder, "threea", fitted - start, sampled - fitted)


if __name__ == "__main__":
    main()
