"""Rules as a schema file writes them, in `[[rules]]` sections, and back.

::

    [[rules]]                                  [[rules]]
    order = "admitted <= discharged"           combinations = ["sex", "title"]
                                               allowed = [["F", "Ms"], ["M", "Mr"]]
    [[rules]]
    depends = "city -> zip"                    [[rules]]
    table = "zips.csv"                         missing = "pregnancies"
                                               when = { sex = "M" }
    [[rules]]
    sum = "total = room + care"                [[rules]]
                                               range = "age"
                                               upper = 17
                                               when = { ward = "paediatrics" }
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from threea.errors import SchemaError
from threea.table import dates
from threea.table.column import Column, Kind, category_text, plain_number, toml_text
from threea.table.learned import distances
from threea.table.rules import Columns, Combinations, Dependence, Missing, Order, Range, Rule, Sum, When

_KEYS = {
    "order": (),
    "depends": ("table",),
    "combinations": ("allowed",),
    "missing": ("when",),
    "sum": (),
    "range": ("lower", "upper", "when"),
}
"""The key that says what kind of rule it is, and the others that it may have."""
_OPTIONAL = ("lower", "upper")
_SIGN = re.compile(r"\s(<=|<)\s")
_TABLE_BYTES = 1 << 26
_SHOWN = 12
"""How many known names an error lists."""


def rules_from(data: Any, columns: Columns, folder: Path | None = None) -> tuple[Rule, ...]:
    """Read a schema's rules.

    Args:
        data: What TOML says under `rules`.
        columns: The schema's columns, by name.
        folder: Where files that rules name are; None if there is none.

    Raises:
        SchemaError: They are not rules, or name what is not there.
    """
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise SchemaError("rules must be [[rules]] sections")
    return tuple(rule for number, entry in enumerate(data, start=1) for rule in _rules(entry, number, columns, folder))


def _rules(entry: Mapping[str, Any], number: int, columns: Columns, folder: Path | None) -> list[Rule]:
    kinds = [key for key in _KEYS if key in entry]
    if len(kinds) != 1:
        raise SchemaError(f"rule {number} must have one of the keys {', '.join(_KEYS)}; it has {len(kinds)}")
    kind, where = kinds[0], f"rule {number} ({kinds[0]})"
    unknown = sorted(set(entry) - {kind, *_KEYS[kind]})
    if unknown:
        known = ", ".join((kind, *_KEYS[kind]))
        raise SchemaError(f"{where} has unknown keys ({', '.join(unknown)}); known are {known}")
    lacking = [key for key in _KEYS[kind] if key not in entry and key not in _OPTIONAL]
    if lacking:
        raise SchemaError(f"{where} needs {lacking[0]}; add it")
    if kind == "combinations":
        return [_combinations(entry, where, columns)]
    text = entry[kind]
    if not isinstance(text, str):
        raise SchemaError(f"{where}: {text!r} must be text")
    if kind == "order":
        return list(_orders(text, where, columns))
    if kind == "sum":
        total, parts = _two(text, "=", where, "total = part + part")
        return [Sum(_known(total, where, columns), tuple(_known(part, where, columns) for part in parts.split(" + ")))]
    if kind == "depends":
        names = _two(text, "->", where, "column -> column")
        source, column = (_known(name, where, columns) for name in names)
        return [Dependence(source, column, _table(entry["table"], columns[source], columns[column], where, folder))]
    about, when = columns[_known(text, where, columns)], _when(entry["when"], where, columns)
    return [Missing(about.name, when)] if kind == "missing" else [_range(entry, about, when, where)]


def _orders(text: str, where: str, columns: Columns) -> Iterator[Order]:
    """Read an order of two columns or more: each of the next."""
    names, signs = _SIGN.split(text)[::2], _SIGN.split(text)[1::2]
    if not signs:
        raise SchemaError(f"{where}: ({text}) must be like start <= end, or start < end, with spaces around the sign")
    known = [_known(name, where, columns) for name in names]
    for start, sign, end in zip(known, signs, known[1:], strict=False):
        yield Order(start, end, sign == "<")


def _two(text: str, sign: str, where: str, like: str) -> tuple[str, str]:
    first, found, second = text.partition(f" {sign} ")
    if not found:
        raise SchemaError(f"{where}: ({text}) must be like {like}, with spaces around the signs")
    return first, second


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _known(name: Any, where: str, columns: Columns) -> str:
    text = str(name).strip()
    if text not in columns:
        raise SchemaError(f"{where}: column ({text}) is unknown; columns are: {_few(tuple(columns))}")
    return text


def _listed(name: Any, where: str, columns: Columns) -> Column:
    column = columns[_known(name, where, columns)]
    if not column.kind.listed:
        raise SchemaError(f"{where}: {column.name} is {column.kind}, and has no listed values; use one that has")
    return column


def _word(value: Any, column: Column, where: str) -> str:
    word = category_text(column.name, value)
    if word not in column.words:
        raise SchemaError(f"{where}: value ({word}) of {column.name} is not listed; known are {_few(column.words)}")
    return word


def _combinations(entry: Mapping[str, Any], where: str, columns: Columns) -> Combinations:
    names, allowed = entry["combinations"], entry["allowed"]
    if not isinstance(names, list) or len(set(map(str, names))) < max(len(names), 2):
        raise SchemaError(f"{where}: ({names}) must be a list of at least two different columns")
    found = [_listed(name, where, columns) for name in names]
    if not isinstance(allowed, list) or not allowed:
        raise SchemaError(f"{where}: allowed must be a list of combinations")
    for row in allowed:
        if not isinstance(row, list) or len(row) != len(found):
            raise SchemaError(f"{where}: combination ({row}) must be a list of {len(found)} values, one of each column")
    rows = (tuple(_word(value, column, where) for value, column in zip(row, found, strict=True)) for row in allowed)
    return Combinations(tuple(column.name for column in found), tuple(dict.fromkeys(rows)))


def _when(data: Any, where: str, columns: Columns) -> When:
    if not isinstance(data, dict) or not data:
        raise SchemaError(f'{where}: when ({data}) must be like {{ column = "value" }}')
    found = []
    for name, wanted in data.items():
        column = _listed(name, where, columns)
        values = wanted if isinstance(wanted, list) else [wanted]
        if not values:
            raise SchemaError(f"{where}: when ({name}) must list a value")
        found.append((column.name, tuple(dict.fromkeys(_word(value, column, where) for value in values))))
    return tuple(found)


def _range(entry: Mapping[str, Any], column: Column, when: When, where: str) -> Range:
    if not column.kind.numeric or not set(entry) & {"lower", "upper"}:
        raise SchemaError(f"{where}: {column.name} must be a number or a date, with lower, upper or both in the rule")
    assert column.lower is not None
    assert column.upper is not None
    ends = (entry.get(key, None) for key in _OPTIONAL)
    lower, upper = (None if end is None else _number(end, column, where) for end in ends)
    return Range(column.name, column.lower if lower is None else lower, column.upper if upper is None else upper, when)


def _number(value: Any, column: Column, where: str) -> float:
    if column.kind.temporal:
        return dates.from_text(value, column.kind, column.name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise SchemaError(f"{where}: {value!r} must be a number, as {column.name} is")
    return float(value)


def _table(data: Any, source: Column, column: Column, where: str, folder: Path | None) -> tuple[Any, ...]:
    """Read what follows from each listed value of the source; what is not listed is of no use here."""
    if not source.kind.listed:
        raise SchemaError(
            f"{where}: {source.name} is {source.kind}, and has no listed values to follow from; list them"
        )
    pairs = _file(data, source.name, column, where, folder) if isinstance(data, str) else data
    if not isinstance(pairs, dict):
        raise SchemaError(f"{where}: table must be like {{ value = value }}, or name a CSV file")
    lacking = [word for word in source.categories if word not in pairs]
    if lacking:
        raise SchemaError(f"{where}: the table has no {column.name} for {source.name} ({lacking[0]}); add it")
    return tuple((word, _follows(pairs[word], column, where)) for word in source.categories)


def _follows(value: Any, column: Column, where: str) -> str | float:
    if column.kind.listed:
        return _word(value, column, where)
    if not column.kind.numeric:
        raise SchemaError(f"{where}: {column.name} is {column.kind}, and never read; leave the rule out")
    number = _number(value, column, where)
    assert column.lower is not None
    assert column.upper is not None
    if number not in column.special and not column.lower <= number <= column.upper:
        raise SchemaError(f"{where}: value ({value}) of {column.name} is outside its bounds; widen them")
    if column.whole and number != round(number):
        raise SchemaError(f"{where}: value ({value}) of {column.name} must be a whole number")
    return number


def _file(name: str, source: str, column: Column, where: str, folder: Path | None) -> dict[str, Any]:
    """Read a public table from a CSV file beside the schema."""
    if folder is None or PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise SchemaError(f"{where}: table ({name}) must be a file in the schema's own folder; move it there")
    try:
        if (folder / name).stat().st_size > _TABLE_BYTES:
            raise SchemaError(f"{where}: table ({name}) is over {_TABLE_BYTES >> 20} MB; shorten it")
        with (folder / name).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [key for key in (source, column.name) if key not in (reader.fieldnames or ())]
            if lacking:
                raise SchemaError(f"{where}: table ({name}) has no column {lacking[0]}; name it in its first line")
            found: dict[str, Any] = {}
            for row in reader:
                key, value = row[source], _read(row[column.name] or "", column, where)
                if found.setdefault(key, value) != value:
                    raise SchemaError(f"{where}: table ({name}) has two values for {source} ({key}); leave one")
            return found
    except OSError as error:
        raise SchemaError(f"{where}: table ({name}) cannot be read: {error.strerror}; check the path") from None
    except (UnicodeDecodeError, csv.Error):
        raise SchemaError(f"{where}: table ({name}) is not CSV in UTF-8; convert it") from None


def _read(text: str, column: Column, where: str) -> Any:
    """Return a cell of a CSV file as TOML would have it."""
    if column.kind.listed or column.kind.temporal:
        return text.strip().lower() if column.kind is Kind.BOOLEAN else text
    try:
        return float(text)
    except ValueError:
        raise SchemaError(f"{where}: value ({text}) of {column.name} must be a number") from None


def kept_rules(rules: Sequence[Rule], columns: Columns, target: str | None) -> list[tuple[str, str]]:
    """Return what each rule says in words, and how a release keeps it: by construction, or by redraws."""
    apart = distances(rules, columns, target)

    def how(rule: Rule) -> str:
        one, other = (rule.start, rule.end) if isinstance(rule, Order) else ("", "")
        counted = any(name in apart and anchor in apart[name].anchors for name, anchor in ((one, other), (other, one)))
        return "by construction" if counted or isinstance(rule, Dependence | Sum) else "by redraws"

    return [(_words(rule, columns), how(rule)) for rule in rules]


def _words(rule: Rule, columns: Columns) -> str:
    if not isinstance(rule, Range):
        return rule.text
    ends = [_shown(end, columns[rule.column]) for end in (rule.lower, rule.upper)]
    return f"{rule.column} from {ends[0]} to {ends[1]} when {rule.said}"


def rule_lines(rule: Rule, columns: Columns) -> Iterator[str]:
    """Yield the lines of a rule's section; a public table is written out, so that the file says all."""
    yield "[[rules]]"
    match rule:
        case Order():
            yield f"order = {toml_text(rule.text)}"
        case Sum():
            yield f"sum = {toml_text(rule.text)}"
        case Combinations():
            yield f"combinations = {toml_text(list(rule.columns))}"
            yield "allowed = ["
            yield from (f"  {toml_text(list(row))}," for row in rule.allowed)
            yield "]"
        case Missing():
            yield f"missing = {toml_text(rule.column)}"
            yield _when_line(rule.when)
        case Range():
            yield f"range = {toml_text(rule.column)}"
            yield f"lower = {toml_text(_shown(rule.lower, columns[rule.column]))}"
            yield f"upper = {toml_text(_shown(rule.upper, columns[rule.column]))}"
            yield _when_line(rule.when)
        case Dependence():
            yield f"depends = {toml_text(rule.text)}"
            yield "[rules.table]"
            column = columns[rule.column]
            yield from (f"{toml_text(word)} = {toml_text(_shown(value, column))}" for word, value in rule.table)


def _when_line(when: When) -> str:
    pairs = (f"{toml_text(name)} = {toml_text(list(words))}" for name, words in when)
    return f"when = {{ {', '.join(pairs)} }}"


def _shown(value: str | float, column: Column) -> Any:
    if isinstance(value, str):
        return value
    return dates.to_text(value, column.kind) if column.kind.temporal else plain_number(value, column.whole)
