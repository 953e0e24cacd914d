"""How many noisy values a second, by mechanism and scale."""

import statistics
import time

import numpy as np

from benchmarks.record import record
from threea.anonymize.noise import SecureNoise

VALUES, REPEATS = 20_000, 5


def main() -> None:
    """Time the secure mechanisms on vectors of zeros."""
    noise, zeros = SecureNoise(), np.zeros(VALUES, np.int64)
    acts = {
        "gaussian, scale 1e3": lambda: noise.gaussian(zeros, 1e3),
        "gaussian, scale 1e9": lambda: noise.gaussian(zeros, 1e9),
        "laplace, scale 1e9": lambda: noise.laplace(zeros, 1e9),
        "coin flips": lambda: noise.bernoulli(0.01, VALUES),
    }
    results = {}
    for name, act in acts.items():
        act()
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            act()
            seconds.append(time.perf_counter() - start)
        microseconds = [1e6 * second / VALUES for second in seconds]
        results[name] = {
            "microseconds_a_value": round(statistics.median(microseconds), 4),
            "least": min(microseconds),
            "most": max(microseconds),
        }
    record("noise", {"values": VALUES, "repeats": REPEATS}, results)
