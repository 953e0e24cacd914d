"""What every peer's script shares: read a job, keep to one core, write synthetic codes and what they cost.

A job is a folder with `codes.parquet` (whole numbers, one column per attribute) and `job.json` (domain: number of codes
by attribute; epsilon, delta, rows, seed). A script leaves `synthetic.parquet` and `report.json` in it. It runs in its
peer's own environment, so it imports nothing of this project.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before NumPy and its friends count the cores.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run(package: str, fit: Callable[[Any, dict[str, Any]], Callable[[int], Any]]) -> None:
    """Fit on a job's codes, sample as many rows, and write both down.

    Args:
        package: The peer's distribution, whose version is reported.
        fit: From codes (a pandas table) and the job to a function that draws so many rows of codes.
    """
    import pandas

    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    codes = pandas.read_parquet(folder / "codes.parquet")
    start = time.perf_counter()
    sample = fit(codes, job)
    fitted = time.perf_counter()
    rows = sample(job["rows"])
    sampled = time.perf_counter()
    pandas.DataFrame(rows)[list(job["domain"])].astype("int64").to_parquet(folder / "synthetic.parquet", index=False)
    write_report(folder, package, fitted - start, sampled - fitted)


def write_report(folder: Path, package: str, fit_seconds: float, sample_seconds: float) -> None:
    """Write what a run took, with the peak memory of this process so far."""
    report = {
        "version": version(package),
        "fit_seconds": fit_seconds,
        "sample_seconds": sample_seconds,
        "peak_memory_mb": peak_memory_mb(),
    }
    (folder / "report.json").write_text(json.dumps(report))


def peak_memory_mb() -> float:
    """Return the peak memory of this process alone.

    Not `ru_maxrss` where there is another way: on Linux a process inherits it from the one that started it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1024)
