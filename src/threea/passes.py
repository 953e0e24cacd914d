"""Who is told how far a pass over the rows is. It is for the owner's terminal, and part of no release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Told = Callable[[int, int | None], None]
"""Called with the number of parts that are done, and of how many if that is known."""
_told: ContextVar[Told | None] = ContextVar("told", default=None)


@contextmanager
def telling(told: Told | None) -> Iterator[None]:
    """Tell somebody of the passes made meanwhile."""
    before = _told.set(told)
    try:
        yield
    finally:
        _told.reset(before)


def tell(done: int, of: int | None) -> None:
    """Say how far the pass is, if anybody listens."""
    told = _told.get()
    if told is not None:
        told(done, of)
