"""Wide numeric rows and images: a Gaussian per class in a public basis, bent to each column's own histogram.

Each column's cells are scored by where they lie between its bounds and centred by the noisy histogram. The scored row
is turned into cosines (of an image's height and width, or along the columns), whose lengths, energies, class means and
products are asked in turn. Samples are drawn from the Gaussians, turned back, and moved to the columns' noisy
histograms rank by rank: a Gaussian copula. Memory: a matrix of columns times at most `most_cosines` doubles, and
per class a factor of at most `most_products` squared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.accountant import Plan, Step
from threea.anonymize.bounding import step_of
from threea.anonymize.door import PrivateTable
from threea.anonymize.query import Answer, Count, Marginal, Stack
from threea.anonymize.vectors import BASIS_BITS, SCORE_BITS, Frame, Lengths, Moment, Vectors, basis
from threea.approximate.denoise import draw, proportions
from threea.cells import Bins, Cells
from threea.errors import SettingError
from threea.figures import Histogram
from threea.schema import Chunk, Schema

Floats = NDArray[np.float64]

ROWS, HISTOGRAMS, LENGTHS, MEANS, PRODUCTS = "rows per class", "histograms", "lengths", "energies and means", "products"
_MOST_CLASSES = 16
"""With more classes, all share one covariance."""
_MOST_NOISE = 1 << 19
"""About how many noisy products are asked for in all."""
_TOGETHER = 40
"""Class means are shrunk in groups of so many cosines of like energy."""
_CURVE = 65
_BLOCK = 4096
"""Rows drawn at a time, so that memory stays bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussians:
    """A Gaussian per class, by noisy moments.

    Args:
        bins: How many bins numeric columns are cut into; fewer are used where noise drowns them.
        image: Height and width, if the numeric columns are an image's pixels by rows. By default a square number of at
            least 256 columns, all with the same bounds, is taken for an image.
        most_cosines: How many cosines have means and energies.
        most_products: How many of these, the strongest, have covariances.
        quantile: The share of the rows that are not shortened.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    bins: int = 16
    image: tuple[int, int] | None = None
    most_cosines: int = 1024
    most_products: int = 160
    quantile: float = 0.8

    def __post_init__(self) -> None:
        if not (2 <= self.bins <= 1024 and 1 <= self.most_products <= self.most_cosines <= 4096):
            raise SettingError("bins must be from 2 to 1024, and 1 <= most_products <= most_cosines <= 4096")
        if not 0 < self.quantile < 1:
            raise SettingError(f"quantile ({self.quantile}) must be > 0 and < 1")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask in five looks; the products take most."""
        if not any(column.kind.numeric for column in schema.features):
            raise SettingError("Gaussians need at least one numeric column beside the target; use another recipe")
        shares = {ROWS: 0.01, HISTOGRAMS: 0.1, LENGTHS: 0.02, MEANS: 0.35, PRODUCTS: 0.52}
        return tuple(Step(name=name, weight=weight) for name, weight in shares.items())

    def fit(self, table: PrivateTable, plan: Plan) -> GaussianModel:
        """Count, then measure lengths, energies and means, and products, each in one pass over the rows."""
        schema = table.schema
        label = schema[schema.target].cells(self.bins) if schema.target else None
        numbers = tuple(column.cells(self.bins) for column in schema.features if column.kind.numeric)
        others = tuple(column.cells(self.bins) for column in schema.features if not column.kind.numeric)
        classes = table.measure(Marginal((label,)) if label else Count(), plan[ROWS])
        sizes = np.maximum(np.atleast_1d(classes.value), max(2 * classes.stddev, 1.0))
        given = (label,) if label else ()
        counted = (*(Marginal((cells,)) for cells in numbers), *(Marginal((*given, cells)) for cells in others))
        answer = table.measure(Stack(counted), plan[HISTOGRAMS])
        rows = float(sizes.sum())
        columns = tuple(ColumnShape.of(cells, part, rows) for cells, part in zip(numbers, answer.parts, strict=False))
        frame = Frame(
            cells=numbers,
            scores=tuple(column.scores for column in columns),
            grid=self._grid(schema),
            kept=tuple(range(min(len(numbers), self.most_cosines))),
        )
        shape = self._measure(table, plan, frame, label, sizes, np.array([column.variance for column in columns]))
        beside = tuple(part.value.reshape(len(sizes), -1) for part in answer.parts[len(numbers) :])
        return GaussianModel.of(label, classes, sizes, columns, others, beside, answer.stddev, shape)

    def _grid(self, schema: Schema) -> tuple[int, ...]:
        numbers = [column for column in schema.features if column.kind.numeric]
        if self.image:
            if math.prod(self.image) != len(numbers):
                raise SettingError(f"image {self.image} must have as many pixels as numeric columns ({len(numbers)})")
            return self.image
        side = math.isqrt(len(numbers))
        alike = len({(column.lower, column.upper) for column in numbers}) == 1
        return (side, side) if alike and side >= 16 and side * side == len(numbers) else (len(numbers),)

    def _measure(
        self, table: PrivateTable, plan: Plan, frame: Frame, label: Cells | None, sizes: Floats, variances: Floats
    ) -> Shape:
        longest = 2 * math.sqrt(len(frame.cells))
        edges = np.geomspace(longest / 64, longest, 49)
        lengths = table.measure(Lengths(frame=frame, edges=tuple(edges.tolist())), plan[LENGTHS])
        cumulative = np.cumsum(proportions(_denoised(lengths)))
        radius = float(edges[min(int(np.searchsorted(cumulative, self.quantile)), len(edges) - 1)])

        squares = Vectors(frame=frame, radius=radius, moment=Moment.SQUARES)
        sums = Vectors(frame=frame, radius=radius, moment=Moment.SUMS, by=label)
        both = Stack((squares, sums))
        answer = table.measure(both, plan[MEANS])
        rows = float(sizes.sum())
        power, spread = squares.read(answer.parts[0], step_of(both.l2))
        energies = _smooth(power[0] * radius**2 / rows, spread * radius**2 / rows)
        energies *= variances.sum() / max(energies.sum(), 1e-12)
        total, spread = sums.read(answer.parts[1], step_of(both.l2))
        means = _shrunk_means(total * radius / sizes[:, None], spread * radius / sizes, sizes, energies)

        classes = len(sizes) if len(sizes) <= _MOST_CLASSES else 1
        most = min(self.most_products, len(frame.kept), math.isqrt(2 * _MOST_NOISE // classes))
        strongest = np.sort(np.argsort(-energies, kind="stable")[:most])
        share = energies[strongest].sum() / max(energies.sum(), 1e-12)
        near = radius * min(1.0, 1.05 * math.sqrt(max(share, 0.01)))
        products = Vectors(
            frame=Frame(cells=frame.cells, scores=frame.scores, grid=frame.grid, kept=tuple(strongest.tolist())),
            radius=near,
            moment=Moment.PRODUCTS,
            by=label if classes > 1 else None,
        )
        matrices, spread = products.read(table.measure(products, plan[PRODUCTS]))
        covariances = _covariances(
            matrices * near**2,
            spread * near**2,
            means[:, strongest],
            sizes if classes > 1 else sizes.sum()[None],
            sizes,
        )
        return Shape(frame, means, energies, strongest, covariances)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the queries say of the coordinates."""

    frame: Frame
    means: Floats
    energies: Floats
    strongest: NDArray[np.int64]
    covariances: Floats
    """Of the strongest cosines, one matrix per class or one for all; without negative eigenvalues."""


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A numeric column's noisy histogram, in the order of its values."""

    cells: Bins
    counts: Floats
    scores: tuple[int, ...]
    variance: float
    missing: float
    cumulative: Floats
    """Where each stretch of values ends, as a share of the values that are not missing."""
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, cells: Cells, answer: Answer, rows: float) -> ColumnShape:
        """Merge bins that noise drowns, and lay special values among the bins."""
        assert isinstance(cells, Bins)
        edges = np.array(cells.edges)
        bins, special = len(edges) - 1, len(cells.special)
        counts = answer.value.copy()
        groups = int(np.clip(rows / max(3 * answer.stddev, 1e-9), min(2, bins), bins))
        for group in np.array_split(np.arange(special, special + bins), groups):
            counts[group] = counts[group].mean()
        share = proportions(counts)
        missing = float(share[-1]) if cells.missing else 0.0
        known = share[: special + bins]
        known = known / known.sum() if known.sum() > 0 else np.full(len(known), 1 / len(known))
        places = (
            np.concatenate(
                [np.interp(cells.special, edges, np.arange(bins + 1)), np.arange(bins) + 0.5]  # special values first
            )
            * (2 / bins)
            - 1
        )
        mean = float(known @ places)
        scores = np.rint((places - mean) * 2.0**SCORE_BITS).astype(int).tolist()
        order = np.argsort(places, kind="stable")
        lower = np.concatenate([cells.special, edges[:-1]])
        upper = np.concatenate([cells.special, edges[1:]])
        return cls(
            cells=cells,
            counts=answer.value,
            scores=(*scores, 0) if cells.missing else tuple(scores),
            variance=float(known @ (places - mean) ** 2) + 1e-9,
            missing=missing,
            cumulative=np.cumsum(known[order]),
            lower=lower[order],
            upper=upper[order],
        )

    def values(self, ranks: Floats, rng: np.random.Generator) -> Floats:
        """Return the value at each rank, a number from 0 to 1; some missing."""
        starts = np.concatenate([[0.0], self.cumulative[:-1]])
        stretch = np.searchsorted(self.cumulative, ranks, side="right").clip(max=len(starts) - 1)
        width = self.cumulative[stretch] - starts[stretch]
        part = np.divide(ranks - starts[stretch], width, out=np.zeros_like(ranks), where=width > 0).clip(0.0, 1.0)
        lower, upper = self.lower[stretch], self.upper[stretch]
        # A special value is a stretch of one point, which may be 0 or less where bins are logarithmic.
        point = lower >= upper
        bins = np.where(point, self.cells.edges[0], lower), np.where(point, self.cells.edges[1], upper)
        found = np.where(point, lower, self.cells.spread(*bins, part))
        if self.missing > 0:
            found[rng.random(len(found)) < self.missing] = np.nan
        return found


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
    """Standard deviation of every cosine besides."""
    cosines: Floats
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
        """Turn moments of cosines into moments of columns; what they leave unexplained is independent."""
        share = sizes / sizes.sum()
        cosines = basis(shape.frame.grid, shape.frame.kept) / 2.0**BASIS_BITS
        values, vectors = np.linalg.eigh(shape.covariances)
        factors = cosines[:, shape.strongest] @ (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])
        weights = share if len(factors) > 1 else np.ones(1)
        between = share @ (shape.means - share @ shape.means) ** 2
        loose = np.maximum(shape.energies - between, 0.0)
        explained = np.einsum("c,cii->i", weights, shape.covariances)
        loose[shape.strongest] = np.maximum(loose[shape.strongest] - explained, 0.0)
        centres = shape.means @ cosines.T
        inner = (factors**2).sum(axis=2)
        spread = inner + (cosines**2) @ loose
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
            cosines,
            np.sqrt(alone),
            curves,
        )

    @property
    def rows(self) -> int:
        """The noisy number of private rows."""
        return max(round(float(self.classes.value.sum())), 0)

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The noisy counts; those of other columns summed over the classes."""
        found = {column.cells.column: Histogram(column.cells, column.counts, self.stddev) for column in self.columns}
        for cells, table in zip(self.others, self.tables, strict=True):
            found[cells.column] = Histogram(cells, table.sum(axis=0), self.stddev * math.sqrt(len(table)))
        if self.label:
            found[self.label.column] = Histogram(self.label, self.classes.value, self.classes.stddev)
        return found

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Draw classes in their noisy proportions, then coordinates given the class, then values by rank."""
        blocks = [self._block(min(_BLOCK, rows - start), rng) for start in range(0, max(rows, 1), _BLOCK)]
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def _block(self, rows: int, rng: np.random.Generator) -> Chunk:
        # Evenly spread draws: the classes' numbers differ from their expectations by less than 1.
        even = (np.arange(rows) + rng.random()) / max(rows, 1)
        group = rng.permutation(np.searchsorted(np.cumsum(proportions(self.sizes)), even, side="right"))
        group = group.clip(max=len(self.sizes) - 1)
        latent = (rng.standard_normal((rows, len(self.loose))) * self.loose) @ self.cosines.T
        latent += rng.standard_normal(latent.shape) * self.alone
        for place in range(len(self.sizes)):
            members = group == place
            factor = self.factors[min(place, len(self.factors) - 1)]
            drawn = rng.standard_normal((int(members.sum()), factor.shape[1]))
            latent[members] += self.centres[place] + drawn @ factor.T
        chunk: Chunk = {self.label.column: self.label.draw(group, rng)} if self.label else {}
        for place, column in enumerate(self.columns):
            ranks = np.interp(latent[:, place], self.curves[0][place], self.curves[1][place])
            chunk[column.cells.column] = column.values(ranks, rng)
        for cells, table in zip(self.others, self.tables, strict=True):
            chunk[cells.column] = cells.draw(draw(np.array([proportions(row) for row in table]), group, rng), rng)
        return chunk


def _denoised(answer: Answer) -> Floats:
    """Return counts with those that noise alone explains set to 0, unless nothing would be left."""
    kept = np.where(answer.value > 2 * answer.stddev, answer.value, 0.0)
    return kept if kept.any() else np.maximum(answer.value, 0.0)


def _smooth(energies: Floats, stddev: float) -> Floats:
    """Return energies of cosines; weak ones are averaged with their neighbours."""
    width = min(9, len(energies) // 2 * 2 - 1) if len(energies) > 2 else 1
    padded = np.pad(energies, width // 2, mode="edge")
    near = np.convolve(padded, np.full(width, 1 / width), "valid")
    return np.where(energies > 3 * stddev, energies, np.maximum(near, 0.0))


def _shrunk_means(means: Floats, stddevs: Floats, sizes: Floats, energies: Floats) -> Floats:
    """Draw the classes' means towards their common mean, as far as noise explains the difference (James and Stein)."""
    share = sizes / sizes.sum()
    common = share @ means
    apart = means - common
    groups = np.array_split(np.argsort(-energies, kind="stable"), max(1, len(energies) // _TOGETHER))
    for place, stddev in enumerate(stddevs):
        noise = stddev**2 * max(1 - share[place], 0.0)
        for group in groups:
            power = float((apart[place, group] ** 2).sum())
            apart[place, group] *= max(0.0, 1 - noise * max(len(group) - 2, 1) / power) if power > 0 else 0.0
    found: Floats = common + apart
    return found


def _covariances(products: Floats, stddev: float, means: Floats, sizes: Floats, classes: Floats) -> Floats:
    """Return covariances: the pooled one, and what noise does not explain of each class's difference from it."""
    rows = float(sizes.sum())
    pooled = products.sum(axis=0) / rows - np.einsum("c,ci,cj->ij", classes / rows, means, means)
    common = _spiked(pooled, stddev * math.sqrt(len(sizes)) / rows)
    if len(sizes) == 1:
        return _positive(common)[None]
    found = []
    for product, mean, size in zip(products, means, sizes, strict=True):
        difference = product / size - np.outer(mean, mean) - pooled
        noise = stddev * math.sqrt(max(1 / size**2 - 2 / (size * rows) + len(sizes) / rows**2, 0.0))
        found.append(_positive(common + _spiked(difference, noise)))
    return np.array(found)


def _spiked(matrix: Floats, stddev: float) -> Floats:
    """Shrink the eigenvalues of a symmetric matrix under symmetric noise; those that noise explains become 0.

    Reference:
        Donoho, Gavish and Johnstone 2018, Optimal shrinkage of eigenvalues; Benaych-Georges and Nadakuditi 2011.
    """
    values, vectors = np.linalg.eigh(matrix)
    edge = 2 * stddev * math.sqrt(len(matrix))
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    found: Floats = (vectors * kept) @ vectors.T
    return found


def _positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    found: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return found


def _curves(centres: Floats, deviations: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return for each column points, and the share of all rows below each."""
    from scipy.special import ndtr

    lowest, highest = (centres - 4 * deviations).min(axis=0), (centres + 4 * deviations).max(axis=0)
    points = np.linspace(lowest, highest, _CURVE, axis=1)
    below = np.zeros_like(points)
    for centre, deviation, weight in zip(centres, deviations, share, strict=True):
        below += weight * ndtr((points - centre[:, None]) / deviation[:, None])
    return points, below
