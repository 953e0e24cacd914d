"""A pass over the rows is one picklable function: what an engine on another machine would be sent."""

import pickle
from functools import partialmethod

import numpy as np
import pytest
from quick import quick

from threea.anonymize.chunk_sum import ChunkSum
from threea.anonymize.open_table import open_table
from threea.anonymize.part_sums import PartSum
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.recipes import RECIPES
from threea.testing import CASES, OnlySums, SeededNoise

PROVEN = [name for name in RECIPES if RECIPES[name]().guarantee is Guarantee.PROVEN]
CASE = CASES["plain"]
CALLS = {kind: kind.__call__ for kind in (ChunkSum, PartSum)}
"""What engines are sent, and what it does with a batch."""


def _noting(function, sent, call, batch):
    sent[id(function)] = function
    return call(function, batch)


@pytest.mark.parametrize("name", PROVEN)
def test_every_question_pickles_and_gives_equal_sums_after_a_round_trip(name, monkeypatch):
    sent = {}
    for kind, call in CALLS.items():
        monkeypatch.setattr(kind, "__call__", partialmethod(_noting, sent, call))
    table = open_table(OnlySums(CASE.table), schema=CASE.schema, budget=Budget(1.0), noise=SeededNoise(0))
    recipe = quick(name)
    recipe.run(table)
    asked = {charge.name for charge in recipe.plan(table).lines}
    assert len(sent) >= len(asked), "each line of the plan is asked by at least one sum"
    for function in sent.values():
        again = pickle.loads(pickle.dumps(function))
        call, query = CALLS[type(function)], getattr(function, "chunk_sum", function).query
        columns = getattr(function, "columns", query.columns)
        batch = CASE.table.select(list(columns) or CASE.table.column_names[:1]).to_batches()[0]
        np.testing.assert_array_equal(call(again, batch), call(function, batch))
        assert call(again, batch)[-1] == 0, "sums of functions that fail are equal, too"
