"""Exact replay of two tables: no question about parents or children changes by more than its price, whoever comes or
goes with all their rows; and mutants are caught, without any chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.door import PrivateTable
from threea.anonymize.open_tables import LinkedTables, open_tables
from threea.anonymize.plan import Plan
from threea.anonymize.spending import Unit
from threea.audit.recorder import Draw, Recorder, WatchedSpending
from threea.audit.replay import SLACK, Setting, changes
from threea.backends.units import UnitBackend
from threea.budget import Adjacency, Budget
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.linked import PreparedTables, planned
from threea.recipes import Independent, PrivBayes
from threea.table.schema import Schema

MOST, READ = 5, 3
MANY = "a parent of a thousand"
ABOVE = Schema.of(
    {
        "id": {"kind": "id"},
        "age": {"kind": "integer", "lower": 0, "upper": 20},
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
    }
)
BELOW = Schema.of(
    {
        "id": {"kind": "id"},
        "ward": {"kind": "categorical", "categories": ["a", "b"]},
        "nights": {"kind": "integer", "lower": 0, "upper": 8},
        "died": {"kind": "boolean"},
    },
    target="died",
)
UP = pa.schema([("id", pa.string()), ("age", pa.int64()), ("sex", pa.string())])
DOWN = pa.schema([("id", pa.string()), ("ward", pa.string()), ("nights", pa.int64()), ("died", pa.bool_())])
Pair = tuple[pa.Table, pa.Table]
# A large budget, so that networks are grown as they are from large tables.
BUDGET = Budget(50.0)
PLANS: dict[Any, Plan] = {}


def base() -> Pair:
    """Return two tables with orphans, a parent's row twice, rows without a key, and parents of none and of many."""
    rng = np.random.default_rng(0)
    ids = [f"p{number}" for number in range(50)]
    age = rng.integers(0, 21, 50)
    counts = np.r_[0, 9, rng.poisson(np.where(age > 10, 3, 1))[2:]]
    who = np.repeat(np.arange(50), counts)
    names = [ids[number] for number in who]
    nights = np.clip(rng.poisson(age[who] / 4), 0, 8)
    died = rng.random(len(who)) < nights / 12
    parents = pa.table([ids, age, rng.choice(["f", "m"], 50)], schema=UP)
    children = pa.table([names, rng.choice(["a", "b"], len(who)), nights, died], schema=DOWN)
    odd = (
        pa.table([["p4", None, None], [3, 4, 5], ["f", "m", None]], schema=UP),
        pa.table([["nobody", "nobody", None], ["a", "b", "a"], [1, 2, 3], [True, False, True]], schema=DOWN),
    )
    return pa.concat_tables([parents, odd[0]]), pa.concat_tables([children, odd[1]])


def unit(name: str | None, parents: int, children: int) -> Pair:
    """Return so many rows of one unit: extreme ones, all in the same cells."""
    above = pa.table([[name] * parents, [20] * parents, ["m"] * parents], schema=UP)
    below = pa.table([[name] * children, ["b"] * children, [8] * children, [True] * children], schema=DOWN)
    return above, below


def without(name: str, pair: Pair) -> Pair:
    first, second = (
        table.filter(pa.compute.fill_null(pa.compute.not_equal(table["id"], name), True)) for table in pair
    )
    return first, second


def neighbours(pair: Pair, adjacency: Adjacency) -> Iterator[tuple[str, Pair]]:
    units = {
        MANY: unit("new", 1, 1000),
        "a parent of none": unit("new", 1, 0),
        "a parent's row, a hundred times": unit("new", 100, 4),
        "children without a parent": unit("new", 0, 50),
        "rows without a key": unit(None, 20, 20),
    }
    rest = pair if adjacency is Adjacency.ADD_REMOVE else without("p1", pair)
    for name, more in units.items():
        yield name, tuple(pa.concat_tables([table, own]) for table, own in zip(rest, more, strict=True))
    if adjacency is Adjacency.ADD_REMOVE:
        # The one of nine children, the one with two rows, and the orphans.
        yield from ((f"without {name}", without(name, pair)) for name in ("p0", "p1", "p4", "nobody"))
    else:
        yield "one with a child less", (pair[0], pair[1].slice(1))


def run(recipe: Recipe, pair: Pair, budget: Budget, first: Sequence[Draw] = (), paid: int | None = None) -> list[Draw]:
    """Release both tables; return all draws of noise. `paid` prices children as if so many of a parent were read."""
    ledger = Ledger()
    ledger.register("rows", lambda key: "rows")
    spending = WatchedSpending(budget, ledger, "rows")
    noise = Recorder(spending, first)
    opened = open_tables(
        *pair, key="id", children_at_most=MOST, children_read=READ, budget=budget, schema=ABOVE, child_schema=BELOW,
        noise=noise,
    )  # fmt: skip

    def watched(table: PrivateTable, unit: Unit) -> PrivateTable:
        return PrivateTable(replace(table._interior, spending=spending, unit=unit))

    below = Unit("id", paid) if paid else opened.children.unit
    tables = replace(
        opened, parents=watched(opened.parents, opened.parents.unit), children=watched(opened.children, below)
    )
    prepared(recipe, tables).run()
    assert {draw.charge for draw in noise.draws} == set(range(len(spending.presented))), "answered without noise"
    return noise.draws


def prepared(recipe: Recipe, tables: LinkedTables) -> PreparedTables:
    child = PrivBayes(theta=1.0)
    asked = (recipe, tables.parents.budget)
    # Plans follow from what is public, and take longer than these tables.
    if asked not in PLANS:
        PLANS[asked] = planned(tables, recipe, child, 0.7)
    return PreparedTables(
        recipe=recipe, reason="", child_recipe=child, child_share=0.7, tables=tables,
        plan=PLANS[asked], rows=10, seed=0, costs=(), ledger=None,
    )  # fmt: skip


def worst(
    recipe: Recipe, only: str = "", adjacency: Adjacency = Adjacency.ADD_REMOVE, **options: Any
) -> dict[str, float]:
    """Return for each line by how much of its price one unit changes it, at worst; on one neighbour only, if named."""
    budget, setting = replace(BUDGET, adjacency=adjacency), Setting(adjacency=adjacency, by_person=True)
    pair = base()
    first = run(recipe, pair, budget, **options)
    found: dict[str, float] = {}
    for name, other in neighbours(pair, adjacency):
        if only not in (name, ""):
            continue
        for line, ratio in changes(first, run(recipe, other, budget, first, **options), setting).items():
            found[line] = max(found.get(line, 0.0), ratio)
    return found


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("recipe", [PrivBayes(theta=1.0), Independent()], ids=["privbayes", "independent"])
def test_no_question_about_two_tables_changes_by_more_than_its_price(recipe: Recipe, adjacency: Adjacency) -> None:
    found = worst(recipe, adjacency=adjacency)
    assert {line.split(":")[0] for line in found} == {"parents", "children"}
    for line, ratio in found.items():
        assert ratio <= 1 + SLACK, f"{line} changes by {ratio} of its price"
    if adjacency is Adjacency.ADD_REMOVE:
        # A parent of a thousand children, all alike, uses all that is paid for: noise is not added for nothing.
        counted = [ratio for line, ratio in found.items() if line.endswith(("one-way tables", "the label"))]
        assert min(counted) > 0.99


def test_rows_without_a_key_and_orphans_change_nothing() -> None:
    pair = base()
    first = run(Independent(), pair, BUDGET)
    for more in (unit(None, 20, 20), unit("new", 0, 50)):
        other = tuple(pa.concat_tables([table, own]) for table, own in zip(pair, more, strict=True))
        assert set(changes(first, run(Independent(), other, BUDGET, first), Setting(by_person=True)).values()) == {0.0}


def test_children_that_are_not_bounded_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(self: UnitBackend, backend: Any, unit: str, max_rows: int, key: bytes) -> None:
        init(self, backend, unit, 1 if max_rows == 1 else 10**6, key)

    init = UnitBackend.__init__
    monkeypatch.setattr(UnitBackend, "__init__", unbounded)
    assert worst(Independent(), MANY)["children: one-way tables"] == pytest.approx(1000 / READ)


def test_children_priced_as_single_rows_are_caught() -> None:
    found = worst(Independent(), MANY, paid=1)
    assert found["children: one-way tables"] == pytest.approx(READ)


def test_a_parent_that_is_counted_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeated(self: UnitBackend, backend: Any, unit: str, max_rows: int, key: bytes) -> None:
        init(self, backend, unit, 10**6 if max_rows == 1 else max_rows, key)

    init = UnitBackend.__init__
    monkeypatch.setattr(UnitBackend, "__init__", repeated)
    assert worst(Independent(), "a parent's row, a hundred times")["parents: histograms given the label"] > 99
