"""Tables for the laws: rows of the nastiest values that their types can hold, behind a real door."""

import math
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from threea.anonymize.accountant import Line
from threea.anonymize.cluster_moments import ClusterMoments
from threea.anonymize.cluster_sums import MOST_SCORE as MOST_CLUSTER_SCORE
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian
from threea.anonymize.gradient import Gradient
from threea.anonymize.interior import Interior
from threea.anonymize.mean_embedding import MOST_FREQUENCY, MeanEmbedding
from threea.anonymize.network_gradient import NetworkGradient, aligned
from threea.anonymize.plan import Plan
from threea.anonymize.projection import Projection
from threea.anonymize.query import Count, Features, Grouped, Marginal, Stack
from threea.anonymize.score_gradient import ScoreGradient
from threea.anonymize.score_histogram import ScoreHistogram, Trees
from threea.anonymize.slot_sums import SlotSums
from threea.anonymize.spending import Unit
from threea.anonymize.vectors import MOST_SCORE, Frame, Lengths, Moment, Vectors
from threea.anonymize.wave_gradient import WaveGradient, WaveLogits
from threea.backends.memory import MemoryBackend
from threea.backends.units import UnitBackend
from threea.budget import Adjacency, Budget
from threea.table.calendar_cells import LABELS, CalendarCells
from threea.table.cells import Digits, Merged
from threea.table.row_vectors import RowVectors
from threea.table.schema import Schema
from threea.testing import SilentNoise

KEY = bytes(range(32))

# What a schema says and what a column's type can hold differ on purpose: text where numbers are due, numbers where
# text is, moments for dates.
LAYOUT = pa.schema(
    [
        ("person", pa.string()),
        ("number", pa.float64()),
        ("whole", pa.string()),
        ("cost", pa.float32()),
        ("ward", pa.string()),
        ("code", pa.int64()),
        ("flag", pa.string()),
        ("day", pa.timestamp("us")),
    ]
)
SCHEMA = Schema.of(
    {
        "person": {"kind": "id"},
        "number": {"kind": "real", "lower": -1.0, "upper": 2.0, "special": [0.0]},
        "whole": {"kind": "integer", "lower": 0, "upper": 7},
        "cost": {"kind": "real", "lower": 0.5, "upper": 1e30, "log": True, "nullable": False},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "code": {"kind": "categorical", "categories": ["1", "2"], "open_ended": True},
        "flag": {"kind": "boolean", "nullable": False},
        "day": {"kind": "date", "lower": "2020-01-01", "upper": "2021-01-01"},
    }
)

_FLOATS = [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, -1.0, 2.0, 1.0, 0.3]
_TEXT_NUMBERS = [
    None,
    "",
    "3",
    " 4 ",
    "7.9",
    "-1",
    "1e308",
    "-1e999",
    "inf",
    "nan",
    "NaN",
    "many",
    "٣",
    "0x1",
    "+5",
    ".",
]
_MOMENTS = [None, datetime(2020, 7, 1), datetime(1, 1, 1), datetime(9999, 12, 31), datetime(2020, 1, 1, 23, 59)]

ROWS = st.fixed_dictionaries(
    {
        "person": st.sampled_from([None, "", "p", "q", "r", "s"]),
        "number": st.one_of(st.sampled_from(_FLOATS), st.floats()),
        "whole": st.one_of(st.sampled_from(_TEXT_NUMBERS), st.text(max_size=3)),
        "cost": st.sampled_from([None, math.nan, math.inf, -math.inf, 0.0, -3.0, 1e38, 1e-45, 12.5]),
        "ward": st.one_of(st.sampled_from([None, "a", "b", "c", "A", "other", "z", "", "1"]), st.text(max_size=2)),
        "code": st.sampled_from([None, 0, 1, 2, 3, -1, 2**63 - 1, -(2**63)]),
        "flag": st.sampled_from([None, "true", "F", "yes", "0", "1.0", "perhaps", ""]),
        "day": st.sampled_from(_MOMENTS),
    }
)


def arrow(rows):
    """Return rows as an Arrow table of the laws' layout."""
    return pa.Table.from_pylist(list(rows), schema=LAYOUT)


@dataclass
class OpenSpending:
    """Takes every charge: the laws here are about sums, and `tests/anonymize` is about payment."""

    budget: Budget
    exposed: tuple[str, ...] = ()
    foreign: dict = field(default_factory=dict)

    def pay(self, charge):
        return charge.event

    def answered(self, charge, question, ask, *, sized=True):
        self.pay(charge)
        return ask()


def private(rows, *, adjacency=Adjacency.ADD_REMOVE, max_rows=None, noise=None, backend=None):
    """Put rows behind a door; with `max_rows`, column `person` names the unit."""
    inner = backend or MemoryBackend(arrow(rows))
    unit = Unit() if max_rows is None else Unit("person", max_rows)
    interior = Interior(
        backend=inner if max_rows is None else UnitBackend(inner, "person", max_rows, KEY),
        schema=SCHEMA,
        spending=OpenSpending(Budget(1.0, 1e-6, adjacency)),
        noise=noise or SilentNoise(),
        unit=unit,
        accept_unproven=False,
        key=KEY,
        restore=lambda table: table,
    )
    return PrivateTable(interior)


def charge(event=None, adjacency=Adjacency.ADD_REMOVE):
    """Return a charge that pays for one event."""
    event = event or Gaussian(1.0)
    return Plan(Budget(1.0, 1e-6, adjacency), (Line("step", event),))["step"]


def _first(chunk):
    return np.nan_to_num(chunk["number"], nan=0.5)


def _smooth(chunk):
    """Return well-behaved vectors, a few of them longer than any bound asked for here."""
    return np.column_stack([np.sin(_first(chunk) * factor) * factor for factor in range(1, 6)])


def _holes(chunk):
    """Return not-a-number and infinities among finite numbers."""
    vectors = _smooth(chunk)
    vectors[chunk["ward"] == 0, 1] = np.nan
    vectors[chunk["ward"] == 1, 2] = np.inf
    vectors[chunk["ward"] == 2, 3] = -np.inf
    return vectors


def _enormous(chunk):
    """Return vectors whose squares overflow, with entries at both ends of the float range."""
    return np.sign(_smooth(chunk)) * np.array([1.7e308, 1e308, 1e200, 1.0, 5e-324])


def _minute(chunk):
    """Return vectors whose squares underflow."""
    return _smooth(chunk) * 5e-324


def _edge(chunk):
    """Return vectors exactly as long as the bound 1, along one axis or another, or along all."""
    axes = np.vstack([np.eye(5), np.full((1, 5), 1 / math.sqrt(5))])
    return axes[(chunk["ward"] + chunk["code"]) % 6] * np.where(_first(chunk) > 0, 1.0, -1.0)[:, None]


def _by_column(chunk):
    """Return vectors stored column by column, as many functions do."""
    return np.asfortranarray(_smooth(chunk))


FUNCTIONS = [_smooth, _holes, _enormous, _minute, _edge, _by_column]


def _features(function, l2, nonnegative):
    return Features(
        function=function, columns=("number", "ward", "code"), shape=(5,), l2=l2, l1=2 * l2, nonnegative=nonnegative
    )


_NUMBERS = tuple(SCHEMA[name] for name in ("number", "whole", "cost", "day"))
_PLAIN = [column.cells(3) for column in SCHEMA.modelled]
_MERGED = [Merged(cells=cells, groups=tuple(n // 2 for n in range(cells.size))) for cells in _PLAIN]
_CELLS = st.sampled_from([*_PLAIN, *_MERGED])
_CALENDARS = [
    CalendarCells(column=column.name, part=part, moments=moments, special=column.special)
    for column in _NUMBERS
    for part in LABELS
    for moments in (False, True)
]
_COUNTED = st.sampled_from([*_PLAIN, *_MERGED, *(Digits(column=column.name) for column in _NUMBERS), *_CALENDARS])
_WEIGHTS = [0.0, 0.7, -1.3, 12.0, 30.0, -1e308, math.inf, -math.inf, math.nan, 5e-324]


@st.composite
def _gradients(draw):
    """Make gradients of extreme weights, some for classes that the rows may not have."""
    label = draw(_CELLS.filter(lambda cells: cells.size > 1))
    classes = tuple(draw(st.permutations(range(label.size)))[: draw(st.integers(2, label.size))])
    cells = tuple(draw(st.lists(_CELLS, min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    weights = rng.choice(_WEIGHTS, (len(classes), sum(each.size for each in cells)))
    class_weights = tuple(draw(st.sampled_from([1.0, 1 / 3, 0.01])) for _ in classes)
    return Gradient(label, classes, cells, weights, class_weights, draw(st.sampled_from([2.0, 1.0, 0.7, 0.05])))


@st.composite
def _wave_gradients(draw):
    """Make gradients over waves of extreme weights, amplitudes and frequencies."""
    label = draw(_CELLS.filter(lambda cells: cells.size > 1))
    classes = tuple(draw(st.permutations(range(label.size)))[: draw(st.integers(2, label.size))])
    space = draw(_cluster_sums()).space
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    phases = draw(st.sampled_from([1, 3, 40]))
    logits = WaveLogits(
        space,
        rng.choice(_WEIGHTS, (len(classes), sum(cells.size for cells in space.cells))),
        rng.integers(-MOST_FREQUENCY, MOST_FREQUENCY + 1, (space.width, phases)),
        rng.choice(_WEIGHTS, (len(classes), 2 * phases)),
    )
    class_weights = tuple(draw(st.sampled_from([1.0, 1 / 3, 0.01])) for _ in classes)
    return WaveGradient(label, classes, logits, class_weights, draw(st.sampled_from([2.0, 1.0, 0.7, 0.05])))


@st.composite
def _score_gradients(draw):
    """Make gradients of extreme weights and scores, some for labels without scores."""
    label = draw(_CELLS.filter(lambda cells: cells.size > 1))
    cells = tuple(draw(st.lists(_CELLS, min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    scores = rng.choice([0.0, 1.0, -8.0, 8.0, 2.0**-12, 0.3], (label.size, draw(st.integers(1, 3))))
    scores[2:][rng.random(label.size - 2) < 0.3] = np.nan
    weights = rng.choice(_WEIGHTS, (scores.shape[1], sum(each.size for each in cells)))
    biases = rng.choice(_WEIGHTS, label.size)
    return ScoreGradient(label, scores, biases, cells, weights, draw(st.sampled_from([64.0, 1.0, 0.3, 2.0**-10])))


@st.composite
def _score_histograms(draw):
    """Make trees of any bits, also such as leave a row no leaf or several, and scores at their cuts."""
    cells = tuple(draw(st.lists(_CELLS, min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    trees, leaves = draw(st.integers(0, 4)), draw(st.sampled_from([1, 3, 62]))
    reachable = rng.integers(-(1 << 62), 1 << 62, (trees, sum(each.size for each in cells)))
    values = rng.integers(-1, 2, (trees, leaves)) * draw(st.sampled_from([1, 1 << 40]))
    outputs = draw(st.sampled_from([1, 1, 3]))
    cuts = draw(st.sampled_from([(), (0,), (-2, -1, 1), (-(1 << 41), 1 << 40)])) if outputs == 1 else ()
    return ScoreHistogram(draw(_CELLS), Trees(cells, reachable, values, outputs), cuts)


@st.composite
def _frames(draw):
    """Make coordinates of all columns, in one line."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    largest = draw(st.sampled_from([1, 1000, MOST_SCORE]))
    scores = tuple(tuple(int(s) for s in rng.integers(-largest, largest + 1, cells.size)) for cells in _PLAIN)
    kept = draw(st.lists(st.integers(0, len(_PLAIN) - 1), min_size=1, unique=True))
    return Frame(cells=tuple(_PLAIN), scores=scores, grid=(len(_PLAIN),), kept=tuple(kept))


@st.composite
def _cluster_sums(draw):
    """Make clusters of extreme or equal centroids, some of classes that the rows may not have."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    largest = draw(st.sampled_from([0, 1, 300, MOST_CLUSTER_SCORE]))

    def scores(cells):
        widths = rng.integers(0, 3, len(cells))
        widths[0] += 1
        return Scores(
            tuple(cells),
            tuple(rng.integers(-largest, largest + 1, (c.size, w)) for c, w in zip(cells, widths, strict=True)),
        )

    space, summed = (scores(draw(st.lists(_CELLS, min_size=1, max_size=4))) for _ in range(2))
    label = draw(st.one_of(st.none(), _CELLS))
    classes = tuple(rng.integers(0, label.size if label else 1, draw(st.integers(1, 6))).tolist())
    centroids = rng.integers(-largest, largest + 1, (len(classes), space.width))
    radius = draw(st.sampled_from([2.0**-20, 0.1, 1.0, 7.3, 2.0**20]))
    return ClusterMoments(
        space=space,
        centroids=centroids,
        classes=classes,
        summed=summed,
        radius=radius,
        weights=(1.0, radius),
        by=label,
    )


@st.composite
def _cluster_moments(draw):
    """Make the same clusters with products, of scores or of projections."""
    sums = draw(_cluster_sums())
    summed = sums.summed
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        basis = rng.integers(-(1 << 14), (1 << 14) + 1, (summed.width, draw(st.integers(1, summed.width))))
        summed = Projection(summed, basis)
    weights = draw(st.sampled_from([(1.0, 1.0, 1.0), (0.2, 1.0, 3.0), (2.0**-20, 7.0, 0.1), (1.0, 0.3)]))
    return replace(sums, summed=summed, weights=weights)


def critic(layers, row):
    """Return the score of a small network."""
    from jax import numpy

    (first, before), (second, after) = layers
    return (numpy.tanh(row @ first + before) @ second + after).sum()


_INPUTS = RowVectors.of(tuple(SCHEMA[name] for name in ("number", "whole", "cost", "ward", "code", "day"))).columns
_INPUT_WIDTH = aligned(sum(part.size for part in _INPUTS) + _PLAIN[5].size)


@st.composite
def _network_gradients(draw):
    """Make gradients of small networks, some of whose weights are of no use."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    scale = draw(st.sampled_from([0.0, 0.3, 30.0, 1e30]))
    layers = [(rng.normal(0, scale, shape), np.zeros(shape[1])) for shape in ((_INPUT_WIDTH, 3), (3, 1))]
    layers[0][0][0, 0] = draw(st.sampled_from([0.5, np.inf, np.nan, 1e38]))
    l2 = draw(st.sampled_from([2.0**-40, 1e-3, 1.0, math.pi, 2.0**40]))
    return NetworkGradient(
        function=critic,
        layers=tuple((weights.astype(np.float32), biases.astype(np.float32)) for weights, biases in layers),
        inputs=_INPUTS,
        label=_PLAIN[5],
        l2=l2,
        l1=min(2 * l2, 2.0**40),
    )


@st.composite
def _mean_embeddings(draw):
    """Make random features of extreme scores and frequencies."""
    sums = draw(_cluster_sums())
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    most = draw(st.sampled_from([0, 1, 4096, MOST_FREQUENCY]))
    frequencies = rng.integers(-most, most + 1, (sums.summed.width, draw(st.integers(1, 9))))
    return MeanEmbedding(scores=sums.summed, frequencies=frequencies, by=sums.by)


@st.composite
def _slot_sums(draw):
    """Make slots of some classes, one or a few each."""
    label = draw(st.one_of(st.none(), _CELLS))
    counts = tuple(draw(st.sampled_from([1, 2, 5])) for _ in range(label.size if label else 1))
    names = draw(st.lists(st.sampled_from([c.name for c in SCHEMA.modelled]), min_size=1, max_size=4, unique=True))
    inputs = RowVectors.of(tuple(SCHEMA[name] for name in names)).columns
    radius = draw(st.sampled_from([2.0**-20, 0.1, 1.0, 7.3, 2.0**20]))
    return SlotSums(inputs=inputs, counts=counts, radius=radius, by=label)


_LEAVES = {
    Count: st.just(Count()),
    Marginal: st.lists(_COUNTED, min_size=1, max_size=3, unique=True).map(lambda cells: Marginal(tuple(cells))),
    Features: st.builds(
        _features, st.sampled_from(FUNCTIONS), st.sampled_from([1.0, 0.1, math.pi, 1e-200, 1e200]), st.booleans()
    ),
}
_GROUPED = st.builds(Grouped, _CELLS, st.one_of(*_LEAVES.values()))
_EXACT = {
    Gradient: _gradients(),
    WaveGradient: _wave_gradients(),
    ScoreGradient: _score_gradients(),
    ClusterMoments: st.one_of(_cluster_sums(), _cluster_moments()),
    MeanEmbedding: _mean_embeddings(),
    SlotSums: _slot_sums(),
    Vectors: st.builds(
        Vectors,
        frame=_frames(),
        radius=st.sampled_from([1e-9, 0.5, 1.0, 1e9]),
        moment=st.sampled_from(list(Moment)),
        by=st.sampled_from([None, *_PLAIN]),
    ),
}
_LENGTHS = st.builds(Lengths, frame=_frames(), edges=st.sampled_from([(), (1.0,), (0.0, 0.5, 1.0, 4.0)]))
QUERIES = {
    **_LEAVES,
    **_EXACT,
    Lengths: _LENGTHS,
    ScoreHistogram: _score_histograms(),
    Grouped: _GROUPED,
    NetworkGradient: _network_gradients(),
    # Bounds of one scale: a stack shares one grid, on which far smaller bounds would vanish.
    Stack: st.lists(
        st.one_of(
            _LEAVES[Count],
            _LEAVES[Marginal],
            _LENGTHS,
            _score_histograms(),
            *_EXACT.values(),
            _GROUPED.filter(lambda grouped: 0.01 < grouped.l2 < 100),
            st.builds(_features, st.sampled_from(FUNCTIONS), st.sampled_from([1.0, 0.1, math.pi]), st.booleans()),
        ),
        min_size=1,
        max_size=4,
    ).map(lambda queries: Stack(tuple(queries))),
}
"""For each class of query, a strategy that makes some."""
