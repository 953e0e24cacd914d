"""Drawing rows that keep the schema's rules, from any model. Post-processing: nothing private is looked at.

What follows from other columns is worked out, and of two ordered ones one is drawn as its distance from the other.
These rules hold by construction. A row that breaks another rule is drawn again, given what decides about the rule: its
label, the listed values that narrow other columns, and the bounds that those then have. So no class and no ward becomes
rarer because its rows break a rule more often. Rows that still break one after `ROUNDS` are mended (`rule_repair`). So
no row takes more than `ROUNDS` draws after its first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError
from threea.model_summary import ModelSummary
from threea.table.conditions import Among, Between, Condition, Given, fits, nothing_fits
from threea.table.rule_checks import in_order
from threea.table.rule_repair import RuleKeeper
from threea.table.rules import Combinations, Dependence, Missing, Range, Rule, Sum, kinds_of, missing
from threea.table.schema import Chunk, Schema
from threea.table.written import rule_keeper

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.framework import Model

ROUNDS = 8
"""How often a row that breaks a rule is drawn again before it is mended. Chosen."""
GROUPS = 64
"""Rows that agree in what decides about rules are drawn together; in a round, the so many most frequent kinds of them.
Chosen: a conditional draw takes some milliseconds."""
POOLS, POOL_ROWS, MOST_POOL_ROWS = 8, 1 << 11, 1 << 16
"""To fit a condition on a column that is worked out, at most so many pools are drawn, each four times as large as the
one before; the first of so many rows, or twice as many as wanted, and none larger than the last. Chosen."""


@dataclass(frozen=True)
class Ruled:
    """A model whose rows keep the rules of a schema.

    Args:
        model: Where rows are drawn from, as it learned them.
        schema: With the rules.
        layout: The types that rows are written in.
    """

    model: Model
    schema: Schema
    layout: pa.Schema

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw rows of the table that keep all rules; only such as fit the conditions, if any are given.

        Guarantees:
            - Every row keeps every rule, as it is written, whatever the model.

        Raises:
            SettingError: No row fits.
        """
        asked, late = self._asked(given or {})
        if late:
            return self._pooled(rows, rng, asked, late)
        chunk = self.keeper.completed(self.model.sample(rows, rng, asked or None))
        for turn in range(ROUNDS):
            bad = self._bad(chunk, asked)
            if not len(bad):
                return chunk
            if turn == 0:
                chunk = {name: values.copy() for name, values in chunk.items()}
            self._redraw(chunk, bad, rng, asked)
        return self._mended(chunk, rng, asked)

    @property
    def summary(self) -> ModelSummary:
        """The model's, of what it learned."""
        return self.model.summary

    def kept(self, chunk: Chunk, rng: np.random.Generator) -> Chunk:
        """Return rows that were drawn once and for all as rows that keep all rules."""
        return self._mended(self.keeper.completed(chunk), rng, {})

    @cached_property
    def keeper(self) -> RuleKeeper:
        """What works out, checks and mends rows, as their types write them."""
        return rule_keeper(self.schema, self.layout)

    @cached_property
    def _deciding(self) -> tuple[str, ...]:
        """Columns with listed values that decide about rules: the label, what narrows others, first of combinations."""
        names: list[str] = []
        target = self.schema.target
        if target is not None and self.schema[target].kind.listed:
            names.append(target)
        for rule in self.schema.rules:
            if isinstance(rule, Missing | Range):
                names += [name for name, _ in rule.when]
            if isinstance(rule, Combinations):
                names.append(rule.columns[0])
        return tuple(dict.fromkeys(names))

    def _bad(self, chunk: Chunk, asked: Given) -> NDArray[np.int64]:
        """Return which rows break a rule, or do not fit any more since a rule made a value missing."""
        blank = {rule.column for rule in self.schema.rules if isinstance(rule, Missing)}
        broken, left = self.keeper.broken(chunk), {name: asked[name] for name in asked if name in blank}
        return np.flatnonzero(broken | ~fits(chunk, left) if left else broken)

    def _redraw(self, chunk: Chunk, bad: NDArray[np.int64], rng: np.random.Generator, asked: Given) -> None:
        """Draw rows again, those together that agree in what decides about the rules."""
        kinds, which = kinds_of([np.zeros(len(bad), np.int64), *(chunk[name][bad] for name in self._deciding)])
        for group in np.argsort(-np.bincount(which), kind="stable")[:GROUPS]:
            rows = bad[which == group]
            fixed = dict(zip(self._deciding, kinds[group, 1:].tolist(), strict=True))
            fresh = self._drawn_again(len(rows), rng, fixed, asked)
            for name, values in (fresh or {}).items():
                chunk[name][rows] = values

    def _drawn_again(self, rows: int, rng: np.random.Generator, fixed: Mapping[str, int], asked: Given) -> Chunk | None:
        """Draw rows given all that decides, or else the label alone; None if the model has none."""
        label = {name: code for name, code in fixed.items() if name == self.schema.target}
        for held in (fixed, label):
            conditions = self._conditions(held, asked)
            if conditions is not None:
                try:
                    return self.keeper.completed(self.model.sample(rows, rng, conditions or None))
                except SettingError:
                    # Nothing that the model draws fits; mended rows will.
                    continue
        return None

    def _conditions(self, fixed: Mapping[str, int], asked: Given) -> Given | None:
        """Return what rows must fit to keep the rules, as far as a model can be asked for it; None if they cannot."""
        found: dict[str, Condition] = dict(asked)
        wanted: list[tuple[str, Condition]] = [(name, Among((code,))) for name, code in fixed.items()]
        for rule in self.schema.rules:
            wanted += _implied(rule, fixed, self.keeper)
        if set(fixed) >= set(self._deciding):
            wanted += self._bounds(fixed)
        for name, condition in wanted:
            both = _both(found.get(name), condition)
            if both is None:
                return None
            found[name] = both
        return found

    def _bounds(self, fixed: Mapping[str, int]) -> list[tuple[str, Condition]]:
        """Return the bounds that numbers have in rows with these listed values, where they are narrower."""
        columns = self.keeper.columns
        row: Chunk = {name: np.array([fixed.get(name, -1)]) for name in self.keeper.named}
        row |= {name: np.zeros(1) for name in self.keeper.named if columns[name].kind.numeric}
        narrower: list[tuple[str, Condition]] = []
        for name, (low, high) in self.keeper.bounds(row).items():
            lower, upper = float(low[0]), float(high[0])
            inside = lower > (columns[name].lower or 0.0) or upper < (columns[name].upper or 0.0)
            if inside and name not in self.keeper.apart:
                narrower.append((name, Between(lower, upper)))
        return narrower

    def _mended(self, chunk: Chunk, rng: np.random.Generator, asked: Given) -> Chunk:
        """Return the rows with those that break a rule mended."""
        bad = self._bad(chunk, asked)
        if not len(bad):
            return chunk
        limits = {
            name: condition.codes if isinstance(condition, Among) else (condition.lower, condition.upper)
            for name, condition in asked.items()
        }
        spare = {name: self._spare(chunk[name], name, len(bad), rng) for name in self.keeper.named}
        mended = self.keeper.mended({name: values[bad] for name, values in chunk.items()}, spare, limits)
        still = self.keeper.broken(mended) | (~fits(mended, asked) if asked else False)
        self._replace(mended, np.flatnonzero(still), limits, asked)
        return {name: _with(values, bad, mended[name]) for name, values in chunk.items()}

    def _spare(self, values: NDArray[Any], name: str, rows: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return present values of a column, from other rows if there are any."""
        present = values[~missing(values)]
        if not len(present):
            present = np.array([self.keeper.columns[name].lower or 0.0]).astype(values.dtype)
        return np.asarray(present[rng.integers(len(present), size=rows)])

    def _replace(self, chunk: Chunk, bad: NDArray[np.int64], limits: Mapping[str, Any], asked: Given) -> None:
        """Give rows that nothing mends the columns of a row that keeps all rules, of their own class if one does."""
        target = self.schema.target
        labelled = target is not None and target in self.keeper.named and self.schema[target].kind.listed
        labels = chunk[target][bad] if labelled and target is not None else np.zeros(len(bad))
        for label in np.unique(labels):
            own = {**limits, **({target or "": (int(label),)} if labelled else {})}
            row = self.keeper.example(own) or self.keeper.example(limits)
            if row is None:
                raise nothing_fits(asked)
            for name, values in row.items():
                chunk[name][bad[labels == label]] = values[0]

    def _asked(self, given: Given) -> tuple[Given, Given]:
        """Return the conditions that the model can be asked for, and those on columns that are worked out of others."""
        asked, late = dict(given), {}
        for name in reversed(in_order(self.schema.rules, self.keeper.columns)):
            for rule in self.schema.rules:
                if isinstance(rule, Dependence | Missing) and rule.column == name and name in asked:
                    for source, condition in self._before(rule, asked[name]):
                        both = _both(asked.get(source), condition)
                        if both is None:
                            raise nothing_fits(given)
                        asked[source] = both
        for rule in self.schema.rules:
            if isinstance(rule, Dependence):
                asked.pop(rule.column, None)
        for name in (*self.keeper.apart, *(rule.column for rule in self.schema.rules if isinstance(rule, Sum))):
            if name in asked:
                late[name] = asked.pop(name)
        return asked, late

    def _before(self, rule: Dependence | Missing, condition: Condition) -> list[tuple[str, Condition]]:
        """Return what must hold of other columns for a condition on one that they decide about."""
        columns = self.keeper.columns
        if isinstance(rule, Dependence):
            codes = self._codes(rule.source)
            follows = rule.values({rule.source: np.array(codes)}, columns)
            fitting = fits({rule.column: follows}, {rule.column: condition})
            return [(rule.source, Among(tuple(code for code, fit in zip(codes, fitting, strict=True) if fit)))]
        blanks = [(name, {columns[name].words.index(word) for word in words}) for name, words in rule.when]
        if isinstance(condition, Among) and condition.codes == (-1,):
            return [(name, Among(tuple(sorted(codes)))) for name, codes in blanks]
        if len(blanks) > 1 or (isinstance(condition, Among) and -1 in condition.codes):
            return []
        return [(name, Among(tuple(set(self._codes(name)) - codes))) for name, codes in blanks]

    def _codes(self, name: str) -> list[int]:
        column = self.keeper.columns[name]
        return [*range(len(column.words)), *([-1] if column.nullable else [])]

    def _pooled(self, rows: int, rng: np.random.Generator, asked: Given, late: Given) -> Chunk:
        """Draw until enough rows fit, and some of them several times if they are too few in the end."""
        pool: list[Chunk] = []
        found, size = 0, max(2 * rows, POOL_ROWS)
        for turn in range(POOLS):
            chunk = self.sample(max(min(size * 4**turn, MOST_POOL_ROWS), rows), rng, asked)
            fitting = fits(chunk, late)
            found += int(fitting.sum())
            pool.append({name: values[fitting] for name, values in chunk.items()})
            if found >= rows:
                break
        if not found:
            raise nothing_fits({**asked, **late})
        chosen = np.arange(rows) if found >= rows else rng.integers(found, size=rows)
        return {name: np.concatenate([part[name] for part in pool])[chosen] for name in pool[0]}


def _implied(rule: Rule, fixed: Mapping[str, int], keeper: RuleKeeper) -> Sequence[tuple[str, Condition]]:
    """Return what a rule asks of other columns in rows with these listed values."""
    if isinstance(rule, Combinations):
        allowed = rule.codes(keeper.columns)
        for position, name in enumerate(rule.columns):
            if fixed.get(name, -1) >= 0:
                allowed = allowed[allowed[:, position] == fixed[name]]
        free = [(position, name) for position, name in enumerate(rule.columns) if name not in fixed]
        blank = {name: {-1} if keeper.columns[name].nullable else set() for _, name in free}
        return [(name, Among(tuple(sorted({*allowed[:, at].tolist(), *blank[name]})))) for at, name in free]
    if isinstance(rule, Missing) and all(name in fixed for name, _ in rule.when):
        columns = keeper.columns
        held = all(fixed[name] in [columns[name].words.index(word) for word in words] for name, words in rule.when)
        if not held:
            listed = columns[rule.column].kind.listed
            return [(rule.column, Among(tuple(range(len(columns[rule.column].words)))) if listed else Between())]
    return []


def _both(one: Condition | None, other: Condition) -> Condition | None:
    """Return what fits both of two conditions on a column; None if nothing can."""
    if one is None:
        return other
    if isinstance(one, Among) and isinstance(other, Among):
        codes = tuple(code for code in one.codes if code in other.codes)
        return Among(codes) if codes else None
    assert isinstance(one, Between)
    assert isinstance(other, Between)
    lower, upper = max(one.lower, other.lower), min(one.upper, other.upper)
    return Between(lower, upper) if lower <= upper else None


def _with(values: NDArray[Any], index: NDArray[np.int64], new: NDArray[Any]) -> NDArray[Any]:
    copied = values.copy()
    copied[index] = new
    return copied
