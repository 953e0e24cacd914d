"""Rows a second and peak memory of a whole release, by the number of rows: streamed from Parquet, 15 columns."""

import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.record import record, timed
from threea import hospital

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
PIECE = 500_000
RELEASE = "import sys; from threea.cli import main; main()"


def write_stays(path: Path, rows: int) -> None:
    """Write simulated stays, piece by piece, each from another seed."""
    with pq.ParquetWriter(path, hospital.stays(1).schema, compression="zstd") as writer:
        for number, start in enumerate(range(0, rows, PIECE)):
            writer.write_table(hospital.stays(min(PIECE, rows - start), seed=number))


def main() -> None:
    """Release tables of growing size with the schema given, and the largest but one without."""
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "schema.toml").write_text(hospital.schema().to_toml())
        for rows in SIZES:
            data = folder / f"stays-{rows}.parquet"
            write_stays(data, rows)
            given = ["--schema", str(folder / "schema.toml")]
            for recipe, way, options in (
                ("independent", "schema given", given),
                ("labeltree", "schema given", given),
                ("labeltree", "schema discovered", ["--target", "died"]),
            ):
                if way == "schema discovered" and rows > 1_000_000:
                    continue
                command = ["release", str(data), *options, "--recipe", recipe, "--epsilon", "1"]
                cost = timed(["-c", RELEASE, *command, "--out", str(folder / f"out-{rows}-{recipe}-{way}")])
                speed = round(rows / cost["seconds"])
                facts = {"rows": rows, "recipe": recipe, "way": way}
                results.append({**facts, **cost, "rows_a_second": speed, "data_mb": data.stat().st_size >> 20})
                print(results[-1])
            data.unlink()
    record("scale", {"columns": 15, "epsilon": 1, "synthetic_rows": "as many"}, results)
