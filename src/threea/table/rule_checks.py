"""What a schema's rules are checked for when it is made: that they fit its columns, and that rows can keep them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from threea.errors import SchemaError
from threea.table import dates
from threea.table.column import Column, Kind
from threea.table.rules import (
    Columns,
    Combinations,
    Dependence,
    Missing,
    Order,
    Range,
    Rule,
    Sum,
    comparable,
    worked_out,
)


def check_rules(rules: Sequence[Rule], columns: Columns, target: str | None) -> None:
    """Refuse rules that do not fit the columns, contradict one another or go in a circle.

    Raises:
        SchemaError: One of them; the message says which.
    """
    for rule in rules:
        problem = _misplaced(rule, columns, target) or _problem(rule, columns)
        if problem:
            raise SchemaError(f"rule ({rule.text}) {problem}")
    _check_deciders(rules)
    in_order(rules, columns)


def in_order(rules: Iterable[Rule], columns: Columns) -> list[str]:
    """Return the columns, each after those that rules draw it from.

    Raises:
        SchemaError: They go in a circle.
    """
    graph: dict[str, list[str]] = {name: [] for name in columns}
    for rule in rules:
        match rule:
            case Order():
                graph[rule.end].append(rule.start)
            case Dependence():
                graph[rule.column].append(rule.source)
            case Sum():
                graph[rule.column] += rule.parts
            case Missing() | Range():
                graph[rule.column] += [name for name, _ in rule.when]
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise SchemaError(f"rules go in a circle ({circle}); leave one of them out") from None


def _misplaced(rule: Rule, columns: Columns, target: str | None) -> str | None:
    for name in rule.columns:
        if name not in columns:
            return f"names {name}, which is not a column; add the column, or leave the rule out"
        if columns[name].kind in (Kind.ID, Kind.UNDECLARED):
            return f"names {name}, which is of kind {columns[name].kind} and never read; leave the rule out"
    if len(set(rule.columns)) < len(rule.columns):
        return "names a column twice; name others"
    if isinstance(rule, Dependence | Sum) and rule.column == target:
        return f"gives the target ({target}) by other columns, so that nothing is left to learn; choose another target"
    if isinstance(rule, Missing) and rule.column == target:
        return f"makes the target ({target}) missing; leave the rule out, or choose another target"
    return None


def _problem(rule: Rule, columns: Columns) -> str | None:
    match rule:
        case Order():
            return _order_problem(rule, columns[rule.start], columns[rule.end])
        case Sum():
            return _sum_problem(columns[rule.column], [columns[name] for name in rule.parts])
        case Dependence():
            return _dependence_problem(rule, columns[rule.source], columns[rule.column])
        case Missing():
            if not columns[rule.column].nullable:
                return f"needs {rule.column} to be nullable, and it is not; set nullable = true"
        case Range():
            return _range_problem(rule, columns[rule.column])
        case Combinations():
            if not all(columns[name].kind.listed for name in rule.columns):
                return "needs columns with listed values; use others"
    return None


def _order_problem(rule: Order, start: Column, end: Column) -> str | None:
    if not (start.kind.numeric and end.kind.numeric and comparable(start, end)):
        return f"compares {start.kind} with {end.kind}; both must be numbers, dates or datetimes"
    assert start.lower is not None
    assert end.upper is not None
    if start.lower > end.upper or (rule.strict and start.lower >= end.upper):
        least, most = _shown(start.lower, start), _shown(end.upper, end)
        return f"cannot hold: {start.name} is at least {least}, {end.name} at most {most}; correct the bounds"
    return None


def _sum_problem(total: Column, parts: list[Column]) -> str | None:
    if len(parts) < 2:
        return "needs at least two parts; write total = part + part"
    if any(column.kind not in (Kind.INTEGER, Kind.REAL) for column in (total, *parts)):
        return "adds what are no numbers; use columns of kind integer or real"
    if any(column.nullable for column in parts) and not total.nullable:
        return f"needs {total.name} to be nullable, as a part is; set nullable = true, or false for the parts"
    values = [(column.lower or 0.0, column.upper or 0.0, *column.special) for column in parts]
    least, most = sum(map(min, values)), sum(map(max, values))
    slack = total.unit if total.step or total.whole else 0.0
    assert total.lower is not None
    assert total.upper is not None
    if least < total.lower - slack / 2 or most > total.upper + slack / 2:
        return f"goes from {least:g} to {most:g}, beyond the bounds of {total.name}; widen them: it is not measured"
    return None


def _dependence_problem(rule: Dependence, source: Column, column: Column) -> str | None:
    if not source.kind.listed or {word for word, _ in rule.table} != set(source.categories):
        return f"needs a table with every listed value of {source.name}"
    if source.nullable and not column.nullable:
        return f"needs {column.name} to be nullable, as {source.name} is; set nullable = true, or false for both"
    if source.open_ended and not (column.open_ended or column.nullable):
        return f"says nothing of other values of {source.name}; set nullable = true for {column.name}"
    return None


def _range_problem(rule: Range, column: Column) -> str | None:
    assert column.lower is not None
    assert column.upper is not None
    lower, upper = max(rule.lower, column.lower), min(rule.upper, column.upper)
    if lower > upper:
        ends = (_shown(end, column) for end in (rule.lower, rule.upper, column.lower, column.upper))
        return "cannot hold: from {} to {} is outside the column's bounds, {} to {}; correct them".format(*ends)
    return None


def _check_deciders(rules: Sequence[Rule]) -> None:
    """Refuse two rules that decide about one column, and other rules on what is worked out."""
    deciders: dict[str, Rule] = {}
    for rule in rules:
        if isinstance(rule, Dependence | Sum | Missing):
            first = deciders.setdefault(rule.column, rule)
            if first is not rule:
                both = f"rules ({first.text}) and ({rule.text})"
                raise SchemaError(f"{both} both decide about {rule.column}; leave one of them out")
    found = worked_out(rules)
    for rule in rules:
        for name in () if isinstance(rule, Dependence | Sum) else rule.columns:
            if name in found:
                remedy = "write it for the columns that it follows from"
                raise SchemaError(f"rule ({rule.text}) is about {name}, which follows ({found[name].text}); {remedy}")


def _shown(value: float, column: Column) -> str:
    return dates.to_text(value, column.kind) if column.kind.temporal else f"{value:g}"
