"""Many small fits side by side, each on one thread of its own.

Learners that share one fit between threads wait for the slowest at every step, and crawl on a busy machine; whole fits
side by side do not.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from threea.errors import MissingExtra

Result = TypeVar("Result")


def load(module: str) -> Any:
    """Import a module of LightGBM or scikit-learn, or of what comes with it.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise MissingExtra(
            {"sklearn": "scikit-learn", "threadpoolctl": "scikit-learn"}.get(package, package), "evaluate"
        ) from None


def side_by_side(
    tasks: Mapping[str, Callable[[], Result]], tell: Callable[[str], None] = lambda _: None
) -> dict[str, Result]:
    """Run tasks on as many workers as there are cores; results do not depend on how many that are.

    Args:
        tasks: What to run, by name.
        tell: Told the name of the task whose result is awaited.
    """
    limits = load("threadpoolctl").threadpool_limits
    stopped_early = load("sklearn.exceptions").ConvergenceWarning
    workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 8)
    # Filters and limits hold for the whole process, so they are set here, once, and not by the workers.
    with warnings.catch_warnings(), limits(limits=1):
        # To stop after so many steps is a learner's setting like any other.
        warnings.simplefilter("ignore", stopped_early)
        # All but OpenMP's limit, which every thread has to itself.
        with ThreadPoolExecutor(workers, initializer=limits, initargs=(1, "openmp")) as pool:
            running = {name: pool.submit(task) for name, task in tasks.items()}
            results = {}
            for name, future in running.items():
                tell(name)
                results[name] = future.result()
            return results
