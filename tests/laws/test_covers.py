"""Every standard deviation that a release states is that of the noise: it covers as often as it should.

Tables with missing, unread and out-of-bounds values in columns that may not be missing are released 300 times under
seeded noise. For every number stated with a standard deviation, its 300 errors must have mean 0, spread 1 and a share
of 4.6% beyond 2, in units of the standard deviation. The seeds are fixed. Under noise of other seeds, a test of this
module would fail wrongly with a chance of at most `FALSE_ALARM` for each number and each of the three checks: fewer
than 20,000 checks in all, so fewer than 2 in 100,000 runs.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from quick import quick
from scipy.stats import binom, chi2, norm

from threea.anonymize.door import PrivateTable
from threea.anonymize.open_table import open_table
from threea.anonymize.query import OneHot, Query, Stack
from threea.budget import Budget
from threea.drawing import default_note
from threea.model_summary import Histogram, ModelSummary
from threea.recipes import RECIPES
from threea.report.charts import column_chart
from threea.table import codec
from threea.table.cells import Bins, Categories
from threea.table.schema import Schema
from threea.testing import SeededNoise

RELEASES, FALSE_ALARM = 300, 1e-9
ROWS = 1_500
COLUMNS: dict[str, dict[str, Any]] = {
    "label": {"kind": "categorical", "categories": ["no", "yes", "maybe", "never", "seldom"], "nullable": False},
    "seen": {"kind": "date", "lower": "2019-01-01", "upper": "2020-12-31", "nullable": False},
    "age": {"kind": "integer", "lower": 18, "upper": 70, "nullable": False},
    "cost": {"kind": "real", "lower": 1, "upper": 100, "log": True},
    "ward": {"kind": "categorical", "categories": ["a", "b", "c"], "nullable": False},
    "smoker": {"kind": "boolean", "nullable": False},
}
COUNTED = ("labeltree", "gaussians", "independent", "mst", "aim", "privbayes", "mcgen", "clustmix", "pategan")


def holed_table() -> pa.Table:
    """Return rows of which some have no value, one that is not listed or out of bounds; dates that nobody can read."""
    rng = np.random.default_rng(7)

    def holed(values: NDArray[Any], share: float) -> list[Any]:
        holes = rng.random(ROWS) < share
        return [None if hole else value for hole, value in zip(holes, values.tolist(), strict=True)]

    return pa.table(
        {
            "label": holed(rng.choice(["no", "yes", "maybe", "once"], ROWS, p=[0.7, 0.2, 0.08, 0.02]), 0.02),
            "seen": ["31/12/2019"] * ROWS,
            "age": holed(rng.normal(40, 20, ROWS).round(), 0.03),
            "cost": holed(rng.lognormal(3, 2, ROWS), 0.05),
            "ward": holed(rng.choice(["a", "b", "c", "z"], ROWS, p=[0.6, 0.3, 0.06, 0.04]), 0.04),
            "smoker": holed(rng.choice(["yes", "no", "unknown"], ROWS, p=[0.3, 0.6, 0.1]), 0.01),
        }
    )


TABLE = holed_table()
ENCODED = codec.encode(TABLE, Schema.of(COLUMNS))


def opened(target: str | None, seed: int) -> PrivateTable:
    return open_table(TABLE, schema=Schema.of(COLUMNS, target), budget=Budget(1.0), noise=SeededNoise(seed))


def summaries(name: str, target: str | None) -> Iterator[ModelSummary]:
    """Yield what each of the releases says of itself; the second stage changes none of it, as a test below says."""
    recipe = quick(name)
    for seed in range(RELEASES):
        table = opened(target, seed)
        yield recipe.approximate.fit(table, recipe.plan(table)).summary


def exact(histogram: Histogram) -> NDArray[np.int64]:
    return np.bincount(histogram.cells.index(ENCODED[histogram.cells.column]), minlength=histogram.cells.size)


def errors_of(found: Iterator[ModelSummary]) -> dict[tuple[str, int], list[float]]:
    """Return the errors of each stated number, in standard deviations. Cells of other numbers are other cells."""
    errors: dict[tuple[str, int], list[float]] = defaultdict(list)
    for summary in found:
        assert summary.private_rows is not None
        errors["rows", 1].append((summary.private_rows - ROWS) / summary.private_rows_stddev)
        for name, histogram in summary.histograms.items():
            for cell, error in enumerate((histogram.counts - exact(histogram)) / histogram.stddev):
                errors[f"{name}, cell {cell}", histogram.cells.size].append(float(error))
    return errors


def check(errors: Mapping[Any, list[float]]) -> None:
    for number, own in errors.items():
        count = len(own)
        assert abs(np.mean(own)) * np.sqrt(count) < norm.isf(FALSE_ALARM / 2), f"{number} is off by {np.mean(own):.2f}"
        squares, low, high = np.square(own).sum(), *chi2.isf([1 - FALSE_ALARM / 2, FALSE_ALARM / 2], count)
        assert low < squares < high, f"{number} has errors of {np.sqrt(squares / count):.2f} standard deviations"
        beyond = int((np.abs(own) > 2).sum())
        assert beyond <= binom.isf(FALSE_ALARM, count, 2 * norm.sf(2)), f"{number} is beyond 2: {beyond} of {count}"


@pytest.mark.parametrize("name", COUNTED)
def test_every_stated_deviation_covers(name: str) -> None:
    check(errors_of(summaries(name, "label")))


@pytest.mark.parametrize("name", ["labeltree", "clustmix", "pategan"])
@pytest.mark.parametrize("target", ["age", None])
def test_it_covers_with_a_number_as_target_and_without_one(name: str, target: str | None) -> None:
    check(errors_of(summaries(name, target)))


def test_the_check_can_fail() -> None:
    rng = np.random.default_rng(0)
    check({"right": rng.normal(0, 1, RELEASES).tolist()})
    for wrong in (rng.normal(0.5, 1, RELEASES), rng.normal(0, 1.4, RELEASES), rng.normal(0, 0.6, RELEASES)):
        with pytest.raises(AssertionError):
            check({"wrong": wrong.tolist()})


@pytest.mark.parametrize("target", ["label", "age"])
@pytest.mark.parametrize("name", ["labeltree", "gaussians", "clustmix", "pategan"])
def test_the_second_stage_changes_no_count(name: str, target: str) -> None:
    recipe = quick(name)
    table = opened(target, 1)
    first = recipe.approximate.fit(table, recipe.plan(table)).summary
    last = recipe.run(opened(target, 1), rows=10).summary
    assert (last.private_rows, last.private_rows_stddev) == (first.private_rows, first.private_rows_stddev)
    for column, histogram in first.histograms.items():
        assert last.histograms[column].cells == histogram.cells
        assert last.histograms[column].counts == pytest.approx(histogram.counts)
        assert last.histograms[column].stddev == pytest.approx(histogram.stddev)


@pytest.mark.parametrize("name", COUNTED)
def test_the_noise_of_a_line_is_that_of_its_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a line that counts rows; sums of other things are noisy in other units than rows."""
    answered: dict[str, set[float]] = defaultdict(set)
    measure = PrivateTable.measure

    def noted(table: PrivateTable, query: Query, charge: Any) -> Any:
        answer = measure(table, query, charge)
        if all(isinstance(part, OneHot) for part in (query.queries if isinstance(query, Stack) else (query,))):
            answered[charge.name].add(answer.stddev)
        return answer

    monkeypatch.setattr(PrivateTable, "measure", noted)
    stated = quick(name).run(opened("label", 1), rows=10).summary.noise
    assert answered.keys() & stated.keys()
    for line in answered.keys() & stated.keys():
        assert stated[line] in answered[line], f"{line} is said to have noise of {stated[line]}, not {answered[line]}"


def printed(text: str) -> tuple[float, float]:
    """Read a number and what follows the sign for plus or minus."""
    found = re.search(r"(−?[\d,.]+) ± ([\d,.]+)", text)
    assert found, text
    value, error = (float(part.replace(",", "").replace("−", "-").rstrip(".")) for part in found.groups())
    return value, error


def test_what_is_printed_covers_also_where_noise_is_less_than_a_row() -> None:
    """A printed number is a whole one: whatever is printed after it must cover what rounding does to it, too."""
    rng = np.random.default_rng(0)
    for stddev in (0.05, 0.3, 0.45, 0.7, 1.2, 7.3, 220.0):
        counts = np.maximum(np.round(rng.normal(20_000, stddev, 2_000)), 0)
        texts = [default_note(ModelSummary(private_rows=c, private_rows_stddev=stddev), 10**6) for c in counts]
        errors = [abs(value - 20_000) / error for value, error in map(printed, texts)]
        assert np.sum(np.array(errors) > 2) <= binom.isf(FALSE_ALARM, len(errors), 2 * norm.sf(2))


def test_what_a_chart_prints_covers() -> None:
    """Categories one by one, and bins that are merged until there are few enough to see."""
    schema = Schema.of({**COLUMNS, "age": {**COLUMNS["age"], "lower": -30, "upper": 150}}, "label")
    encoded, missed = codec.encode(TABLE, schema), defaultdict[str, list[bool]](list)
    recipe = RECIPES["independent"](bins=128)
    for seed in range(RELEASES):
        table = open_table(TABLE, schema=schema, budget=Budget(1.0), noise=SeededNoise(seed))
        summary = recipe.approximate.fit(table, recipe.plan(table)).summary
        for name in ("ward", "label", "age"):
            cells = summary.histograms[name].cells
            chart = column_chart(schema[name], encoded[name], summary.histograms[name])
            known = np.bincount(cells.index(encoded[name]), minlength=cells.size)
            if isinstance(cells, Categories):
                rows = {row.tally.label: row.tally.noisy for row in chart.rows}
                texts = [rows[category] for category in schema[name].categories]
            else:
                assert isinstance(cells, Bins)
                assert chart.chart is not None
                texts = [title for _, _, title in chart.chart.touch]
                assert len(texts) < cells.size
                known = np.add.reduceat(known, np.arange(0, cells.size, -(-cells.size // len(texts))))
            for place, (text, true) in enumerate(zip(texts, known, strict=True)):
                value, error = printed(text)
                missed[f"{name} {place}"].append(abs(value - true) > error)
    for number, own in missed.items():
        # Two standard deviations, rounded up to a whole row.
        assert sum(own) <= binom.isf(FALSE_ALARM, RELEASES, 2 * norm.sf(2)), number
