"""A schema from names and declared types: kinds, bounds, categories found through the door, out of the same budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian, PartitionSelection
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Marginal, Stack
from threea.anonymize.selection import Values
from threea.describe import class_target, ids, number_column
from threea.describe.class_target import class_column
from threea.describe.number_column import FirstLook
from threea.table.cells import AnyCells, Digits
from threea.table.from_types import of_kind
from threea.table.patterns import settled
from threea.table.schema import LOOKS, Column, Kind, Origin, Schema

SHARE = 0.15
"""Share of the budget that discovery takes."""
KINDS, CATEGORIES, RANGES, VALUES = "discover kinds", "discover categories", "discover ranges", "discover values"
CLASSES = "discover classes"
_MOST_CATEGORIES = 1000


def steps(schema: Schema) -> tuple[Step, ...]:
    """Return what discovery asks of a table: nothing if its schema is known.

    Where kinds are to be found, nobody knows yet which of the other questions there will be columns for. Both are
    planned; one that no column needs is not asked, and not charged.
    """
    if schema.origin is not Origin.TYPES:
        return ()
    undeclared, numeric = bool(_undeclared(schema)), bool(_numeric(schema))
    text, classes = bool(_text(schema)), bool(_text(schema, target=True))
    unknown = any(column.name == schema.target for column in _undeclared(schema))
    # Both looks at numbers together weigh as much as each of the others, and so do those at text: a target's classes
    # are looked for by themselves, since a rare one would drown in the noise that many columns share.
    wanted = {
        KINDS: (undeclared, Gaussian, 1.0),
        CATEGORIES: (text or undeclared, PartitionSelection, 0.8),
        CLASSES: (classes or unknown, PartitionSelection, 0.2),
        RANGES: (numeric or undeclared, Gaussian, 0.6),
        VALUES: (numeric or undeclared, Gaussian, 0.4),
    }
    asked = [(name, kind, weight) for name, (needed, kind, weight) in wanted.items() if needed]
    all_weights = sum(weight for _, _, weight in asked)
    found = (Step(name=name, weight=SHARE * weight / all_weights, kind=kind) for name, kind, weight in asked)
    return (*found, *class_target.steps(schema))


def discover(table: PrivateTable, plan: Plan) -> PrivateTable:
    """Find kinds, bounds and categories, and return the table described by them.

    Guarantees:
        - Nothing is read but through `measure`; only values shared by enough rows become categories.
        - A column that declares no type, as in a CSV file, gets its kind from noisy counts of what its values look
          like. One value more or less moves two of these counts by one.
        - A column that is named as ids are, and of which no value stands out, becomes an id: it is read no more.

    Cost:
        A `Gaussian` event for the kinds of undeclared columns, one for whether a target of whole numbers is a class, a
        `PartitionSelection` event for text columns and one for a target of text, two `Gaussian` ones for numbers and
        dates. What no column needs is not charged.
    """
    table = _with_kinds(table, plan)
    target = class_column(table, plan)
    if target is not None:
        table = table.described(_replaced(table.schema, {target.name: target}))
    found: dict[str, Column] = {}
    numeric, likely = _numeric(table.schema), ids.likely(table.schema)
    for text, name in ((_text(table.schema), CATEGORIES), (_text(table.schema, target=True), CLASSES)):
        shown = table.measure(Values(tuple(column.name for column in text)), plan[name]) if text else {}
        for column in text:
            often = sorted(shown[column.name], key=lambda value: -shown[column.name][value])[:_MOST_CATEGORIES]
            listed = replace(column, categories=tuple(sorted(often)))
            found[column.name] = ids.confirmed(column) if column.name in likely and not often else listed
    if numeric:
        found |= _numbers(table, plan, numeric, likely)
    return table.described(replace(_replaced(table.schema, found), origin=Origin.DISCOVERED))


def _numbers(table: PrivateTable, plan: Plan, columns: Sequence[Column], likely: Sequence[str]) -> dict[str, Column]:
    """Look at numbers and moments twice: where they are, and how many digits they have; and then more closely."""
    grids = [number_column.magnitudes(column) for column in columns]
    digits = [Digits(column=column.name) for column in columns if not column.kind.temporal]
    asked: tuple[AnyCells, ...] = (*grids, *digits)
    answer = table.measure(Stack(tuple(Marginal((cells,)) for cells in asked)), plan[RANGES])
    of_digits = {cells.column: part for cells, part in zip(digits, answer.parts[len(grids) :], strict=True)}
    looks = [
        FirstLook.of(column, grid, part, of_digits.get(column.name))
        for column, grid, part in zip(columns, grids, answer.parts, strict=False)
    ]
    within = [look.cells_within for look in looks]
    closer = table.measure(Stack(tuple(Marginal((cells,)) for cells in within)), plan[VALUES])
    found: dict[str, Column] = {}
    for look, cells, part in zip(looks, within, closer.parts, strict=True):
        column = number_column.described(look, cells, part)
        named = column.name in likely and ids.spread_out(column, look, cells, part)
        found[column.name] = ids.confirmed(column) if named else column
    return found


def _with_kinds(table: PrivateTable, plan: Plan) -> PrivateTable:
    """Count what the values of undeclared columns look like, and describe each by the kind that most of them have."""
    undeclared = _undeclared(table.schema)
    if not undeclared:
        return table
    looks = Stack(tuple(Marginal((column.cells(bins=1),)) for column in undeclared))
    answer = table.measure(looks, plan[KINDS])
    found = {
        column.name: of_kind(column.name, settled(part.value[: len(LOOKS)], part.stddev))
        for column, part in zip(undeclared, answer.parts, strict=True)
    }
    return table.described(_replaced(table.schema, found))


def _replaced(schema: Schema, found: Mapping[str, Column]) -> Schema:
    return replace(schema, columns=tuple(found.get(column.name, column) for column in schema.columns))


def _undeclared(schema: Schema) -> list[Column]:
    return [column for column in schema.modelled if column.kind is Kind.UNDECLARED]


def _text(schema: Schema, target: bool = False) -> list[Column]:
    """Return the columns of text, or the target if it is one."""
    text = [column for column in schema.modelled if column.kind is Kind.CATEGORICAL and not column.categories]
    return [column for column in text if (column.name == schema.target) == target]


def _numeric(schema: Schema) -> list[Column]:
    return [column for column in schema.modelled if column.kind.numeric]
