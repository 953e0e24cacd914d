"""The law of every query: whatever a row holds, adding, removing or replacing it moves the sum by the bound at most.

Sums are compared as whole numbers on the door's grid, and bounds as exact fractions: nothing here is approximate.
"""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import zlib
from fractions import Fraction
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from nasty import QUERIES, ROWS, SCHEMA, arrow, charge, private

from threea import anonymize
from threea.anonymize.clipping import Norm, clipped_sum, grid_step
from threea.anonymize.events import Gaussian, Pure, Sampled
from threea.anonymize.lookup_sums import LookupSum
from threea.anonymize.noise import SMOOTHING, SecureNoise
from threea.anonymize.query import Features, Grouped, Marginal, Query, Rows, Stack
from threea.anonymize.selection import SCORE_STEP, QualityScores
from threea.backends.memory import MemoryBackend
from threea.budget import Adjacency, choice_range
from threea.table import codec
from threea.testing import SilentNoise

TABLES = st.lists(ROWS, max_size=6)
KINDS = pytest.mark.parametrize("kind", QUERIES, ids=lambda kind: kind.__name__)
ADJACENCIES = st.sampled_from(list(Adjacency))
LAW = settings(
    max_examples=30,
    deadline=None,
    # Rows of this size shrink for minutes and end up no clearer.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_every_kind_of_query_is_under_the_law():
    modules = [
        importlib.import_module(f"{anonymize.__name__}.{found.name}")
        for found in pkgutil.iter_modules(anonymize.__path__)
    ]
    concrete = {
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Query) and dataclasses.is_dataclass(kind)
    }
    assert concrete == set(QUERIES)


def bound(query, norm):
    """Return the exact bound on one row: the square of its L2 norm, or its L1 norm."""
    if isinstance(query, Stack):
        return sum(bound(part, norm) for part in query.queries)
    if isinstance(query, Grouped):
        return bound(query.query, norm)
    return Fraction(query.l2) ** 2 if norm == "l2" else Fraction(query.l1)


def moved(before, after, norm):
    """Return how far the integers moved: the square of the L2 distance, or the L1 distance."""
    steps = [int(b) - int(a) for a, b in zip(before.tolist(), after.tolist(), strict=True)]
    return sum(step * step for step in steps) if norm == "l2" else sum(abs(step) for step in steps)


def apart(query, adjacency, norm):
    """Return by how many bounds two neighbours' sums may differ, squared for L2."""
    if adjacency is Adjacency.ADD_REMOVE:
        return 1
    if norm == "l1":
        return 2
    return 2 if query.nonnegative else 4


@dataclasses.dataclass
class Pair:
    """Two neighbouring tables."""

    before: list
    after: list


@st.composite
def neighbours(draw, adjacency):
    """Make two tables that differ in one row."""
    rows, place = draw(TABLES), draw(st.integers(0, 6))
    one, other = draw(ROWS), draw(ROWS)
    more = [*rows[:place], one, *rows[place:]]
    if adjacency is Adjacency.REPLACE:
        return Pair(more, [*rows[:place], other, *rows[place:]])
    return Pair(rows, more) if draw(st.booleans()) else Pair(more, rows)


@st.composite
def neighbours_by_person(draw, adjacency):
    """Make two tables, shuffled, that differ in all rows of one person."""
    others = [row for row in draw(TABLES) if row["person"] != "p"] or [{**draw(ROWS), "person": "q"}]

    def person():
        return [{**row, "person": "p"} for row in draw(st.lists(ROWS, min_size=1, max_size=5))]

    more = draw(st.permutations([*others, *person()]))
    if adjacency is Adjacency.REPLACE:
        return Pair(more, draw(st.permutations([*others, *person()])))
    fewer = draw(st.permutations(others))
    return Pair(fewer, more) if draw(st.booleans()) else Pair(more, fewer)


class Witness(SilentNoise):
    """Adds nothing, and keeps the whole numbers it was to add noise to."""

    def __init__(self):
        self.sums, self.scale = None, None

    def gaussian(self, sums, scale):
        self.sums, self.scale = sums, scale
        return sums

    laplace = gaussian

    def choose(self, scores, scale):
        self.sums, self.scale = scores, scale
        return super().choose(scores, scale)

    exponential = choose


def seen(rows, query, event, adjacency, max_rows=None):
    """Return the door's whole numbers for a table, having checked that the answer is made of them."""
    witness = Witness()
    table = private(rows, adjacency=adjacency, max_rows=max_rows, noise=witness)
    answer = table.measure(query, charge(event, adjacency))
    step = grid_step(query, Norm.L1 if isinstance(event, Pure) else Norm.L2)
    assert [Fraction(value) for value in answer.value.ravel().tolist()] == [
        Fraction(int(whole)) * Fraction(step) for whole in witness.sums.tolist()
    ]
    return witness.sums


def check(pair, query, event, adjacency, max_rows=None):
    norm = "l1" if isinstance(event, Pure) else "l2"
    power = 1 if norm == "l1" else 2
    step = Fraction(grid_step(query, Norm(norm)))
    before, after = (seen(rows, query, event, adjacency, max_rows) for rows in (pair.before, pair.after))
    allowed = bound(query, norm) * apart(query, adjacency, norm) * ((max_rows or 1) / step) ** power
    assert moved(before, after, norm) <= allowed


def events(query):
    """Return those that can pay for a query: Laplace noise needs a bound in L1."""
    return st.sampled_from([Gaussian(1.0), Pure(1.0)] if math.isfinite(query.l1) else [Gaussian(1.0)])


def by_l1(query):
    return st.booleans() if math.isfinite(query.l1) else st.just(False)


@KINDS
@LAW
@given(data=st.data())
def test_a_row_moves_the_sum_by_at_most_the_bound(kind, data):
    adjacency = data.draw(ADJACENCIES)
    query = data.draw(QUERIES[kind])
    check(data.draw(neighbours(adjacency)), query, data.draw(events(query)), adjacency)


@KINDS
@LAW
@given(data=st.data(), max_rows=st.integers(1, 4))
def test_a_person_moves_the_sum_by_at_most_max_rows_bounds(kind, data, max_rows):
    adjacency = data.draw(ADJACENCIES)
    pair, query = data.draw(neighbours_by_person(adjacency)), data.draw(QUERIES[kind])
    check(pair, query, data.draw(events(query)), adjacency, max_rows)


def alone(query, row, step, *, l1):
    """Return what one row adds, in grid steps."""
    return clipped_sum(query, Rows(codec.encode(arrow([row]), SCHEMA), 1), step=step, norm=Norm.L1 if l1 else Norm.L2)


@KINDS
@LAW
@given(data=st.data(), row=ROWS)
def test_one_row_alone_is_within_the_bound(kind, data, row):
    query = data.draw(QUERIES[kind])
    l1 = data.draw(by_l1(query))
    norm = "l1" if l1 else "l2"
    step = grid_step(query, Norm(norm))
    sums = alone(query, row, step, l1=l1)
    assert sums.shape == (query.size,)
    assert sums.dtype == np.int64
    assert moved(np.zeros_like(sums), sums, norm) <= bound(query, norm) / Fraction(step) ** (1 if l1 else 2)
    parts = query.queries if isinstance(query, Stack) else (query,)
    if query.nonnegative and not any(isinstance(part, LookupSum) for part in parts):
        assert sums.min() >= 0


@KINDS
@LAW
@given(data=st.data(), rows=st.lists(ROWS, min_size=2, max_size=4))
def test_contributions_said_not_to_point_apart_do_not(kind, data, rows):
    query = data.draw(QUERIES[kind])
    sums = [alone(query, row, grid_step(query, Norm.L2), l1=False).tolist() for row in rows]
    products = [sum(a * b for a, b in zip(one, other, strict=True)) for one in sums for other in sums]
    assert min(products) >= 0 or not query.nonnegative


class OpenDp:
    """Stands in for OpenDP's constructors: keeps the scale of the noise asked for, and adds none."""

    def __init__(self):
        self.scale, self.values = None, None

    def __call__(self, domain, metric, *measure, scale):
        def measurement(values):
            self.scale, self.values = scale, values
            return values if not measure else 0

        return measurement


def asked_of_opendp(constructor, act):
    """Act with the secure noise, OpenDP's sampler apart; return the exact scale and whole numbers it was given."""
    opendp = OpenDp()
    # Rounded noise, of many numbers, is given the same scale; its own tests say so.
    few = mock.patch("threea.anonymize.noise.MANY", math.inf)
    with few, mock.patch(f"opendp.measurements.{constructor}", opendp):
        act(SecureNoise())
    return Fraction(opendp.scale), np.array(opendp.values, dtype=np.int64)


@KINDS
@LAW
@given(data=st.data(), multiplier=st.floats(1e-3, 1e3), max_rows=st.sampled_from([None, 1, 3]))
def test_gaussian_noise_is_as_wide_as_the_event_says(kind, data, multiplier, max_rows):
    """What OpenDP is asked for, less the smoothing, is at least the noise multiplier times the true distance."""
    adjacency, query = data.draw(ADJACENCIES), data.draw(QUERIES[kind])
    pair = data.draw((neighbours if max_rows is None else neighbours_by_person)(adjacency))

    def measured(rows):
        def act(noise):
            table = private(rows, adjacency=adjacency, max_rows=max_rows, noise=noise)
            table.measure(query, charge(Gaussian(multiplier), adjacency))

        return asked_of_opendp("make_gaussian", act)

    (scale, before), (again, after) = measured(pair.before), measured(pair.after)
    assert scale == again
    distance = moved(before, after, "l2")
    assert distance * Fraction(multiplier) ** 2 <= scale**2 - Fraction(SMOOTHING) ** 2


def has_l1(query):
    return math.isfinite(query.l1)


@pytest.mark.parametrize(
    "kind", [kind for kind in QUERIES if getattr(kind, "l1", None) != math.inf], ids=lambda k: k.__name__
)
@LAW
@given(data=st.data(), epsilon=st.floats(1e-3, 1e2), max_rows=st.sampled_from([None, 1, 3]))
def test_laplace_noise_is_as_wide_as_the_event_says(kind, data, epsilon, max_rows):
    adjacency, query = data.draw(ADJACENCIES), data.draw(QUERIES[kind].filter(has_l1))
    pair = data.draw((neighbours if max_rows is None else neighbours_by_person)(adjacency))

    def measured(rows):
        def act(noise):
            table = private(rows, adjacency=adjacency, max_rows=max_rows, noise=noise)
            table.measure(query, charge(Pure(epsilon), adjacency))

        return asked_of_opendp("make_laplace", act)

    (scale, before), (_, after) = measured(pair.before), measured(pair.after)
    assert moved(before, after, "l1") <= scale * Fraction(epsilon)


MARGINALS = st.lists(QUERIES[Marginal].filter(lambda marginal: marginal.size <= 1_000), min_size=1, max_size=4)
EXPECTED = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, 0.5, 1e6, -1e6, 2.0**-11]))


@LAW
@given(data=st.data(), epsilon=st.floats(1e-3, 1e2), max_rows=st.sampled_from([None, 1, 3]), adjacency=ADJACENCIES)
def test_a_choice_is_as_random_as_the_event_says(data, epsilon, max_rows, adjacency):
    """Scores move by d, and the scale is at least 2 d / epsilon: permute-and-flip is then epsilon-DP."""
    marginals = tuple(data.draw(MARGINALS))
    expected = tuple(
        tuple(data.draw(st.lists(EXPECTED, min_size=marginal.size, max_size=marginal.size))) for marginal in marginals
    )
    penalties = tuple(data.draw(st.one_of(st.just([]), st.lists(EXPECTED, min_size=(n := len(marginals)), max_size=n))))
    among = data.draw(st.one_of(st.none(), st.lists(st.integers(0, len(marginals) - 1), min_size=1)))
    pair = data.draw((neighbours if max_rows is None else neighbours_by_person)(adjacency))

    def scored(rows):
        def act(noise):
            table = private(rows, adjacency=adjacency, max_rows=max_rows, noise=noise)
            table.select(QualityScores(marginals, expected, penalties), charge(Pure(epsilon), adjacency), among)

        return asked_of_opendp("make_noisy_max", act)

    (scale, before), (_, after) = scored(pair.before), scored(pair.after)
    assert len(before) == len(marginals if among is None else among)
    furthest = max(abs(int(b) - int(a)) for a, b in zip(before, after, strict=True))
    replaced = 2 if adjacency is Adjacency.REPLACE else 1
    assert furthest <= (max_rows or 1) * replaced / Fraction(SCORE_STEP)
    assert 2 * furthest <= scale * Fraction(epsilon)


@LAW
@given(data=st.data(), multiplier=st.floats(1e-2, 1e2), max_rows=st.sampled_from([None, 1, 3]), adjacency=ADJACENCIES)
def test_a_choice_priced_as_gaussian_has_losses_within_its_range(data, multiplier, max_rows, adjacency):
    """Scores move by d, and 2 d / scale is at most the range of losses that 1/multiplier-GDP covers."""
    marginals = tuple(data.draw(MARGINALS))
    expected = tuple(np.zeros(marginal.size) for marginal in marginals)
    weights = tuple(data.draw(st.lists(st.integers(1, 512), min_size=len(marginals), max_size=len(marginals))))
    pair = data.draw((neighbours if max_rows is None else neighbours_by_person)(adjacency))

    def scored(rows):
        def act(noise):
            table = private(rows, adjacency=adjacency, max_rows=max_rows, noise=noise)
            scores = QualityScores(marginals, expected, weights=weights)
            table.select(scores, charge(Gaussian(multiplier), adjacency))

        return asked_of_opendp("make_noisy_max", act)

    (scale, before), (_, after) = scored(pair.before), scored(pair.after)
    furthest = max(abs(int(b) - int(a)) for a, b in zip(before, after, strict=True))
    assert 2 * furthest <= scale * Fraction(choice_range(1 / multiplier))


@LAW
@given(data=st.data(), multiplier=st.floats(1e-2, 1e2), max_rows=st.sampled_from([None, 1, 3]), adjacency=ADJACENCIES)
def test_votes_move_by_at_most_what_the_event_says(data, multiplier, max_rows, adjacency):
    """The worst teacher: its ballot on every input hangs on every bit of its part's sums."""
    inputs = data.draw(st.integers(1, 4))
    query = data.draw(QUERIES[data.draw(st.sampled_from([Marginal, Features, Grouped]))])

    def teacher(sums, group):
        return (np.arange(inputs) + group + zlib.crc32(sums.tobytes())) % 3

    pair = data.draw((neighbours if max_rows is None else neighbours_by_person)(adjacency))

    def voted(rows):
        def act(noise):
            table = private(rows, adjacency=adjacency, max_rows=max_rows, noise=noise)
            paid = charge(Gaussian(multiplier), adjacency)
            table.vote(query, teacher, inputs=inputs, classes=3, parts=4, charge=paid)

        return asked_of_opendp("make_gaussian", act)

    (scale, before), (_, after) = voted(pair.before), voted(pair.after)
    assert moved(before, after, "l2") * Fraction(multiplier) ** 2 <= scale**2 - Fraction(SMOOTHING) ** 2


@KINDS
@LAW
@given(data=st.data(), multiplier=st.floats(1e-2, 1e2), max_rows=st.sampled_from([None, 1, 3]))
def test_noise_on_a_sample_covers_one_unit(kind, data, multiplier, max_rows):
    """Under either adjacency the accountant's pair is stated in units of one unit's own contribution."""
    query, adjacency = data.draw(QUERIES[kind]), data.draw(ADJACENCIES)
    pair = data.draw((neighbours if max_rows is None else neighbours_by_person)(Adjacency.ADD_REMOVE))

    def measured(rows):
        def act(noise):
            table = private(rows, adjacency=adjacency, max_rows=max_rows, noise=noise)
            table.sampled(1.0).measure(query, charge(Sampled(1.0, multiplier), adjacency))

        return asked_of_opendp("make_gaussian", act)

    (scale, before), (_, after) = measured(pair.before), measured(pair.after)
    assert moved(before, after, "l2") * Fraction(multiplier) ** 2 <= scale**2 - Fraction(SMOOTHING) ** 2


@KINDS
@LAW
@given(data=st.data(), rows=st.lists(ROWS, min_size=1, max_size=8))
def test_the_sum_is_the_same_however_the_rows_are_cut_and_ordered(kind, data, rows):
    query = data.draw(QUERIES[kind])
    l1 = data.draw(by_l1(query))
    step = grid_step(query, Norm.L1 if l1 else Norm.L2)

    def summed(part):
        return clipped_sum(
            query, Rows(codec.encode(arrow(part), SCHEMA), len(part)), step=step, norm=Norm.L1 if l1 else Norm.L2
        )

    cut = data.draw(st.integers(0, len(rows)))
    shuffled = data.draw(st.permutations(rows))
    whole = summed(rows)
    assert np.array_equal(whole, summed(shuffled[:cut]) + summed(shuffled[cut:]))
    assert np.array_equal(whole, sum(summed([row]) for row in rows))


def cut_in_two(rows, place):
    return MemoryBackend(pa.concat_tables([arrow(rows[:place]), arrow(rows[place:])]))


@KINDS
@LAW
@given(data=st.data(), rows=TABLES, place=st.integers(0, 6), max_rows=st.sampled_from([None, 2]))
def test_a_question_asked_again_has_the_same_sum(kind, data, rows, place, max_rows):
    """From memory, and after questions that left other cells there, as on a table that remembers nothing."""
    query, others = data.draw(QUERIES[kind]), data.draw(st.lists(QUERIES[Marginal], max_size=2))
    event = data.draw(events(query))
    expected = seen(rows, query, event, Adjacency.ADD_REMOVE, max_rows)
    witness = Witness()
    table = private(rows, max_rows=max_rows, noise=witness, backend=cut_in_two(rows, place))
    for asked in (query, *others, query, query):
        table.measure(asked, charge(event))
    assert np.array_equal(witness.sums, expected)
    known = table._interior.cache.recall(query.keys or ())
    # Of no rows there is nothing to keep.
    assert (known is not None) == bool(query.keys and rows)


class NobodyChosen(Witness):
    """Draws samples without anybody in them."""

    def bernoulli(self, rate, size):
        return np.zeros(size, np.bool_)


@KINDS
@LAW
@given(data=st.data(), rows=TABLES, max_rows=st.sampled_from([None, 2]))
def test_samples_take_nothing_from_memory_and_leave_nothing_there(kind, data, rows, max_rows):
    query, noise = data.draw(QUERIES[kind]), NobodyChosen()
    table = private(rows, max_rows=max_rows, noise=noise)
    expected = seen(rows, query, Gaussian(1.0), Adjacency.ADD_REMOVE, max_rows)
    for _ in range(2):
        table.sampled(0.5).measure(query, charge(Sampled(0.5, 1.0)))
        assert not noise.sums.any()
        table.measure(query, charge())
        assert np.array_equal(noise.sums, expected)
