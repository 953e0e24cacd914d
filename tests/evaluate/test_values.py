"""Single values: a release that keeps sentinels, spikes and grain is nearer than one that smears them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.evaluate.evidence import Evidence
from threea.evaluate.fidelity import fidelity, values
from threea.evaluate.verdict import verdict
from threea.table.schema import Column, Kind, Schema

pytestmark = pytest.mark.usefixtures("quick_learners")

ROWS = 4_000
NEVER = 999.0


def calls(seed: int, *, rows: int = ROWS) -> dict[str, Any]:
    """Make rows as a bank's are: days since the last call, 999 for never; one of ten rates; round salaries."""
    rng = np.random.default_rng(seed)
    days = np.where(rng.random(rows) < 0.96, NEVER, rng.integers(0, 28, rows))
    rates = rng.choice([0.6, 0.7, 0.9, 1.2, 1.3, 2.1, 3.4, 4.1, 4.9, 5.0], rows)
    return {"days": days, "rate": rates, "salary": rng.integers(1, 40, rows) * 10_000.0, "yes": rng.random(rows) < 0.1}


def smeared(seed: int) -> dict[str, Any]:
    """Return rows of the same shares in ranges, with values spread over them: 999 among others up to there."""
    rng, rows = np.random.default_rng(seed), calls(seed)
    days = np.where(rows["days"] == NEVER, rng.uniform(975, NEVER, ROWS).round(), rows["days"])
    return {
        **rows,
        "days": days,
        "rate": rows["rate"] + rng.uniform(-0.02, 0.02, ROWS),
        "salary": rows["salary"] + rng.uniform(-300, 300, ROWS).round(),
    }


WIDE = {"kind": "integer", "lower": 0, "upper": 999}
NARROW = {"kind": "integer", "lower": 0, "upper": 27, "special": [NEVER]}


def evidence(synthetic: dict[str, Any], days: dict[str, Any], certificate: dict[str, Any] | None = None) -> Evidence:
    schema = Schema.of(
        {
            "days": days,
            "rate": {"kind": "real", "lower": 0, "upper": 6},
            "salary": {"kind": "real", "lower": 0, "upper": 400_000},
            "yes": {"kind": "boolean"},
        },
        target="yes",
    )
    tables = (pa.table(synthetic), pa.table(calls(1)), pa.table(calls(2)))
    return Evidence(schema, certificate or {}, *tables)


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Any], dict[str, Any]]:
    repaired = calls(3)
    # A repaired release is not perfect: its sentinel is off by a point, and its days are less regular.
    repaired["days"] = np.where(np.arange(ROWS) % 100 == 0, 5.0, repaired["days"])
    return fidelity(evidence(repaired, NARROW)), fidelity(evidence(smeared(3), WIDE))


def by_name(found: dict[str, Any]) -> dict[str, Any]:
    return {column["name"]: column for column in found["columns"]}


def test_the_repaired_release_is_nearer_than_the_smeared_one(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert both[0]["marginals"][0]["total_variation"]["synthetic"]["value"] < 0.05
    for size in range(3):
        near, far = (found["marginals"][size]["total_variation"]["synthetic"] for found in both)
        assert near["interval"][1] < far["interval"][0]
    for name in ("days", "rate", "salary"):
        near, far = (by_name(found)[name]["total_variation"]["synthetic"]["value"] for found in both)
        assert near < 0.08
        assert far > 0.5


def test_wasserstein_has_one_scale_whatever_the_schema_says(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Under the narrow schema's range of 27 a point of 999 smeared would be 0.37; it is 0.01 of 0 to 999."""
    repaired = by_name(both[0])["days"]["wasserstein"]["synthetic"]["value"]
    assert repaired == pytest.approx(0.01, abs=0.008)


def test_broken_sentinels_and_grain_are_listed(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    repaired, broken = both
    assert repaired["broken"] == []
    said = {entry["column"]: [] for entry in broken["broken"]}
    for entry in broken["broken"]:
        said[entry["column"]].append(entry["what"])
    assert said.keys() == {"days", "rate", "salary"}
    assert any(what.startswith("999 is 9") and "of the real rows and" in what for what in said["days"])
    assert any("multiples of 0.1" in what for what in said["rate"])
    assert any("multiples of 10,000" in what for what in said["salary"])


def test_every_column_has_a_picture_of_all_rows(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for found in both:
        for column in found["columns"]:
            for side in ("real", "synthetic"):
                assert sum(bar[side] for bar in column["picture"]) == pytest.approx(1.0, abs=1e-4)
    labels = [bar["label"] for bar in by_name(both[0])["days"]["picture"]]
    assert "999" in labels


def test_a_balanced_release_is_compared_in_the_private_ratio() -> None:
    drawn = calls(4, rows=9_000)
    kept = drawn["yes"] | (np.arange(9_000) % 9 == 0)
    balanced = {name: column[kept] for name, column in drawn.items()}
    share = float(balanced["yes"].mean())
    classes = [
        {"class": "false", "weight": 0.9 / (1 - share)},
        {"class": "true", "weight": 0.1 / share},
    ]
    found = fidelity(evidence(balanced, NARROW, {"classes": classes}))
    assert share > 0.4
    assert found["thinned"] is True
    assert by_name(found)["yes"]["total_variation"]["synthetic"]["value"] < 0.03


@pytest.mark.parametrize(
    ("numbers", "step"),
    [
        ([10.0, 250.0, 40.0], 10.0),
        ([0.01, 0.12, 7.77], 0.01),
        ([1.0, 2.0, 4.0], 1.0),
        ([np.pi, np.e, 1.0], None),
        ([3.0, 6.0, np.nan], None),
    ],
)
def test_grain_is_the_largest_usual_step(numbers: list[float], step: float | None) -> None:
    assert values.grain(np.array(numbers * 20)) == step


def test_odd_columns_are_described() -> None:
    column = Column(name="x", kind=Kind.REAL, lower=0.0, upper=1.0)
    nothing, constant = np.full(5, np.nan), np.full(5, 0.5)
    for real, synthetic in ((nothing, nothing), (constant, nothing), (nothing, constant), (constant, constant)):
        assert values.described(column, real, synthetic)["outside"] == 0.0
        bars = values.picture(column, real, synthetic)
        assert sum(bar["real"] for bar in bars) == pytest.approx(1.0)


def _utility(real: float | None, synthetic: float | None) -> dict[str, Any]:
    scores = {"real": {"auc": {"value": real}}, "synthetic": {"auc": {"value": synthetic}}}
    return {"task": "classification", "learners": {"lightgbm": scores}}


@pytest.mark.parametrize(
    ("real", "synthetic", "tone", "words"),
    [
        (0.92, 0.91, "good", "Good enough for training: models reach AUC 0.910 instead of 0.920."),
        (0.92, 0.88, "fair", "where 0.040 may be lost"),
        (0.92, 0.80, "bad", "Not good enough for training: models lose 0.120"),
        (None, 0.8, "fair", "undefined"),
    ],
)
def test_one_sentence_says_whether_it_is_good_enough(
    real: float | None, synthetic: float, tone: str, words: str
) -> None:
    said = verdict(_utility(real, synthetic), {"broken": []})
    assert said["tone"] == tone
    assert words in said["sentence"]
    broken = verdict(_utility(real, synthetic), {"broken": [{"column": "pdays", "what": "999"}] * 2})
    assert "values of 1 column are not as in real rows (pdays)" in broken["sentence"]


def test_weekdays_and_months_that_are_off_are_told_of_beyond_what_sampling_explains() -> None:
    """Shares of 400 rows differ by chance, which is said, and not taken for a fault; seeds are fixed."""
    column = Column(name="admitted", kind=Kind.DATE, lower=0.0, upper=1e5)
    rng = np.random.default_rng(0)
    even, again = (rng.integers(18_262, 18_262 + 1_096, 400).astype(float) for _ in range(2))
    office = even[(even + 3) % 7 < 5]
    weekdays, months = values.described(column, even, again)["calendar"]
    assert (weekdays["part"], months["part"]) == ("weekday", "month")
    assert weekdays["chance"] / 3 < weekdays["distance"] < 3 * weekdays["chance"]
    assert sum(cell["real"] for cell in weekdays["cells"]) == pytest.approx(1.0, abs=1e-4)
    assert values.described(column, even, again)["broken"] == []
    (said,) = values.described(column, office, again)["broken"]
    assert said.startswith(
        ("by weekday, Saturday is 0% of the real dates", "by weekday, Sunday is 0% of the real dates")
    )
    number = Column(name="age", kind=Kind.INTEGER, lower=0.0, upper=1e5)
    assert values.described(number, office, again)["calendar"] == []
    assert values.described(column, np.full(3, np.nan), again)["calendar"] == []
