"""Rows that keep a schema's rules: what follows worked out, what is broken found, and mended where drawing again fails.

Mending is deterministic but for values that stand in for missing ones, and always succeeds:

1. of fixed combinations, the listed one that agrees in most columns, the target's and earlier ones first;
2. a value missing that must not be is taken from another row;
3. numbers are moved to the nearest that bounds and orders allow, starts before ends;
4. a row that still breaks a rule takes all columns with rules from a row that keeps them, found by search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from threea.errors import SchemaError
from threea.table.cells import multiple, steps_below
from threea.table.column import Chunk, Column
from threea.table.learned import Distance, distances
from threea.table.rule_checks import in_order
from threea.table.rules import (
    Columns,
    Combinations,
    Missing,
    Order,
    Range,
    Rule,
    Truth,
    applies,
    kinds_of,
    missing,
    worked_out,
)

Floats = NDArray[np.float64]
Values = Floats | NDArray[np.int64]
Limits = Mapping[str, tuple[float, float] | tuple[int, ...]]
"""By column, what is asked for besides: bounds of a number, codes of a listed value."""

_SEARCHED = 10_000
"""How many combinations of listed values are tried in search of a row that keeps all rules. Chosen."""
_NONE: Limits = {}


def _as_is(name: str, values: Values) -> Values:
    return values


@dataclass(frozen=True)
class RuleKeeper:
    """Works out, checks and mends encoded rows.

    Args:
        columns: The schema's, by name.
        rules: The schema's.
        target: The schema's.
        grains: Distance between neighbouring values of numeric columns as they are written; 0 for any number.
        written: Returns a column's values as they are read back once written.
    """

    columns: Columns
    rules: Sequence[Rule]
    target: str | None
    grains: Mapping[str, float]
    written: Callable[[str, Values], Values] = _as_is

    @classmethod
    def of(cls, columns: Columns, rules: Sequence[Rule], target: str | None) -> RuleKeeper:
        """Return one for values that are written as the schema says."""
        grains = {name: column.step or float(column.whole) for name, column in columns.items() if column.kind.numeric}
        return cls(columns, rules, target, grains)

    @cached_property
    def apart(self) -> dict[str, Distance]:
        """The columns that are learned as distances."""
        return distances(self.rules, self.columns, self.target)

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The columns that rules name, but those that follow from others, each after those it depends on."""
        about = {name for rule in self.rules for name in rule.columns} - set(worked_out(self.rules))
        return tuple(name for name in self._in_order if name in about)

    @cached_property
    def _as_drawn(self) -> list[str]:
        """The same columns, each after those that it is counted from or made missing by."""
        graph: dict[str, list[str]] = {name: [] for name in self.named}
        for name, distance in self.apart.items():
            graph[name] += distance.anchors
        for rule in self.rules:
            if isinstance(rule, Missing):
                graph[rule.column] += [name for name, _ in rule.when]
        return list(TopologicalSorter(graph).static_order())

    @cached_property
    def _in_order(self) -> list[str]:
        return in_order(self.rules, self.columns)

    @cached_property
    def drawn(self) -> tuple[Rule, ...]:
        """The rules about columns that are drawn, and that a draw may break."""
        return tuple(rule for rule in self.rules if rule not in worked_out(self.rules).values())

    def completed(self, chunk: Chunk) -> Chunk:
        """Return what a model drew as rows of the table: values from distances, and whatever follows."""
        rows, blanks = dict(chunk), {rule.column: rule for rule in self.rules if isinstance(rule, Missing)}
        for name in self._as_drawn:
            values = self._placed(self.apart[name], rows) if name in self.apart else rows[name]
            rows[name] = self.written(name, values)
            if name in blanks:
                rows[name] = _blanked(rows[name], applies(blanks[name].when, rows, self.columns))
        return self._followed(rows)

    def _followed(self, rows: Chunk) -> Chunk:
        rules = {name: rule for name, rule in worked_out(self.rules).items() if set(rule.columns) - {name} <= set(rows)}
        for name in self._in_order:
            if name in rules:
                rows[name] = self.written(name, rules[name].values(rows, self.columns))
        return rows

    def _placed(self, distance: Distance, rows: Chunk) -> Floats:
        """Return a number or moment from its distance."""
        name, base, apart = distance.column.name, distance.base(rows), rows[distance.column.name]
        values = self._up(name, base + apart) if distance.after else self._down(name, base - apart)
        lower, upper = np.float64(distance.stands_for.lower or 0.0), np.float64(distance.stands_for.upper or 0.0)
        return np.asarray(np.clip(values, self._up(name, lower), self._down(name, upper)))

    def _up(self, name: str, values: Floats | np.float64) -> Floats:
        """Return the least values that can be written and are no smaller."""
        grain = self.grains[name]
        return multiple(steps_below(values, grain), grain) if grain else np.asarray(values)

    def _down(self, name: str, values: Floats | np.float64) -> Floats:
        return -self._up(name, -np.asarray(values))

    def broken(self, chunk: Chunk) -> Truth:
        """Return which rows break a rule."""
        found = [rule.broken(chunk, self.columns) for rule in self.drawn]
        rows = len(next(iter(chunk.values())))
        return np.asarray(np.any(found, axis=0)) if found else np.zeros(rows, np.bool_)

    def bounds(self, chunk: Chunk, limits: Limits = _NONE) -> dict[str, tuple[Floats, Floats]]:
        """Return for each row what numbers its columns may have: by their bounds, narrower ones, and what comes after.

        Args:
            chunk: Rows, of which the listed columns and what is missing count.
            limits: What is asked for besides.
        """
        found = {}
        for name in self.named:
            column = self.columns[name]
            if not column.kind.numeric:
                continue
            asked = limits.get(name, (-math.inf, math.inf))
            ends = np.array([max(column.lower or 0.0, asked[0]), min(column.upper or 0.0, asked[1])])
            low, high = (np.full(len(chunk[name]), end) for end in ends)
            for rule in self.rules:
                if isinstance(rule, Range) and rule.column == name:
                    inside = applies(rule.when, chunk, self.columns)
                    low = np.where(inside, np.maximum(low, rule.lower), low)
                    high = np.where(inside, np.minimum(high, rule.upper), high)
            gone = missing(chunk[name])
            low, high = np.where(gone, -np.inf, self._up(name, low)), np.where(gone, np.inf, self._down(name, high))
            found[name] = low, high
        for name in reversed(self.named):
            for rule in self._orders(end=name):
                low, high = found[rule.start]
                found[rule.start] = low, self._down(rule.start, np.minimum(high, found[name][1] - self._gap(rule)))
        return found

    def _orders(self, end: str) -> Iterator[Order]:
        return (rule for rule in self.rules if isinstance(rule, Order) and rule.end == end)

    def _gap(self, rule: Order) -> float:
        """Return how far apart two values of a strict order are at least."""
        if not rule.strict:
            return 0.0
        return max(self.grains[name] or self.columns[name].unit for name in rule.columns)

    def mended(self, chunk: Chunk, spare: Mapping[str, Values], limits: Limits = _NONE) -> Chunk:
        """Return rows that break rules as rows that keep them.

        Args:
            chunk: The rows.
            spare: By column, present values for those that must not be missing, as many as there are rows.
            limits: What is asked for besides.
        """
        rows = dict(chunk)
        for rule in self.rules:
            if isinstance(rule, Combinations):
                self._recombine(rule, rows)
        for name in self.named:
            for rule in self.rules:
                if isinstance(rule, Missing) and rule.column == name:
                    wanted = applies(rule.when, rows, self.columns)
                    filled = np.where(missing(rows[name]), spare[name], rows[name])
                    rows[name] = _blanked(filled, wanted)
        self._move(rows, limits)
        return self._followed(rows)

    def _recombine(self, rule: Combinations, rows: Chunk) -> None:
        """Give rows the listed combination that agrees most with theirs."""
        bad = np.flatnonzero(rule.broken(rows, self.columns))
        found = np.stack([rows[name][bad] for name in rule.columns], axis=1)
        kinds, which = kinds_of(list(found.T))
        # Each counts as one and a little, less than all that come before; the target as more than all others.
        weights = 1.0 + 2.0 ** -np.arange(2.0, len(rule.columns) + 2.0)
        weights[[name == self.target for name in rule.columns]] = 2.0 * len(rule.columns)
        allowed = rule.codes(self.columns)
        nearest = [allowed[int(np.argmax(((kind == allowed) | (kind < 0)) @ weights))] for kind in kinds]
        if nearest:
            chosen = np.where(found < 0, found, np.array(nearest)[which])
            for position, name in enumerate(rule.columns):
                rows[name] = _put(rows[name], bad, chosen[:, position])

    def _move(self, rows: Chunk, limits: Limits) -> None:
        """Move numbers to the nearest that bounds and orders allow."""
        for name, (low, high) in self.bounds(rows, limits).items():
            for rule in self._orders(end=name):
                after = self._up(name, rows[rule.start] + self._gap(rule))
                low = np.fmax(low, after)
            kept = missing(rows[name])
            if self.columns[name].special:
                # A code such as 999 may be beyond the bounds and break nothing.
                about = [rule.broken(rows, self.columns) for rule in self.drawn if name in rule.columns]
                kept |= np.isin(rows[name], self.columns[name].special) & ~np.any(about, axis=0)
            moved = np.minimum(np.maximum(rows[name], low), high)
            rows[name] = self.written(name, np.where(kept, rows[name], moved))

    def example(self, limits: Limits = _NONE) -> Chunk | None:
        """Return a row of the columns that rules name which keeps all of them, and what is asked for; None if none is.

        Args:
            limits: What is asked for besides.
        """
        listed = [name for name in self.named if self.columns[name].kind.listed]
        for codes in self._assignments(listed, limits):
            spare = {name: self._first(name, limits) for name in self.named}
            row = spare | {name: np.array([code]) for name, code in zip(listed, codes, strict=True)}
            found = self.mended(row, spare, limits)
            if not self.broken(found).any() and all(self._fits(found, name, limits) for name in self.named):
                return found
        return None

    def _fits(self, row: Chunk, name: str, limits: Limits) -> bool:
        if name not in limits:
            return True
        value, asked = row[name][0], limits[name]
        return bool(asked[0] <= value <= asked[-1]) if self.columns[name].kind.numeric else value in asked

    def _first(self, name: str, limits: Limits) -> Values:
        column = self.columns[name]
        if column.kind.numeric:
            return np.array([max(column.lower or 0.0, limits.get(name, (-math.inf,))[0])])
        return np.array([next(iter(code for code in limits.get(name, (0,)) if code >= 0), 0)], np.int64)

    def _assignments(self, listed: Sequence[str], limits: Limits) -> Iterator[tuple[int, ...]]:
        """Yield codes of the listed columns that keep the fixed combinations, depth first."""
        options = [self._options(self.columns[name], limits.get(name)) for name in listed]
        tables = [rule for rule in self.rules if isinstance(rule, Combinations)]
        steps = 0
        waiting: list[tuple[int, ...]] = [()]
        while waiting and steps < _SEARCHED:
            steps += 1
            codes = waiting.pop()
            known = dict(zip(listed, codes, strict=False))
            if not all(_possible(rule, known, self.columns) for rule in tables):
                continue
            if len(codes) == len(listed):
                yield codes
            else:
                waiting += [(*codes, code) for code in reversed(options[len(codes)])]

    def _options(self, column: Column, asked: Sequence[float] | None) -> list[int]:
        every = [*range(len(column.words)), *([-1] if column.nullable else [])]
        return every if asked is None else [code for code in every if code in asked]


def check_possible(columns: Columns, rules: Sequence[Rule], target: str | None) -> None:
    """Refuse rules that no row within the declared bounds and categories was found to keep.

    Raises:
        SchemaError: There is none.
    """
    if rules and RuleKeeper.of(columns, rules, target).example() is None:
        texts = "; ".join(rule.text for rule in rules)
        raise SchemaError(f"rules ({texts}) cannot all hold within the columns' bounds and categories; leave one out")


def _possible(rule: Combinations, known: Mapping[str, int], columns: Columns) -> bool:
    """Tell whether some listed combination agrees with what is known of a row."""
    agree = np.ones(len(rule.allowed), np.bool_)
    for position, name in enumerate(rule.columns):
        if known.get(name, -1) >= 0:
            agree &= rule.codes(columns)[:, position] == known[name]
    return bool(agree.any())


def _blanked(values: Values, where: Truth) -> Values:
    blanked = values.copy()
    blanked[where] = np.nan if values.dtype.kind == "f" else -1
    return blanked


def _put(values: Values, index: NDArray[np.int64], new: Values) -> Values:
    copied = values.copy()
    copied[index] = new
    return copied
