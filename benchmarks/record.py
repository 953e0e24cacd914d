"""Writing a result down, with what is needed to judge and repeat it."""

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
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
        "cores": os.cpu_count(),
        "settings": settings,
        "results": results,
    }
    text = json.dumps(entry, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)


def timed(command: list[str]) -> dict[str, float]:
    """Run Python code in a process of its own; return its seconds and its peak memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed with exit code {process.returncode}")
    return {"seconds": round(seconds, 3), "peak_memory_mb": round(usage.ru_maxrss / 1024, 1)}
