"""Writing a result down, with what is needed to judge and repeat it."""

import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "scipy", "pyarrow", "opendp", "dp-accounting", "lightgbm", "scikit-learn")


def record(name: str, settings: dict[str, Any], results: Any) -> None:
    """Write a benchmark's result to its JSON file, and show it."""
    import threea

    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    entry = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), "threea": threea.__version__, **versions},
        "source": source(),
        "cores": os.cpu_count(),
        "settings": settings,
        "results": results,
    }
    text = json.dumps(entry, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)


def source() -> dict[str, Any]:
    """Return the commit that is measured, and whether the tree holds no change to it but other results."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ":/", f":(exclude,top)benchmarks/{RESULTS.name}")
    return {"commit": git("rev-parse", "HEAD"), "clean": not changed}


def mean_and_stdev(values: Sequence[float]) -> dict[str, float]:
    """Return what a result says of a figure over splits, seeds or draws."""
    return {"mean": round(statistics.mean(values), 4), "stdev": round(statistics.stdev(values), 4)}


def timed(command: list[str]) -> dict[str, float]:
    """Run Python code in a process of its own; return its seconds and its peak memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    peak = 0
    # What the system says of a child when it ends may be its parent's peak, from before it became another program.
    while process.poll() is None:
        peak = max(peak, _peak(process.pid))
        time.sleep(0.01)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{command} failed with exit code {process.returncode}")
    return {"seconds": round(seconds, 3), "peak_memory_mb": round(peak / 1024, 1)}


def _peak(process: int) -> int:
    """Return a running process's peak memory in KB, 0 if it has just ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
