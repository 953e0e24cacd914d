"""What loading takes: `import threea` beside the interpreter's own start, and whole releases of 10,000 rows.

In processor time, which other work on the machine changes little.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.record import record
from threea import hospital

REPEATS = 5
RELEASE = """
import threea
release = threea.synthesize("{folder}/stays.parquet", schema="{folder}/schema.toml", epsilon=1.0, recipe="{recipe}")
release.save("{folder}/{recipe}-{number}")
"""


def processor_seconds(code: str) -> float:
    """Run code in a process of its own, on one core; return its processor time."""
    one_core = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], env=one_core, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{code} failed with status {status}")
    return round(usage.ru_utime + usage.ru_stime, 3)


def main() -> None:
    """Time each in fresh processes, in turn."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(hospital.stays(10_000), Path(folder) / "stays.parquet")
        (Path(folder) / "schema.toml").write_text(hospital.schema().to_toml())
        for number in range(REPEATS):
            codes = {
                "python alone": "pass",
                "import threea": "import threea",
                "threea.synthesize": "import threea; threea.synthesize",
            }
            for recipe in ("independent", "labeltree"):
                code = RELEASE.format(folder=folder, recipe=recipe, number=number)
                codes[f"a release of 10,000 rows, {recipe}"] = code
            for name, code in codes.items():
                seconds.setdefault(name, []).append(processor_seconds(code))
    results = {
        name: {"median_seconds": statistics.median(times), "least": min(times), "most": max(times)}
        for name, times in seconds.items()
    }
    record("imports", {"repeats": REPEATS, "seconds": "of processor time"}, results)


if __name__ == "__main__":
    main()
