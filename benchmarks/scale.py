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
            ways = {"schema given": ["--schema", str(folder / "schema.toml")]}
            if rows <= 1_000_000:
                ways["schema discovered"] = ["--target", "died"]
            for way, options in ways.items():
                out = str(folder / f"out-{rows}-{way}")
                cost = timed(["-c", RELEASE, "release", str(data), *options, "--epsilon", "1", "--out", out])
                speed = round(rows / cost["seconds"])
                results.append(
                    {"rows": rows, "way": way, **cost, "rows_a_second": speed, "data_mb": data.stat().st_size >> 20}
                )
                print(results[-1])
            data.unlink()
    record("scale", {"columns": 15, "recipe": "independent", "epsilon": 1, "synthetic_rows": "as many"}, results)
