"""What a pass over the rows shows of one column, and the description that fits it. For the owner alone."""

from __future__ import annotations

import decimal
import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.describe import ids
from threea.table import codec, dates
from threea.table.cells import Bins, multiple
from threea.table.schema import Column, Kind

MOST_CLASSES = 20
"""A target of whole numbers with at most so many values is taken for a class."""
_ROWS_A_CLASS = 10
"""Beyond two classes, each must have so many rows on average."""
_MOST_LISTED = 1000
_MOST_COUNTED = 1 << 18
"""Beyond so many different values no new ones are counted, so that memory stays bounded."""
_HUGE = 2.0**100
_WIDE = 1000.0
"""Positive numbers whose largest is so many times the smallest are proposed on a log scale."""
_ID_ROWS, _ID_SHARE, _ID_UNEVEN = 100, 0.99, 0.1
"""Whole numbers in so many rows, nearly all different, are ids if they are spread so evenly."""
_NAMED_ID_SHARE = 0.3
"""Whose name says so are ids if so many are different: a person has several rows, but a code has many more."""
_CODE_SHARE, _CODE_ROWS, _MOST_CODES = 0.01, 5, 3
"""A number that so many rows hold, and that stands apart from the rest, is a code such as 999."""
_CODE_GAP = 0.1
"""One that is written as codes are, 99 or 999, or as a negative among others, need be only so far away."""
_SPIKE_SHARE, _SPIKE_TIMES = 0.02, 20
"""A number that so many rows hold, and so many times as many as usual, is a spike."""
_FEW = 20
"""Whole numbers up to here have bins of their own, so that a code -1 needs no telling."""
_ROWS_A_VALUE = 50
"""Of as many different numbers all are told if so many rows hold each."""
_MOST_SINGLE = 128
"""Up to so many values are counted one by one in any table, so that spikes need no telling."""
_FEWEST_STEPPED = 4
"""Of so few different numbers no step is told."""

_COARSEST, _FINEST = 6, -6
"""Powers of ten of the steps that are looked for."""

NOTHING = "Nothing but whether values are missing was read from the rows."
UNIT = "Names the person to protect: its values are never read, and replaced by fresh ones."
LISTED = """\
categories are the values found in the rows, the rarest included: keep only those that are public,
such as a code list; set open_ended = true for the rest."""
FREQUENT = f"""\
categories are the {_MOST_LISTED} most frequent values found in the rows: keep only those that are public,
such as a code list. If the values name persons, set kind = "id" instead."""
CLASS = """\
A target of few whole numbers is taken for a class; categories are those found in the rows: keep the public ones.
If it is an amount, set kind = "integer" with lower and upper in place of categories."""
ID = """\
Nearly every row has a value of its own, so this looks like an id, whose values are never read.
If the text has a meaning, make it categorical with a public list and open_ended = true."""
NUMBER_ID = """\
Nearly every row has a whole number of its own, so this looks like an id, whose values are never read.
If the number has a meaning, set kind = "integer" with a public lower and upper."""
NAMED_ID = """\
Named as ids are, and many rows have a value of their own: its values are never read. If persons have several rows,
release with --unit. If the text has a meaning, make it categorical with a public list and open_ended = true."""
REPEATED_ID = """\
Whole numbers under a name of ids, whose values are never read. If persons have several rows, release with --unit.
If the number has a meaning, set kind = "integer" with a public lower and upper."""
DATED = """\
lower and upper are the first and the last moment found in the rows, rounded outwards to whole years;
replace them by limits that anyone knows, such as the years in which rows were collected."""
NUMBERED = """\
lower and upper are the smallest and the largest value found in the rows, rounded outwards to two digits;
replace them by limits that anyone knows, such as 0 and 120 for an age."""
SHAPED = " Keep special, step and log only if what the column means says so."


@dataclass(slots=True)
class SeenColumn:
    """What a pass over the rows has shown of one column."""

    column: Column
    is_target: bool = False
    rows: int = 0
    missing: int = 0
    zeros: int = 0
    lower: float = math.inf
    """Smallest value but 0."""
    upper: float = -math.inf
    nearest: float = math.inf
    """Smallest distance from 0 of a value but 0."""
    words: Counter[str] = field(default_factory=Counter)
    numbers: Counter[float] = field(default_factory=Counter)
    distinct: float = 0.0
    """Share of different values, among the rows until they became too many to count."""

    def look(self, values: pa.Array) -> None:
        """Take in one batch."""
        self.rows += len(values)
        if self.column.kind is Kind.ID:
            return
        if self.column.kind is Kind.CATEGORICAL:
            self.missing += self._count(values)
            return
        encoded = codec.encode_column(values, self.column)
        missing = encoded < 0 if self.column.kind is Kind.BOOLEAN else np.isnan(encoded)
        self.missing += int(missing.sum())
        if self.column.kind.numeric:
            self._measure(encoded[~missing])
        if self.is_target and self._countable:
            self._count(values)

    @property
    def _countable(self) -> bool:
        return self.column.kind in (Kind.INTEGER, Kind.REAL) and len(self.numbers) <= _MOST_COUNTED

    def _count(self, values: pa.Array) -> int:
        """Count the values as text; return how many are missing."""
        text = codec.as_text(values)
        found = pc.value_counts(text.drop_null())
        counts = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
        if len(self.words) > _MOST_COUNTED:
            counts = {word: count for word, count in counts.items() if word in self.words}
        else:
            self.distinct = len(self.words.keys() | counts.keys()) / max(self.rows, 1)
        self.words.update(counts)
        return int(text.null_count)

    def _measure(self, numbers: NDArray[np.float64]) -> None:
        # Infinite numbers were cut to the widest bounds, and say nothing.
        finite = numbers[np.abs(numbers) < _HUGE]
        self.zeros += int((finite == 0).sum())
        self._stretch(finite[finite != 0])
        if self._countable:
            values, counts = np.unique(finite, return_counts=True)
            self.numbers.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            self.distinct = len(self.numbers) / max(self.rows, 1)

    def _stretch(self, others: NDArray[np.float64]) -> None:
        self.lower = min(self.lower, float(others.min(initial=math.inf)))
        self.upper = max(self.upper, float(others.max(initial=-math.inf)))
        self.nearest = min(self.nearest, float(np.abs(others).min(initial=math.inf)))

    def propose(self) -> tuple[Column, str]:
        """Return the column as seen, and a note on what of it is private."""
        if self.column.kind is Kind.ID:
            return self.column, UNIT
        column = replace(self.column, nullable=self.missing > 0)
        if column.kind is Kind.BOOLEAN:
            return column, NOTHING
        if column.kind is Kind.CATEGORICAL:
            return self._listed(column)
        if column.kind.temporal:
            return self._dated(column)
        if self.is_target and self._is_class():
            words = tuple(sorted((word for word in self.words if _as_number(word) in self.numbers), key=float))
            return Column(name=column.name, kind=Kind.CATEGORICAL, categories=words, nullable=column.nullable), CLASS
        if not self.is_target and self._is_id():
            note = NUMBER_ID if self.distinct >= _ID_SHARE else REPEATED_ID
            return Column(name=column.name, kind=Kind.ID, nullable=column.nullable), note
        return self._numbered(column)

    def _listed(self, column: Column) -> tuple[Column, str]:
        if self._is_named_id() and not self.is_target:
            return replace(column, kind=Kind.ID, open_ended=False), NAMED_ID
        often = tuple(sorted(word for word, _ in self.words.most_common(_MOST_LISTED)))
        if len(self.words) <= _MOST_LISTED:
            return replace(column, categories=often, open_ended=not often), LISTED
        if self.distinct > 0.9 and not self.is_target:
            return replace(column, kind=Kind.ID, open_ended=False), ID
        return replace(column, categories=often), FREQUENT

    def _is_class(self) -> bool:
        """Tell whether a target is a class: two whole numbers, or a few with enough rows each."""
        few = 2 <= len(self.numbers) <= MOST_CLASSES and all(number == round(number) for number in self.numbers)
        enough = self.rows - self.missing >= _ROWS_A_CLASS * len(self.numbers)
        return few and (enough or len(self.numbers) == 2)

    def _is_named_id(self) -> bool:
        """Tell whether a column is named as ids are, and enough of its values are different."""
        named = ids.named(self.column.name)
        return named and self.rows >= _ID_ROWS and not self.missing and self.distinct >= _NAMED_ID_SHARE

    def _is_id(self) -> bool:
        """Tell whether whole numbers are ids: never missing, nearly all different and spread evenly, or named so."""
        if self.column.kind is not Kind.INTEGER or self.rows < _ID_ROWS or self.missing:
            return False
        if self.distinct < _ID_SHARE or ids.named(self.column.name):
            return self._is_named_id()
        numbers = np.sort(np.fromiter(self.numbers, np.float64))
        spread = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
        uneven = float(np.abs(spread - np.linspace(0, 1, len(spread))).max())
        return uneven <= _ID_UNEVEN

    def _dated(self, column: Column) -> tuple[Column, str]:
        ends = self._ends() or [dates.from_text(f"{year}-01-01", column.kind, column.name) for year in (1900, 2099)]
        first, last = (int(dates.to_text(end, column.kind)[:4]) for end in ends)
        texts = (f"{first:04}-01-01", f"{last + 1:04}-01-01" if last < 9999 else "9999-12-31")
        lower, upper = (dates.from_text(text, column.kind, column.name) for text in texts)
        return replace(column, lower=lower, upper=upper), DATED

    def _numbered(self, column: Column) -> tuple[Column, str]:
        codes = self._take_out_codes()
        # Where whole numbers are few, 0 has a bin of its own anyway.
        stands_apart = not column.whole or self.nearest > 1 or self.upper > _WIDE * self.nearest
        spike = stands_apart and self.zeros > 0.1 * (self.rows - self.missing) and self.lower < math.inf
        low, high = self._ends(spike) or [0.0, 1.0]
        lower, upper = _outwards(low, up=False, whole=column.whole), _outwards(high, up=True, whole=column.whole)
        if lower == upper and not column.whole:
            upper = _outwards(math.nextafter(upper, math.inf), up=True, whole=False)
        log = low > 0 and high > _WIDE * low
        seen = replace(column, lower=lower, upper=upper, log=log, step=self._step(codes))
        special = tuple(sorted((*codes, *self._spikes(seen, codes), *([0.0] if spike else []))))
        return replace(seen, special=special), NUMBERED + (SHAPED if special or log or seen.step else "")

    def _take_out_codes(self) -> set[float]:
        """Find numbers that are codes, and measure the rest without them."""
        if not self._countable:
            return set()
        codes = set().union(*(self._codes(sign) or self._codes(sign, coded=True) for sign in (1.0, -1.0)))
        if codes:
            self.lower, self.upper, self.nearest = math.inf, -math.inf, math.inf
            self._stretch(np.array([number for number in self.numbers if number and number not in codes]))
        return codes

    def _codes(self, sign: float, coded: bool = False) -> set[float]:
        """Return the numbers at one end that many rows hold each, and that stand apart from the rest.

        Args:
            sign: Which end.
            coded: Whether less far away will do if they are written as codes are.
        """
        often = max(_CODE_SHARE * (self.rows - self.missing), _CODE_ROWS)
        numbers = sorted(sign * number for number in self.numbers if number)
        for count in range(1, min(_MOST_CODES, len(numbers) - 3) + 1):
            rest, last = numbers[:-count], numbers[-count:]
            only_negative = sign < 0 and last == [1.0] and rest[-1] < 0 and -rest[0] > _FEW
            gap, span = last[0] - rest[-1], rest[-1] - rest[0]
            written = all(_written_as_code(sign * number) for number in last) or (sign < 0 < last[0] and rest[-1] < 0)
            apart = gap > span or only_negative or (coded and written and gap > max(_CODE_GAP * span, _FEW))
            if apart and all(self.numbers[sign * number] >= often for number in last):
                return {sign * number for number in last}
        return set()

    def _spikes(self, column: Column, codes: set[float]) -> set[float]:
        """Return numbers that very many rows hold, or all if they are few, where not all can be counted one by one."""
        cells = column.cells(_MOST_SINGLE)
        if not self._countable or (isinstance(cells, Bins) and cells.single):
            return set()
        if len(self.numbers) <= _FEW and self.rows >= _ROWS_A_VALUE * len(self.numbers):
            return set(self.numbers) - codes
        often = max(_SPIKE_SHARE * (self.rows - self.missing), _SPIKE_TIMES * self.rows / max(len(self.numbers), 1))
        heavy = [number for number, count in self.numbers.most_common(_MOST_CODES) if count >= often]
        return {number for number in heavy if number and number not in codes}

    def _step(self, codes: set[float]) -> float:
        """Return the coarsest round number that all numbers are multiples of; 0 if there is none worth telling."""
        if not self._countable:
            return 0.0
        numbers = np.array([number for number in self.numbers if number not in codes])
        found = round_step(numbers) if len(numbers) > _FEWEST_STEPPED else 0.0
        return 0.0 if self.column.whole and found <= 1 else found

    def _ends(self, spike: bool = False) -> list[float]:
        """Return the smallest and the largest value, a spike at 0 left out; nothing if there is none."""
        found = [end for end in (self.lower, self.upper) if math.isfinite(end)] + [0.0] * (self.zeros > 0 and not spike)
        return [min(found), max(found)] if found else []


def _written_as_code(number: float) -> bool:
    """Tell whether a number is 99, 999 and so on, or 9.9 and so on, or a negative of these."""
    return set(f"{abs(number):g}") <= set("9.") and abs(number) > 9


def round_step(numbers: NDArray[np.float64]) -> float:
    """Return the coarsest of 1, 2, 2.5 and 5 times powers of ten that all numbers are multiples of, 0 if none is.

    Example:
        >>> round_step(np.array([0.05, 3.1, 7.25])), round_step(np.array([20_000.0, 150_000.0]))
        (0.05, 10000.0)
    """
    largest = float(np.abs(numbers).max(initial=0.0))
    for power in range(_COARSEST, _FINEST - 1, -1):
        for digits in (5.0, 2.5, 2.0, 1.0):
            step = float(f"{digits}e{power}")
            if step <= largest <= 1e9 * step and np.array_equal(multiple(np.round(numbers / step), step), numbers):
                return step
    return 0.0


def _as_number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _outwards(value: float, *, up: bool, whole: bool) -> float:
    """Round away from the other values, to two significant digits.

    Example:
        >>> _outwards(117.0, up=True, whole=True), _outwards(0.0129, up=False, whole=False)
        (120.0, 0.012)
    """
    exact = decimal.Decimal(repr(value))
    exponent = max(exact.adjusted() - 1, 0) if whole else exact.adjusted() - 1
    rounding = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    return float(exact.quantize(decimal.Decimal((0, (1,), exponent)), rounding=rounding)) if value else 0.0
