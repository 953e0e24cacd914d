"""How much ClustMix gives away in each mode: neighbouring tables on which one row moves a whole group of others.

As many rows as a cluster needs are at 0, as many at 1, and a small group is in the middle, half of it a hair to the
left, half a hair to the right. One further row at 0.4 or at 0.6 makes the cluster it joins a little wider, and the
whole middle group follows it. The claim reckons with one row that changes sides, not with many.

With `python -m benchmarks.published_leaks chart` the chart is drawn again from the file. MC-GEN is attacked in
`mcgen_leaks`, networks in `network_leaks`; both have their own part of the same file.
"""

import dataclasses
import json
import math
import multiprocessing
import secrets
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from threea.anonymize.cache import Cache
from threea.anonymize.noise import Noise, SecureNoise
from threea.anonymize.open_table import open_interior
from threea.anonymize.spending import Spending
from threea.audit import audit
from threea.audit.answers import AuditedTable, Sides, Tape
from threea.audit.bounds import INTERVALS, direct_bound, gaussian_bound
from threea.audit.pairs import middle_group
from threea.backends import open_backend
from threea.budget import Budget, mu_from
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.recipes import ClustMix, ClustMixPublished
from threea.table.schema import Schema

BUDGET = Budget(1.0, 1e-5, "replace")
SCHEMA = Schema.of(
    {
        "amount": {"kind": "real", "lower": 0.0, "upper": 1.0, "nullable": False},
        "label": {"kind": "categorical", "categories": ["all"], "nullable": False},
    },
    target="label",
)
MIDDLE, APART = 40, 0.0005
"""How many rows are in the middle group, and how far its halves are from 0.5."""
FURTHER = (0.4, 0.6)
"""Where the one row is in which the tables differ."""
SIGMA_MAX = {"test": 0.001, "benchmark": 0.0005}
"""With less noise on a mean, clusters are larger; the first centroids then are more often at both ends."""
MODES = ("published", "proven")
STATISTICS = ("mean", "answers")
"""The mean of the released amounts, and the log-likelihood ratio of all answers that were paid for."""
CONFIDENCE = 0.95
TRIALS, DEFAULT_TRIALS, WORKERS, BINS = {"published": 8000, "proven": 2000}, 2000, 2, 60
COLOURS = ("#0072b2", "#d55e00")
"""Told apart by any eye; lines are dashed, too."""
CHART = Path(__file__).parent.parent / "docs" / "images" / "published-leaks.svg"


def recipe(mode: str, sigma_max: float) -> ClustMix | ClustMixPublished:
    """Return ClustMix, published or proven; both scale the amounts by bounds that all tables share."""
    return (
        ClustMix(sigma_max=sigma_max) if mode == "proven" else ClustMixPublished(sigma_max=sigma_max, scaling="minmax")
    )


def least(sigma_max: float, columns: int = 1, classes: int = 1) -> int:
    """Return how many rows a cluster of the published mode needs."""
    return math.ceil(math.sqrt(columns * classes) / mu_from(BUDGET.epsilon, BUDGET.delta) / sigma_max)


def neighbours(size: int) -> tuple[pa.Table, pa.Table]:
    """Return two tables that differ in one row."""
    middle = [0.5 - APART, 0.5 + APART] * (MIDDLE // 2)
    both = [[0.0] * size + middle + [1.0] * size + [further] for further in FURTHER]
    left, right = (pa.table({"amount": amounts, "label": ["all"] * len(amounts)}) for amounts in both)
    return left, right


@dataclasses.dataclass(frozen=True)
class Attack:
    """A recipe, two tables that differ in one row, and what is looked at in a release.

    Args:
        recipe: What is attacked.
        tables: The two.
        statistic: Of the released amounts: their mean, how far they are apart, or how lopsided they are; the latter are
            the mean square and the mean cube of how far amounts are from 0.5.
        rows: How many rows are released; as many as the recipe makes unasked if None.
    """

    recipe: Recipe
    tables: tuple[pa.Table, pa.Table]
    statistic: Literal["mean", "spread", "lopsided"] = "mean"
    rows: int | None = None

    def seen(self, amounts: np.ndarray) -> float:
        """Return the statistic."""
        power = {"mean": 1, "spread": 2, "lopsided": 3}[self.statistic]
        return float(np.mean(amounts if power == 1 else (amounts - 0.5) ** power))


@dataclasses.dataclass(frozen=True)
class Job:
    """Some runs of an attack on one of the tables."""

    attack: Attack
    side: int
    numbers: range
    noise: type[Any] | None = None
    """For tests: made anew with each run's number, so that runs are the same each time."""

    def run(self) -> list[tuple[float, float, float]]:
        """Return the statistics of each run, and whether all that was paid for is Gaussian noise."""
        tables = self.attack.tables
        sides = Sides((open_backend(tables[0])[0], open_backend(tables[1])[0]))
        opened = open_interior(tables[self.side], budget=BUDGET, schema=SCHEMA, accept_unproven=True)
        with Ledger() as ledger:
            return [self._run(number, opened, sides, ledger) for number in self.numbers]

    def _run(self, number: int, opened: Any, sides: Sides, ledger: Ledger) -> tuple[float, float, float]:
        name, tape = f"run {number}", Tape()
        ledger.register(name, lambda key: name)
        # The two tables must not share their noise, or they would be told apart without any.
        noise: Noise = SecureNoise() if self.noise is None else self.noise(2 * number + self.side)
        spending, key = Spending(BUDGET, ledger, name), secrets.token_bytes(32)
        table = AuditedTable(replace(opened, spending=spending, noise=noise, key=key, cache=Cache()), sides, tape)
        release = self.attack.recipe.run(table, rows=self.attack.rows, seed=2 * number + self.side)
        return self.attack.seen(release.table["amount"].to_numpy()), tape.ratio, float(tape.gaussian)


def collected(jobs: list[Job], workers: int = 1) -> np.ndarray:
    """Run jobs and return an array of side, run, statistic."""
    if workers == 1:
        results = [job.run() for job in jobs]
    else:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            results = list(pool.map(Job.run, jobs))
    sides = [
        [run for job, runs in zip(jobs, results, strict=True) if job.side == side for run in runs] for side in (0, 1)
    ]
    return np.array(sides)


def jobs(mode: str, sigma_max: float, trials: int, noise: type[Any] | None = None, batch: int = 100) -> list[Job]:
    """Return the work of an audit of one mode, in parts."""
    return parts(Attack(recipe(mode, sigma_max), neighbours(least(sigma_max))), trials, noise, batch)


def parts(attack: Attack, trials: int, noise: type[Any] | None = None, batch: int = 100) -> list[Job]:
    """Return the work of an attack, in parts."""
    starts = range(0, trials, batch)
    return [Job(attack, side, range(start, min(start + batch, trials)), noise) for side in (0, 1) for start in starts]


def bounds(mode: str, runs: np.ndarray, confidence: float) -> dict[str, Any]:
    """Bound epsilon from below by each statistic; with this confidence all of them hold together."""
    names = STATISTICS if mode == "proven" else STATISTICS[:1]
    alpha = (1 - confidence) / (INTERVALS * len(names))
    by_statistic = {}
    for index, name in enumerate(names):
        left, right = runs[0, :, index], runs[1, :, index]
        direct = direct_bound(left, right, delta=BUDGET.delta, alpha=alpha)
        by_statistic[name] = {"direct": dataclasses.asdict(direct)}
        # Only what was paid for as Gaussian noise claims to have a Gaussian trade-off curve.
        if mode == "proven" and runs[:, :, 2].all():
            gaussian = gaussian_bound(left, right, delta=BUDGET.delta, alpha=alpha)
            by_statistic[name]["gaussian"] = dataclasses.asdict(gaussian)
    return {
        "epsilon": max(bound["epsilon"] for routes in by_statistic.values() for bound in routes.values()),
        "by": by_statistic,
    }


def measured(mode: str, work: list[Job], workers: int = WORKERS) -> dict[str, Any]:
    """Run the jobs of an attack, published or proven, and say what came out."""
    runs = collected(work, workers)
    seen = runs[:, :, 0]
    edges = np.linspace(seen.min(), seen.max(), BINS + 1)
    return {
        "trials": seen.shape[1],
        **bounds(mode, runs, CONFIDENCE),
        "histogram": {"edges": edges.tolist(), "counts": [np.histogram(side, edges)[0].tolist() for side in seen]},
    }


def with_default_settings() -> dict[str, Any]:
    """Audit the published mode as it is set by default, on the tables that every audit uses."""
    default = ClustMixPublished()
    size = least(default.sigma_max, columns=2, classes=3)
    result = audit(
        default,
        epsilon=BUDGET.epsilon,
        delta=BUDGET.delta,
        adjacency=BUDGET.adjacency,
        trials=DEFAULT_TRIALS,
        confidence=CONFIDENCE,
        pairs=[middle_group(size)],
        statistics=["trained"],
        workers=WORKERS,
    )
    return {"size": size, "trials": DEFAULT_TRIALS, "epsilon": result["lower_bound"], "bounds": result["bounds"]}


def draw(path: Path, title: str, panels: dict[str, dict[str, Any]], xlabel: str, rows: tuple[str, str]) -> None:
    """Draw how what is looked at is distributed on both tables, a panel for each result."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "threea", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4.2), layout="constrained")
    for axis, (name, result) in zip(axes, panels.items(), strict=True):
        edges = np.array(result["histogram"]["edges"])
        for side, counts in enumerate(result["histogram"]["counts"]):
            share, colour = np.array(counts) / result["trials"], COLOURS[side]
            axis.stairs(share, edges, fill=True, color=colour, alpha=0.4)
            axis.stairs(share, edges, color=colour, linewidth=1.6, linestyle=("-", "--")[side], label=rows[side])
        axis.set_title(
            f"{name}\nclaimed epsilon {BUDGET.epsilon:g}, measured: at least {result['epsilon']:.2f}", fontsize=11
        )
        axis.set_xlabel(xlabel)
        axis.set_ylabel("share of the runs")
        axis.set_ylim(0, 1.35 * axis.dataLim.y1)
        axis.ticklabel_format(useOffset=False)
        axis.locator_params(axis="x", nbins=6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="upper right", fontsize=9)
    figure.savefig(path, metadata={"Date": None, "Title": title})
    plt.close(figure)


def main() -> None:
    """Audit both modes and draw what came out."""
    from benchmarks.record import RESULTS, record

    settings = {
        "claimed": dataclasses.asdict(BUDGET),
        "sigma_max": SIGMA_MAX["benchmark"],
        "rows_at_each_end": least(SIGMA_MAX["benchmark"]),
        "rows_in_the_middle": MIDDLE,
        "apart": APART,
        "further_row": FURTHER,
        "confidence": CONFIDENCE,
    }
    if "chart" not in sys.argv[1:]:
        results: dict[str, Any] = {
            mode: measured(mode, jobs(mode, SIGMA_MAX["benchmark"], TRIALS[mode])) for mode in MODES
        }
        kept = json.loads((RESULTS / "published-leaks.json").read_text())["results"]
        results |= {"default": with_default_settings(), **{part: kept.get(part, {}) for part in ("mcgen", "networks")}}
        record("published-leaks", settings, {"settings": settings, **results})
    results = json.loads((RESULTS / "published-leaks.json").read_text())["results"]
    draw(
        CHART,
        "What one row does to a release, in both modes",
        {mode: results[mode] for mode in MODES},
        "mean of the released amounts",
        (f"the one row at {FURTHER[0]}", f"the one row at {FURTHER[1]}"),
    )


if __name__ == "__main__":
    main()
