"""The public description of one column: its kind, bounds and categories, and how a schema file says them."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from numpy.typing import NDArray

from threea.errors import SchemaError
from threea.table import dates
from threea.table.cells import Bins, Categories, Cells, edges_between

Chunk = dict[str, NDArray[Any]]
"""Encoded columns by name."""

OTHER = "other"
"""What stands in a synthetic table for a category that the schema does not list."""


class Kind(StrEnum):
    """What a column holds."""

    CATEGORICAL = "categorical"
    ORDINAL = "ordinal"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    DATE = "date"
    DATETIME = "datetime"
    ID = "id"
    """Identifies a person or a row: never read, replaced by fresh surrogates."""
    UNDECLARED = "undeclared"
    """No type says what it holds: found through the private table before anything else. Not for a schema file."""

    @property
    def listed(self) -> bool:
        """Whether values come from a list of categories."""
        return self in (Kind.CATEGORICAL, Kind.ORDINAL, Kind.BOOLEAN)

    @property
    def temporal(self) -> bool:
        """Whether values are moments in time."""
        return self in (Kind.DATE, Kind.DATETIME)

    @property
    def numeric(self) -> bool:
        """Whether values are numbers or moments between two bounds."""
        return self in (Kind.INTEGER, Kind.REAL) or self.temporal


LOOKS = (Kind.BOOLEAN, Kind.INTEGER, Kind.REAL, Kind.DATE, Kind.DATETIME, Kind.CATEGORICAL)
"""What an undeclared value may look like, in the order of its codes; the last is text that looks like nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Public description of one column.

    Raises:
        SchemaError: The description contradicts itself.
    """

    name: str
    kind: Kind
    lower: float | None = None
    """Smallest value; dates count days and datetimes microseconds since 1970."""
    upper: float | None = None
    """Largest value."""
    categories: tuple[str, ...] = ()
    """Listed values, as text."""
    open_ended: bool = False
    """Whether values outside the list are kept, as "other"."""
    nullable: bool = True
    """Whether values may be missing; where not, one that is counts as another (`table.cells`)."""
    special: tuple[float, ...] = ()
    """Values that stand apart from the rest, such as a spike at 0 or a code 999."""
    log: bool = False
    """Whether the values spread over orders of magnitude."""
    edges: tuple[float, ...] = ()
    """Cut points for bins; evenly spaced if empty."""
    step: float = 0.0
    """Numbers are multiples of it: 0.01 for cents, 10000 for rounded wages; 0 for any number, or any whole one."""
    as_read: str = field(default="", compare=False, repr=False)
    """In a draft, the digest of the column as it was read from the rows."""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise SchemaError(f"column {self.name}: {problem}")

    def _problem(self) -> str | None:
        if self.kind is Kind.BOOLEAN and not self.categories:
            object.__setattr__(self, "categories", ("false", "true"))
        if self.kind.listed:
            if not self.categories and not self.open_ended:
                return f"{self.kind} needs categories; list them, or set open_ended = true"
            if len(set(self.categories)) != len(self.categories):
                return "categories must differ from one another"
            if self.kind is Kind.BOOLEAN and (self.categories != ("false", "true") or self.open_ended):
                return "boolean has the categories false and true alone; make it categorical for others"
        if self.kind.numeric and (self.categories or self.open_ended):
            return f"{self.kind} has no categories; make it categorical, or leave them out"
        if self.kind.numeric:
            return self._bounds_problem()
        if (self.lower, self.upper, self.special, self.edges, self.log, self.step) != (None, None, (), (), False, 0):
            return f"{self.kind} has no bounds, special values, edges, step or log scale; leave them out"
        return None

    def _bounds_problem(self) -> str | None:
        if self.lower is None or self.upper is None:
            return f"{self.kind} needs lower and upper"
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            return f"lower ({self.lower}) and upper ({self.upper}) must be finite"
        numbers = (self.lower, self.upper, *self.special, *self.edges)
        if not all(math.isfinite(number) for number in (*numbers, self.upper - self.lower)):
            return "bounds, their difference, special values and edges must be finite"
        if self.whole and any(number != round(number) for number in numbers):
            return f"{self.kind} needs whole numbers as bounds, special values and edges"
        if self.lower > self.upper or (self.lower == self.upper and self.kind is Kind.REAL):
            return f"lower ({self.lower:g}) must be below upper ({self.upper:g})"
        if self.log and self.lower <= 0:
            return f"a log scale needs lower ({self.lower:g}) > 0; list 0 under special"
        if len(set(self.special)) != len(self.special):
            return "special values must differ from one another"
        return self._step_problem() or self._edges_problem()

    def _step_problem(self) -> str | None:
        assert self.lower is not None
        assert self.upper is not None
        if not 0 <= self.step < math.inf:
            return f"step ({self.step:g}) must be a number above 0; leave it out for any number"
        if self.step and self.kind.temporal:
            return f"{self.kind} has no step; leave it out"
        if self.step and self.whole and self.step != round(self.step):
            return f"step ({self.step:g}) must be a whole number, as {self.kind} is"
        largest = max(abs(self.lower), abs(self.upper))
        if self.step and not 1e-12 <= self.step <= largest <= 2**53 * self.step:
            return f"step ({self.step:g}) must be at least 1e-12, below the largest bound, and above it over 2**53"
        return None

    def _edges_problem(self) -> str | None:
        assert self.lower is not None
        assert self.upper is not None
        increasing = len(self.edges) > 1 and list(self.edges) == sorted(set(self.edges))
        # Around multiples of a step, edges lie half a step below and above.
        slack = self.step or float(self.whole)
        below = 0.0 if self.whole else slack
        if self.edges and not (
            increasing and self.lower - below <= self.edges[0] and self.edges[-1] <= self.upper + slack
        ):
            return "edges must be at least two increasing numbers from lower to upper"
        return None

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers once encoded."""
        return self.kind in (Kind.INTEGER, Kind.DATE, Kind.DATETIME)

    @property
    def unit(self) -> float:
        """The distance between neighbouring values; for any number, a millionth of the way between the bounds."""
        if self.step or self.whole:
            return self.step or 1.0
        assert self.lower is not None
        assert self.upper is not None
        return (self.upper - self.lower) * 2.0**-20

    @property
    def words(self) -> tuple[str, ...]:
        """The listed values in the order of their codes, "other" included if there are others."""
        return (*self.categories, OTHER) if self.open_ended else self.categories

    @property
    def digest(self) -> str:
        """A short digest of what the column's TOML section says."""
        text = "".join(f"{key} = {toml_text(value)}\n" for key, value in (("name", self.name), *column_fields(self)))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def cells(self, bins: int) -> Cells:
        """Return the column's cells, with at most `bins` bins where its edges are not given."""
        if self.kind is Kind.UNDECLARED:
            return Categories(column=self.name, count=len(LOOKS), missing=True)
        if self.kind.listed:
            count = len(self.categories) + self.open_ended
            return Categories(column=self.name, count=count, missing=self.nullable, other=self.open_ended)
        assert self.lower is not None
        assert self.upper is not None
        edges = self.edges or edges_between(
            self.lower, self.upper, bins, log=self.log, whole=self.whole, step=self.step
        )
        return Bins(
            column=self.name,
            edges=edges,
            special=self.special,
            missing=self.nullable,
            whole=self.whole,
            log=self.log,
            step=self.step,
        )


def column_fields(column: Column) -> Iterable[tuple[str, Any]]:
    """Yield what a column's TOML section says: only what differs from the defaults."""
    yield "kind", str(column.kind)
    if column.kind.numeric:
        show = dates.to_text if column.kind.temporal else (lambda value, _: plain_number(value, column.whole))
        yield "lower", show(column.lower, column.kind)
        yield "upper", show(column.upper, column.kind)
        if column.special:
            yield "special", [show(value, column.kind) for value in column.special]
        if column.edges:
            yield "edges", [show(value, column.kind) for value in column.edges]
        if column.step:
            yield "step", plain_number(column.step, column.whole)
        if column.log:
            yield "log", True
    if column.kind.listed and column.kind is not Kind.BOOLEAN:
        yield "categories", list(column.categories)
    if column.open_ended:
        yield "open_ended", True
    yield "nullable", column.nullable


def is_dropped(name: str, fields: Any) -> bool:
    """Tell whether a column's TOML section says that it is never read; whatever else it says does not matter then."""
    said = fields.get("drop", False) if isinstance(fields, dict) else False
    if not isinstance(said, bool):
        raise SchemaError(f"column {name}: drop ({said}) must be true or false")
    return said


def column_from(name: str, fields: Any) -> Column:
    """Read a column from what its TOML section says."""
    known = {
        "kind",
        "lower",
        "upper",
        "categories",
        "open_ended",
        "nullable",
        "special",
        "log",
        "edges",
        "step",
        "as_read",
        "drop",
    }
    if not isinstance(fields, dict) or set(fields) - known:
        wrong = ", ".join(sorted(set(fields) - known)) if isinstance(fields, dict) else str(fields)
        raise SchemaError(f"column {name}: unknown keys ({wrong}); known are {', '.join(sorted(known))}")
    kinds = [kind for kind in Kind if kind is not Kind.UNDECLARED]
    if fields.get("kind", "") not in kinds:
        raise SchemaError(f"column {name}: kind ({fields.get('kind')}) must be one of {', '.join(kinds)}")
    kind = Kind(fields["kind"])
    for key, wanted in (
        ("categories", list),
        ("special", list),
        ("edges", list),
        ("open_ended", bool),
        ("nullable", bool),
        ("log", bool),
        ("as_read", str),
    ):
        if key in fields and not isinstance(fields[key], wanted):
            raise SchemaError(f"column {name}: {key} ({fields[key]}) must be a {wanted.__name__}")

    def number(value: Any) -> float:
        if kind.temporal:
            return dates.from_text(value, kind, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(f"column {name}: {value!r} must be a number")
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise SchemaError(f"column {name}: a number of {len(str(value))} digits is too large; make it smaller")
        return float(value)

    parsed = dict(fields, kind=kind)
    parsed.pop("drop", None)
    for key in ("lower", "upper"):
        if key in fields:
            parsed[key] = number(fields[key])
    for key in ("special", "edges"):
        parsed[key] = tuple(number(value) for value in fields.get(key, ()))
    if "step" in fields and not kind.temporal:
        parsed["step"] = number(fields["step"])
    parsed["categories"] = tuple(category_text(name, value) for value in fields.get("categories", ()))
    return Column(name=name, **parsed)


def category_text(name: str, value: Any) -> str:
    """Return a category as the text it is known by."""
    if isinstance(value, list | dict):
        raise SchemaError(f"column {name}: category ({value}) must be text, a number or a date")
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain_number(value: float | None, whole: bool) -> float | int | None:
    """Return a number as it is written: whole ones without a point."""
    return int(value) if whole and value is not None else value


def toml_text(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, list):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'
