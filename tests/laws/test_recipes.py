"""The law of every recipe: within its budget on any table, from sums alone, and the same kind of table out as in."""

import math

import numpy as np
import pyarrow as pa
import pytest

from threea import hospital
from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.events import from_json
from threea.anonymize.ledger import Ledger
from threea.anonymize.opening import open_table
from threea.backends import MemoryBackend
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.recipes import DEFAULT, RECIPES
from threea.schema import Schema
from threea.testing import SeededNoise, SilentNoise

EVERY_RECIPE = pytest.mark.parametrize("recipe", [kind() for kind in RECIPES.values()], ids=list(RECIPES))
BUDGET = Budget(1.0, 1e-6)
STAYS = hospital.stays(300)


class OnlySums:
    """An engine with no verb but `sum`."""

    def __init__(self, table):
        self._inner = MemoryBackend(table)
        self.layout = self._inner.layout

    def sum(self, function, columns):
        return self._inner.sum(function, columns)


def opened(data=STAYS, **settings):
    defaults = {"schema": hospital.schema(), "budget": BUDGET, "noise": SeededNoise(0), "accept_unproven": True}
    return open_table(data, **{**defaults, **settings})


def check_charges(ledger, release, budget):
    """Check that all looks at the rows were planned, logged and within the budget."""
    (reserved,) = ledger.releases()
    charges = ledger.charges(reserved.id)
    assert charges
    assert (reserved.epsilon, reserved.delta) == (budget.epsilon, budget.delta)
    assert reserved.charged <= reserved.planned
    assert reserved.recipe == release.recipe.name
    lines = [Line(str(charge.seq), from_json(charge.event)) for charge in charges]
    assert 0 < epsilon_of(lines, budget.delta, budget.adjacency) <= budget.epsilon


@EVERY_RECIPE
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("known", [True, False], ids=["schema", "discovered"])
def test_spends_at_most_its_budget(recipe, adjacency, known):
    budget = Budget(0.7, 1e-7, adjacency)
    settings = {"schema": hospital.schema()} if known else {"schema": None, "target": "died"}
    with Ledger() as ledger:
        release = recipe.run(opened(budget=budget, ledger=ledger, **settings), rows=20)
        if recipe.guarantee is Guarantee.PROVEN:
            check_charges(ledger, release, budget)
        else:
            assert ledger.datasets()[0].spent == math.inf


@EVERY_RECIPE
def test_uses_the_budget_it_is_given(recipe):
    if recipe.guarantee is Guarantee.PROVEN:
        assert 0.99 * BUDGET.epsilon <= recipe.plan(opened()).epsilon <= BUDGET.epsilon


@EVERY_RECIPE
def test_a_proven_recipe_says_so_with_the_secure_noise_only(recipe):
    secure, seeded = (recipe.run(opened(noise=noise), rows=5) for noise in (None, SeededNoise(0)))
    assert secure.guarantee is recipe.guarantee
    assert seeded.guarantee is Guarantee.NONE
    if recipe.guarantee is Guarantee.PROVEN:
        certificate = secure.certificate()
        assert certificate.accounted_epsilon <= certificate.epsilon == BUDGET.epsilon
        assert certificate.events


@EVERY_RECIPE
def test_runs_on_an_engine_that_only_sums(recipe):
    if recipe.guarantee is not Guarantee.PROVEN:
        pytest.skip("reads the rows themselves")
    summed = recipe.run(opened(OnlySums(STAYS)), rows=50, seed=1)
    assert summed.table.equals(recipe.run(opened(), rows=50, seed=1).table)


def column(table, name, values):
    place = table.column_names.index(name)
    return table.set_column(place, pa.field(name, values.type), values)


WITHOUT_DEATHS = column(STAYS, "died", pa.array([False] * 300))
NULLABLE = Schema.of(
    {**hospital.COLUMNS_PUBLIC, "lactate": {**hospital.COLUMNS_PUBLIC["lactate"], "nullable": True}}, target="died"
)
TABLES = {
    "one row": (STAYS.slice(0, 1), {}),
    "two rows": (STAYS.slice(0, 2), {}),
    "an empty class": (WITHOUT_DEATHS, {}),
    "a constant column": (column(STAYS, "age", pa.array([40] * 300, pa.int16())), {}),
    "a column out of bounds": (column(STAYS, "age", pa.array([999] * 300, pa.int16())), {}),
    "a column all missing": (column(STAYS, "lactate", pa.nulls(300, pa.float64())), {"schema": NULLABLE}),
    "no target": (STAYS, {"schema": Schema.of(hospital.COLUMNS_PUBLIC)}),
    "a numeric target": (STAYS, {"schema": Schema.of(hospital.COLUMNS_PUBLIC, target="length_of_stay")}),
    "a target of many classes": (STAYS, {"schema": Schema.of(hospital.COLUMNS_PUBLIC, target="diagnosis")}),
    "persons": (STAYS, {"unit": "patient_id", "max_rows_per_unit": 3}),
    "one row, discovered": (STAYS.slice(0, 1), {"schema": None, "target": "died"}),
    "all missing, discovered": (
        column(STAYS, "lactate", pa.nulls(300, pa.float64())),
        {"schema": None, "target": "died"},
    ),
    "no target, discovered": (STAYS, {"schema": None}),
}


@EVERY_RECIPE
@pytest.mark.parametrize("name", TABLES)
def test_survives(recipe, name):
    """With the least favourable noise as well: none at all, and so much that counts turn negative."""
    data, settings = TABLES[name]
    for noise, budget in ((SilentNoise(), BUDGET), (SeededNoise(1), Budget(0.01, 1e-6))):
        release = recipe.run(opened(data, noise=noise, budget=budget, **settings), rows=40, seed=2)
        table = release.table
        assert table.num_rows == 40
        assert table.schema == data.schema.remove_metadata()
        # Drawn values are within the schema: encoding and decoding them changes nothing.
        for described in release.schema.modelled:
            values = table[described.name].drop_null()
            if described.kind.listed and described.kind != "boolean":
                allowed = {*described.categories, "other"} if described.open_ended else set(described.categories)
                assert set(values.to_pylist()) <= allowed
            elif described.kind in ("integer", "real"):
                found = np.array(values.to_pylist(), dtype=np.float64)
                inside = (found >= described.lower - 1e-6) & (found <= described.upper * (1 + 1e-6) + 1e-6)
                assert np.all(inside | np.isin(found, described.special))
            if not described.nullable:
                assert table[described.name].null_count == 0


@EVERY_RECIPE
def test_gives_back_the_kind_of_table_that_came_in(recipe):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = recipe.run(opened(), rows=30).frame
    assert isinstance(arrow, pa.Table)
    assert arrow.schema == STAYS.schema.remove_metadata()
    frame = STAYS.to_pandas()
    out = recipe.run(opened(frame), rows=30).frame
    assert isinstance(out, pandas.DataFrame)
    assert list(out.columns) == list(frame.columns)
    assert out.dtypes.to_dict() == frame.dtypes.to_dict()
    lazy = polars.from_arrow(STAYS)
    out = recipe.run(opened(lazy), rows=30).frame
    assert isinstance(out, polars.DataFrame)
    assert out.schema == lazy.schema


@EVERY_RECIPE
def test_ids_are_fresh(recipe):
    released = recipe.run(opened(), rows=200).table["patient_id"].to_pylist()
    assert len(set(released)) == 200
    assert not set(released) & set(STAYS["patient_id"].to_pylist())


@EVERY_RECIPE
def test_a_seed_repeats_sampling(recipe):
    first, again = (recipe.run(opened(noise=SeededNoise(3)), rows=50, seed=7) for _ in range(2))
    other = recipe.run(opened(noise=SeededNoise(3)), rows=50, seed=8)
    assert first.table.equals(again.table)
    assert first.table.equals(first.table)
    assert not first.table.equals(other.table)


@EVERY_RECIPE
def test_a_seed_does_not_repeat_noise(recipe):
    if recipe.guarantee is not Guarantee.PROVEN:
        pytest.skip("its noise is its own")
    first, again = (recipe.run(opened(noise=None), rows=50, seed=7) for _ in range(2))
    # Hundreds of noisy counts agree by chance with probability far below 1e-6.
    assert not first.table.equals(again.table)


@EVERY_RECIPE
def test_the_number_of_rows_is_the_noisy_one_unless_given(recipe):
    """With this seed, the noise does not vanish by chance."""
    assert recipe.run(opened(noise=SilentNoise())).rows == STAYS.num_rows
    assert recipe.run(opened(noise=SeededNoise(5))).rows != STAYS.num_rows
    assert recipe.run(opened(), rows=7).table.num_rows == 7
    with pytest.raises(SettingError, match="rows"):
        recipe.run(opened(), rows=0)


@EVERY_RECIPE
def test_a_recipe_is_a_checked_value(recipe):
    assert recipe == type(recipe)()
    assert recipe.summary
    with pytest.raises(AttributeError):
        recipe.bins = 3


def test_recipes_are_known_by_their_names():
    assert DEFAULT in RECIPES
    assert all(kind.name == name for name, kind in RECIPES.items())
