"""How many noisy values a second, by mechanism and scale: OpenDP's, of few numbers, and rounded noise, of many."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.record import record
from threea.anonymize.noise import MANY, SecureNoise, discrete_gaussian, discrete_laplace
from threea.anonymize.rounded_noise import GAUSSIAN, LAPLACE, noisy

VALUES, MANY_VALUES, REPEATS = 20_000, 1_000_000, 5
SCALES = (1e3, 2.0**22, 1e9, 2.0**33)


def main() -> None:
    """Time the secure mechanisms on vectors of zeros."""
    few, many = np.zeros(VALUES, np.int64), np.zeros(MANY_VALUES, np.int64)
    results: dict[str, Any] = {}
    for name, before, law in (("gaussian", discrete_gaussian, GAUSSIAN), ("laplace", discrete_laplace, LAPLACE)):
        for scale in SCALES:
            opendp = timed(lambda before=before, scale=scale: before(few, scale), VALUES)
            rounded = timed(lambda law=law, scale=scale: noisy(many, scale, law), MANY_VALUES)
            faster = opendp["microseconds_a_value"] / rounded["microseconds_a_value"]
            results[f"{name}, scale {scale:.3g}"] = {"opendp": opendp, "rounded": rounded, "faster": round(faster, 1)}
    results["coin flips"] = timed(lambda: SecureNoise().bernoulli(0.01, MANY_VALUES), MANY_VALUES)
    results["by size"] = [sized(size) for size in (1, 16, 64, MANY, 1024)]
    record("noise", {"values": [VALUES, MANY_VALUES], "repeats": REPEATS, "many": MANY}, results)


def timed(act: Callable[[], Any], values: int) -> dict[str, float]:
    """Return what a value takes, in microseconds of processor time: the machine may have others to serve."""
    act()
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        act()
        seconds.append(time.process_time() - start)
    each = [1e6 * second / values for second in seconds]
    return {
        "microseconds_a_value": round(statistics.median(each), 4),
        "least": round(min(each), 4),
        "most": round(max(each), 4),
    }


def sized(size: int) -> dict[str, float]:
    """Return what answers of so many numbers take by either, in microseconds: from where rounded noise is used."""
    zeros = np.zeros(size, np.int64)
    by_opendp = timed(lambda: [discrete_gaussian(zeros, 2.0**32) for _ in range(20)], 20)
    by_rounding = timed(lambda: [noisy(zeros, 2.0**32, GAUSSIAN) for _ in range(20)], 20)
    return {
        "numbers": size,
        "opendp": by_opendp["microseconds_a_value"],
        "rounded": by_rounding["microseconds_a_value"],
    }
