"""A pass over the rows is one picklable function: what an engine on another machine would be sent."""

import pickle

import numpy as np
import pytest

from threea.anonymize.chunk_sum import ChunkSum
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.recipes import RECIPES
from threea.testing import CASES, OnlySums, SeededNoise

PROVEN = [name for name in RECIPES if RECIPES[name]().guarantee is Guarantee.PROVEN]
CASE = CASES["plain"]
QUICK = {
    "dpmix": {"points": 3},
    "dpgan": {"epochs": 1.0, "rate": 0.5, "width": 3},
    "dpmerf": {"features": 4, "iterations": 2, "batch": 4, "width": 4},
    "laplacegan": {"iterations": 2, "width": 2},
}


@pytest.mark.parametrize("name", PROVEN)
def test_every_question_pickles_and_gives_equal_sums_after_a_round_trip(name, monkeypatch):
    sent, call = {}, ChunkSum.__call__
    monkeypatch.setattr(ChunkSum, "__call__", lambda self, batch: sent.update({id(self): self}) or call(self, batch))
    table = open_table(OnlySums(CASE.table), schema=CASE.schema, budget=Budget(1.0), noise=SeededNoise(0))
    recipe = RECIPES[name](**QUICK.get(name, {}))
    recipe.run(table)
    asked = {charge.name for charge in recipe.plan(table).lines}
    assert len(sent) >= len(asked), "each line of the plan is asked by at least one sum"
    for function in sent.values():
        again = pickle.loads(pickle.dumps(function))
        batch = CASE.table.select(list(function.query.columns) or CASE.table.column_names[:1]).to_batches()[0]
        np.testing.assert_array_equal(call(again, batch), call(function, batch))
        assert call(again, batch)[-1] == 0, "sums of functions that fail are equal, too"
