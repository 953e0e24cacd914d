"""What a release says of its model beyond the rows: figures, noise, and another ratio of classes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import threea
from threea import framework, hospital
from threea.adapt.clustmix_adapt import InducedMixture
from threea.adapt.taught import Taught
from threea.adapt.teacher import Teacher
from threea.anonymize.plan import Plan, Step
from threea.approximate.points import Points
from threea.budget import Budget
from threea.describe.calendar_effects import CALENDAR
from threea.drawing import MOST
from threea.errors import SettingError
from threea.model_summary import TermsFigure, TreeFigure
from threea.published.clustmix_mixing import Mixing
from threea.recipes import Independent, LabelTree
from threea.release import Release
from threea.report import render
from threea.table.schema import Schema
from threea.testing import SeededNoise

LINES = [
    "rows per class",
    "features given the label",
    "tree edges",
    "pairs given the label",
    "teacher's gradient",
    "teacher's calibration",
    CALENDAR,
]


def released(data: pa.Table, schema: Schema, epsilon: float = 4.0, **settings: Any) -> Release:
    """Make a release whose noise is seeded, so that no test has a false alarm."""
    table = threea.open_table(data, schema=schema, budget=Budget(epsilon), noise=SeededNoise(0))
    return LabelTree(**settings).run(table, rows=4_000, seed=0)


def rare(share: float) -> Release:
    """Release a table in which one class is rare and tells itself by a number."""
    rng = np.random.default_rng(1)
    sick = rng.random(30_000) < share
    marker = np.clip(rng.normal(0, 1, len(sick)) + 2 * sick, -4, 6)
    other = np.clip(rng.normal(0, 1, len(sick)) + marker, -9, 9)
    data = pa.table({"marker": marker, "other": other, "y": np.where(sick, "si ck", "well")})
    described: dict[str, Any] = {
        "marker": {"kind": "real", "lower": -4, "upper": 6, "nullable": False},
        "other": {"kind": "real", "lower": -9, "upper": 9, "nullable": False},
        "y": {"kind": "categorical", "categories": ["well", "si ck"], "nullable": False},
    }
    return released(data, Schema.of(described, target="y"))


@pytest.fixture(scope="module")
def stays() -> Release:
    return released(hospital.stays(3_000), hospital.schema())


@pytest.fixture(scope="module")
def rebalanced() -> Release:
    return dataclasses.replace(rare(0.02), balance=True)


class TestFigures:
    def test_a_model_that_shows_nothing_has_no_figures(self) -> None:
        table = threea.open_table(
            hospital.stays(300), schema=hospital.schema(), budget=Budget(1.0), noise=SeededNoise(0)
        )
        release = Independent().run(table, rows=10)
        assert (release.summary.figures, release.classes) == ((), ())
        assert "What the model knows" not in render(release, release.certificate(), release.table)

    def test_the_tree_holds_every_feature_once_after_its_parent(self, stays: Release) -> None:
        figure = stays.summary.figures[0]
        assert isinstance(figure, TreeFigure)
        assert sorted(figure.nodes) == sorted(column.name for column in stays.schema.features)
        assert all(parent is None or parent < place for place, parent in enumerate(figure.parents))
        assert figure.parents.count(None) == 1
        assert all(0 <= share <= 1 for share in figure.strengths)
        assert max(figure.strengths) > 0.05

    def test_the_terms_are_the_teachers_largest(self, stays: Release) -> None:
        figure, model = stays.summary.figures[1], stays.model
        assert isinstance(figure, TermsFigure)
        assert isinstance(model, Taught)
        assert figure.two
        assert len(figure.terms) == 15 < figure.total == model.weights.shape[1]
        sizes = [abs(term.weight) for term in figure.terms]
        assert sizes == sorted(sizes, reverse=True)
        assert all(0 <= term.cell < term.cells.size and term.group == 1 for term in figure.terms)
        assert all(term.stddev > 0 for term in figure.terms)

    def test_a_weight_is_compared_with_the_average_row(self, stays: Release) -> None:
        model = stays.model
        assert isinstance(model, Taught)
        shifted = model.weights.copy()
        shifted[1, : model.model.features[model.learned[0]].merged.size] += 5.0
        again = dataclasses.replace(model, weights=shifted).figures[1]
        assert isinstance(again, TermsFigure)
        before = stays.summary.figures[1]
        assert isinstance(before, TermsFigure)
        assert [term.weight for term in again.terms] == pytest.approx([term.weight for term in before.terms])

    def test_the_report_draws_both_and_every_line_of_the_plan(self, stays: Release) -> None:
        text = render(stays, stays.certificate(), stays.table)
        assert text.count('<svg class="tree"') == 1
        assert "A tree of columns</title><desc" in text
        assert text.count('class="zero"') == 15
        assert "privacy noise alone" in text
        assert [line.name for line in stays.plan.lines] == LINES
        for name in ("rows per class", "features given the label", "tree edges", "pairs given the label", CALENDAR):
            assert f"<bdi>{name}</bdi>" in text
        assert "<bdi>teacher&#39;s gradient</bdi>" in text

    def test_the_noise_of_every_sum_is_told_in_rows(self, stays: Release) -> None:
        assert set(stays.summary.noise) == set(LINES) - {"tree edges"}
        for line in stays.plan.lines:
            if line.name in stays.summary.noise:
                # A count's noise is at least that of a sum whose sensitivity is one row, or half of one if clipped so.
                assert stays.summary.noise[line.name] >= 0.5 * line.event.noise_multiplier * (1 - 1e-9)
        text = render(stays, stays.certificate(), stays.table)
        assert text.count('data-is="Noise in rows">±') == len(LINES) - 1

    def test_independent_tells_the_noise_of_its_one_line_and_of_the_dates(self) -> None:
        data, schema = hospital.stays(300), hospital.schema()
        table = threea.open_table(data, schema=schema, budget=Budget(1.0), noise=SeededNoise(0))
        release = Independent().run(table, rows=10)
        line, dates = release.plan.lines
        # One stack of as many counts as there are features: a row moves each by one.
        wanted = line.event.noise_multiplier * np.sqrt(len(schema.features))
        # Weekday, month and time of day of the one moment that a stay has.
        counted = dates.event.noise_multiplier * np.sqrt(3)
        assert release.summary.noise == pytest.approx({line.name: wanted, CALENDAR: counted}, rel=1e-6)
        text = render(release, release.certificate(), release.table)
        assert text.count('data-is="Noise in rows">±') == 2


class TestClasses:
    def test_nothing_is_said_of_the_usual_case(self) -> None:
        release = rare(0.3)
        certificate = release.certificate()
        assert (release.classes, certificate.classes, certificate.classes_note) == ((), None, "")
        assert json.loads(certificate.to_json())["classes"] is None
        assert release.schema_text() == release.schema.to_toml()
        assert "Another ratio of classes" not in render(release, certificate, release.table)

    def test_classes_are_drawn_as_they_occur_unless_asked(self) -> None:
        release = rare(0.02)
        assert (release.classes, set(release.sample_weight)) == ((), {1.0})
        # 4,000 rows drawn, seeded: the share is off by a few standard deviations of 0.0022, and by its own noise.
        assert np.mean(np.array(release.table["y"].to_pylist()) == "si ck") == pytest.approx(0.02, abs=0.012)

    def test_sample_weights_are_the_classes(self, rebalanced: Release) -> None:
        weights = {each.name: each.weight for each in rebalanced.classes}
        labels = rebalanced.table["y"].to_pylist()
        np.testing.assert_allclose(rebalanced.sample_weight, [weights[label] for label in labels])

    @pytest.mark.parametrize("kind", ["text", "boolean"])
    def test_the_reports_snippet_gives_the_same_weights(
        self, kind: str, rebalanced: Release, stays: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        release = rebalanced if kind == "text" else dataclasses.replace(stays, balance=True)
        certificate = release.certificate()
        snippet = re.search(r"<code>(.*?)</code>", render(release, certificate, release.table), re.DOTALL)
        assert snippet is not None
        (tmp_path / "certificate.json").write_text(certificate.to_json())
        monkeypatch.chdir(tmp_path)
        given: list[Any] = []

        class Learner:
            def fit(self, features: Any, target: Any, sample_weight: Any) -> None:
                given.extend(sample_weight)

        frame = release.table.to_pandas()
        known = {"json": json, "model": Learner(), "X": frame, "y": frame[release.schema.target]}
        exec(unescape(snippet.group(1)), known)
        np.testing.assert_allclose(given, release.sample_weight)

    def test_weights_give_the_private_ratio_back(self, rebalanced: Release) -> None:
        shares = rebalanced.certificate().classes
        assert shares is not None
        assert [each["class"] for each in shares] == ["well", "si ck"]
        assert sum(each["share"] for each in shares) == pytest.approx(1)
        assert sum(each["share_private"] for each in shares) == pytest.approx(1)
        assert shares[0]["share"] / shares[1]["share"] == pytest.approx(MOST)
        assert shares[1]["share_private"] == pytest.approx(0.02, abs=0.004)
        labels = np.array(rebalanced.table["y"].to_pylist())
        counts = np.array([(labels == each["class"]).sum() for each in shares])
        weighted = counts * [each["weight"] for each in shares]
        # 4,000 rows drawn, seeded: the rare class's share is off by a few standard deviations of 0.0035 at most.
        assert counts[1] / len(labels) == pytest.approx(1 / (1 + MOST), abs=0.014)
        assert weighted[1] / weighted.sum() == pytest.approx(0.02, abs=0.01)

    def test_report_and_schema_say_so_and_the_hash_is_the_files(self, rebalanced: Release, tmp_path: Path) -> None:
        rebalanced.save(tmp_path / "out")
        certificate = json.loads((tmp_path / "out/certificate.json").read_text())
        written = (tmp_path / "out/schema.toml").read_bytes()
        assert certificate["schema_sha256"] == hashlib.sha256(written).hexdigest()
        assert certificate["classes_note"].startswith("Classes were rebalanced")
        assert Schema.load(tmp_path / "out/schema.toml") == rebalanced.schema
        text = written.decode()
        assert text.index("# Classes were rebalanced") < text.index('[column."y"]')
        assert text.index(f"# si ck: {1 / (1 + MOST):.1%} of the synthetic rows") > text.index('[column."other"]')
        report = (tmp_path / "out/report.html").read_text()
        assert "Another ratio of classes than the private table" in report
        assert "Weight of a row" in report

    def test_a_model_that_drowns_in_noise_claims_no_ratio(self) -> None:
        data = hospital.stays(5)
        assert released(data, hospital.schema(), epsilon=0.01).classes == ()

    def test_a_number_to_predict_has_no_classes(self) -> None:
        columns = {name: each for name, each in hospital.COLUMNS_PUBLIC.items() if name in ("age", "length_of_stay")}
        data = hospital.stays(2_000).select(list(columns))
        assert released(data, Schema.of(columns, target="length_of_stay")).classes == ()


def test_error_bars_are_as_long_as_the_noise_is_wide() -> None:
    """Seeded, so no false alarm: over 24 teachers of one tree, weights spread by what their error bars say."""
    recipe, teachers = LabelTree(), []

    def opened(seed: int) -> threea.PrivateTable:
        data, schema = hospital.stays(1_500), hospital.schema()
        kept = ("age", "ward", "lactate", "died")
        columns = tuple(column for column in schema.columns if column.name in kept)
        return threea.open_table(
            data.select([column.name for column in columns]),
            schema=Schema(columns, target="died"),
            budget=Budget(4.0),
            noise=SeededNoise(seed),
        )

    table = opened(0)
    tree = recipe.approximate.fit(table, recipe.plan(table))
    for seed in range(1, 25):
        table = opened(seed)
        teacher = recipe.adapt.adapt(tree, table, recipe.plan(table))
        assert isinstance(teacher, Taught)
        teachers.append(teacher)
    told = teachers[0].errors[1] > 0
    spread = np.std([teacher.effects[1, told] for teacher in teachers], axis=0, ddof=1)
    ratio = spread / teachers[0].errors[1, told]
    assert 0.8 < float(np.median(ratio)) < 1.25


class TestProtocols:
    def test_the_framework_is_read_in_five_minutes(self) -> None:
        assert len(Path(framework.__file__).read_text().splitlines()) <= 150

    @pytest.mark.parametrize(
        ("adaptation", "said"),
        [
            (Teacher(), "the teacher labels rows of a label tree, not of a Points"),
            (InducedMixture(alpha=1.0, regularisation=0.1, weight=1.0), "clusters of a mixture, not of a Points"),
            (Mixing(), "mixing needs clusters of rows, not a Points"),
        ],
    )
    def test_an_adaptation_says_which_models_it_takes(self, adaptation: Any, said: str) -> None:
        table = threea.open_table(hospital.stays(100), schema=hospital.schema(), budget=Budget(1.0))
        plan = Plan.calibrate(table.budget, [Step(name="any", weight=1.0)])
        with pytest.raises(SettingError, match=said):
            adaptation.adapt(Points({"age": np.zeros(2)}), table, plan)
