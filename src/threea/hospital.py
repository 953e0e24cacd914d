"""Simulated hospital stays: the table the demo, the tutorials and the tests run on.

Every row is drawn by the code below from made-up rules: **no real person stands behind any of them**, and no
number here was estimated from patients. The rules copy what makes such tables hard: people who come back,
rare wards, a long tail of diagnoses, skewed amounts with a spike at zero, values missing for a reason, a rare
outcome that hangs on interactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError
from threea.table.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[Any]

DAYS = 3 * 365
WARDS = ["medicine", "surgery", "cardiology", "intensive care", "paediatrics", "maternity"]
WARDS += ["burns", "transplant"]  # the rare ones
ADMISSIONS = ["elective", "urgent", "emergency"]
SEXES = ["F", "M", "X"]
INSURANCES = ["statutory", "private", "self-pay"]

# By chapter: codes from common to rare; how often at ages 0-17, 18-44, 45-69, 70+; weights of ADMISSIONS;
# weights of WARDS, before children move to paediatrics and the sickest emergencies to intensive care.
_CHAPTERS: dict[str, tuple[str, list[float], list[float], list[float]]] = {
    "I": ("I50 I21 I48 I63 I10 I26", [0.1, 0.5, 3.0, 5.0], [25, 35, 40], [30, 6, 55, 9, 0, 0, 0, 0.3]),
    "J": ("J18 J44 J20 J96 J45 J69", [4.0, 0.8, 1.5, 2.5], [5, 45, 50], [82, 4, 4, 10, 0, 0, 0, 0.2]),
    "K": ("K80 K35 K57 K92 K85 K56", [1.5, 2.0, 2.0, 1.5], [40, 35, 25], [35, 60, 0, 4, 0, 0, 0, 1.5]),
    "S": ("S72 S06 S82 S42 S22 S52", [2.5, 2.5, 1.2, 2.2], [8, 27, 65], [8, 80, 0, 8, 0, 0, 4, 0]),
    "O": ("O80 O82 O42 O24 O14 O60", [0.1, 16.0, 0.0, 0.0], [30, 60, 10], [0, 0, 0, 0, 0, 100, 0, 0]),
    "C": ("C50 C34 C18 C64 C25 C92", [0.3, 0.7, 3.0, 2.5], [75, 20, 5], [50, 46, 0, 2, 0, 0, 0, 1]),
    "N": ("N39 N17 N20 N18 N13 N10", [0.8, 1.5, 1.8, 2.2], [25, 45, 30], [70, 22, 0, 4, 0, 0, 0, 5]),
    "A": ("A09 A41 A49 A04 A46 A48", [3.0, 1.0, 1.2, 2.2], [2, 38, 60], [76, 6, 0, 18, 0, 0, 0, 0]),
    "E": ("E11 E86 E87 E10 E66 E05", [1.2, 1.0, 2.0, 1.5], [45, 35, 20], [90, 7, 0, 3, 0, 0, 0, 0]),
    "F": ("F10 F32 F05 F20 F41 F43", [0.6, 2.2, 1.0, 0.6], [20, 45, 35], [97, 0, 0, 3, 0, 0, 0, 0]),
}
_CODES = [code for rank in range(6) for code in (c[0].split()[rank] for c in _CHAPTERS.values())]
_CHAPTER_OF = np.array([list(_CHAPTERS).index(code[0]) for code in _CODES])
# Added to the log-odds of death and, in part, to how sick the patient is on arrival.
_DANGER = {"A41": 2.0, "J96": 1.8, "C25": 1.6, "I63": 1.2, "I21": 1.1, "S06": 1.0, "C34": 0.9, "N17": 0.8}
_DANGER |= {"J69": 1.4, "K85": 0.6, "I50": 0.6, "I26": 0.9, "C92": 1.2, "O80": -3.0, "O82": -2.5, "F41": -1.0}

_ALWAYS, _SOMETIMES = {"nullable": False}, {"nullable": True}
_FROM, _TO = "2021-01-01T00:00:00", "2024-01-01T00:00:00"
COLUMNS_PUBLIC: dict[str, dict[str, Any]] = {
    "patient_id": {"kind": "id"} | _ALWAYS,
    "admitted": {"kind": "datetime", "lower": _FROM, "upper": _TO} | _ALWAYS,
    "ward": {"kind": "categorical", "categories": WARDS} | _ALWAYS,
    "admission_type": {"kind": "ordinal", "categories": ADMISSIONS} | _ALWAYS,
    "age": {"kind": "integer", "lower": 0, "upper": 110} | _ALWAYS,
    "sex": {"kind": "categorical", "categories": SEXES} | _ALWAYS,
    "insurance": {"kind": "categorical", "categories": INSURANCES} | _SOMETIMES,
    "diagnosis": {"kind": "categorical", "categories": sorted(_CODES)} | _ALWAYS,
    "prior_stays": {"kind": "integer", "lower": 0, "upper": 30} | _ALWAYS,
    "lactate": {"kind": "real", "lower": 0.1, "upper": 30.0, "log": True} | _SOMETIMES,
    "creatinine": {"kind": "real", "lower": 0.1, "upper": 25.0, "log": True} | _SOMETIMES,
    "cost": {"kind": "real", "lower": 10.0, "upper": 5e5, "log": True, "special": [0.0]} | _ALWAYS,
    "ventilated": {"kind": "boolean"} | _SOMETIMES,
    "length_of_stay": {"kind": "integer", "lower": 0, "upper": 365} | _ALWAYS,
    "died": {"kind": "boolean"} | _ALWAYS,
}
"""What anyone may know of a column before seeing a row: kind, bounds (mmol/l, mg/dl, euro, days), categories.

A value in ``special`` stands apart from the bounds. Bounds come from what is possible, not from the rows.
"""


class _Dice:
    """Draw from uniform numbers alone: numpy keeps that stream, but may change its other distributions."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def uniform(self, size: int) -> Array:
        return self._generator.random(size)

    def normal(self, size: int) -> Array:
        """Draw standard normals (Box and Muller 1958)."""
        radius = np.sqrt(-2.0 * np.log1p(-self.uniform(size)))
        return radius * np.cos(2.0 * np.pi * self.uniform(size))

    def chance(self, probability: Array) -> Array:
        return self.uniform(len(probability)) < probability

    def pick(self, weights: Array, group: Array) -> Array:
        """Draw one index per entry of ``group``, by the weights in the row of ``weights`` it names."""
        draws = self.uniform(len(group))
        picked = np.zeros(len(group), dtype=np.int64)
        for name, row in enumerate(weights):
            members = group == name
            cumulative = np.cumsum(row)
            picked[members] = np.searchsorted(cumulative / cumulative[-1], draws[members], side="right")
        return picked


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _people(dice: _Dice, rows: int) -> dict[str, Array]:
    """Draw people, each with one to twelve stays, and when these begin."""
    frail = dice.chance(np.full(rows, 0.08))
    again = np.where(frail, 0.72, 0.29)
    stays_each = np.minimum(1 + np.floor(np.log1p(-dice.uniform(rows)) / np.log(again)), 12).astype(np.int64)
    young = dice.chance(np.where(frail, 0.1, 0.36))
    base_age = np.clip(np.where(young, 24, 68) + np.where(young, 14, 11) * dice.normal(rows), 0, 97)
    sex = dice.pick(np.array([[51.5, 48.0, 0.5]]), np.zeros(rows, dtype=np.int64))
    before = np.where(frail, np.floor(4 * dice.uniform(rows)), dice.chance(np.full(rows, 0.07)))

    person = np.repeat(np.arange(rows), stays_each)[:rows]
    starts = np.cumsum(stays_each) - stays_each
    nth = np.arange(rows) - starts[person]
    # Each stay has its own share of the three years, so a person's stays come in order and seldom overlap.
    day = np.floor((nth + dice.uniform(rows)) / stays_each[person] * DAYS)
    age = np.clip(np.floor(base_age[person] + day / 365.25), 0, 100)
    person_is = {"age": age, "sex": sex[person], "frail": frail[person]}
    return person_is | {"person": person, "day": day, "prior": before[person] + nth}


def _care(dice: _Dice, people: dict[str, Array]) -> dict[str, Array]:
    """Draw why a person came, how, and to which ward: each given the ones before."""
    affinity = np.array([chapter[1] for chapter in _CHAPTERS.values()])[_CHAPTER_OF].T
    zipf = 1.0 / np.arange(3, len(_CODES) + 3) ** 1.25
    pregnancy = np.array([code[0] == "O" for code in _CODES])
    by_age = affinity * zipf
    by_age_and_sex = np.concatenate([by_age, np.where(pregnancy, 0.0, by_age)])
    age_group = np.searchsorted([18, 45, 70], people["age"], side="right")
    may_bear = (people["sex"] != 1) & (people["age"] >= 14)
    diagnosis = dice.pick(by_age_and_sex, np.where(may_bear, age_group, age_group + 4))
    chapter = _CHAPTER_OF[diagnosis]

    admission = dice.pick(np.array([c[2] for c in _CHAPTERS.values()]), chapter)
    danger = np.array([_DANGER.get(code, 0.0) for code in _CODES])[diagnosis]
    sickness = dice.normal(len(chapter)) + 0.35 * danger + 0.35 * (admission - 1) + 0.2 * people["frail"]
    ward = dice.pick(np.array([c[3] for c in _CHAPTERS.values()]), chapter)
    child = (people["age"] < 16) & (ward < 3) & dice.chance(np.full(len(ward), 0.93))
    ward = np.where(child, WARDS.index("paediatrics"), ward)
    critical = (admission == 2) & (ward < 3) & dice.chance(_sigmoid(1.6 * sickness - 4.2))
    ward = np.where(critical, WARDS.index("intensive care"), ward)
    reason = {"diagnosis": diagnosis, "danger": danger, "sickness": sickness}
    return reason | {"admission": admission, "ward": ward}


def _course(dice: _Dice, people: dict[str, Array], care: dict[str, Array]) -> dict[str, Array]:
    """Draw what was measured and done, how long it took, and how it ended."""
    age, sickness, danger, admission = people["age"], care["sickness"], care["danger"], care["admission"]
    rows = len(age)
    chapter = _CHAPTER_OF[care["diagnosis"]]
    septic, renal = (chapter == list(_CHAPTERS).index(letter) for letter in "AN")
    intensive = care["ward"] == WARDS.index("intensive care")

    ventilated = dice.chance(_sigmoid(-6.2 + 3.6 * intensive + 1.1 * sickness + 0.5 * danger))
    log_lactate = 0.2 + 0.34 * sickness + 0.4 * septic + 0.35 * intensive + 0.28 * dice.normal(rows)
    log_creatinine = -0.25 + 0.15 * (people["sex"] == 1) - 0.5 * (age < 14) + 0.006 * (age - 40).clip(0)
    log_creatinine += 0.75 * renal + 0.5 * ventilated + 0.12 * sickness + 0.3 * dice.normal(rows)

    log_odds = -5.2 + 0.045 * (age - 55).clip(-30) + 1.9 * log_lactate + 0.5 * (log_creatinine > 0.5)
    log_odds += 0.9 * intensive + 0.9 * ventilated + 0.85 * danger
    log_odds += 0.05 * ventilated * (age - 60).clip(0) + 1.0 * septic * (log_lactate > 0.9)
    died = dice.chance(_sigmoid(log_odds))

    log_days = 1.0 + 0.008 * age + 0.2 * sickness + 0.5 * ventilated + 0.3 * intensive - 0.5 * died
    log_days += 0.25 * (admission == 2) - 0.3 * (care["ward"] == WARDS.index("maternity"))
    log_days += 0.6 * dice.normal(rows)
    days = np.clip(np.floor(np.exp(log_days)), 0, 180)
    rate = np.array([420, 650, 700, 1900, 520, 480, 1600, 2100])[care["ward"]]
    cost = (rate * (days + 0.5) + 6000 * ventilated + 900) * np.exp(0.45 * dice.normal(rows))
    return {
        "lactate": np.clip(np.exp(log_lactate), 0.3, 28.0).round(1),
        "creatinine": np.clip(np.exp(log_creatinine), 0.15, 22.0).round(2),
        "ventilated": ventilated,
        "died": died,
        "days": days,
        "cost": np.clip(cost, 100.0, 450_000.0).round(2),
    }


def _paperwork(dice: _Dice, people: dict[str, Array], care: dict[str, Array]) -> dict[str, Array]:
    """Draw the hour of arrival, who pays, and which fields nobody filled in."""
    admission, rows = care["admission"], len(care["admission"])
    intensive = care["ward"] == WARDS.index("intensive care")
    planned = 7 * 60 + np.floor(300 * dice.uniform(rows))
    minute = np.where(admission == 0, planned, np.floor(1440 * dice.uniform(rows)))
    age_group = np.searchsorted([30, 65], people["age"], side="right")
    insurance = dice.pick(np.array([[84, 9, 7], [78, 18, 4], [86, 13, 1]]), age_group)
    return {
        "minute": minute,
        "insurance": insurance,
        "no_insurance": dice.chance(np.array([0.01, 0.03, 0.09])[admission]),
        "no_lactate": dice.chance(np.where(intensive, 0.03, np.array([0.75, 0.45, 0.2])[admission])),
        "no_creatinine": dice.chance(np.where(intensive, 0.01, np.array([0.22, 0.10, 0.05])[admission])),
        "no_ventilated": dice.chance(np.full(rows, 0.012)),
        "unbilled": dice.chance(np.where(insurance == 2, 0.35, 0.06)),
    }


def stays(rows: int = 20_000, seed: int = 0) -> pa.Table:
    """Make a table of simulated hospital stays, in order of admission; no real person is behind any row.

    **Guarantees**

    - Deterministic: equal ``rows`` and ``seed`` make equal tables.
    - Public: every value lies within ``COLUMNS_PUBLIC``.
    - Labelled: the schema's metadata says ``origin: simulated by threea; no real person``.

    Args:
        rows: Number of stays, >= 0; about 1.6 of them per patient.
        seed: Which table, >= 0.

    Returns:
        An Arrow table with the columns of ``COLUMNS_PUBLIC``, in that order; ``died`` is the one to predict.

    Raises:
        SettingError: ``rows`` or ``seed`` is negative.

    Example:
        >>> stays(100).num_columns
        15
    """
    import pyarrow as pa

    for name, value in (("rows", rows), ("seed", seed)):
        if value < 0:
            raise SettingError(f"{name} ({value}) must be >= 0; leave it out for the usual table")
    dice = _Dice(seed)
    people = _people(dice, rows)
    care = _care(dice, people)
    course = _course(dice, people, care)
    paper = _paperwork(dice, people, care)
    minutes = (people["day"] * 1440 + paper["minute"]).astype("timedelta64[m]")
    admitted = (np.datetime64(_FROM, "m") + minutes).astype("datetime64[us]")
    order = np.argsort(admitted, kind="stable")

    def column(values: Array, kind: pa.DataType, missing: Array | None = None) -> pa.Array:
        return pa.array(values[order], kind, mask=None if missing is None else missing[order])

    def words(categories: list[str], index: Array, missing: Array | None = None) -> pa.Array:
        return column(np.array(categories, dtype=object)[index], pa.string(), missing)

    names = np.array([f"P{number:06d}" for number in range(1, rows + 1)], dtype=object)
    arrays = {
        "patient_id": column(names[people["person"]], pa.string()),
        "admitted": column(admitted, pa.timestamp("us")),
        "ward": words(WARDS, care["ward"]),
        "admission_type": words(ADMISSIONS, care["admission"]),
        "age": column(people["age"].astype(np.int16), pa.int16()),
        "sex": words(SEXES, people["sex"]),
        "insurance": words(INSURANCES, paper["insurance"], paper["no_insurance"]),
        "diagnosis": words(_CODES, care["diagnosis"]),
        "prior_stays": column(people["prior"].astype(np.int8), pa.int8()),
        "lactate": column(course["lactate"], pa.float64(), paper["no_lactate"]),
        "creatinine": column(course["creatinine"].astype(np.float32), pa.float32(), paper["no_creatinine"]),
        "cost": column(np.where(paper["unbilled"], 0.0, course["cost"]), pa.float64()),
        "ventilated": column(course["ventilated"], pa.bool_(), paper["no_ventilated"]),
        "length_of_stay": column(course["days"].astype(np.int16), pa.int16()),
        "died": column(course["died"], pa.bool_()),
    }
    return pa.table(arrays).replace_schema_metadata({b"origin": b"simulated by threea; no real person"})


def schema() -> Schema:
    """Return the table's public description, with `died` as the target."""
    return Schema.of(COLUMNS_PUBLIC, target="died")


_ONCE = ("age", "sex", "prior_stays")
"""Columns of a stay that say of the patient, or of other stays."""
PATIENTS_PUBLIC: dict[str, dict[str, Any]] = {
    "patient_id": {"kind": "id"} | _ALWAYS,
    "born": {"kind": "integer", "lower": 1910, "upper": 2024} | _ALWAYS,
    "sex": {"kind": "categorical", "categories": SEXES} | _ALWAYS,
}
"""What anyone may know of the columns of the patients' table."""


def patients_and_stays(rows: int = 20_000, seed: int = 0) -> tuple[pa.Table, pa.Table]:
    """Make the simulated stays as two tables: patients, of whom one in nine never came, and stays that name one.

    Args:
        rows: Number of stays.
        seed: Which tables.

    Returns:
        Arrow tables with the columns of ``PATIENTS_PUBLIC``, and those of ``COLUMNS_PUBLIC`` that are a stay's own.

    Example:
        >>> patients, stays = patients_and_stays(100)
        >>> patients.column_names, stays.num_columns
        (['patient_id', 'born', 'sex'], 12)
    """
    import pyarrow as pa

    table = stays(rows, seed)
    names, first = np.unique(table["patient_id"].to_numpy(zero_copy_only=False), return_index=True)
    year = table["admitted"].to_numpy().astype("datetime64[Y]").astype(int) + 1970
    born, sex = (year - table["age"].to_numpy())[first], table["sex"].to_numpy(zero_copy_only=False)[first]
    others = np.arange(0, len(names), 8)
    patients = {
        "patient_id": np.concatenate([names, [f"P9{number:05d}" for number in others]]),
        "born": np.concatenate([born, born[others]]).astype(np.int16),
        "sex": np.concatenate([sex, sex[others]]),
    }
    whole = pa.table(patients).replace_schema_metadata(table.schema.metadata)
    return whole, table.drop_columns(list(_ONCE))


def schemas() -> tuple[Schema, Schema]:
    """Return the public descriptions of the patients' table and of the stays' own, whose target is `died`."""
    own = {name: public for name, public in COLUMNS_PUBLIC.items() if name not in _ONCE}
    return Schema.of(PATIENTS_PUBLIC), Schema.of(own, target="died")
