"""Samples: a row's own coin decides about it, and about nobody else."""

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize import sampled
from threea.anonymize.accountant import Line
from threea.anonymize.events import Sampled
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.anonymize.query import Marginal
from threea.budget import Budget
from threea.table.schema import Schema
from threea.testing import SilentNoise

SCHEMA = Schema.of({"x": {"kind": "integer", "lower": 0, "upper": 9}, "y": {"kind": "boolean"}})
QUERY, ROWS, RATE = Marginal((SCHEMA["x"].cells(16),)), 40, 0.25
BUDGET = Budget(500.0, 0.5)
VALUES = np.random.default_rng(0).integers(0, 10, ROWS)


class Coins(SilentNoise):
    """Flips the coins it was given, or some, if it is asked for another number."""

    def __init__(self, coins):
        self.coins = coins

    def bernoulli(self, rate, size):
        return self.coins if size == len(self.coins) else np.random.default_rng(size).random(size) < rate


class OnlySums:
    """An engine with one verb."""

    def __init__(self, table):
        self._table, self.layout = table, table.schema

    def sum(self, function, columns):
        return function(self._table.select(list(columns)).combine_chunks().to_batches()[0])


def drawn(values, coins, engine=lambda table: table):
    rows = pa.table({"x": pa.array(values, pa.int64()), "y": values % 2 == 0})
    table = open_table(engine(rows), schema=SCHEMA, budget=BUDGET, noise=Coins(coins))
    plan = Plan(BUDGET, (Line("step", Sampled(RATE, 50.0)),))
    return table.sampled(RATE).measure(QUERY, plan["step"]).value


def furthest(engine=lambda table: table):
    """Return by how many rows' contributions, at most, samples differ when one row leaves with its coin."""
    coins, moved = np.random.default_rng(1).random(ROWS) < RATE, []
    whole = drawn(VALUES, coins, engine)
    for place in range(ROWS):
        kept = np.arange(ROWS) != place
        moved.append(np.abs(whole - drawn(VALUES[kept], coins[kept], engine)).sum() - coins[place])
    return max(moved)


@pytest.mark.parametrize("engine", [lambda table: table, OnlySums], ids=["memory", "only sums"])
def test_a_row_changes_a_sample_by_itself_or_not_at_all(engine):
    assert furthest(engine) == 0


class ByPosition(sampled._PoissonSample):
    """Takes every so manieth row, wherever that leads."""

    def sum(self, function, columns):
        rows = self._interior.columns(columns)
        every = slice(None, None, round(1 / self._rate))
        sample = sampled.Rows({name: values[every] for name, values in rows.values.items()}, 0)
        sample.count = len(sample.values["x"])
        return function.over(lambda: sample)


class OfAFixedSize(sampled._PoissonSample):
    """Fills the sample up with the next rows until it has its size."""

    def sum(self, function, columns):
        rows = self._interior.columns(columns)
        coins = self._interior.noise.bernoulli(self._rate, rows.count)
        order = np.argsort(~coins, kind="stable")[: round(self._rate * ROWS)]
        sample = sampled.Rows({name: values[order] for name, values in rows.values.items()}, len(order))
        return function.over(lambda: sample)


@pytest.mark.parametrize("mutant", [ByPosition, OfAFixedSize])
def test_a_sample_drawn_by_position_is_caught(mutant, monkeypatch):
    monkeypatch.setattr(sampled, "_PoissonSample", mutant)
    assert furthest() > 0
