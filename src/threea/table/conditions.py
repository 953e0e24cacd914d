"""Conditions on the rows to draw: which listed values, or which interval of numbers or dates, a column may have.

`given` reads them from plain Python values, `given_texts` from texts as on a command line. Models ask what share of a
cell fits (`fitting`) and draw values that do (`draw_fitting`), or look at rows (`fits`).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.errors import SchemaError, SettingError
from threea.table import dates
from threea.table.cells import Bins, Cells, Values, steps_below
from threea.table.schema import OTHER, Chunk, Column, Kind, Schema

Floats = NDArray[np.float64]

_TEXT = re.compile(r"^(.*?)(>=|<=|=|>|<)(.*)$", re.DOTALL)
_SHOWN = 8
"""How many known names an error lists."""


@dataclass(frozen=True, slots=True)
class Among:
    """Listed values: codes, -1 for missing."""

    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers or moments as they are encoded, both ends included; a missing one never fits, a special one by value."""

    lower: float = -math.inf
    upper: float = math.inf


Condition = Among | Between
Given = Mapping[str, Condition]
"""By column. A row fits if all of its columns do."""


def given(schema: Schema, conditions: Mapping[str, Any] | None) -> Given | None:
    """Read conditions from Python values: a value, a list or set of them, or ``(lower, upper)`` with None for no bound.

    Raises:
        SettingError: A column is unknown, or it cannot have such a value.

    Example:
        >>> from threea import hospital
        >>> given(hospital.schema(), {"died": True, "age": (65, None)})
        {'died': Among(codes=(1,)), 'age': Between(lower=65.0, upper=inf)}
    """
    if not conditions:
        return None
    return {name: _condition(_column(schema, name), wanted) for name, wanted in conditions.items()}


def given_texts(schema: Schema, texts: Iterable[str]) -> Given | None:
    """Read conditions from texts: ``ward=surgery``, ``age>=65``, ``age<80``.

    Of several bounds on a column all must hold; of several listed values, one.

    Raises:
        SettingError: A text is none, a column is unknown, or it cannot have such a value.

    Example:
        >>> from threea import hospital
        >>> given_texts(hospital.schema(), ["age>=65", "age<80"])
        {'age': Between(lower=65.0, upper=79.0)}
    """
    found: dict[str, Condition] = {}
    for text in texts:
        column, condition = _parsed(schema, text)
        found[column] = _both(found[column], condition) if column in found else condition
    return found or None


def fitting(cells: Cells, condition: Condition | None) -> Floats:
    """Return which share of each cell's values fits.

    Example:
        >>> age = Bins(column="age", edges=(0.0, 50.0, 100.0), missing=True, whole=True)
        >>> fitting(age, Between(40.0, math.inf))
        array([0.2, 1. , 0. ])
    """
    if condition is None:
        return np.ones(cells.size)
    if isinstance(condition, Among):
        return np.isin(cells.draw(np.arange(cells.size), np.random.default_rng(0)), condition.codes).astype(np.float64)
    assert isinstance(cells, Bins)
    lower, upper = np.asarray(cells.edges[:-1]), np.asarray(cells.edges[1:])
    # A bin of whole numbers all of which are special is drawn as its last one.
    whole = cells.room(lower, upper)
    inside = ((condition.lower < upper) & (upper - 1 <= condition.upper)).astype(np.float64)
    np.divide(cells.room(*_cut(cells, lower, upper, condition)), whole, out=inside, where=whole > 0)
    special = [float(condition.lower <= value <= condition.upper) for value in cells.special]
    return np.concatenate([special, np.clip(inside, 0.0, 1.0), np.zeros(int(cells.missing))])


def draw_fitting(
    cells: Cells, index: NDArray[np.int64], rng: np.random.Generator, condition: Condition | None = None
) -> Values:
    """Return a value that fits from each cell; the cells must hold some."""
    if not isinstance(condition, Between):
        return cells.draw(index, rng)
    assert isinstance(cells, Bins)
    values = cells.draw(index, rng)
    bins = index - len(cells.special)
    inside = (bins >= 0) & (bins < len(cells.edges) - 1)
    lower, upper = (np.asarray(ends)[bins[inside]] for ends in (cells.edges[:-1], cells.edges[1:]))
    values[inside] = cells.spread(*_cut(cells, lower, upper, condition), rng.random(int(inside.sum())))
    return values


def fits(chunk: Chunk, conditions: Given) -> NDArray[np.bool_]:
    """Return which rows fit."""
    held = []
    for name, condition in conditions.items():
        values = chunk[name]
        if isinstance(condition, Among):
            held.append(np.isin(values, condition.codes))
        else:
            held.append((values >= condition.lower) & (values <= condition.upper))
    return np.asarray(np.all(held, axis=0))


def nothing_fits(conditions: Given) -> SettingError:
    """Return the error for conditions that no row of a model fits."""
    return SettingError(f"no row that the model draws fits the conditions on {', '.join(conditions)}; loosen them")


def _cut(cells: Bins, lower: Floats, upper: Floats, condition: Between) -> tuple[Floats, Floats]:
    """Return bins from lower up to, not including, upper, as far as they fit."""
    first, last = condition.lower, condition.upper
    if cells.step:
        # From half a step below the first multiple that fits to half a step above the last.
        first = (float(steps_below(np.float64(first), cells.step)) - 0.5) * cells.step
        last = (-float(steps_below(np.float64(-last), cells.step)) + 0.5) * cells.step
    elif cells.whole:
        first = math.ceil(first) if math.isfinite(first) else first
        last = math.floor(last) + 1.0 if math.isfinite(last) else last
    start = np.maximum(lower, first)
    return start, np.maximum(np.minimum(upper, last), start)


def _column(schema: Schema, name: str) -> Column:
    columns = {column.name: column for column in schema.valued}
    if name not in columns:
        raise SettingError(f"condition on column ({name}): {_known(name, columns)}")
    return columns[name]


def _condition(column: Column, wanted: Any) -> Condition:
    if column.kind.listed:
        many = wanted if isinstance(wanted, list | set | frozenset | tuple) else [wanted]
        return Among(tuple(sorted({_code(column, value) for value in many})))
    if isinstance(wanted, tuple) and len(wanted) == 2:
        lower, upper = (_number(column, end) if end is not None else None for end in wanted)
        return _checked(column, -math.inf if lower is None else lower, math.inf if upper is None else upper)
    if isinstance(wanted, list | set | frozenset | tuple):
        raise SettingError(f"condition on {column.name}: it is {column.kind}; give one value or (lower, upper)")
    value = _number(column, wanted)
    return _checked(column, value, value)


def _parsed(schema: Schema, text: str) -> tuple[str, Condition]:
    found = _TEXT.match(text)
    if not found:
        raise SettingError(f"condition ({text}) must be like column=value, column>=value or column<value")
    name, sign, value = (part.strip() for part in found.groups())
    column = _column(schema, name)
    if sign == "=":
        return column.name, _condition(column, value)
    if column.kind.listed:
        raise SettingError(f"condition ({text}): {column.name} is {column.kind}, which has no order; use =")
    number = _number(column, value)
    # Of whole numbers the next one; of others, the next that a float can hold.
    further = number + 1 if sign == ">" else number - 1
    beyond = further if column.whole else math.nextafter(number, further)
    ends = {">=": (number, math.inf), ">": (beyond, math.inf), "<=": (-math.inf, number), "<": (-math.inf, beyond)}
    return column.name, _checked(column, *ends[sign])


def _both(one: Condition, other: Condition) -> Condition:
    """Return what fits two conditions on a column, of which listed values are taken together."""
    if isinstance(one, Between) and isinstance(other, Between):
        return Between(max(one.lower, other.lower), min(one.upper, other.upper))
    assert isinstance(one, Among)
    assert isinstance(other, Among)
    return Among(tuple(sorted({*one.codes, *other.codes})))


def _checked(column: Column, lower: float, upper: float) -> Between:
    """Refuse an interval in which the column has nothing."""
    assert column.lower is not None
    assert column.upper is not None
    special = any(lower <= value <= upper for value in column.special)
    if not special and (lower > column.upper or upper < column.lower or lower > upper):
        ends = (_shown(column, column.lower), _shown(column, column.upper))
        raise SettingError(f"condition on {column.name}: nothing fits; it is from {ends[0]} to {ends[1]}")
    return Between(lower, upper)


def _shown(column: Column, value: float) -> str:
    return dates.to_text(value, column.kind) if column.kind.temporal else f"{value:g}"


def _number(column: Column, value: Any) -> float:
    if column.kind.temporal:
        try:
            return dates.from_text(value, column.kind, column.name)
        except (SchemaError, OverflowError):
            raise SettingError(f"condition on {column.name}: ({value}) must be an ISO {column.kind}") from None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SettingError(f"condition on {column.name}: ({value}) must be a number")
    return number


def _code(column: Column, value: Any) -> int:
    if value is None and column.nullable:
        return -1
    text = str(value).lower() if isinstance(value, bool) or column.kind is Kind.BOOLEAN else str(value)
    listed = [*column.categories, *([OTHER] if column.open_ended else [])]
    if text not in listed:
        raise SettingError(f"condition on {column.name}: value ({value}): {_known(text, listed)}")
    return listed.index(text)


def _known(word: str, known: Iterable[str]) -> str:
    """Say that a word is unknown, which one it may stand for, and some that are known."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    guess = f"did you mean {close[0]}? " if close else ""
    return f"unknown; {guess}known: {', '.join(names[:_SHOWN])}{more}"
