"""How far a release is: told by whatever takes long, shown by whoever runs it, quiet if nobody listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Told which stage it is, how much is done, and of how much."""

_listening: ContextVar[Progress | None] = ContextVar("listening", default=None)


@contextmanager
def listening(progress: Progress | None) -> Iterator[None]:
    """Let a function be told of all that happens within, on this thread."""
    token = _listening.set(progress)
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
    if progress := _listening.get():
        progress(stage, done, of)
