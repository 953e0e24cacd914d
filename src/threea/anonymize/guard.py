"""Running code that meets rows, so that its failure tells nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from threea.errors import InputError, RowFunctionError

_Result = TypeVar("_Result")


class Guard:
    """Watches over code that meets rows: of a failure it keeps the kind alone, no message, no frame, no value."""

    def __init__(self, name: str) -> None:
        self._name, self._failure = name, ""

    def over(self, act: Callable[[], _Result], otherwise: _Result) -> _Result:
        """Act on rows; if that fails, go on with something else and tell of it at the end."""
        try:
            return act()
        except Exception as error:
            self._failure = self._failure or type(error).__name__
        return otherwise

    def end(self, act: Callable[[], _Result]) -> _Result:
        """Act, and tell of any failure out here, where no row is in reach."""
        result: _Result | None = None
        try:
            result = act()
        except InputError:
            # The engine's own, made without a word of the data.
            raise
        except Exception as error:
            self._failure = self._failure or type(error).__name__
        if self._failure or result is None:
            name, failure = self._name, self._failure
            raise RowFunctionError(f"{name} failed inside the door with {failure}; try it on made-up rows to see why")
        return result
