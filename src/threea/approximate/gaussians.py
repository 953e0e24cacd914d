"""Wide numeric rows and images: a Gaussian per class in a public basis, moved to each column's own histogram.

Each column's cells are scored by where they lie between its bounds and centred by the noisy histogram. The scored row
is turned into coefficients of the discrete cosine transform (DCT; of an image's height and width, or along the
columns), whose length, power, class means and second moments are asked in turn. Samples
are drawn from the Gaussians, turned back, and moved to the columns' noisy histograms rank by rank: a Gaussian copula.
Memory: a matrix of columns times at most `most_coefficients` doubles, one of the square of these, and per class a
factor of at most `most_second_moments` squared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Count, Marginal, Stack
from threea.anonymize.vectors import BASIS_BITS, Frame, Lengths, Moment, Vectors, basis
from threea.approximate.column_shape import ColumnShape
from threea.approximate.conditioning import posterior, resampled
from threea.approximate.covariance_denoising import (
    denoised,
    second_moment,
    shrunk_covariances,
    shrunk_means,
    smooth,
)
from threea.approximate.denoise import draw, proportions
from threea.approximate.histograms import HistogramModel
from threea.approximate.label_counts import existing
from threea.errors import SettingError
from threea.model_summary import Histogram, ModelSummary
from threea.table.cells import Cells
from threea.table.conditions import Given, draw_fitting, fits, fitting
from threea.table.schema import Chunk, Kind, Schema

Floats = NDArray[np.float64]

ROWS, HISTOGRAMS, LENGTHS = "rows per class", "histograms", "lengths"
POWER, MEANS, SECOND_MOMENTS = "power", "means", "second moments"
SHARES = {ROWS: 0.01, HISTOGRAMS: 0.06, LENGTHS: 0.02, POWER: 0.08, MEANS: 0.4, SECOND_MOMENTS: 0.43}
"""Of the budget. Chosen: means tell the classes apart, second moments the rows within one."""
_MOST_CLASSES = 16
"""With more classes, all share one covariance. Chosen: a matrix for each would drown in noise."""
_MOST_NOISE = 1 << 19
"""About how many noisy second moments are asked for in all. Chosen: so many draws take seconds."""
_CURVE = 65
"""Points at which a column's distribution function is known. Chosen."""
_BLOCK = 4096
"""Rows drawn at a time, so that memory stays bounded. Chosen."""
_MOST_DRAWS = 32
"""Rows drawn for each one wanted that must fit a condition on a number, at most. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassGaussians:
    """A Gaussian per class, by noisy moments.

    Args:
        bins: How many bins numeric columns are cut into; fewer are used where noise drowns them.
        image: Height and width, if the numeric columns are an image's pixels by rows. By default a square number of at
            least 256 columns, all with the same bounds, is taken for an image.
        most_coefficients: How many DCT coefficients have means and power.
        most_second_moments: How many of these, the strongest, have covariances.
        quantile: The share of the rows that are not shortened: a long row says which way, and costs as a short one.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    bins: int = 16
    image: tuple[int, int] | None = None
    most_coefficients: int = 1024
    most_second_moments: int = 160
    quantile: float = 0.2

    def __post_init__(self) -> None:
        if not (2 <= self.bins <= 1024 and 1 <= self.most_second_moments <= self.most_coefficients <= 4096):
            raise SettingError("bins must be from 2 to 1024, and 1 <= most_second_moments <= most_coefficients <= 4096")
        if not 0 < self.quantile < 1:
            raise SettingError(f"quantile ({self.quantile}) must be > 0 and < 1")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask in six looks; means and second moments take most."""
        undeclared = any(column.kind is Kind.UNDECLARED for column in schema.features)
        if undeclared and self.image:
            raise SettingError("image needs to know which columns are numbers; give a schema, or a Parquet file")
        if not undeclared and not any(column.kind.numeric for column in schema.features):
            raise SettingError("Gaussians need at least one numeric column beside the target; use another recipe")
        self._grid(schema)
        return tuple(Step(name=name, weight=weight) for name, weight in SHARES.items())

    def fit(self, table: PrivateTable, plan: Plan) -> GaussianModel | HistogramModel:
        """Count, then measure lengths, power, means and second moments, each in one pass over the rows."""
        schema = table.schema
        label = schema[schema.target].cells(self.bins) if schema.target else None
        numbers = tuple(column.cells(self.bins) for column in schema.features if column.kind.numeric)
        others = tuple(column.cells(self.bins) for column in schema.features if not column.kind.numeric)
        classes = table.measure(Marginal((label,)) if label else Count(), plan[ROWS])
        sizes = np.maximum(np.atleast_1d(classes.value), max(2 * classes.stddev, 1.0))
        given = (label,) if label else ()
        counted = (*(Marginal((cells,)) for cells in numbers), *(Marginal((*given, cells)) for cells in others))
        answer = table.measure(Stack(counted), plan[HISTOGRAMS])
        if not numbers:
            # Found out after the plan was made: what remains of a Gaussian without numbers are the histograms.
            return HistogramModel.of(label, others, answer)
        rows = float(sizes.sum())
        columns = tuple(ColumnShape.of(cells, part, rows) for cells, part in zip(numbers, answer.parts, strict=False))
        frame = Frame(
            cells=numbers,
            scores=tuple(column.scores for column in columns),
            grid=self._grid(schema),
            kept=tuple(range(min(len(numbers), self.most_coefficients))),
        )
        shape = self._measure(table, plan, frame, label, sizes, np.array([column.variance for column in columns]))
        beside = tuple(part.value.reshape(len(sizes), -1) for part in answer.parts[len(numbers) :])
        return GaussianModel.of(label, classes, sizes, columns, others, beside, answer.stddev, shape)

    def _grid(self, schema: Schema) -> tuple[int, ...]:
        numbers = [column for column in schema.features if column.kind.numeric]
        if self.image:
            if math.prod(self.image) != len(numbers):
                size = ",".join(map(str, self.image))
                raise SettingError(f"image ({size}) must have as many pixels as numeric columns ({len(numbers)})")
            return self.image
        return grid_of(schema)

    def _measure(
        self, table: PrivateTable, plan: Plan, frame: Frame, label: Cells | None, sizes: Floats, variances: Floats
    ) -> Shape:
        longest = 2 * math.sqrt(len(frame.cells))
        edges = np.geomspace(longest / 64, longest, 49)
        lengths = table.measure(Lengths(frame=frame, edges=tuple(edges.tolist())), plan[LENGTHS])
        shares = proportions(denoised(lengths))
        radius = float(edges[min(int(np.searchsorted(np.cumsum(shares), self.quantile)), len(edges) - 1)])
        # What is left of a row on average when long ones are shortened; moments are stretched to make up for it.
        left = float(shares @ np.minimum(radius / np.append(edges, longest), 1.0))
        length = radius / left

        squares = Vectors(frame=frame, radius=radius, moment=Moment.POWER)
        sums = Vectors(frame=frame, radius=radius, moment=Moment.SUMS, by=label)
        rows = float(sizes.sum())
        power, spread = squares.read(table.measure(squares, plan[POWER]))
        power = smooth(power[0] * length**2 / rows, spread * length**2 / rows)
        power *= variances.sum() / max(power.sum(), 1e-12)
        total, spread = sums.read(table.measure(sums, plan[MEANS]))
        seen, stddevs = total * length / sizes[:, None], spread * length / sizes

        classes = len(sizes) if len(sizes) <= _MOST_CLASSES else 1
        most = min(self.most_second_moments, len(frame.kept), math.isqrt(2 * _MOST_NOISE // classes))
        strongest = np.sort(np.argsort(-power, kind="stable")[:most])
        share = power[strongest].sum() / max(power.sum(), 1e-12)
        near = min(1.0, 1.05 * math.sqrt(max(share, 0.01)))
        second_moments = Vectors(
            frame=Frame(cells=frame.cells, scores=frame.scores, grid=frame.grid, kept=tuple(strongest.tolist())),
            radius=radius * near,
            moment=Moment.SECOND_MOMENTS,
            by=label if classes > 1 else None,
        )
        moments, spread = second_moments.read(table.measure(second_moments, plan[SECOND_MOMENTS]))
        moments, spread = moments * (length * near) ** 2, spread * (length * near) ** 2
        means = shrunk_means(seen, stddevs, sizes, second_moment(moments, spread, power, strongest, rows))
        counted = sizes if classes > 1 else sizes.sum()[None]
        matrices = shrunk_covariances(moments, spread, means[:, strongest], counted, sizes)
        return Shape(frame, means, power, strongest, matrices)


def grid_of(schema: Schema) -> tuple[int, ...]:
    """Return how the numeric columns lie: as an image if they are alike and a square number, at least 256."""
    numbers = [column for column in schema.features if column.kind.numeric]
    side = math.isqrt(len(numbers))
    alike = len({(column.lower, column.upper) for column in numbers}) == 1
    return (side, side) if alike and side >= 16 and side * side == len(numbers) else (len(numbers),)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the queries say of the coordinates."""

    frame: Frame
    means: Floats
    power: Floats
    strongest: NDArray[np.int64]
    covariances: Floats
    """Of the strongest coefficients, one matrix per class or one for all; without negative eigenvalues."""


@dataclass(frozen=True, slots=True)
class GaussianModel:
    """The class, a Gaussian given the class, and each column's histogram."""

    label: Cells | None
    classes: Answer
    sizes: Floats
    columns: tuple[ColumnShape, ...]
    others: tuple[Cells, ...]
    tables: tuple[Floats, ...]
    """Noisy counts of the other columns' cells per class."""
    stddev: float
    centres: Floats
    """Mean of each column per class."""
    factors: Floats
    """For each class (or one for all), how a few independent normal numbers move the columns."""
    loose: Floats
    """Standard deviation of every coefficient besides."""
    dct: Floats
    """The inverse transform: what each coefficient adds to each column."""
    alone: Floats
    """Standard deviation of every column besides."""
    curves: tuple[Floats, Floats]
    """For each column: points, and the share of all rows below each."""

    @classmethod
    def of(
        cls,
        label: Cells | None,
        classes: Answer,
        sizes: Floats,
        columns: tuple[ColumnShape, ...],
        others: tuple[Cells, ...],
        tables: tuple[Floats, ...],
        stddev: float,
        shape: Shape,
    ) -> GaussianModel:
        """Turn moments of coefficients into moments of columns; what they leave unexplained is independent.

        Of many columns a histogram is noisier than the means by class: it is moved to their common mean.
        """
        share = sizes / sizes.sum()
        dct = basis(shape.frame.grid, shape.frame.kept) / 2.0**BASIS_BITS
        common = share @ shape.means
        columns = tuple(column.moved(offset) for column, offset in zip(columns, dct @ common, strict=True))
        shape = replace(shape, means=shape.means - common)
        values, vectors = np.linalg.eigh(shape.covariances)
        factors = dct[:, shape.strongest] @ (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])
        weights = share if len(factors) > 1 else np.ones(1)
        between = share @ (shape.means - share @ shape.means) ** 2
        loose = np.maximum(shape.power - between, 0.0)
        explained = np.einsum("c,cii->i", weights, shape.covariances)
        loose[shape.strongest] = np.maximum(loose[shape.strongest] - explained, 0.0)
        centres = shape.means @ dct.T
        inner = (factors**2).sum(axis=2)
        spread = inner + (dct**2) @ loose
        apart = share @ (centres - share @ centres) ** 2
        variances = np.array([column.variance for column in columns])
        alone = np.maximum(variances - apart - weights @ spread, 0.02 * variances)
        deviations = np.broadcast_to(np.sqrt(spread + alone), centres.shape)
        curves = _curves(centres, deviations, share)
        return cls(
            label,
            classes,
            sizes,
            columns,
            others,
            tables,
            stddev,
            centres,
            factors,
            np.sqrt(loose),
            dct,
            np.sqrt(alone),
            curves,
        )

    @property
    def rows(self) -> int:
        """The noisy number of private rows."""
        return max(round(float(self.classes.value.sum())), 0)

    @property
    def summary(self) -> ModelSummary:
        """The noisy counts; of the other answers no number is of rows."""
        return ModelSummary(
            private_rows=self.rows,
            private_rows_stddev=self.classes.stddev * math.sqrt(len(self.sizes)),
            histograms=self.histograms,
            noise={ROWS: self.classes.stddev, HISTOGRAMS: self.stddev},
        )

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The noisy counts; those of other columns summed over the classes."""
        histograms = {
            column.cells.column: Histogram(column.cells, column.counts, self.stddev) for column in self.columns
        }
        for cells, table in zip(self.others, self.tables, strict=True):
            histograms[cells.column] = Histogram(cells, table.sum(axis=0), self.stddev * math.sqrt(len(table)))
        if self.label:
            histograms[self.label.column] = Histogram(self.label, self.classes.value, self.classes.stddev)
        return histograms

    @property
    def direction(self) -> Floats:
        """How much of each column is in the linear score that tells the second class from the first best.

        Fisher's discriminant by the model's own moments; rows of one class have scores of variance 1 by these. All 0 if
        the classes' means are one.
        """
        share = self.sizes[:2] / self.sizes[:2].sum()
        factors = (self.factors[min(code, len(self.factors) - 1)] for code in range(2))
        inside = [part * factor @ factor.T for part, factor in zip(share, factors, strict=True)]
        within = sum(inside) + (self.dct * self.loose**2) @ self.dct.T + np.diag(self.alone**2)
        apart = self.centres[1] - self.centres[0]
        weights = np.linalg.solve(within, apart)
        squared = float(apart @ weights)
        return np.asarray(weights / math.sqrt(squared)) if squared > 1e-12 else np.zeros_like(apart)

    def moved_apart(self, times: float) -> GaussianModel:
        """Return the model with the classes' means so many times as far from their common one."""
        share = self.sizes / self.sizes.sum()
        common = share @ self.centres
        centres = common + times * (self.centres - common)
        spread = (self.factors**2).sum(axis=2) + (self.dct**2) @ self.loose**2 + self.alone**2
        deviations = np.broadcast_to(np.sqrt(spread), centres.shape)
        return replace(self, centres=centres, curves=_curves(centres, deviations, share))

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw classes in their noisy proportions, then coordinates given the class, then values by rank.

        Conditions on the label and on listed columns hold exactly. For one on a number, rows are drawn until enough
        fit, at most `_MOST_DRAWS` for each wanted; if fewer fit, they are repeated about equally often.
        """
        conditions = given or {}
        numbers = {cells.column: conditions[cells.column] for cells in self._numbers if cells.column in conditions}
        if numbers:
            return self._weighted(rows, rng, conditions, numbers)
        blocks = [self._block(min(_BLOCK, rows - start), rng, conditions) for start in range(0, max(rows, 1), _BLOCK)]
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    @property
    def _numbers(self) -> tuple[Cells, ...]:
        return tuple(column.cells for column in self.columns)

    def _weighted(self, rows: int, rng: np.random.Generator, given: Given, numbers: Given) -> Chunk:
        """Draw a bounded number of rows, and choose among those that fit."""
        kept: list[Chunk] = []
        found = drawn = 0
        while found < rows and drawn < _MOST_DRAWS * max(rows, _BLOCK):
            block = self._block(_BLOCK, rng, given)
            fitting_rows = fits(block, numbers)
            kept.append({name: values[fitting_rows] for name, values in block.items()})
            found, drawn = found + int(fitting_rows.sum()), drawn + _BLOCK
        chosen = np.arange(rows) if found >= rows else resampled(np.ones(found), rows, rng, given)
        return {name: np.concatenate([block[name] for block in kept])[chosen] for name in kept[0]}

    def _block(self, rows: int, rng: np.random.Generator, given: Given) -> Chunk:
        # Evenly spread draws: the classes' numbers differ from their expectations by less than 1.
        even = (np.arange(rows) + rng.random()) / max(rows, 1)
        shares, tables = self._conditioned(given)
        group = rng.permutation(np.searchsorted(np.cumsum(shares), even, side="right")).clip(
            max=np.flatnonzero(shares)[-1]
        )
        latent = (rng.standard_normal((rows, len(self.loose))) * self.loose) @ self.dct.T
        latent += rng.standard_normal(latent.shape) * self.alone
        for code in range(len(self.sizes)):
            members = group == code
            factor = self.factors[min(code, len(self.factors) - 1)]
            drawn = rng.standard_normal((int(members.sum()), factor.shape[1]))
            latent[members] += self.centres[code] + drawn @ factor.T
        chunk: Chunk = {}
        if self.label:
            chunk[self.label.column] = draw_fitting(self.label, group, rng, given.get(self.label.column))
        for position, column in enumerate(self.columns):
            ranks = np.interp(latent[:, position], self.curves[0][position], self.curves[1][position])
            chunk[column.cells.column] = column.values(ranks, rng)
        for cells, table in zip(self.others, tables, strict=True):
            chunk[cells.column] = cells.draw(draw(table, group, rng), rng)
        return chunk

    def _conditioned(self, given: Given) -> tuple[Floats, list[Floats]]:
        """Return the classes' shares and the other columns' tables, given conditions on the label and on these."""
        classes = proportions(existing(self.label, self.sizes, self.classes.stddev))
        tables = [
            np.array([proportions(row) for row in table]) * fitting(cells, given.get(cells.column))
            for cells, table in zip(self.others, self.tables, strict=True)
        ]
        if not given:
            return classes, tables
        own = fitting(self.label, given.get(self.label.column)) if self.label else np.ones(1)
        return posterior(classes, (own, *(table.sum(axis=1) for table in tables)), given), tables


def _curves(centres: Floats, deviations: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return for each column points, and the share of all rows below each."""
    from scipy.special import ndtr

    lowest, highest = (centres - 4 * deviations).min(axis=0), (centres + 4 * deviations).max(axis=0)
    points = np.linspace(lowest, highest, _CURVE, axis=1)
    below = np.zeros_like(points)
    for centre, deviation, weight in zip(centres, deviations, share, strict=True):
        below += weight * ndtr((points - centre[:, None]) / deviation[:, None])
    return points, below
