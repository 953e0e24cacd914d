"""Running code that meets rows, so that its failure tells nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from threea.errors import InputError, RowFunctionError

_Result = TypeVar("_Result")


def guarded(name: str, act: Callable[[], _Result]) -> _Result:
    """Act on rows; of a failure tell that it happened, and no more: no kind, no message, no frame, no value.

    Args:
        name: What failed, in the message.
        act: What meets rows.

    Raises:
        RowFunctionError: It failed.
    """
    try:
        return act()
    except KeyboardInterrupt:
        raise
    except BaseException:
        # What asks Python to exit has words of its own, too.
        failed = name
    # Raised out here, where no row is in reach, nothing is chained to it.
    raise RowFunctionError(f"{failed} failed inside the private table; try it on made-up rows to see why")


def engine(name: str, act: Callable[[], _Result]) -> _Result:
    """Act on an engine, whose own errors (a file that cannot be read, or has changed) hold no word of the data.

    Raises:
        InputError: The engine's own.
        RowFunctionError: Anything else.
    """
    problem: InputError | None = None

    def told() -> _Result | None:
        nonlocal problem
        try:
            return act()
        except InputError as error:
            problem = error
        return None

    result = guarded(name, told)
    if problem is not None:
        raise problem
    assert result is not None
    return result
