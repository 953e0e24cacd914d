"""The exception tree.

::

    ThreeaError                  anything this library raises on purpose
    ├── UserError                a mistake the user can mend; exit code 2, one line, no traceback
    │   ├── InputError           the data file or frame
    │   ├── SchemaError          the public description of the table
    │   ├── SettingError         a flag, an argument or a recipe's setting
    │   ├── LedgerError          the ledger file
    │   └── MissingExtra         a package that comes with an extra
    ├── BudgetRefused            the privacy budget does not cover the request; exit code 3
    ├── RowFunctionError         a function of a row failed inside the door; says nothing about the row
    └── InternalError            a bug of ours; exit code 1

Every message is one line: what was asked, the value, the bound, the remedy. No message holds a value from the table.
Whatever ends a release after it was prepared, an interrupt or a bug of ours too, carries a note that says what became
of the charge and of the files (`outcome`).
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class ThreeaError(Exception):
    """Base of every error raised on purpose."""

    exit_code = 1

    def __str__(self) -> str:
        """Return the message on one line, whatever the names in it hold."""
        return " ".join(super().__str__().split())


class UserError(ThreeaError):
    """A mistake the user can mend."""

    exit_code = 2


class InputError(UserError):
    """The data cannot be read as a table."""


class SchemaError(UserError):
    """The schema is malformed, unconfirmed or does not fit the table."""


class SettingError(UserError):
    """An argument or a setting is outside its bounds."""


class LedgerError(UserError):
    """The ledger cannot be used."""


class MissingExtra(UserError):
    """A package that comes with an extra is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        clone = f"in a clone of threea, pip install -e '.[{extra}]'"
        super().__init__(f"{package} is not installed; pip install 'threea[{extra}]', or {clone}")


class BudgetRefused(ThreeaError):
    """The privacy budget does not cover what was asked.

    Attributes:
        requested: Epsilon asked for.
        spent: Epsilon already spent.
        left: Epsilon that could still be spent.
    """

    exit_code = 3

    def __init__(self, what: str, *, requested: float, spent: float, cap: float, remedy: str) -> None:
        self.what, self.cap, self.remedy = what, cap, remedy
        self.requested, self.spent, self.left = requested, spent, max(cap - spent, 0.0)
        super().__init__(
            f"{what}: requested epsilon {requested:g}, spent {spent:g} of {cap:g}, left {self.left:g}; {remedy}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the parts when the error crosses a process boundary."""
        rebuild = _rebuild_refusal
        return rebuild, (self.what, self.requested, self.spent, self.cap, self.remedy)


def _rebuild_refusal(what: str, requested: float, spent: float, cap: float, remedy: str) -> BudgetRefused:
    return BudgetRefused(what, requested=requested, spent=spent, cap=cap, remedy=remedy)


class RowFunctionError(ThreeaError):
    """A function of a row failed inside the door; the row is not shown."""


class InternalError(ThreeaError):
    """A bug of ours, never the user's mistake."""


def stated(*, charged: bool, written: bool, kept: bool = False) -> str:
    """Say what became of a release that did not end well; `kept` says whether its answers are."""
    if not charged:
        return f"{'the release was written' if written else 'no result was written'}; nothing was charged"
    if written:
        return "the release was written; what was charged stays charged"
    again = "; the same again with --resume (in Python, resume=True) goes on with it" if kept else ""
    return f"no result was written; what was charged stays charged{again}"


_FATES = {
    stated(charged=charged, written=written, kept=kept)
    for charged in (True, False)
    for written in (True, False)
    for kept in (True, False)
}


@contextmanager
def outcome(tell: Callable[[], str]) -> Iterator[None]:
    """Add to whatever error passes through what was `stated`, unless somebody further inside has.

    Example:
        >>> try:
        ...     with outcome(lambda: stated(charged=True, written=False)):
        ...         raise InputError("the file has changed")
        ... except InputError as error:
        ...     fate_of(error)
        'no result was written; what was charged stays charged'
    """
    try:
        yield
    except BaseException as error:
        if not fate_of(error):
            error.add_note(tell())
        raise


def fate_of(error: BaseException | None) -> str | None:
    """Return what an error, or the one that caused it, carries on the fate of a release.

    Nothing else that it carries is returned: a stranger's note may quote a row.
    """
    if error is None:
        return None
    known = [note for note in getattr(error, "__notes__", ()) if note in _FATES]
    return known[0] if known else fate_of(error.__cause__)


def bug(error: BaseException) -> str:
    """Say where a bug of ours is, and nothing that its error says: that may quote a row."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"internal error: {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
