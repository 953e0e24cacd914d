"""The owner's page: marked, whole, self-contained, and true to the scores; the scores: plain data that say enough."""

import copy
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.errors import SettingError
from threea.evaluate.evaluation import check_place, evaluate, save
from threea.evaluate.evidence import Evidence
from threea.evaluate.owner_report import LEARNERS, METRICS, NOTICE, answers, charts, render
from threea.recipes import Independent
from threea.table.schema import Schema
from threea.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("quick_learners")

VOID = {"meta", "br"}
BLOCKS = (
    "notice",
    "verdict",
    "warnings",
    "useful",
    "alike",
    "attacks",
    "learners",
    "reverse",
    "calibration",
    "importance",
    "values",
    "columns",
    "overlays",
    "correlation",
    "rare",
    "detector",
    "figures",
    "about",
)
EVIL = '"><img src=x onerror=alert(1)></title></style><script>alert(2)</script>{{ 7 * 7 }}'


class Page(HTMLParser):
    """What a browser would make of a page: its elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
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

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._open.pop()
        assert tag == opened, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        for name in {name for _, name in self._open if name} | {"everything"}:
            if not any(tag == "style" for tag, _ in self._open):
                self.texts[name] = self.texts.get(name, "") + data

    def text(self, block: str = "everything") -> str:
        return " ".join(self.texts.get(block, "").split())


def evidence_of(schema: Schema, sizes: tuple[int, int] = (500, 250), *, shuffled: bool = True) -> Evidence:
    """Make a release that is the same each time; its noise is seeded, so its guarantee is none."""
    stays = hospital.stays(sum(sizes))
    if shuffled:
        stays = stays.take(np.random.default_rng(0).permutation(stays.num_rows))
    train, holdout = stays.slice(0, sizes[0]), stays.slice(sizes[0])
    table = open_table(train, schema=schema, budget=Budget(5.0), noise=SeededNoise(0))
    release = Independent(bins=8).run(table, rows=min(300, sizes[0]), seed=0)
    certificate = json.loads(release.certificate("ab" * 32).to_json())
    return Evidence(schema, certificate, release.table, train, holdout)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return evidence_of(hospital.schema())


@pytest.fixture(scope="module")
def evaluated(evidence: Evidence) -> dict[str, Any]:
    return evaluate(evidence)


@pytest.fixture
def scores(evaluated: dict[str, Any]) -> dict[str, Any]:
    """A copy to change."""
    return copy.deepcopy(evaluated)


class TestScores:
    def test_all_parts_are_there_and_fit_in_json(self, evaluated: dict[str, Any]) -> None:
        assert json.loads(json.dumps(evaluated, allow_nan=False)) == evaluated
        assert evaluated["notice"] == NOTICE
        assert evaluated["utility"]["target"] == "died"
        assert {entry["columns"] for entry in evaluated["fidelity"]["marginals"]} == {1, 2, 3}
        assert len(evaluated["attacks"]["attacks"]) == 10
        assert evaluated["certificate"]["epsilon"] == 5.0
        assert evaluated["certificate"]["recipe"] == "independent"

    def test_equal_evidence_and_seed_give_equal_scores(self) -> None:
        small = evidence_of(hospital.schema(), (120, 80))
        assert evaluate(small) == evaluate(small)

    def test_a_release_without_proof_is_warned_of(self, evaluated: dict[str, Any]) -> None:
        assert any("guarantee is none" in warning for warning in evaluated["warnings"])

    def test_a_random_split_passes_and_one_by_date_is_warned_of(self, evaluated: dict[str, Any]) -> None:
        assert evaluated["split"]["random"]
        assert not any("at random" in warning for warning in evaluated["warnings"])
        by_date = evaluate(evidence_of(hospital.schema(), (240, 160), shuffled=False))
        assert by_date["split"]["auc"]["interval"][0] > 0.9
        assert any("not divided at random" in warning for warning in by_date["warnings"])

    def test_steps_are_told_in_order(self) -> None:
        told: list[str] = []
        evaluate(evidence_of(hospital.schema(), (60, 60)), progress=told.append)
        assert told[0].startswith("independent rows")
        assert told[-3:] == ["distances between the tables", "attacks", "the split of the real rows"]

    def test_without_a_target_the_rest_is_measured(self) -> None:
        schema = Schema(columns=hospital.schema().columns, target=None, confirmed=True)
        aimless = evidence_of(schema, (120, 80))
        found = evaluate(aimless)
        assert found["utility"] is None
        assert any("no target" in warning for warning in found["warnings"])
        assert found["fidelity"]["columns"]
        page = Page(render(found, aimless))
        assert "Not measured" in page.text("useful")
        assert not page.text("learners")
        assert page.text("columns")

    def test_a_numeric_target_has_metrics_of_its_own(self) -> None:
        described = hospital.schema()
        numeric = evidence_of(Schema(columns=described.columns, target="lactate", confirmed=True), (120, 80))
        found = evaluate(numeric)
        page = Page(render(found, numeric))
        assert found["utility"]["task"] == "regression"
        assert "reaches R²" in page.text("useful")
        assert "Root mean squared error" in page.text("learners")
        assert "Ridge regression" in page.text("learners")
        assert not page.text("calibration")

    def test_a_table_of_common_categories_is_evaluated(self) -> None:
        """No released row stands alone in it, so there is nothing to single out with."""
        rng = np.random.default_rng(0)
        schema = Schema.of({name: {"kind": "boolean"} for name in "abc"}, target="c")
        tables = [pa.table({name: rng.random(400) < 0.5 for name in "abc"}) for _ in range(3)]
        one = Evidence(schema, {"recipe": "r", "guarantee": "proven"}, *tables)
        scores = evaluate(one)
        attacks = {attack["name"]: attack for attack in scores["attacks"]["attacks"]}
        for name in ("singling out by one column", "singling out by several columns"):
            assert attacks[name]["verdict"].startswith("Not tried")
            assert not attacks[name]["sign"]
        assert "Not tried" in Page(render(scores, one)).text("attacks")
        assert answers(scores)[2].verdict == "No sign in 8 attacks"

    def test_too_few_rows_to_attack_are_warned_of(self) -> None:
        few = evidence_of(hospital.schema(), (60, 30))
        found = evaluate(few)
        assert found["attacks"]["attacks"] == []
        assert any("too few rows to attack" in warning for warning in found["warnings"])
        page = Page(render(found, few))
        assert "Not measured" in page.text("attacks")
        assert not page.text("figures")


class TestPage:
    def test_the_banner_comes_first_and_is_the_header_of_every_printed_page(
        self, evaluated: dict[str, Any], evidence: Evidence
    ) -> None:
        text = render(evaluated, evidence)
        page = Page(text)
        assert NOTICE == "For the owner only - do not release: this page was made by reading the private rows"
        assert page.text("notice") == NOTICE
        body = text[text.index("<body>") :]
        assert re.sub("<[^>]*>", " ", body).split()[:5] == NOTICE.split()[:5]
        printed = text[text.rindex("@media print") :]
        assert re.search(r"\.running\{display:table-header-group[^}]*break-inside:avoid", printed)
        assert re.search(r"\.running\{background:var\(--bad\)", text)
        assert "For the owner only" in re.search("<title>(.*)</title>", text)[1]

    def test_it_needs_nothing_but_itself(self, evaluated: dict[str, Any], evidence: Evidence) -> None:
        text = render(evaluated, evidence)
        page = Page(text)
        assert not {"script", "link", "img", "iframe", "object", "embed", "image", "use", "a", "form"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name in ("src", "href", "srcset", "xlink:href")]
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        for reference in ("http://", "https://", "url(", "@import"):
            assert reference not in text
        assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes

    def test_every_block_is_there_and_says_what_the_scores_say(
        self, evaluated: dict[str, Any], evidence: Evidence
    ) -> None:
        page = Page(render(evaluated, evidence))
        for block in BLOCKS:
            assert page.text(block), block
        assert page.tags.count("h1") == 1
        found = evaluated["utility"]["learners"]
        for name in ("real", "synthetic", "independent"):
            assert f"{found['lightgbm'][name]['auc']['value']:.3f}" in page.text("useful")
        for learner in LEARNERS["classification"].values():
            assert learner in page.text("learners")
            assert learner in page.text("reverse")
        for metric in evaluated["utility"]["meanings"]:
            assert METRICS[metric] in page.text("learners")
            assert f"{found['forest']['reverse'][metric]['value']:.3f}" in page.text("reverse")
        for entry in evaluated["fidelity"]["marginals"]:
            for name in ("matched", "floor"):
                assert f"{entry['total_variation'][name]['value']:.3f}" in page.text("alike")
        for attack in evaluated["attacks"]["attacks"]:
            for words in (attack["name"], attack["question"], attack["shows"], attack["cannot_show"]):
                assert " ".join(words.split()) in page.text("attacks")
        for column in evidence.schema.modelled:
            assert column.name in page.text("columns")
        for warning in evaluated["warnings"]:
            assert warning in page.text("warnings")
        assert f"{evaluated['fidelity']['detector']['auc']['value']:.3f}" in page.text("detector")

    def test_equal_arguments_give_equal_pages(self, evaluated: dict[str, Any], evidence: Evidence) -> None:
        assert render(evaluated, evidence) == render(evaluated, evidence)

    def test_malicious_names_stay_text(self, scores: dict[str, Any], evidence: Evidence) -> None:
        scores["utility"]["target"] = scores["utility"]["positive"] = EVIL
        scores["utility"]["importance"]["features"][0]["name"] = EVIL
        scores["fidelity"]["columns"][0]["name"] = EVIL
        scores["fidelity"]["correlation"]["spearman"]["columns"][0] = EVIL
        scores["attacks"]["attacks"][0]["figures"][-1]["name"] = EVIL
        scores["warnings"] = [EVIL, "a\u202eb\x00c"]
        for fact in ("recipe", "guarantee", "unit", "epsilon", "synthetic_sha256"):
            scores["certificate"][fact] = EVIL
        text = render(scores, evidence)
        page = Page(text)
        assert not {"img", "script"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert not set("\u202e\x00") & set(text)
        for block in ("warnings", "columns", "importance", "summary", "about", "figures"):
            assert EVIL[:30] in page.text(block), block

    def test_another_ratio_of_classes_is_told_with_its_weights(
        self, scores: dict[str, Any], evidence: Evidence
    ) -> None:
        assert "another ratio" not in Page(render(scores, evidence)).text()
        scores["utility"]["class_weights"] = {"false": 1.25, EVIL: 0.125}
        page = Page(render(scores, evidence))
        assert "another ratio" in page.text("learners")
        assert "false 1.25, " in page.text("learners")
        assert "0.125." in page.text("learners")
        assert not {"img", "script"} & set(page.tags)

    def test_what_is_undefined_is_said_to_be(self, scores: dict[str, Any], evidence: Evidence) -> None:
        nothing = {"value": None, "interval": None}
        for found in scores["utility"]["learners"].values():
            found["synthetic"]["auc"] = found["synthetic_minus_real"]["auc"] = nothing
            del found["reverse"], found["independent"], found["synthetic_minus_independent"]
        scores["utility"]["importance"]["spearman"] = nothing
        scores["fidelity"]["correlation"]["spearman"]["mean_difference"]["floor"] = nothing
        scores["fidelity"]["rare_categories"]["floor"]["mass"] = nothing
        page = Page(render(scores, evidence))
        assert "Not measured" in page.text("useful")
        for block in ("learners", "correlation", "rare"):
            assert "undefined" in page.text(block)
        assert "–" in page.text("reverse")
        assert "too few features" in page.text("importance")

    def test_many_columns_unfold_and_lose_their_labels(self, scores: dict[str, Any], evidence: Evidence) -> None:
        column = scores["fidelity"]["columns"][0]
        scores["fidelity"]["columns"] = [{**column, "name": f"column {number}"} for number in range(40)]
        names = [f"c{number}" for number in range(30)]
        matrix = [[0.5] * 30 for _ in names]
        entry = scores["fidelity"]["correlation"]["spearman"]
        entry |= {"columns": names, "matrices": {"train": matrix, "synthetic": matrix}}
        page = Page(render(scores, evidence))
        assert "16 more columns" in page.text("columns")
        assert all(f"column {number}" in page.text("columns") for number in range(40))
        assert "In order: c0, c1," in page.text("correlation")


class TestAnswers:
    def useful(self, scores: dict[str, Any], loss: list[float], gain: list[float], recipe: str = "better") -> Any:
        scores["certificate"]["recipe"] = recipe
        found = scores["utility"]["learners"]["lightgbm"]
        found["synthetic_minus_real"]["auc"]["interval"] = loss
        found["synthetic_minus_independent"]["auc"] = {"value": sum(gain) / 2, "interval": gain}
        return answers(scores)[0]

    @pytest.mark.parametrize(
        ("loss", "gain", "tone", "verdict"),
        [
            ([-0.1, 0.01], [-0.1, -0.01], "good", "As good as the real rows"),
            ([-0.1, -0.05], [0.01, 0.02], "good", "better than independent"),
            ([-0.1, -0.05], [-0.01, 0.02], "fair", "no better than independent"),
            ([-0.1, -0.05], [-0.04, -0.02], "bad", "Worse than independent"),
        ],
    )
    def test_usefulness_is_judged_by_intervals(
        self, scores: dict[str, Any], loss: list[float], gain: list[float], tone: str, verdict: str
    ) -> None:
        answer = self.useful(scores, loss, gain)
        assert answer.tone == tone
        assert verdict in answer.verdict

    def test_independent_is_not_beaten_by_itself(self, scores: dict[str, Any]) -> None:
        answer = self.useful(scores, [-0.1, -0.05], [-0.04, -0.02], recipe="independent")
        assert answer.verdict == "Less than the real rows"
        assert "Another draw of noise" in answer.text

    def test_likeness_is_judged_against_sampling_alone(self, scores: dict[str, Any]) -> None:
        for entry in scores["fidelity"]["marginals"]:
            entry["total_variation"] = {name: {"value": 0.1, "interval": [0.09, 0.11]} for name in ("matched", "floor")}
        assert answers(scores)[1].verdict == "As close as sampling allows"
        scores["fidelity"]["marginals"][2]["total_variation"]["matched"] = {"value": 0.2, "interval": [0.12, 0.3]}
        assert answers(scores)[1].tone == "fair"

    def test_signs_are_counted_and_a_split_by_date_is_blamed_too(self, scores: dict[str, Any]) -> None:
        scores["attacks"]["signs"] = []
        assert (answers(scores)[2].tone, answers(scores)[2].verdict) == ("good", "No sign in 10 attacks")
        scores["attacks"]["signs"] = ["exact copies", "linkability"]
        answer = answers(scores)[2]
        assert (answer.tone, answer.verdict) == ("bad", "2 of 10 attacks found a sign")
        assert "exact copies, linkability" in answer.text
        assert "at random" not in answer.text
        scores["split"]["random"] = False
        assert "not divided at random" in answers(scores)[2].text

    def test_a_sign_is_shown_by_its_worst_figure(self, scores: dict[str, Any], evidence: Evidence) -> None:
        attack = scores["attacks"]["attacks"][4]
        attack["sign"] = True
        deciding = [figure for figure in attack["figures"] if figure["decides"]]
        deciding[1] |= {"value": 0.876, "interval": [0.765, 0.987]}
        text = Page(render(scores, evidence)).text("attacks")
        assert "Sign found 0.876 [0.765, 0.987] against 0" in text
        assert deciding[1]["name"] in text


class TestPictures:
    @given(
        st.lists(
            st.tuples(*[st.floats(-1e6, 1e6)] * 3).map(sorted),
            min_size=1,
            max_size=8,
        ),
        st.none() | st.floats(-1, 1),
    )
    def test_a_dot_lies_between_the_ends_of_its_whisker(
        self, figures: list[list[float]], baseline: float | None
    ) -> None:
        rows = [("x", "real", {"value": middle, "interval": [low, high]}) for low, middle, high in figures]
        drawn = charts.dots(rows, title="t", baseline=baseline)
        for row in drawn.rows:
            low, high = (float(end) for end in re.fullmatch(r"M([\d.]+) 10H([\d.]+)", row.whisker).groups())
            spot = float(re.fullmatch(r"M([\d.]+) 10h.01", row.dot)[1])
            assert 0 <= low <= spot <= high <= 1000
        assert 1 <= len(drawn.ticks) <= 8
        assert all(0 <= float(position) <= 100 for position, *_ in drawn.ticks)
        assert bool(drawn.line) == (baseline is not None)

    def test_larger_values_stand_further_right_on_the_shared_axis(self) -> None:
        figures = [("x", "real", {"value": value, "interval": None}) for value in (0.1, 0.2, 0.4)]
        spots = [float(row.dot[1:-7]) for row in charts.dots(figures, title="t").rows]
        assert spots == sorted(spots)
        assert (spots[2] - spots[1]) == pytest.approx(2 * (spots[1] - spots[0]), abs=0.2)

    def test_distances_are_ranked_and_fill_the_width(self) -> None:
        def column(name: str, matched: float, floor: float) -> dict[str, Any]:
            figures = {"matched": matched, "floor": floor, "synthetic": matched}
            distances = {key: {"value": value, "interval": [value, value]} for key, value in figures.items()}
            return {"name": name, "kind": "real", "total_variation": distances}

        bars = charts.distance_bars([column("near", 0.1, 0.05), column("far", 0.4, 0.1)])
        assert [(bar.label, bar.bar) for bar in bars] == [("far", "1000"), ("near", "250")]
        assert bars[0].dot == "M250 10h.01"

    def test_heatmaps_show_both_tables_and_their_difference(self) -> None:
        first, second = [[1.0, 0.5], [0.5, 1.0]], [[1.0, -0.5], [-0.5, None]]
        drawn = charts.heatmaps({"a": first, "b": second}, ["x", "y"])
        assert [one.title for one in drawn] == ["a", "b", "difference"]
        shades = [dict(one.paths) for one in drawn]
        assert set(shades[0]) == {charts.colour(1.0), charts.colour(0.5)}
        assert sum(path.count("M") for path in shades[1].values()) == 3
        assert set(shades[2]) == {charts.colour(0.0), charts.colour(-1.0)}
        assert [text for _, text in drawn[0].labels] == ["x", "y"]

    def test_importances_below_nought_have_no_bar(self) -> None:
        features = [{"name": "a", "real": 0.2, "synthetic": 0.1}, {"name": "b", "real": -0.1, "synthetic": 0.0}]
        bars = charts.importance_bars(features, 15)
        assert [(bar.real, bar.synthetic) for bar in bars] == [("1000", "500"), ("0", "0")]

    def test_colours_can_be_told_apart_from_white_and_from_each_other(self) -> None:
        def luminance(shade: str) -> float:
            parts = [int(shade[place : place + 2], 16) / 255 for place in (1, 3, 5)]
            linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

        for end in (-1.0, 1.0):
            contrast = (luminance(charts.colour(0.0)) + 0.05) / (luminance(charts.colour(end)) + 0.05)
            assert contrast > 4.5

    @pytest.mark.parametrize("value", [math.pi * 1e5, -1e9, 12.0])
    def test_large_scores_keep_four_digits(self, value: float) -> None:
        assert len(re.sub(r"\D", "", charts.short(value))) <= 7


class TestPlace:
    def test_the_default_is_beside_the_release(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        release = tmp_path / "r"
        release.mkdir()
        assert check_place(release) == tmp_path / "r-evaluation"
        monkeypatch.chdir(release)
        assert check_place(".") == tmp_path / "r-evaluation"

    @pytest.mark.parametrize("out", ["r", "r/sub", "r/../r/sub", "link", "link/sub"])
    def test_no_place_in_the_release_is_taken(self, tmp_path: Any, out: str) -> None:
        (tmp_path / "r").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "r")
        with pytest.raises(SettingError, match="inside the release"):
            check_place(tmp_path / "r", tmp_path / out)

    def test_only_the_owner_can_read_the_folder(
        self, evaluated: dict[str, Any], evidence: Evidence, tmp_path: Any
    ) -> None:
        files = save(evaluated, evidence, tmp_path / "e")
        assert [file.name for file in files] == ["owner-report.html", "scores.json"]
        assert (tmp_path / "e").stat().st_mode & 0o077 == 0
        assert json.loads(files[1].read_text()) == evaluated
        assert files[0].read_text() == render(evaluated, evidence)
