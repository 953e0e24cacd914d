"""How far a release is: told by whatever takes long, shown by whoever runs it, quiet if nobody listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Told which stage it is, how much is done, and of how much."""
Parts = Callable[[int, int | None], None]
"""Told how many parts of a pass over the rows are done, and of how many if that is known: for the owner's terminal."""

_listening: ContextVar[tuple[Progress | None, Parts | None]] = ContextVar("listening", default=(None, None))


@contextmanager
def listening(progress: Progress | None = None, parts: Parts | None = None) -> Iterator[None]:
    """Let functions be told of all that happens within, on this thread; who listens already goes on."""
    before = _listening.get()
    token = _listening.set((progress or before[0], parts or before[1]))
    try:
        yield
    finally:
        _listening.reset(token)


def tell(stage: str, done: int, of: int) -> None:
    """Say how far a stage is. Only what follows from public facts and noisy answers may be said.

    Example:
        >>> with listening(lambda stage, done, of: print(f"{stage}: {done} of {of}")):
        ...     tell("training, loss 0.5", 3, 10)
        training, loss 0.5: 3 of 10
    """
    _log.debug("%s: %d of %d", stage, done, of)
    if progress := _listening.get()[0]:
        progress(stage, done, of)


def tell_part(done: int, of: int | None) -> None:
    """Say how far a pass over the rows is. It is part of no release, and not logged."""
    if parts := _listening.get()[1]:
        parts(done, of)
