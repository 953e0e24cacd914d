"""The page: whole, self-contained, true to the release, and about nothing else."""

from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import threea
from threea import hospital
from threea.anonymize.accountant import Line
from threea.anonymize.events import Gaussian, NonPrivate, PartitionSelection, Pure, Sampled
from threea.budget import Adjacency, Budget, delta_from
from threea.certificate import Guarantee
from threea.model_summary import Histogram
from threea.recipes import Independent
from threea.release import Release
from threea.report import OPEN_COLUMNS, render, words
from threea.report.charts import TOP, column_chart
from threea.table.schema import Column, Kind, Schema
from threea.testing import SeededNoise

VOID = {"meta", "br", "hr", "input", "img", "link"}
BLOCKS = ("badge", "summary", "guarantee", "caveats", "budget", "target", "columns", "schema", "check")


class Page(HTMLParser):
    """What a browser would make of a page: its elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self.classes: list[str] = []
        self._open: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append((tag, dict(attrs).get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.classes += (dict(attrs).get("class") or "").split()

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._open.pop()
        assert tag == opened, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        for name in {name for _, name in self._open if name} | {"everything"}:
            if not any(tag == "style" for tag, _ in self._open):
                self.texts[name] = self.texts.get(name, "") + data

    def text(self, block: str = "everything") -> str:
        """Return the text within the element of this id."""
        return " ".join(self.texts.get(block, "").split())


def released(data: pa.Table, schema: Schema, recipe: Independent | None = None, **settings: Any) -> Release:
    """Make a release that is the same each time; its noise is seeded, so its guarantee is none."""
    budget = settings.pop("budget", Budget(1.0))
    rows = settings.pop("rows", None)
    table = threea.open_table(data, schema=schema, budget=budget, noise=SeededNoise(0), **settings)
    return (recipe or Independent()).run(table, rows=rows, seed=0)


def html_of(release: Release, **changes: Any) -> str:
    """Render a release with a certificate changed in some fields."""
    certificate = dataclasses.replace(release.certificate("ab" * 32), created="2030-01-02T03:04:05+00:00", **changes)
    return render(release, certificate, release.table)


def page_of(release: Release, **changes: Any) -> Page:
    return Page(html_of(release, **changes))


@pytest.fixture(scope="module")
def stays() -> Release:
    return released(hospital.stays(2_000), hospital.schema())


@pytest.fixture(scope="module")
def proven() -> Release:
    return threea.synthesize(hospital.stays(300), schema=hospital.schema(), epsilon=1.0, seed=0, recipe="independent")


def test_all_blocks_are_there(proven: Release) -> None:
    page = page_of(proven)
    for block in BLOCKS:
        assert page.text(block), block
    assert page.tags[0] == "html"
    assert page.tags.count("h1") == 1
    assert "title" in page.tags
    assert f"{proven.rows:,} made-up rows" in page.text("summary")
    assert "15" in page.text("summary")
    assert "died" in page.text("target")
    assert "independent" in page.text("summary")
    assert "histograms given the label" in page.text("budget")
    assert words.number(proven.plan.lines[0].event.noise_multiplier) in page.text("budget")
    for column in proven.schema.features:
        assert column.name in page.text("columns"), column.name
    assert "ab" * 32 in page.text("check")
    assert proven.certificate().schema_sha256 in page.text("check")
    assert "model.threea" not in page.text("check")
    assert "ab" * 32 in page_of(proven, model_sha256="ab" * 32).text("check")
    assert f"threea {threea.__version__}" in page.text()
    assert "2030-01-02 03:04:05 UTC" in page.text()


def test_it_needs_nothing_but_itself(proven: Release) -> None:
    text = html_of(proven)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "image", "use", "a", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in ("src", "href", "srcset", "xlink:href")]
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    for reference in ("http://", "https://", "url(", "@import"):
        assert reference not in text
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_equal_arguments_give_equal_pages(stays: Release) -> None:
    assert html_of(stays) == html_of(stays)
    assert html_of(dataclasses.replace(stays, restore=lambda table: None)) == html_of(stays)


class TestGuarantee:
    def test_proven_shows_no_banner(self, proven: Release) -> None:
        page = page_of(proven)
        assert page.text("badge") == "Privacy guarantee Proven"
        assert not page.text("banner")
        assert {"proven"} <= set(page.classes)
        assert not {"claimed", "none"} & set(page.classes)
        assert "What is promised" in page.text("guarantee")
        assert "a factor of 2.718" in page.text("guarantee")
        assert "1 in 1,000,000" in page.text("guarantee")
        assert "more than 73.1% of the time" in page.text("guarantee")

    def test_none_is_loud_and_states_no_bound(self, stays: Release) -> None:
        page = page_of(stays)
        assert "This release has no privacy guarantee" in page.text("banner")
        assert "noise was replaced" in page.text("banner")
        assert "No guarantee" in page.text("badge")
        assert "counted ε is ∞" in page.text("guarantee")
        assert "factor of" not in page.text("guarantee")
        assert "No private row was copied" not in page.text()
        assert "proven" not in page.classes

    def test_claimed_is_loud_and_lists_assumptions(self, proven: Release) -> None:
        assumptions = ["clusters are treated as public", "<b>the mean</b> is over the exact count"]
        page = page_of(proven, guarantee=Guarantee.CLAIMED, assumptions=assumptions, accounted_epsilon=math.inf)
        assert "claimed, not proven" in page.text("banner")
        for assumption in assumptions:
            assert assumption in page.text("banner")
        assert "If every assumption above holds" in page.text("guarantee")
        assert "What is promised" not in page.text("guarantee")

    @pytest.mark.parametrize("accounted", [math.inf, 1.01])
    def test_a_proof_that_exceeds_its_budget_does_not_stand(self, proven: Release, accounted: float) -> None:
        page = page_of(proven, accounted_epsilon=accounted)
        assert "does not stand" in page.text("banner")
        assert words.number(accounted) in page.text("banner")
        assert "Does not stand" in page.text("badge")
        assert "proven" not in page.classes
        assert "factor of" not in page.text("guarantee")

    def test_words_follow_adjacency_and_unit(self, proven: Release) -> None:
        certificate = proven.certificate()
        by_row = certificate
        by_person = dataclasses.replace(certificate, unit="all rows of one patient_id", unit_column="patient_id")
        assert words.meaning(by_row)[0].startswith("Suppose one row is taken out of the private table, or put in.")
        assert "whether a certain person was" in words.meaning(by_person)[1]
        replaced = dataclasses.replace(by_row, adjacency=Adjacency.REPLACE)
        assert words.meaning(replaced)[0].startswith("Suppose one row is replaced by any other.")
        headlines = [[headline for headline, _ in words.caveats(each)] for each in (by_row, by_person, replaced)]
        assert ["Several rows of one person." in each for each in headlines] == [True, False, True]
        assert ["The number of rows." in each for each in headlines] == [False, False, True]

    @given(mu=st.floats(0.01, 5), epsilon=st.floats(0.01, 10))
    def test_no_gaussian_guess_beats_the_stated_one(self, mu: float, epsilon: float) -> None:
        best = 0.5 * (1 + math.erf(mu / 2 / math.sqrt(2)))
        assert best <= words.best_guess(epsilon, delta_from(mu, epsilon)) + 1e-12

    @given(epsilon=st.floats(0.01, 30))
    def test_the_stated_guess_is_reached_by_randomized_response(self, epsilon: float) -> None:
        assert words.best_guess(epsilon, 0.0) == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)), abs=1e-12)

    @pytest.mark.parametrize(("epsilon", "delta"), [(10.01, 1e-6), (50.0, 0.2), (1.0, 0.0011)])
    def test_a_weak_guarantee_earns_no_green_badge(self, proven: Release, epsilon: float, delta: float) -> None:
        page = page_of(proven, epsilon=epsilon, delta=delta, accounted_epsilon=epsilon)
        assert "Proven, but weak" in page.text("badge")
        assert "This is a weak guarantee" in page.text("guarantee")

    @pytest.mark.parametrize(("epsilon", "delta"), [(10.0, 1e-6), (1.0, 1e-3)])
    def test_a_guarantee_up_to_the_limits_is_not_called_weak(
        self, proven: Release, epsilon: float, delta: float
    ) -> None:
        page = page_of(proven, epsilon=epsilon, delta=delta, accounted_epsilon=epsilon)
        assert "weak" not in page.text("badge") + page.text("guarantee")

    def test_huge_epsilon_has_words_too(self, proven: Release) -> None:
        text = page_of(proven, epsilon=1e6, accounted_epsilon=1e6).text("guarantee")
        assert "astronomically" in text
        assert "more than 100% of the time" in text


class TestBudget:
    EVENTS = (
        Gaussian(4.5),
        Pure(0.125),
        Sampled(0.25, 6.5),
        PartitionSelection(15.5, 1e-7),
        NonPrivate("a <b>reason</b>"),
    )

    def test_every_line_is_a_segment_and_a_row(self, proven: Release) -> None:
        shares = (0.4, 0.3, 0.2, 0.05, 0.05)
        lines = tuple(
            Line(f"line {position}", event, count=position + 1, share=share)
            for position, (event, share) in enumerate(zip(self.EVENTS, shares, strict=True))
        )
        release = dataclasses.replace(proven, spent=lines)
        page = page_of(release, guarantee=Guarantee.PROVEN, accounted_epsilon=0.5)
        text = page.text("budget")
        for line in lines:
            assert line.name in text
            assert words.event(line.event) in text
            assert words.percent(line.share) in text
        widths = [float(style[6:-1]) for name, style in page.attributes if name == "style" and style[:6] == "width:"]
        assert widths == pytest.approx([100 * share for share in shares])
        assert "ε = 0.5 at δ = 1e-6" in text
        for number in ("4.5", "0.125", "25.0%", "6.5", "15.5", "1 in 10,000,000", "a <b>reason</b>"):
            assert number in text

    def test_discovery_is_told(self) -> None:
        release = threea.synthesize(hospital.stays(1_000), target="died", epsilon=1.0, seed=0)
        page = page_of(release)
        assert "discover categories" in page.text("budget")
        assert "discover ranges" in page.text("budget")
        assert "found in the private rows under the same guarantee" in page.text("schema")
        assert "owner" not in page.text("schema")
        assert "The owner of the table wrote it" in page_of(release, schema_origin="owner").text("schema")


class TestForeignText:
    EVIL = '"><img src=x onerror=alert(1)></title></style><script>alert(2)</script>&amp;{{ 7 * 7 }}'

    def table(self, *words: str) -> tuple[pa.Table, Schema]:
        values = pa.array([words[row % len(words)] for row in range(60)])
        described = {"kind": "categorical", "categories": list(words)}
        data = pa.table({words[0]: values, "y": values})
        return data, Schema.of({words[0]: described, "y": described}, target="y")

    def test_malicious_names_stay_text(self) -> None:
        page = page_of(released(*self.table(self.EVIL, "a"), budget=Budget(100.0)))
        assert not {"img", "script"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert self.EVIL[:30] in page.text("columns")
        assert self.EVIL in [value for name, value in page.attributes if name == "title"]

    def test_text_cannot_reverse_or_hide_its_surroundings(self) -> None:
        text = html_of(released(*self.table("a\u202eb\x00c\u2066", "d\u2028\ne"), budget=Budget(100.0)))
        assert not set("\u202e\x00\u2066\u2028") & set(text)
        assert "a\ufffdb\ufffdc\ufffd" in text

    def test_other_scripts_survive(self) -> None:
        text = page_of(released(*self.table("診断名", "می‌خواهم", "Ωmega 🏥"), budget=Budget(100.0))).text("columns")
        for word in ("診断名", "می‌خواهم", "Ωmega 🏥"):
            assert word in text

    def test_long_texts_are_cut(self) -> None:
        data, schema = self.table("x" * 100_000, "x" * 99_999 + "y", "")
        text = html_of(released(data, schema, budget=Budget(100.0), rows=100))
        assert len(text) < 60_000
        assert "x" * 301 not in text
        assert "(empty)" in text


class TestOddReleases:
    def test_no_target(self) -> None:
        release = released(hospital.stays(200), Schema.of(hospital.COLUMNS_PUBLIC))
        page = page_of(release)
        assert "No target" in page.text("target")
        assert "died" in page.text("columns")
        assert "predict" not in page.text("summary")

    def test_one_synthetic_row(self) -> None:
        page = page_of(released(hospital.stays(200), hospital.schema(), rows=1))
        assert "holds 1 made-up row," in page.text("summary")
        assert "100%" in page.text("columns")

    def test_all_missing_columns_and_a_numeric_target(self) -> None:
        columns = {
            "gone": ({"kind": "real", "lower": 0, "upper": 1}, pa.nulls(50, pa.float64())),
            "day": ({"kind": "date", "lower": "2000-01-01", "upper": "9999-12-31"}, pa.nulls(50, pa.date32())),
            "word": ({"kind": "categorical", "categories": ["a"]}, pa.nulls(50, pa.string())),
            "one": ({"kind": "integer", "lower": 7, "upper": 7}, pa.array([7] * 50)),
            "y": ({"kind": "real", "lower": -4, "upper": 4}, pa.array(np.linspace(-4, 4, 50))),
        }
        schema = Schema.of({name: described for name, (described, _) in columns.items()}, target="y")
        data = pa.table({name: values for name, (_, values) in columns.items()})
        page = page_of(released(data, schema, budget=Budget(1e5)))
        shares = [float(share) for share in re.findall(r"missing ([\d.]+)%", page.text("columns"))]
        assert [share > 90 for share in shares] == [True, True, True, False]
        assert "real · −4 to 4" in page.text("summary")
        assert "2000-01-01 to 9999-12-31" in page.text("columns")
        assert "nan" not in html_of(released(data, schema)).lower()

    def test_a_model_without_an_answer_for_a_column(self, stays: Release) -> None:
        class Fewer:
            sample = staticmethod(stays.model.sample)
            summary = dataclasses.replace(
                stays.summary,
                histograms={n: each for n, each in stays.summary.histograms.items() if n not in ("age", "ward")},
            )

        before, after = page_of(stays), page_of(dataclasses.replace(stays, model=Fewer()))
        note = "No noisy count of this column alone"
        assert before.text("columns").count(note) == 0
        assert after.text("columns").count(note) == 2
        assert after.tags.count("article") == before.tags.count("article")

    def test_300_columns_fold_and_stay_small(self) -> None:
        rng = np.random.default_rng(0)
        names = [f"measurement {number}" for number in range(300)]
        data = pa.table({name: rng.integers(0, 1000, 100) for name in names} | {"y": ["a", "b"] * 50})
        schema = Schema.of(
            {name: {"kind": "integer", "lower": 0, "upper": 999} for name in names}
            | {"y": {"kind": "categorical", "categories": ["a", "b"]}},
            target="y",
        )
        text = html_of(released(data, schema, Independent(bins=512)))
        page = Page(text)
        assert len(text.encode()) < 3_000_000
        assert page.tags.count("article") == 300
        assert f"{300 - OPEN_COLUMNS} more columns" in page.text("columns")
        assert page.tags.count("details") == 1

    def test_pictures_of_a_part_say_so(self, stays: Release) -> None:
        certificate = stays.certificate()
        assert "The first 10 synthetic rows" in Page(render(stays, certificate, stays.table.slice(0, 10))).text()
        assert "All synthetic rows" in Page(render(stays, certificate, stays.table)).text()


class TestNothingElse:
    ROWS = 4_999

    def private(self) -> pa.Table:
        rng = np.random.default_rng(5)
        words = np.where(rng.random(self.ROWS) < 0.6, "often", "seldom").astype(object)
        words[17] = "canary-held-by-one"
        numbers = rng.normal(100, 10, self.ROWS)
        numbers[17] = 987_654.321
        return pa.table({"word": words, "number": numbers, "y": rng.random(self.ROWS) < 0.5})

    def test_a_single_row_is_not_seen(self) -> None:
        """No false alarm: a value held by one row is never a candidate, and no cell ends at the outlier."""
        release = threea.synthesize(self.private(), target="y", epsilon=2.0, seed=0)
        text = html_of(release)
        # Each word is held by 2,000 rows or so, a hundred standard deviations of noise above the threshold.
        assert "often" in text
        assert "seldom" in text
        assert "canary" not in text
        assert not re.search(r"987,?65", text)

    def test_exact_counts_are_not_shown(self) -> None:
        """Seeded, so no false alarm: the noisy count is another than the exact one, and only the noisy one is shown."""
        schema = Schema.of(
            {
                "word": {"kind": "categorical", "categories": ["often", "seldom"], "open_ended": True},
                "number": {"kind": "real", "lower": 0, "upper": 200},
                "y": {"kind": "boolean"},
            },
            target="y",
        )
        release = released(self.private(), schema)
        text = html_of(release)
        assert release.summary.private_rows != self.ROWS
        assert f"{release.summary.private_rows:,}" in text
        assert not re.search(rf"\b{self.ROWS}\b|\b{self.ROWS:,}\b", text)


class TestPictures:
    WORDS = Column(name="word", kind=Kind.CATEGORICAL, categories=tuple(f"w{number}" for number in range(40)))

    def test_rare_categories_are_added_up(self) -> None:
        values = np.repeat(np.arange(-1, 40), np.arange(1, 42))
        cells = self.WORDS.cells(2)
        histogram = Histogram(cells, np.bincount(cells.index(values)).astype(float), 3.0)
        rows = column_chart(self.WORDS, values, histogram).rows
        assert [row.tally.label for row in rows] == [f"w{n}" for n in range(39, 27, -1)] + ["28 more", "missing"]
        assert math.fsum(row.tally.share for row in rows) == pytest.approx(1)
        assert rows[TOP].tally.count == sum(range(2, 30))
        assert rows[TOP].tally.error == pytest.approx(2 * 3 * math.sqrt(28))
        assert rows[0].tally.noisy == "41 ± 6"

    def test_bars_fill_the_scale(self) -> None:
        rows = column_chart(self.WORDS, np.array([0, 0, 0, 0, 1, 1]), None, scale=1.0).rows
        assert [row.bar for row in rows[:3]] == ["666.7", "333.3", "0"]
        assert [row.bar for row in column_chart(self.WORDS, np.array([0, 0, 0, 0, 1, 1]), None).rows[:2]] == [
            "1000",
            "500",
        ]

    def test_order_of_ordinals_is_kept(self) -> None:
        grade = Column(name="grade", kind=Kind.ORDINAL, categories=("low", "mid", "high"), nullable=False)
        rows = column_chart(grade, np.array([2, 2, 1]), None).rows
        assert [row.tally.label for row in rows] == ["low", "mid", "high"]

    def test_special_and_missing_stand_beside_the_bars(self) -> None:
        cost = Column(name="cost", kind=Kind.REAL, lower=1.0, upper=1e4, special=(0.0,), log=True)
        drawn = column_chart(cost, np.array([0.0, 0.0, np.nan, 10.0]), None)
        assert [(row.tally.label, row.tally.text) for row in drawn.rows] == [("0", "50.0%"), ("missing", "25.0%")]
        assert drawn.chart is not None
        assert [text for _, _, text in drawn.chart.ticks] == ["1", "10", "100", "1,000", "10,000"]
        assert [position for position, _, _ in drawn.chart.ticks] == ["0.0", "25.0", "50.0", "75.0", "100.0"]
        assert [align for _, align, _ in drawn.chart.ticks] == ["start", "middle", "middle", "middle", "end"]
        assert drawn.chart.bars.count("M") == 1

    def test_many_bins_are_merged(self) -> None:
        age = Column(name="age", kind=Kind.INTEGER, lower=0, upper=1023, nullable=False)
        cells = age.cells(1024)
        drawn = column_chart(age, np.arange(1024.0), Histogram(cells, np.ones(cells.size), 1.0))
        assert drawn.chart is not None
        assert len(drawn.chart.touch) == 40
        assert drawn.chart.touch[0][2] == "0 to 25: 2.5% of the synthetic rows; noisy count 26 ± 11"

    def test_dates_are_dates(self) -> None:
        day = Column(name="day", kind=Kind.DATE, lower=0, upper=9, nullable=False)
        drawn = column_chart(day, np.array([0.0, 9.0]), None)
        assert drawn.caption == "date · 1970-01-01 to 1970-01-10"
        assert drawn.chart is not None
        assert drawn.chart.touch[-1][2].startswith("1970-01-10: 50.0%")

    @given(
        lower=st.floats(-1e12, 1e12),
        steps=st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=60),
        whole=st.booleans(),
        log=st.booleans(),
    )
    def test_any_edges_can_be_drawn(self, lower: float, steps: list[float], *, whole: bool, log: bool) -> None:
        start = abs(lower) + 1 if log else lower
        edges = np.cumsum([round(start), *np.ceil(steps)] if whole else [start, *steps])
        edges = np.unique(edges)
        if len(edges) < 2:
            return
        kind = Kind.INTEGER if whole else Kind.REAL
        column = Column(
            name="x", kind=kind, lower=edges[0], upper=edges[-1] - whole, edges=tuple(edges.tolist()), log=log
        )
        chart = column_chart(column, edges[:-1], None).chart
        assert chart is not None
        figures = [float(figure) for figure in re.findall(r"-?[\d.]+", chart.bars)]
        assert all(0 <= figure <= 1000 for figure in figures)
        positions = [float(position) for position, _, _ in chart.ticks]
        assert positions == sorted(positions)
        assert all(-1e-9 <= position <= 100 for position in positions)
        # At 2.5% of the width a letter; a label begins at its position, is about it, or ends there.
        widths = [2.5 * len(text) for _, _, text in chart.ticks]
        lefts = [
            position - {"start": 0.0, "middle": width / 2, "end": width}[align]
            for position, width, (_, align, _) in zip(positions, widths, chart.ticks, strict=True)
        ]
        ends = [left + width for left, width in zip(lefts, widths, strict=True)]
        assert all(end < left for end, left in zip(ends, lefts[1:], strict=False)), "labels stand apart"


def test_colours_have_contrast(proven: Release) -> None:
    """WCAG 2 AA: 4.5 for text, 3 for what must be seen in a picture."""
    text = html_of(proven)
    colours = dict(re.findall(r"--(\w+):(#\w{6})", text))
    white = "#ffffff"
    for name in ("good", "fair", "bad", "ink", "soft"):
        assert _contrast(colours[name], white) >= 4.5, name
    for name in ("ink", "soft"):
        assert _contrast(colours[name], colours["ground"]) >= 4.5, name
    segments = re.findall(r"\.s\d\{background:(#\w{6})\}", text)
    assert len(segments) == 6
    assert all(_contrast(segment, white) >= 4.5 for segment in segments)
    assert _contrast(colours["bar"], white) >= 3
    assert _contrast(colours["ink"], colours["bar"]) >= 3


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
