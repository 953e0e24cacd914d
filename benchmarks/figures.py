"""Figures 1 to 3 of the ClustMix paper made again: from runs of our own, on toy sets of our own, none a copy of theirs.

The toy sets are made up and MNIST is public, so the figures may be shown to anyone. The noise is the real one: no two
runs draw quite the same.

Reference:
    Madl, Xu, Choudhury and Howard 2023, Approximate, Adapt, Anonymize (3A).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import datasets
from threea.adapt.kip import induce
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.errors import InputError, MissingExtra, SettingError
from threea.framework import Recipe
from threea.published.clustmix_clusters import Clusters
from threea.published.clustmix_mixing import Mixing
from threea.recipes import Auto, ClustMix, ClustMixPublished
from threea.table.schema import Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Progress = Callable[[str], None]

NAME = "figures"
"""What `threea benchmark` calls them."""
FOLDER = Path("docs/images")
DELTA = 1e-5
COLOURS, MARKERS = ("#0072b2", "#d55e00", "#009e73"), ("o", "^", "s")
"""Classes differ in colour, from a palette that any eye can tell apart, and in shape."""
SEED, ROWS, SHOWN = 7, 6000, 200
"""Of the toy sets: how they are drawn, how many rows they have, and how many points of each are shown at most."""
TOY_SIGMA = {0.1: 0.1, 1.0: 0.05, 10.0: 0.03}
"""Of Figure 2: sigma_max of the published mode by epsilon, for as many points as can be without drowning in noise."""
FIRST_ROWS, FIRST_SHOWN, ALPHA, FIRST_SIGMA = 4000, 800, 0.1, 0.02
"""Of Figure 1. The toy set and alpha were chosen so that Adapt helps; with others tried it did not always."""
DIGIT_EPSILONS, DIGIT_SIGMA = (1.0, 0.2), 0.2
"""Of Figure 3."""


@dataclass(frozen=True, slots=True)
class Points:
    """Points of the unit square, each of a class."""

    places: Floats
    labels: Whole

    @property
    def table(self) -> pa.Table:
        """The points as a table."""
        names = np.array(_CLASSES)[self.labels]
        return pa.table({"x": self.places[:, 0], "y": self.places[:, 1], "class": names})

    @classmethod
    def of(cls, table: pa.Table) -> Points:
        """Read a table back."""
        labels = [_CLASSES.index(name) for name in table["class"].to_pylist()]
        return cls(np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()]), np.array(labels, np.int64))


_CLASSES = ("a", "b", "c")


def figures(
    out: str | PathLike[str] = FOLDER,
    *,
    data: str | PathLike[str],
    progress: Progress | None = None,
    left_out: Progress | None = None,
) -> list[Path]:
    """Draw Figures 1 to 3, each into a file of its own.

    Args:
        out: The folder that the figures go to.
        data: The folder that holds MNIST; without it there is no Figure 3.
        progress: Told of each figure.
        left_out: Told why a figure cannot be drawn.

    Returns:
        The files made.

    Raises:
        SettingError: The folder does not exist or cannot be written.
        MissingExtra: matplotlib, scikit-learn or JAX is not installed.
    """
    folder = Path(out)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise SettingError(f"out ({out}) must be a folder that exists and can be written; make it first")
    tell = progress or (lambda step: None)
    plot = _matplotlib()
    files = []
    for name, draw in (("figure1.svg", figure1), ("figure2.svg", figure2)):
        with _saved(plot, folder / name) as made:
            made.append(draw(plot))
        files.append(folder / name)
        tell(f"{name} is drawn")
    try:
        digits = datasets.load("mnist", data)
    except InputError as error:
        if left_out:
            left_out(f"figure3.png is left out: {error}")
        return files
    with _saved(plot, folder / "figure3.png") as made:
        made.append(figure3(plot, digits, tell))
    tell("figure3.png is drawn")
    return [*files, folder / "figure3.png"]


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtra("matplotlib", "figures") from None
    mpl.use("agg")
    import matplotlib.pyplot as plot

    return plot


@contextmanager
def _saved(plot: Any, file: Path) -> Iterator[list[Any]]:
    """Save the figure that is put into the list; it appears whole or not at all."""
    made: list[Any] = []
    staging = file.with_name(f".{file.stem}.part{file.suffix}")
    with plot.rc_context({"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "3a"}):
        try:
            yield made
            metadata = {"Date": None} if file.suffix == ".svg" else {}
            made[0].savefig(staging, dpi=100, metadata=metadata, facecolor="white")
            staging.replace(file)
        except OSError as error:
            raise SettingError(f"out ({file}) cannot be written: {error.strerror}; choose another place") from None
        finally:
            staging.unlink(missing_ok=True)
            for figure in made:
                plot.close(figure)


# Figure 1: the three stages.


def separable() -> Points:
    """Return two classes that a line tells apart; of one, most rows are far from it, and some crowd along it."""
    rng = np.random.default_rng(SEED)
    even = rng.uniform(0.02, 0.98, (6 * FIRST_ROWS, 2))
    below = even[_height(even) < -0.02][: FIRST_ROWS // 2]
    far = rng.normal([0.25, 0.8], [0.09, 0.07], (FIRST_ROWS * 35 // 100, 2))
    across = rng.uniform(0.55, 0.95, FIRST_ROWS * 15 // 100)
    crowd = np.column_stack([across, 0.42 + 0.3 * across + rng.exponential(0.03, len(across))])
    above = np.vstack([far, crowd])
    above = above[_height(above) > 0.02]
    return Points(np.clip(np.vstack([above, below]), 0, 1), np.repeat([0, 1], [len(above), len(below)]))


def _height(places: Floats) -> Floats:
    return np.asarray(places[:, 1] - 0.4 - 0.3 * places[:, 0])


_PANELS = (
    "1 Approximate: clusters",
    "2 Baseline: learned from all rows",
    "3 Learned from draws of the clusters",
    "4 Adapt: moved for the task",
    "5 Anonymize: noisy means of rows",
)


def figure1(plot: Any) -> Any:
    """Draw a density, a baseline, a classifier learned from the density, the adapted centroids, and the release."""
    toy = separable()
    recipe = _published(FIRST_SIGMA, ALPHA)
    table = _opened(toy, 1.0)
    plan = recipe.plan(table)
    clusters = recipe.approximate.fit(table, plan)
    assert isinstance(clusters, Clusters)
    assert isinstance(recipe.adapt, Mixing)
    rng = np.random.default_rng(SEED)
    centroids = Points(clusters.centroids, clusters.labels)
    # Clusters lie in the unit square of the rows' own smallest and largest values.
    rows = Points(clusters.values, clusters.exposed.labels)
    spread = np.array(
        [rows.places[clusters.memberships == index].std(axis=0).mean() for index in range(len(centroids.labels))]
    )
    drawn = rng.choice(len(spread), SHOWN, p=np.bincount(clusters.memberships) / len(rows.labels))
    noise = rng.standard_normal((SHOWN, 2)) * spread[drawn, None]
    sample = Points(centroids.places[drawn] + noise, centroids.labels[drawn])
    moved = induce(
        centroids.places,
        centroids.labels,
        rows.places,
        rows.labels,
        alpha=ALPHA,
        regularisation=recipe.regularisation,
        rng=rng,
    ).points
    adapted = Points(moved, centroids.labels)
    chunk = recipe.adapt.anonymized(clusters).chunk
    released = Points(clusters.scaling.encode(chunk), np.asarray(chunk["class"], np.int64))

    figure, axes = plot.subplots(1, 5, figsize=(15, 3.9), layout="constrained", sharex=True, sharey=True)
    for axis, title in zip(axes, _PANELS, strict=True):
        _scattered(axis, _some(rows, FIRST_SHOWN), alpha=0.3, size=5)
        axis.set(title=title, xlabel="first feature", xlim=(-0.08, 1.08), ylim=(-0.08, 1.08), aspect="equal")
    axes[0].set_ylabel("second feature")
    for index, (centre, width) in enumerate(zip(centroids.places, spread, strict=True)):
        colour = COLOURS[centroids.labels[index]]
        for times in (1, 2):
            axes[0].add_patch(plot.Circle(centre, times * width, fill=False, color=colour, linewidth=1.2))
    _scattered(axes[0], centroids, size=40, edge="black")
    _judged(axes[1], rows, rows)
    _scattered(axes[2], sample, size=12, edge="white")
    _judged(axes[2], sample, rows)
    for start, end in zip(centroids.places, adapted.places, strict=True):
        axes[3].annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "black", "linewidth": 0.8})
    _scattered(axes[3], adapted, size=40, edge="black")
    _judged(axes[3], adapted, rows)
    _scattered(axes[4], released, size=40, edge="black")
    _judged(axes[4], released, rows)
    figure.suptitle(f"ClustMix as published at a claimed epsilon of 1, on {len(rows.labels):,} rows of a toy set")
    return figure


def _judged(axis: Any, learned: Points, rows: Points) -> None:
    """Draw the line of a classifier, and mark rows that it gets wrong."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtra("scikit-learn", "evaluate") from None
    model = LogisticRegression(C=1000.0, class_weight="balanced").fit(learned.places, learned.labels)
    wrong = np.flatnonzero(model.predict(rows.places) != rows.labels)
    (across, up), (offset,) = model.coef_[0], model.intercept_
    ends = np.array([-0.5, 1.5])
    axis.plot(ends, -(offset + across * ends) / up, color="black", linestyle="--", linewidth=1.3)
    axis.scatter(*rows.places[wrong].T, s=14, facecolors="none", edgecolors="#b00020", linewidths=0.9, rasterized=True)
    axis.set_title(f"{axis.get_title()}\n{len(wrong):,} rows on the wrong side")


# Figure 2: toy sets by epsilon.

_PLATE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}


def toys() -> dict[str, Points]:
    """Return moons, circles and blobs, in the unit square."""
    try:
        from sklearn.datasets import make_blobs, make_circles, make_moons
    except ImportError:
        raise MissingExtra("scikit-learn", "evaluate") from None
    made = {
        "moons": make_moons(ROWS, noise=0.08, random_state=SEED),
        "circles": make_circles(ROWS, noise=0.06, factor=0.45, random_state=SEED),
        "blobs": make_blobs(ROWS, centers=3, cluster_std=1.1, random_state=SEED),
    }
    scaled = {}
    for name, (places, labels) in made.items():
        low, high = places.min(axis=0), places.max(axis=0)
        scaled[name] = Points((places - low) / (high - low), np.asarray(labels, np.int64))
    return scaled


def figure2(plot: Any) -> Any:
    """Draw what both modes release of toy sets, by epsilon."""
    columns: list[tuple[str, Recipe | None, float]] = [("real", None, 0.0)]
    columns += [("published", _published(sigma), epsilon) for epsilon, sigma in TOY_SIGMA.items()]
    columns += [("proven", ClustMix(), epsilon) for epsilon in TOY_SIGMA]
    made = toys()
    figure, axes = plot.subplots(
        len(made), len(columns), figsize=(14, 6.6), layout="constrained", sharex=True, sharey=True
    )
    for line, (name, toy) in zip(axes, made.items(), strict=True):
        for axis, (mode, recipe, epsilon) in zip(line, columns, strict=True):
            shown = toy if recipe is None else _released(toy, recipe, epsilon)
            _scattered(axis, _some(shown, SHOWN), size=9)
            axis.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
            if name == next(iter(made)):
                axis.set_title(mode if recipe is None else f"{mode}\nepsilon {epsilon:g}")
            if mode == "published":
                axis.text(0.02, 0.02, f"{len(shown.labels)} points", fontsize=7, transform=axis.transAxes, bbox=_PLATE)
        line[0].set_ylabel(f"{name}\nsecond feature")
    for axis in axes[-1]:
        axis.set_xlabel("first feature")
    return figure


# Figure 3: digits.


def digit_recipes() -> dict[str, Recipe]:
    """Return what is drawn, line by line."""
    return {"clustmix, published": _published(DIGIT_SIGMA), "clustmix, proven": ClustMix(), "auto": Auto()}


def figure3(plot: Any, digits: datasets.Dataset, tell: Progress) -> Any:
    """Draw a digit of each class as three recipes make them; no real one, for datasets are not ours to pass on."""
    train, _ = digits.split(0)
    lines = []
    for epsilon in DIGIT_EPSILONS:
        for name, recipe in digit_recipes().items():
            table = open_table(train, budget=Budget(epsilon, DELTA), schema=digits.schema, accept_unproven=True)
            release = recipe.run(table, rows=None if recipe.fixed else SHOWN, seed=SEED)
            lines.append((f"{name}\nepsilon {epsilon:g}", _one_of_each(release.table, digits.target)))
            tell(f"digits by {name} at epsilon {epsilon:g}")
    figure, axes = plot.subplots(len(lines), 10, figsize=(7.4, 4.4), layout="constrained", squeeze=False)
    for line, (name, images) in zip(axes, lines, strict=True):
        for axis, image in zip(line, images, strict=True):
            if image is None:
                axis.text(0.5, 0.5, "none", ha="center", va="center", transform=axis.transAxes)
            else:
                axis.imshow(image, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set(color="#bbbbbb", linewidth=0.5)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    for digit, axis in enumerate(axes[-1]):
        axis.set_xlabel(str(digit))
    figure.supxlabel("class", fontsize=9)
    return figure


def _one_of_each(table: pa.Table, target: str) -> list[Floats | None]:
    """Return the first image of each digit, where there is one."""
    labels = np.array([int(label) for label in table[target].to_pylist()])
    pixels = [name for name in table.column_names if name != target]
    images: list[Floats | None] = []
    for digit in range(10):
        rows = np.flatnonzero(labels == digit)[:1]
        image = [float(table[name][int(row)].as_py()) for row in rows for name in pixels]
        images.append(np.reshape(image, (28, 28)) if image else None)
    return images


# What the figures share.


def _published(sigma_max: float, alpha: float = 1.0) -> ClustMixPublished:
    return ClustMixPublished(sigma_max=sigma_max, alpha=alpha, scaling="minmax")


def _opened(toy: Points, epsilon: float) -> Any:
    bounds = {"kind": "real", "lower": 0.0, "upper": 1.0, "nullable": False}
    classes = list(_CLASSES[: toy.labels.max() + 1])
    label = {"kind": "categorical", "categories": classes, "nullable": False}
    schema = Schema.of({"x": bounds, "y": bounds, "class": label}, target="class")
    return open_table(toy.table, budget=Budget(epsilon, DELTA), schema=schema, accept_unproven=True)


def _released(toy: Points, recipe: Recipe, epsilon: float) -> Points:
    rows = None if recipe.fixed else SHOWN
    return Points.of(recipe.run(_opened(toy, epsilon), rows=rows, seed=SEED).table)


def _some(points: Points, count: int) -> Points:
    chosen = np.random.default_rng(SEED).permutation(len(points.labels))[:count]
    return Points(points.places[chosen], points.labels[chosen])


def _scattered(axis: Any, points: Points, *, size: float, alpha: float = 1.0, edge: str = "none") -> None:
    """Draw points by class; as dots of an image, for thousands of shapes would make a file too large."""
    for label, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        mine = points.places[points.labels == label]
        if len(mine):
            axis.scatter(
                *mine.T,
                s=size,
                marker=marker,
                color=colour,
                alpha=alpha,
                edgecolors=edge,
                linewidths=0.6 if edge != "none" else 0,
                rasterized=True,
            )
