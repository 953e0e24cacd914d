"""Engines: time and memory by the number of rows, and a model of clusters larger than this machine.

The parts of the result are measured one by one: `python -m benchmarks engines` runs all, and `benchmarks.engines` has a
function for each. Data is made here, in a temporary folder, and removed.
"""

import heapq
import json
import os
import pickle
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
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.record import RESULTS, record
from benchmarks.scale import RELEASE, write_stays
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.backends import open_engine
from threea.backends.cluster import ClusterBackend
from threea.backends.dask_engine import connect
from threea.backends.parts import PART_ROWS, parts_of
from threea.backends.tasks import Task, Total
from threea.budget import Budget
from threea.recipes import LabelTree
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


def release(folder: Path, engine: str, workers: int | None, data: str = "data") -> dict[str, Any]:
    """Make a release in a process of its own; return its time, and the peak memory of it and of its workers."""
    out = folder / f"out-{engine}-{workers}"
    command = ["release", str(folder / data), "--schema", str(folder / "schema.toml"), "--recipe", "labeltree"]
    command += ["--epsilon", "1", "--rows", "same", "--engine", engine, "--out", str(out)]
    command += ["--workers", str(workers)] if workers else []
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", RELEASE, *command], stdout=subprocess.DEVNULL)
    seen: dict[int, tuple[int, float]] = {}
    while process.poll() is None:
        for pid, (memory, spent) in _tree(process.pid).items():
            # One that is just ending has given its memory back.
            seen[pid] = max(memory, seen.get(pid, (0, 0.0))[0]), spent
        time.sleep(0.05)
    seconds = time.perf_counter() - start
    shutil.rmtree(out, ignore_errors=True)
    if process.returncode:
        raise SystemExit(f"{command} failed")
    peaks = {pid: memory >> 10 for pid, (memory, _) in seen.items()}
    return {
        "engine": engine,
        "workers": workers,
        "seconds": round(seconds, 1),
        "processor_seconds": round(sum(spent for _, spent in seen.values()), 1),
        "driver_peak_mb": peaks.pop(process.pid, 0),
        "largest_worker_peak_mb": max(peaks.values(), default=0),
    }


def _tree(root: int) -> dict[int, tuple[int, float]]:
    """Return the peak memory, in KB, and the processor time of a process and of all that it started."""
    found, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
            # After the name, which may hold blanks: user and system time are the twelfth and thirteenth.
            times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            found[pid] = peak, sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
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


def forms(rows: int = 1_000_000) -> None:
    """Time a release of a table as Parquet and as CSV, in and out."""
    with stays(rows) as folder:
        for number, part in enumerate(sorted((folder / "data").iterdir())):
            with (folder / "stays.csv").open("ab") as file:
                pyarrow.csv.write_csv(pq.read_table(part), file, pyarrow.csv.WriteOptions(include_header=not number))
        found = {
            form: release(folder, "files", None, data) for form, data in (("parquet", "data"), ("csv", "stays.csv"))
        }
    _kept("forms", {"rows": rows, **found})


class Recorder:
    """An engine that sums, and remembers what it was sent.

    Args:
        data: The rows.
        times: Answer as a table of so many times as many rows would: a larger one is asked finer questions.
    """

    def __init__(self, data: Any, times: int) -> None:
        self._engine, _ = open_engine(data)
        self.layout, self._times = self._engine.layout, times
        self.sent: list[tuple[Any, tuple[str, ...]]] = []

    def sum(self, function: Any, columns: Any) -> Any:
        """Sum over the rows."""
        self.sent.append((function, tuple(columns) or (self.layout.names[0],)))
        return self._engine.sum(function, columns) * self._times


def profile(folder: Path, rows: int) -> dict[str, Any]:
    """Measure what a cluster's time is made of: a part's time in each pass, a task's own cost, bytes, adding up.

    All in processor time, which other work on the machine leaves about as it is. The passes are those of a table of so
    many rows, timed on the parts of a smaller one.
    """
    files = sorted(str(path) for path in (folder / "data").iterdir())
    parts = parts_of(files, 1)
    recorder = Recorder(folder / "data", -(-rows // sum(part.rows for part in parts)))
    LabelTree().run(_opened(recorder), rows=1_000)
    passes = []
    for function, columns in recorder.sent:
        seconds = []
        for part in parts:
            start = time.process_time()
            outcome = Task(Total(function), columns, recorder.layout)(part)
            seconds.append(round((time.process_time() - start) * PART_ROWS / part.rows, 4))
        start = time.process_time()
        for _ in range(20):
            outcome.result + pickle.loads(pickle.dumps(outcome)).result
        query = getattr(function, "query", None)
        name = "opening" if query is None else type(query).__name__
        answer = {"numbers": int(outcome.result.size), "add_seconds": (time.process_time() - start) / 20}
        passes.append({"query": name, **answer, "part_seconds": seconds})
    return {
        "rows": rows,
        "part_rows": PART_ROWS,
        "bytes_a_row": round(sum(map(os.path.getsize, files)) / sum(part.rows for part in parts), 2),
        "dispatch_seconds": _dispatch(),
        "passes": passes,
    }


def _dispatch() -> float:
    """Return the driver's processor time for a task that does nothing."""
    client, close = connect(None, 1)
    start = time.process_time()
    client.gather([client.submit(_nothing, number, key=f"nothing-{number}") for number in range(500)])
    spent = (time.process_time() - start) / 500
    close()
    return spent


def _opened(data: Any, **engine: Any) -> Any:
    return open_table(data, schema=hospital.schema(), budget=Budget(1.0), noise=SilentNoise(), **engine)


def _nothing(number: int) -> int:
    return number


def predicted(measured: dict[str, Any], rows: float, workers: int, seed: int = 0) -> dict[str, float]:
    """Simulate a release's passes: parts dealt to whoever is free, each as long as a measured one, some slow."""
    rng = np.random.default_rng(seed)
    parts = int(np.ceil(rows / measured["part_rows"]))
    total = worked = moved = driver = 0.0
    for one in measured["passes"]:
        # One part in a hundred is slow by a factor of up to three: chosen, as no cluster was at hand.
        slow = np.where(rng.random(parts) < 0.01, rng.uniform(1, 3, parts), 1.0)
        times = rng.choice(one["part_seconds"], parts) * slow
        times[-1] *= rows / measured["part_rows"] - (parts - 1)
        own = parts * (measured["dispatch_seconds"] + one["add_seconds"])
        total += max(_makespan(times, workers), own)
        worked, driver, moved = worked + float(times.sum()), driver + own, moved + parts * one["numbers"] * 8.0
    passes = len(measured["passes"])
    return {
        "passes": passes,
        "seconds": round(total, 1),
        "worker_processor_seconds": round(worked, 1),
        "driver_processor_seconds": round(driver, 1),
        "gb_to_driver": round(moved / 1e9, 2),
        "gb_read_at_most": round(passes * rows * measured["bytes_a_row"] / 1e9, 1),
    }


def _makespan(times: Any, workers: int) -> float:
    """Return when the last of the workers ends, the next part going to whoever is free first."""
    free = [0.0] * workers
    for seconds in times:
        heapq.heapreplace(free, free[0] + float(seconds))
    return max(free)


def model(check: tuple[int, ...] = (1, 2), rows: int = 4_000_000) -> None:
    """Fit the model, predict larger clusters, check it on one and two workers; draw the picture."""
    with stays(2_000_000) as folder:
        sizes = {many: profile(folder, many) for many in (rows, 10**9)}
    table = [
        {"rows": many, "workers": workers, **predicted(sizes[10**9], many, workers)}
        for many in (10**9, 10**10)
        for workers in (10, 30, 100, 300, 1_000)
    ]
    checked = [
        {"workers": workers, "rows": rows, "predicted": predicted(sizes[rows], rows, workers), **_passes(rows, workers)}
        for workers in check
    ]
    _kept("model", {"measured": list(sizes.values()), "checked": checked, "predicted": table})
    picture()


def _passes(rows: int, workers: int) -> dict[str, float]:
    """Run a release's questions on worker processes; return the time of them alone, by the clock and of processors."""
    with stays(rows) as folder:
        client, close = connect(None, workers)
        spent: list[float] = []
        once = ClusterBackend.sum

        def timed(self: Any, function: Any, columns: Any) -> Any:
            start = time.perf_counter()
            found = once(self, function, columns)
            spent.append(time.perf_counter() - start)
            return found

        table = _opened(folder / "data", engine="dask", cluster=client)
        before = sum(client.run(time.process_time).values())
        ClusterBackend.sum = timed  # type: ignore[method-assign]
        LabelTree().run(table, rows=1_000)
        ClusterBackend.sum = once  # type: ignore[method-assign]
        worked = sum(client.run(time.process_time).values()) - before
        close()
    return {
        "passes": len(spent),
        "seconds": round(sum(spent), 2),
        "worker_processor_seconds": round(worked, 2),
        "load": round(os.getloadavg()[0], 1),
    }


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
        axes.axhline(line[0]["driver_processor_seconds"], color=axes.lines[-1].get_color(), ls=":", lw=1)
    for entry in found["checked"]:
        axes.plot(entry["workers"], entry["seconds"], "kx")
        axes.plot(entry["workers"], entry["predicted"]["seconds"], "k+")
    for rows in {entry["rows"] for entry in found["checked"]}:
        axes.plot([], [], "kx", label=f"{rows:.0e} rows, measured")
        axes.plot([], [], "k+", label=f"{rows:.0e} rows, predicted")
    axes.plot([], [], "k:", lw=1, label="the driver's own work")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="seconds for all passes of labeltree")
    axes.legend(frameon=False, fontsize=7)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(Path(__file__).parent.parent / "docs" / "images" / "scale.svg", metadata={"Date": None})


def main() -> None:
    """Run all parts."""
    growth()
    growth((10_000_000,), ("spark",))
    forms()
    model()
