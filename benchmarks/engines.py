"""Engines: time and memory by the number of rows, and a model of clusters larger than this machine.

The parts of the result are measured one by one: `python -m benchmarks engines` runs all, and `benchmarks.engines` has a
function for each. Data is made here, in a temporary folder, and removed.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.record import RESULTS, record
from benchmarks.scale import RELEASE, write_stays
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.backends.cluster import ClusterBackend
from threea.backends.tasks import Task, Total
from threea.budget import Budget
from threea.testing import SilentNoise

SIZES = (1_000_000, 10_000_000)
LARGEST = 100_000_000


def _kept(name: str, value: Any) -> None:
    """Write one part of the result, and keep the others."""
    path = RESULTS / "engines.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    record("engines", {"columns": 15, "recipe": "labeltree", "epsilon": 1}, {**results, name: value})


@contextmanager
def stays(rows: int, folder: str | None = None) -> Iterator[Path]:
    """Make a folder of Parquet files of a million rows each, and remove it."""
    scratch = Path(tempfile.mkdtemp(dir=folder))
    try:
        (scratch / "data").mkdir()
        million = 1_000_000
        for number in range(-(-rows // million)):
            target = scratch / "data" / f"{number:04}.parquet"
            if number < 10:
                write_stays(target, min(million, rows - number * million))
            else:
                # Time does not depend on what the rows hold: the first ten million come again.
                shutil.copy(scratch / "data" / f"{number % 10:04}.parquet", target)
        (scratch / "schema.toml").write_text(hospital.schema().to_toml())
        yield scratch
    finally:
        shutil.rmtree(scratch)


def release(folder: Path, engine: str, workers: int | None, rows: str = "same", **more: str) -> dict[str, Any]:
    """Make a release in a process of its own; return its time, and the peak memory of it and of its workers."""
    out = folder / f"out-{engine}-{workers}"
    command = ["release", str(folder / "data"), "--schema", str(folder / "schema.toml"), "--recipe", "labeltree"]
    command += ["--epsilon", "1", "--rows", rows, "--engine", engine, "--out", str(out)]
    command += ["--workers", str(workers)] if workers else []
    command += [word for name, value in more.items() for word in (f"--{name}", value)]
    start, before = time.perf_counter(), _spent()
    process = subprocess.Popen([sys.executable, "-c", RELEASE, *command], stdout=subprocess.DEVNULL)
    peaks: dict[int, int] = {}
    while process.poll() is None:
        for pid, memory in _tree(process.pid).items():
            peaks[pid] = max(peaks.get(pid, 0), memory)
        time.sleep(0.05)
    seconds = time.perf_counter() - start
    shutil.rmtree(out, ignore_errors=True)
    if process.returncode:
        raise SystemExit(f"{command} failed")
    driver = peaks.pop(process.pid, 0)
    return {
        "engine": engine,
        "workers": workers,
        "seconds": round(seconds, 1),
        "processor_seconds": round(_spent() - before, 1),
        "driver_peak_mb": driver >> 10,
        "largest_worker_peak_mb": max(peaks.values(), default=0) >> 10,
    }


def _spent() -> float:
    """Return the processor time of all processes that were started and waited for."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _tree(root: int) -> dict[int, int]:
    """Return the peak memory of a process and of all that it started, in KB."""
    found, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            found[pid] = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
    return found


def growth(sizes: tuple[int, ...] = (*SIZES, LARGEST), engines: tuple[str, ...] = ("files", "dask")) -> None:
    """Time and memory of whole releases by the number of rows."""
    for rows in sizes:
        with stays(rows) as folder:
            compare(folder, rows, engines)


def compare(folder: Path, rows: int, engines: tuple[str, ...]) -> None:
    """Time releases of one table on some engines, beside reading its files once."""
    path = RESULTS / "engines.json"
    found = json.loads(path.read_text())["results"].get("growth", []) if path.exists() else []
    once, spent = time.perf_counter(), time.process_time()
    for part in (folder / "data").iterdir():
        pq.read_table(part)
    once, spent = time.perf_counter() - once, time.process_time() - spent
    for engine in engines:
        entry: dict[str, Any] = {"rows": rows, "load": round(os.getloadavg()[0], 1)}
        entry |= {"read_once_seconds": round(once, 1), "read_once_processor_seconds": round(spent, 1)}
        entry |= release(folder, engine, None if engine == "files" else 2)
        found = [e for e in found if (e["rows"], e["engine"]) != (rows, engine)] + [entry]
        found.sort(key=lambda entry: (entry["rows"], entry["engine"]))
        _kept("growth", found)


def profile(rows: int = 2_000_000) -> dict[str, Any]:
    """Measure what a cluster's time is made of: a part's time in each pass, a task's own cost, bytes, adding up."""
    from threea.anonymize.chunk_sum import ChunkSum
    from threea.backends.dask_engine import connect
    from threea.recipes import LabelTree

    sent: list[ChunkSum] = []
    call = ChunkSum.__call__

    def noted(self: ChunkSum, batch: Any) -> Any:
        if self not in sent:
            sent.append(self)
        return call(self, batch)

    with stays(rows) as folder:
        client, close = connect(None, 1)
        start = time.perf_counter()
        client.gather([client.submit(_nothing, number, key=f"nothing-{number}") for number in range(500)])
        dispatch = (time.perf_counter() - start) / 500
        close()
        files = sorted(str(path) for path in (folder / "data").iterdir())
        from threea.backends.parts import parts_of
        from threea.testing import OnlySums

        ChunkSum.__call__ = noted  # type: ignore[method-assign]
        LabelTree().run(
            open_table(
                OnlySums(hospital.stays(50_000)), schema=hospital.schema(), budget=Budget(1.0), noise=SilentNoise()
            )
        )
        ChunkSum.__call__ = call  # type: ignore[method-assign]
        passes = []
        for function in sent:
            seconds = []
            for part in parts_of(files, 1):
                start = time.process_time()
                outcome = Task(Total(function), function.query.columns)(part)
                seconds.append(round((time.process_time() - start) * (1 << 20) / part.rows, 4))
            numbers = int(outcome.result.size)
            start = time.perf_counter()
            for _ in range(20):
                outcome.result + outcome.result
            passes.append(
                {
                    "query": type(function.query).__name__,
                    "numbers": numbers,
                    "part_seconds": seconds,
                    "add_seconds": (time.perf_counter() - start) / 20,
                }
            )
    return {"part_rows": 1 << 20, "dispatch_seconds": dispatch, "passes": passes}


def _opened(data: Any, **engine: Any) -> Any:
    return open_table(data, schema=hospital.schema(), budget=Budget(1.0), noise=SilentNoise(), **engine)


def _nothing(number: int) -> int:
    return number


def predicted(measured: dict[str, Any], rows: float, workers: int, seed: int = 0) -> dict[str, float]:
    """Simulate a release's passes: parts dealt to whoever is free, each as long as a measured one, some slow."""
    rng = np.random.default_rng(seed)
    parts = int(np.ceil(rows / measured["part_rows"]))
    total = moved = driver = 0.0
    for one in measured["passes"]:
        # One part in a hundred is slow by a factor of up to three: chosen, as no cluster was at hand.
        slow = np.where(rng.random(parts) < 0.01, rng.uniform(1, 3, parts), 1.0)
        times = rng.choice(one["part_seconds"], parts) * slow
        own = parts * (measured["dispatch_seconds"] + one["add_seconds"])
        total += max(_makespan(times, workers), own)
        driver += own
        moved += parts * one["numbers"] * 8.0
    return {"seconds": total, "driver_seconds": driver, "bytes": moved, "passes": len(measured["passes"])}


def _makespan(times: Any, workers: int) -> float:
    """Return when the last of the workers ends, the next part going to whoever is free first."""
    import heapq

    free = [0.0] * workers
    for seconds in times:
        heapq.heapreplace(free, free[0] + float(seconds))
    return max(free)


def model(check: tuple[int, ...] = (1, 2)) -> None:
    """Fit the model, check it on one and two workers, and predict larger clusters; draw the picture."""
    measured = profile()
    checked = []
    for workers in check:
        checked.append({"workers": workers, "rows": 4_000_000, **_passes(4_000_000, workers)})
        checked[-1]["predicted_seconds"] = round(predicted(measured, 4_000_000, workers)["seconds"], 2)
    table = [
        {"rows": rows, "workers": workers, **predicted(measured, rows, workers)}
        for rows in (10**9, 4 * 10**9)
        for workers in (10, 30, 100, 300, 1_000)
    ]
    _kept("model", {"measured": measured, "checked": checked, "predicted": table})
    picture()


def _passes(rows: int, workers: int) -> dict[str, float]:
    """Run a release's questions on worker processes; return the time of them alone."""
    from threea.backends.dask_engine import connect
    from threea.recipes import LabelTree

    with stays(rows) as folder:
        client, close = connect(None, workers)
        table = _opened(folder / "data", engine="dask", cluster=client)
        spent: list[float] = []
        once = ClusterBackend.sum

        def timed(self: Any, function: Any, columns: Any) -> Any:
            start = time.perf_counter()
            found = once(self, function, columns)
            spent.append(time.perf_counter() - start)
            return found

        ClusterBackend.sum = timed  # type: ignore[method-assign]
        LabelTree().run(table, rows=1_000)
        ClusterBackend.sum = once  # type: ignore[method-assign]
        close()
    return {"passes": len(spent), "seconds": round(sum(spent), 2), "load": round(os.getloadavg()[0], 1)}


def picture() -> None:
    """Draw predicted times over the number of workers."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    found = json.loads((RESULTS / "engines.json").read_text())["results"]["model"]
    mpl.rcParams["svg.hashsalt"] = "threea"
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for rows in sorted({entry["rows"] for entry in found["predicted"]}):
        line = [entry for entry in found["predicted"] if entry["rows"] == rows]
        axes.plot([e["workers"] for e in line], [e["seconds"] for e in line], "o-", label=f"{rows:.0e} rows, predicted")
    for entry in found["checked"]:
        axes.plot(entry["workers"], entry["seconds"], "kx")
        axes.plot(entry["workers"], entry["predicted_seconds"], "k+")
    if found["checked"]:
        axes.plot([], [], "kx", label="4e+06 rows, measured")
        axes.plot([], [], "k+", label="4e+06 rows, predicted")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="seconds for all passes of labeltree")
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(Path(__file__).parent.parent / "docs" / "images" / "scale.svg", metadata={"Date": None})


def main() -> None:
    """Run all parts."""
    growth()
    growth((10_000_000,), ("spark",))
    model()
