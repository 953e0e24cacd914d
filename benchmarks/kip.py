"""Kernel inducing points: time of a step by its three sizes, and what alpha does if the loss is a mean or a sum."""

import importlib.metadata
import os
import time

import numpy as np

from benchmarks.record import record

SUPPORT, TARGET, COLUMNS = (32, 64, 128, 256, 512, 1024), (64, 128, 256, 512, 1024, 2048), (8, 32, 128, 512)
USUAL = {"support": 128, "target": 512, "columns": 32}
STEPS, REPEATS = 8, 5
ALPHAS, BATCH, REGULARISATION = (0.0, 0.1, 0.5, 0.9, 0.99), 512, 1e-6


def simulated(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points, and classes that depend on products of their first columns."""
    points = np.random.default_rng(seed).normal(size=(rows, columns))
    return points, (points[:, 0] * points[:, 1] + points[:, 2] > 0).astype(np.int64)


def step_time(support: int, target: int, columns: int) -> dict[str, float]:
    """Return a step's processor time, the least of some repeats, and that of the first, which compiles.

    Processor time, and the least of it, because a busy machine changes ratios of other times.
    """
    from threea.adapt.kip import induce

    goal, classes = simulated(max(TARGET), columns, 0)
    start, labels = simulated(support, columns, 1)

    def timed(steps: int) -> float:
        begun = time.process_time()
        moved = induce(
            start,
            labels,
            goal,
            classes,
            alpha=0.1,
            regularisation=REGULARISATION,
            steps=steps,
            target_batch=target,
            rng=np.random.default_rng(2),
        )
        assert len(moved.losses) == steps
        return time.process_time() - begun

    first = timed(1)
    return {
        "milliseconds": 1e3 * min(timed(STEPS) / STEPS for _ in range(REPEATS)),
        "first_step_seconds": first,
    }


def growth() -> dict[str, list[dict[str, float]]]:
    """Change one size at a time; ratios are to the step before, and to the usual sizes of this run."""
    usual = step_time(**USUAL)["milliseconds"]
    times: dict[str, list[dict[str, float]]] = {}
    for name, sizes in (("support", SUPPORT), ("target", TARGET), ("columns", COLUMNS)):
        times[name] = []
        for size in sizes:
            entry = {name: size, **step_time(**{**USUAL, name: size})}
            entry["ratio_to_usual"] = entry["milliseconds"] / usual
            if times[name]:
                entry["ratio_to_previous"] = entry["milliseconds"] / times[name][-1]["milliseconds"]
            times[name].append(entry)
            print(entry)
    return times


def centroids(points: np.ndarray, labels: np.ndarray, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, of each class, the means of its points nearest to some of them."""
    rng, centres = np.random.default_rng(3), []
    for label in (0, 1):
        mine = points[labels == label]
        seeds = mine[rng.choice(len(mine), clusters, replace=False)]
        nearest = np.square(mine[:, None] - seeds).sum(axis=2).argmin(axis=1)
        centres.append(np.array([mine[nearest == cluster].mean(axis=0) for cluster in range(clusters)]))
    return np.vstack(centres), np.repeat([0, 1], clusters)


def effect_of_alpha() -> list[dict[str, float]]:
    """Move centroids; return how far they went, and how well ridge regression on them predicts held-out points."""
    from threea.adapt.kip import induce
    from threea.adapt.ntk import TangentKernel

    kernel = TangentKernel()
    goal, classes = simulated(5_000, 10, 4)
    asked, actual = simulated(5_000, 10, 5)
    start, labels = centroids(goal, classes, 25)

    def accuracy(points: np.ndarray) -> float:
        within = kernel(points, points)
        within += REGULARISATION * np.trace(within) / len(points) * np.eye(len(points))
        scores = kernel(asked, points) @ np.linalg.solve(within, labels - 0.5)
        return float(((scores > 0) == actual).mean())

    results = []
    for alpha in ALPHAS:
        # A sum over the batch is a mean with less alpha, but for a factor, which Adam does not see.
        for form, same in (("mean", alpha), ("sum", alpha / (alpha + (1 - alpha) * BATCH))):
            result = induce(
                start,
                labels,
                goal,
                classes,
                alpha=same,
                regularisation=REGULARISATION,
                target_batch=BATCH,
                rng=np.random.default_rng(6),
            )
            moved = float(np.square(result.points - start).sum() / np.square(start).sum())
            entry = {"alpha": alpha, "form": form, "moved": moved, "steps": len(result.losses)}
            results.append({**entry, "accuracy_before": accuracy(start), "accuracy": accuracy(result.points)})
            print(results[-1])
    return results


def main() -> None:
    """Measure both, on simulated points."""
    settings = {
        "usual": USUAL,
        "steps": STEPS,
        "repeats": REPEATS,
        "least_processor_time": True,
        "target_batch_for_alpha": BATCH,
        "regularisation": REGULARISATION,
        "jax": importlib.metadata.version("jax"),
        "optax": importlib.metadata.version("optax"),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }
    record("kip", settings, {"time_of_a_step": growth(), "alpha": effect_of_alpha()})
