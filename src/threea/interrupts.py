"""What ends a command from outside: Ctrl-C, and the signals TERM and HUP, which a system sends that shuts down.

Each becomes a `KeyboardInterrupt`, so that what was begun is undone and its fate is told. Code that an interrupt falls
into may swallow it, as libraries do while they load; so it is noted, and raised again before anything is spent.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_noted: list[int] = []


@contextmanager
def noted() -> Iterator[list[int]]:
    """Note interrupts, whatever the code that they fall into makes of them; nothing is said of what they break.

    Whoever has told the process to ignore one of them, or handles it otherwise, is left alone.
    """
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    usual = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number in numbers if usual[number] in (signal.SIG_DFL, signal.default_int_handler)]
    if not ours or threading.current_thread() is not threading.main_thread():
        yield _noted
        return
    unraisable = sys.unraisablehook
    sys.unraisablehook = lambda told: None if _noted else unraisable(told)
    for number in ours:
        signal.signal(number, _note)
    try:
        yield _noted
    finally:
        for number in ours:
            signal.signal(number, usual[number])
        sys.unraisablehook = unraisable
        _noted.clear()


def check() -> None:
    """Raise an interrupt that came before and was swallowed on its way."""
    if _noted:
        raise KeyboardInterrupt


def code_of(numbers: list[int]) -> int:
    """Return the exit code of a command that was interrupted: 130 after Ctrl-C, 143 after TERM, 129 after HUP."""
    return 128 + (numbers[0] if numbers else signal.SIGINT)


def _note(number: int, frame: FrameType | None) -> None:
    first = not _noted
    _noted.append(number)
    # A system that shuts down may send several; none but the first, or an impatient Ctrl-C, may break what is undone.
    if first or number == signal.SIGINT:
        raise KeyboardInterrupt
