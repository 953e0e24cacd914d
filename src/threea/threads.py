"""Work on several processors at once, handed back in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """Yield a function's results in the items' order, a few of them being worked out ahead.

    The items are taken by the caller's thread, one by one; memory holds at most two for each thread.

    Args:
        function: It must be one that may run in several threads at once.
        items: What to call it on.
        threads: How many; as many as processors by default.

    Example:
        >>> list(in_order(abs, [-3, 2, -1]))
        [3, 2, 1]
    """
    threads, waiting = threads or processors(), iter(items)
    first = list(islice(waiting, 2))
    if threads == 1 or len(first) < 2:
        # A pool would cost more than it saves.
        yield from map(function, first)
        yield from map(function, waiting)
        return
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[Result]] = deque(pool.submit(function, item) for item in first)
        try:
            for item in waiting:
                ahead.append(pool.submit(function, item))
                if len(ahead) >= 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
