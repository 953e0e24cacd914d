"""Private gradients of a network on adult: what a training run takes, and how that grows with parameters and batch."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adult import DATA
from benchmarks.datasets import load
from benchmarks.record import record

STEPS, BATCH, WIDTHS = 1000, 512, (240, 120)
"""A run of so many steps with so many rows each, of a network with about 60,000 parameters."""
FEW = 30
GROWTH = [(BATCH, (64, 64)), (BATCH, (640, 244)), (128, WIDTHS), (2048, WIDTHS)]


def main() -> None:
    """Train once for the whole run, then a few steps of other sizes; each in a process of its own."""
    whole = measured(STEPS, BATCH, WIDTHS)
    growth = [measured(FEW, BATCH, WIDTHS), *(measured(FEW, batch, widths) for batch, widths in GROWTH)]
    settings = {"dataset": "adult32", "steps": STEPS, "batch": BATCH, "widths": WIDTHS, "few": FEW, "epsilon": 1.0}
    record("gradients", settings, {"run": whole, "growth": growth})


def measured(steps: int, batch: int, widths: tuple[int, ...]) -> dict[str, Any]:
    """Return what so many steps take, of the process's own time and by the clock."""
    command = [sys.executable, "-m", "benchmarks.gradients", json.dumps([steps, batch, widths])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def score(layers: Any, row: Any) -> Any:
    """Return what a network makes of a row."""
    from jax import numpy

    from threea.adapt.networks import apply

    return apply(layers, row, numpy)[0]


def run(steps: int, batch: int, widths: tuple[int, ...]) -> dict[str, Any]:
    """Pay for the steps, and ask for one gradient after another, each of the network that the last one made."""
    import threea
    from threea.adapt.networks import initial
    from threea.anonymize.events import Sampled
    from threea.anonymize.network_gradient import NetworkGradient, aligned
    from threea.anonymize.plan import Plan, Step
    from threea.table.row_vectors import RowVectors

    dataset = load("adult32", DATA.parent)
    train, _ = dataset.split(0)
    rate, budget = batch / train.num_rows, threea.Budget(1.0, dataset.delta)
    inputs = RowVectors.of(dataset.schema.features).columns
    label = dataset.schema[dataset.target].cells(1)
    layers = initial((aligned(sum(part.size for part in inputs) + label.size), *widths, 1), np.random.default_rng(0))
    plan = Plan.calibrate(budget, [Step(name="steps", weight=1, kind=Sampled, count=steps, rate=rate)])
    times = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.db"
        table = threea.open_table(train, schema=dataset.schema, budget=budget, ledger=ledger, new_ledger=True)
        began = time.perf_counter(), time.process_time()
        table.prepay(plan["steps"], steps)
        sample = table.sampled(rate)
        for _ in range(steps):
            start = time.process_time()
            query = NetworkGradient(function=score, layers=layers, inputs=inputs, label=label, l2=1.0)
            answer = sample.measure(query, plan["steps"])
            moves = query.as_layers(answer.value / batch)
            layers = tuple(
                (weights - 0.01 * move, biases - 0.01 * more)
                for (weights, biases), (move, more) in zip(layers, moves, strict=True)
            )
            times.append(time.process_time() - start)
        took = time.perf_counter() - began[0], time.process_time() - began[1]
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {
        "steps": steps,
        "batch": batch,
        "parameters": query.size,
        "seconds_by_the_clock": round(took[0], 1),
        "processor_seconds": round(took[1], 1),
        "first_step": round(times[0], 3),
        "milliseconds_a_step": round(1e3 * float(np.median(times[1:])), 2),
        "peak_memory_mb": round(int(peak.split()[1]) / 1024),
    }


if __name__ == "__main__":
    print(json.dumps(run(*json.loads(sys.argv[1]))))
