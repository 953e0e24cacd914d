"""Exact replay: no proven recipe changes more than it pays for, and every mutant is caught, without any chance."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from quick import quick

from threea.anonymize import chunk_sum, door
from threea.anonymize.clipping import Norm, grid_step
from threea.anonymize.cluster_moments import ClusterMoments
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.gradient import Gradient
from threea.anonymize.mean_embedding import MeanEmbedding
from threea.anonymize.noisy_sum import scale_of
from threea.anonymize.query import Count, Features, Grouped, Marginal, Stack
from threea.anonymize.score_gradient import ScoreGradient
from threea.anonymize.slot_sums import SlotSums
from threea.anonymize.vectors import Frame, Lengths, Moment, Vectors
from threea.anonymize.wave_gradient import WaveGradient, WaveLogits
from threea.audit import replay as module
from threea.audit.neighbours import LAYOUT, SCHEMA, corners, neighbours, table
from threea.audit.replay import Question, Setting, replay, settings
from threea.backends import units
from threea.backends.units import UnitBackend
from threea.budget import Adjacency
from threea.certificate import Guarantee
from threea.describe.discover import CATEGORIES, CLASSES, KINDS
from threea.framework import Recipe
from threea.recipes import RECIPES, Independent, MCGen, RonGauss
from threea.table.cells import Merged
from threea.table.row_vectors import RowVectors
from threea.table.schema import Schema

# Of few votes of many teachers, one that turns shows in full.
OTHERWISE: dict[str, Any] = {"pategan": {"teachers": 60, "inputs": 2}}
PROVEN = [name for name in RECIPES if name != "auto" and RECIPES[name]().guarantee is Guarantee.PROVEN]
PLAIN = (Setting(),)
DISCOVERY = {KINDS, CATEGORIES, CLASSES}


def worst(questions: list[Question]) -> float:
    return max(question.worst for question in questions)


@pytest.mark.parametrize("name", PROVEN)
def test_no_question_changes_by_more_than_its_price_and_prices_are_tight(name: str) -> None:
    """Nor is noise added for nothing: some row reaches all but 1% of what each question is priced at.

    How a schema is found is the same for all, and a person of two rows does not reach its price: it is looked at below.
    """
    questions = replay(quick(name, **OTHERWISE.get(name, {})), among=list(settings(thorough=False)))
    assert {question.line for question in questions} > DISCOVERY
    for question in questions:
        assert not question.over, f"{question.line} changes by {question.worst} of its price: {question.where}"
        tight = question.tightest >= 0.99 or question.line in DISCOVERY
        assert tight, f"{question.line} reaches {question.tightest} of its price"


def test_prices_of_finding_a_schema_are_tight() -> None:
    questions = replay(Independent(), among=[Setting(engine="csv", known=False, adjacency=Adjacency.REPLACE)])
    assert {question.line for question in questions} > DISCOVERY
    assert [question.line for question in questions if question.tightest < 0.99] == []


@pytest.mark.parametrize("name", ["independent", "labeltree", "mst"])
def test_no_question_about_a_table_with_rules_changes_by_more_than_its_price(name: str) -> None:
    questions = replay(quick(name), among=[Setting(rules=True)])
    assert questions
    assert not [question.line for question in questions if question.over]


@pytest.mark.parametrize(
    "recipe", [MCGen(noise="laplace", k=0.3, iterations=1), RonGauss(noise="laplace", dimensions=2)]
)
def test_laplace_noise_pays_for_clusters_too(recipe: Recipe) -> None:
    questions = replay(recipe, among=PLAIN)
    assert all(not question.over and question.event == "Pure" for question in questions)
    assert {question.line for question in questions} >= {"moments"}
    assert all(question.tightest >= 0.99 for question in questions)


# Mutants, each caught the first time.


def test_noise_for_half_the_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(*arguments: Any) -> tuple[float, float]:
        scale, stddev = scale_of(*arguments)
        return scale / 2, stddev / 2

    monkeypatch.setattr("threea.anonymize.noisy_sum.scale_of", halved)
    assert worst(replay(Independent(), among=PLAIN)) == pytest.approx(2.0)


def test_a_question_asked_twice_for_one_charge_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = door.noisy_sum

    def twice(*arguments: Any) -> Any:
        ask(*arguments)
        return ask(*arguments)

    monkeypatch.setattr(door, "noisy_sum", twice)
    assert worst(replay(Independent(), among=PLAIN)) == pytest.approx(math.sqrt(2))


def rows_of(table: Any) -> pa.Table:
    """Read the rows beside the door, whatever engine holds them."""
    backend = table._interior.backend
    return (
        backend._rows
        if isinstance(backend, module._Sums)
        else pa.Table.from_batches(list(backend.batches(LAYOUT.names)))
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundsFromRows(Independent):
    """Reads the largest amount off the rows, and cuts the column there."""

    def run(self, table: Any, *arguments: Any, **options: Any) -> Any:
        amounts = rows_of(table)["amount"].to_numpy()
        largest = float(np.nanmax(np.where(np.isfinite(amounts), amounts, 0.0)))
        column = dataclasses.replace(table.schema["amount"], upper=largest)
        columns = tuple(column if each.name == "amount" else each for each in table.schema.columns)
        return super().run(table.described(dataclasses.replace(table.schema, columns=columns)), *arguments, **options)


def test_a_bound_read_from_the_rows_is_caught() -> None:
    assert worst(replay(BoundsFromRows(), among=PLAIN)) > 1.5


def test_rows_of_a_person_that_are_not_bounded_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "UnitBackend", lambda backend, unit, most, key: UnitBackend(backend, unit, 10**9, key))
    assert worst(replay(Independent(), among=[Setting(by_person=True)])) > 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class AsksByRows(Independent):
    """Asks with more bins where there are more rows."""

    def run(self, table: Any, *arguments: Any, **options: Any) -> Any:
        rows = len(rows_of(table))
        return Independent(bins=8 + rows % 2).run(table, *arguments, **options)


def test_a_question_that_follows_rows_is_caught() -> None:
    assert worst(replay(AsksByRows(), among=PLAIN)) == math.inf


def test_the_bound_of_a_lookup_is_imposed_whatever_shortens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that nothing shortened adds nothing, instead of too much."""
    for home in ("cluster_moments", "vectors"):
        monkeypatch.setattr(f"threea.anonymize.{home}.shortened", lambda vectors, *_: np.rint(vectors * 1e6))
    asked = [(query, Norm.L2) for query in (VECTORS, PRODUCTS, CLUSTERS, MOMENTS)] + [(MOMENTS, Norm.L1)]
    for query, norm in asked:
        step = grid_step(query, norm)
        pass_over = chunk_sum.ChunkSum(query, SCHEMA, step, norm)
        for batch in corners(20).to_batches(max_chunksize=1):
            added = pass_over(batch)[:-1].astype(float)
            assert np.linalg.norm(added, norm.power) <= norm.bound(query) / step


# Small domains, exhaustively.

DOMAIN = Schema.of(
    {
        "who": {"kind": "id"},
        "x": {"kind": "integer", "lower": 0, "upper": 2},
        "y": {"kind": "categorical", "categories": ["a", "b"]},
    },
    target="y",
)
X, Y = (DOMAIN[name].cells(8) for name in ("x", "y"))
VALUES = list(itertools.product([None, 0, 1, 2, 9], [None, "a", "b", "z"]))
BIG = SCHEMA["amount"].cells(8), SCHEMA["visits"].cells(8)
FRAME = Frame(
    cells=BIG,
    scores=tuple(tuple(range(-1000, -1000 + 200 * cells.size, 200)) for cells in BIG),
    grid=(2,),
    kept=(0, 1),
)
VECTORS = Vectors(frame=FRAME, radius=0.5, moment=Moment.SUMS)
PRODUCTS = Vectors(frame=FRAME, radius=0.5, moment=Moment.SECOND_MOMENTS)
SPACE = Scores(cells=BIG, tables=tuple(np.arange(-300, -300 + 100 * cells.size, 100)[:, None] for cells in BIG))
CLUSTERS = ClusterMoments(
    space=SPACE,
    centroids=np.array([[-300, 0], [300, 200]]),
    classes=(0, 0),
    summed=SPACE,
    radius=0.5,
    weights=(1.0, 0.5),
)
MOMENTS = ClusterMoments(
    space=SPACE,
    centroids=np.array([[-300, 0], [300, 200]]),
    classes=(0, 0),
    summed=SPACE,
    radius=0.5,
    weights=(0.5, 1.0, 2.0),
)
SMALL = Scores(cells=(X,), tables=(np.arange(X.size)[:, None] * 100 - 150,))
SMALL_FRAME = Frame(cells=(X,), scores=(tuple(range(-600, -600 + 400 * X.size, 400)),), grid=(1,), kept=(0,))


def _pair(chunk: Any) -> Any:
    return np.nan_to_num(chunk["x"])[:, None] * [3.0, -4.0]


PAIRS = Features(function=_pair, columns=("x",), shape=(2,), l2=5.0, l1=7.0)
HALVES = np.array([[-100], [100]])
QUERIES = {
    "count": Count(),
    "marginal": Marginal((X, Y)),
    "features": PAIRS,
    "grouped": Grouped(Y, PAIRS),
    "stack": Stack((Count(), Marginal((X,)), PAIRS)),
    "gradient": Gradient(Y, (0, 1), (X,), np.linspace(-2, 2, 2 * X.size).reshape(2, -1), (1.0, 0.5), 0.7),
    "wave gradient": WaveGradient(
        Y,
        (0, 1),
        WaveLogits(SMALL, np.linspace(-2, 2, 2 * X.size).reshape(2, -1), np.array([[900, -4096]]), np.ones((2, 4))),
        (1.0, 0.5),
        0.7,
    ),
    "score gradient": ScoreGradient(
        X, np.linspace(-1, 2, 2 * X.size).reshape(-1, 2), np.zeros(X.size), (X, Y), np.ones((2, X.size + Y.size)), 0.7
    ),
    "sums": Vectors(frame=SMALL_FRAME, radius=0.3, moment=Moment.SUMS, by=Y),
    "squares": Vectors(frame=SMALL_FRAME, radius=0.3, moment=Moment.POWER),
    "products": Vectors(frame=SMALL_FRAME, radius=0.3, moment=Moment.SECOND_MOMENTS),
    "lengths": Lengths(frame=SMALL_FRAME, edges=(0.1, 0.4)),
    "clusters": ClusterMoments(
        space=SMALL, centroids=HALVES, classes=(0, 1), summed=SMALL, radius=0.4, weights=(1.0, 0.4), by=Y
    ),
    "moments of clusters": ClusterMoments(
        space=SMALL, centroids=HALVES, classes=(0, 1), summed=SMALL, radius=0.4, weights=(0.3, 1.0, 1.0), by=Y
    ),
    "mean embedding": MeanEmbedding(scores=SMALL, frequencies=np.array([[900, -4096]]), by=Y),
    "slots": SlotSums(
        inputs=RowVectors.of((DOMAIN["x"],)).columns, counts=(2, 3), radius=0.4, by=Merged(cells=Y, groups=(0, 1, 1))
    ),
}  # fmt: skip


def batch(rows: Any) -> pa.RecordBatch:
    who = pa.array([f"p{number}" for number in range(len(rows))], pa.string())
    columns = [who, pa.array([x for x, _ in rows], pa.int64()), pa.array([y for _, y in rows], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["who", "x", "y"])


@pytest.mark.parametrize("name", QUERIES)
def test_all_tables_of_a_small_domain(name: str) -> None:
    """The sum over every table of up to 3 rows is that of its rows, and no row adds more than is paid for."""
    query = QUERIES[name]
    for norm in (Norm.L2, Norm.L1) if math.isfinite(query.l1) else (Norm.L2,):
        step, order = grid_step(query, norm), 1 if norm is Norm.L1 else 2
        function = chunk_sum.ChunkSum(query, DOMAIN, step, norm)
        alone = {row: function(batch([row])) for row in VALUES}
        exact = {row: sums[:-1].astype(float) for row, sums in alone.items()}
        event = Pure(1.0) if norm is Norm.L1 else Gaussian(1.0)
        added, replaced = (scale_of(query, event, adjacency, 1)[0] * (1 + 1e-12) for adjacency in Adjacency)
        assert all(np.linalg.norm(row, order) <= added for row in exact.values())
        pairs = itertools.product(exact.values(), exact.values())
        assert all(np.linalg.norm(row - other, order) <= replaced for row, other in pairs)
        assert max(np.linalg.norm(row, order) for row in exact.values()) >= 0.5 * norm.bound(query) / step
        for count in (0, 2, 3):
            for rows in itertools.combinations_with_replacement(VALUES, count):
                together = function(batch(rows))
                np.testing.assert_array_equal(together, sum((alone[row] for row in rows), np.zeros_like(together)))


def test_neighbours_differ_in_one_unit() -> None:
    base = table()
    for adjacency, by_person in itertools.product(Adjacency, (False, True)):
        for neighbour in neighbours(base, adjacency, by_person=by_person):
            people = [set(rows["person"].to_pylist()) for rows in (base, neighbour.rows)]
            if by_person:
                assert len(people[0] ^ people[1]) == (2 if adjacency is Adjacency.REPLACE else 1)
            else:
                difference = neighbour.rows.num_rows - base.num_rows
                assert abs(difference) == (0 if adjacency is Adjacency.REPLACE else 1)


def test_thorough_settings_cover_what_is_claimed() -> None:
    every = list(settings())
    assert {setting.engine for setting in every} == {"memory", "parquet", "csv"}
    tried = {(setting.adjacency, setting.by_person, setting.known) for setting in every}
    assert tried == set(itertools.product(Adjacency, (False, True), (False, True)))
