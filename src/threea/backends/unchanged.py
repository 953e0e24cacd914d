"""The files must be those that were opened: who is kept was decided on them, and every sum is over the same rows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from threea.errors import InputError

_TICK_NS = 20_000_000
"""A file that was written less than this ago could be written again without another time of change."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Files, as the file system tells them apart: device and number, size, times of change of content and state.

    The last of these cannot be set by a program, so a file that was rewritten, replaced or touched is known.

    Args:
        states: By path, what was seen at opening.
    """

    states: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, paths: Iterable[str | Path]) -> Unchanged:
        """Look at files, waiting a moment where one was written just now."""
        return cls(tuple((str(path), _settled(str(path))) for path in paths))

    def check(self) -> None:
        """Refuse to go on with another file than the one opened.

        Raises:
            InputError: A file was changed, replaced or removed.
        """
        for path, state in self.states:
            if _state(path) != state:
                raise InputError(f"{path} was changed while it was in use; leave it alone, and start again")


def _settled(path: str) -> tuple[int, ...]:
    while True:
        state = _state(path)
        if not state or time.time_ns() - max(state[-2:]) > _TICK_NS:
            return state
        time.sleep(_TICK_NS / 1e9)


def _state(path: str) -> tuple[int, ...]:
    try:
        seen = os.stat(path)
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
