"""MIMIC-III from its credentialed CSV files, for those who hold them: one row per hospital admission.

The ClustMix paper predicts death in hospital from 18 features and the length of stay, in four classes, from 25, and
does not list them. These are chosen from the tables of admissions, patients, intensive care stays, diagnoses,
procedures, prescriptions and cultures; for the length of stay also of services and transfers.

Eighteen features:

======================  ============================================================================================
age                     in years at admission; the database hides ages over 89, which are 90 here
gender                  F or M
admission_type          elective, emergency, urgent, newborn
admission_location      where from
insurance               who pays
religion, marital_status, ethnicity   as recorded
admission_hour          hour of the day
emergency_hours         hours in the emergency department before, null if none
prior_admissions        earlier admissions of the same patient
first_careunit          the first intensive care unit, null if none
n_icu_stays             stays in intensive care
main_diagnosis          chapter of the first ICD-9 code
n_diagnoses, n_procedures, n_prescriptions, n_microbiology   how many are recorded
======================  ============================================================================================

Seven more for the length of stay: language, admission_weekday, first_service, n_services, n_transfers (moves between
wards), n_drugs (different drugs) and n_organisms (cultures that grew something).

Counts cover the whole stay, as in the paper's baselines, so they are known for certain only at its end.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from benchmarks.datasets.dataset import Dataset, stay_class
from benchmarks.datasets.published import TABLE1
from threea.errors import InputError

MORTALITY_FEATURES = (
    "age",
    "gender",
    "admission_type",
    "admission_location",
    "insurance",
    "religion",
    "marital_status",
    "ethnicity",
    "admission_hour",
    "emergency_hours",
    "prior_admissions",
    "first_careunit",
    "n_icu_stays",
    "main_diagnosis",
    "n_diagnoses",
    "n_procedures",
    "n_prescriptions",
    "n_microbiology",
)
STAY_FEATURES = (
    *MORTALITY_FEATURES,
    "language",
    "admission_weekday",
    "first_service",
    "n_services",
    "n_transfers",
    "n_drugs",
    "n_organisms",
)

_OLDEST = 90
_DAY = 86_400
_CHAPTERS = (
    (140, "infections"),
    (240, "neoplasms"),
    (280, "endocrine"),
    (290, "blood"),
    (320, "mental"),
    (390, "nervous"),
    (460, "circulatory"),
    (520, "respiratory"),
    (580, "digestive"),
    (630, "genitourinary"),
    (680, "pregnancy"),
    (710, "skin"),
    (740, "musculoskeletal"),
    (760, "congenital"),
    (780, "perinatal"),
    (800, "symptoms"),
    (1000, "injury"),
)
"""ICD-9 chapters by the first number beyond them."""


def mortality(folder: Path) -> Dataset:
    """Load admissions with 18 features: does the patient die in hospital?

    Args:
        folder: Holds the CSV files, plain or gzipped, or a folder ``mimic3`` that does.

    Raises:
        InputError: A file or a column is missing.
    """
    files = _Files(folder)
    admissions = _admissions(files)
    died = admissions["hospital_expire_flag"].cast(pa.string())
    table = _features(files, admissions).select(MORTALITY_FEATURES).append_column("hospital_expire_flag", died)
    return Dataset(
        name="mimic3-mortality",
        title="MIMIC-III mortality",
        table=table,
        target="hospital_expire_flag",
        schema=None,
        published=TABLE1["MIMIC-III mortality"],
    )


def length_of_stay(folder: Path) -> Dataset:
    """Load admissions with 25 features: how long do they last, in four classes?

    Admissions that end before they begin (errors of the records) are left out.

    Args:
        folder: Holds the CSV files, plain or gzipped, or a folder ``mimic3`` that does.

    Raises:
        InputError: A file or a column is missing.
    """
    files = _Files(folder)
    admissions = _admissions(files)
    table = _more_features(files, admissions, _features(files, admissions)).select(STAY_FEATURES)
    days = pc.divide(_seconds(admissions["admittime"], admissions["dischtime"]), float(_DAY))
    table = table.append_column("length_of_stay", stay_class(days))
    return Dataset(
        name="mimic3-stay",
        title="MIMIC-III length of stay",
        table=table.filter(pc.greater_equal(days, 0.0)),
        target="length_of_stay",
        schema=None,
        published=TABLE1["MIMIC-III length of stay"],
    )


class _Files:
    """The CSV files of a folder, by table name, whatever the case of names and headers."""

    def __init__(self, folder: Path) -> None:
        inner = Path(folder) / "mimic3"
        self._folder = inner if inner.is_dir() else Path(folder)
        self._paths = {path.name.lower(): path for path in sorted(self._folder.glob("*.[cC][sS][vV]*"))}

    def read(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Read some columns of a table as text."""
        path = self._paths.get(f"{name.lower()}.csv") or self._paths.get(f"{name.lower()}.csv.gz")
        if path is None:
            raise InputError(
                f"{self._folder / name}.csv (or .csv.gz) is missing; it is part of MIMIC-III, "
                "which PhysioNet gives to credentialed users"
            )
        header = {word.lower(): word for word in _header(path)}
        missing = [column for column in columns if column not in header]
        if missing:
            raise InputError(f"{path} lacks columns ({', '.join(missing)}); is it the table {name} of MIMIC-III?")
        wanted = [header[column] for column in columns]
        options = pacsv.ConvertOptions(
            include_columns=wanted,
            column_types={column: pa.string() for column in wanted},
            null_values=[""],
            strings_can_be_null=True,
        )
        table = pacsv.read_csv(path, parse_options=pacsv.ParseOptions(newlines_in_values=True), convert_options=options)
        return table.rename_columns(list(columns))


def _header(path: Path) -> list[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [word.strip().strip('"') for word in file.readline().split(",")]


def _admissions(files: _Files) -> pa.Table:
    """Read the admissions in order of their ids, with times as times."""
    texts = ["admission_type", "admission_location", "insurance", "language", "religion", "marital_status", "ethnicity"]
    times = ["admittime", "dischtime", "edregtime", "edouttime"]
    table = files.read("ADMISSIONS", ["subject_id", "hadm_id", *times, *texts, "hospital_expire_flag"])
    for name in times:
        table = table.set_column(table.column_names.index(name), name, _times(table[name]))
    table = table.set_column(1, "hadm_id", table["hadm_id"].cast(pa.int64()))
    return table.sort_by("hadm_id").combine_chunks()


def _features(files: _Files, admissions: pa.Table) -> pa.Table:
    patients = files.read("PATIENTS", ["subject_id", "gender", "dob"])
    position = pc.index_in(admissions["subject_id"], value_set=patients["subject_id"].combine_chunks())
    born = _times(patients["dob"].take(position))
    stays = files.read("ICUSTAYS", ["hadm_id", "intime", "first_careunit"])
    diagnoses = files.read("DIAGNOSES_ICD", ["hadm_id", "seq_num", "icd9_code"])
    copied = ["admission_type", "admission_location", "insurance", "religion", "marital_status", "ethnicity"]
    return pa.table(
        {
            "age": pc.min_element_wise(_birthdays(born, admissions["admittime"]), _OLDEST),
            "gender": patients["gender"].take(position),
            **{name: admissions[name] for name in (*copied, "language")},
            "admission_hour": pc.hour(admissions["admittime"]),
            "emergency_hours": pc.divide(_seconds(admissions["edregtime"], admissions["edouttime"]), 3600.0),
            "prior_admissions": _prior(admissions),
            "first_careunit": _first(admissions, stays, order=_times(stays["intime"]), value="first_careunit"),
            "n_icu_stays": _count(admissions, stays),
            "main_diagnosis": _chapter(
                _first(admissions, diagnoses, order=diagnoses["seq_num"].cast(pa.int64()), value="icd9_code")
            ),
            "n_diagnoses": _count(admissions, diagnoses),
            "n_procedures": _count(admissions, files.read("PROCEDURES_ICD", ["hadm_id"])),
            "n_prescriptions": _count(admissions, files.read("PRESCRIPTIONS", ["hadm_id"])),
            "n_microbiology": _count(admissions, files.read("MICROBIOLOGYEVENTS", ["hadm_id"])),
        }
    )


def _more_features(files: _Files, admissions: pa.Table, table: pa.Table) -> pa.Table:
    services = files.read("SERVICES", ["hadm_id", "transfertime", "curr_service"])
    drugs = files.read("PRESCRIPTIONS", ["hadm_id", "drug"])
    cultures = files.read("MICROBIOLOGYEVENTS", ["hadm_id", "org_name"])
    grown = cultures.filter(pc.is_valid(cultures["org_name"]))
    more = {
        "admission_weekday": pc.strftime(admissions["admittime"], format="%A"),
        "first_service": _first(admissions, services, order=_times(services["transfertime"]), value="curr_service"),
        "n_services": _count(admissions, services),
        "n_transfers": _count(admissions, files.read("TRANSFERS", ["hadm_id"])),
        "n_drugs": _count(admissions, drugs.group_by(["hadm_id", "drug"]).aggregate([])),
        "n_organisms": _count(admissions, grown),
    }
    for name, values in more.items():
        table = table.append_column(name, values)
    return table


def _times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.strptime(pc.utf8_slice_codeunits(texts, 0, 19), format="%Y-%m-%d %H:%M:%S", unit="s")


def _seconds(start: pa.ChunkedArray, end: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.subtract(end.cast(pa.int64()), start.cast(pa.int64())).cast(pa.float64())


def _birthdays(born: pa.ChunkedArray, moment: pa.ChunkedArray) -> pa.ChunkedArray:
    """Count the birthdays between birth and a moment."""
    calendar = [pc.add(pc.multiply(pc.month(date), 100), pc.day(date)) for date in (born, moment)]
    return pc.subtract(pc.subtract(pc.year(moment), pc.year(born)), pc.greater(*calendar).cast(pa.int64()))


def _count(admissions: pa.Table, events: pa.Table) -> pa.Array:
    """Count the events of each admission."""
    known = events.filter(pc.is_valid(events["hadm_id"]))
    counted = known.group_by("hadm_id").aggregate([([], "count_all")])
    position = _positions(admissions, counted)
    return pc.fill_null(counted["count_all"].take(position), 0)


def _first(admissions: pa.Table, events: pa.Table, *, order: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    """Return the value of each admission's first event, null if it has none."""
    known = pa.table({"hadm_id": events["hadm_id"], "value": events[value], "order": order})
    known = known.filter(pc.is_valid(known["hadm_id"])).sort_by([("order", "ascending"), ("value", "ascending")])
    first = known.group_by("hadm_id", use_threads=False).aggregate([("value", "first")])
    return first["value_first"].take(_positions(admissions, first))


def _positions(admissions: pa.Table, events: pa.Table) -> pa.ChunkedArray:
    ids = events["hadm_id"].cast(pa.int64()).combine_chunks()
    return pc.index_in(admissions["hadm_id"], value_set=ids)


def _prior(admissions: pa.Table) -> pa.Array:
    """Count the earlier admissions of the same patient."""
    people = admissions["subject_id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    moments = admissions["admittime"].cast(pa.int64()).to_numpy()
    order = np.lexsort((moments, people))
    starts = np.flatnonzero(np.r_[True, np.diff(people[order]) != 0])
    prior = np.empty(len(order), np.int64)
    prior[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return pa.array(prior)


def _chapter(codes: pa.ChunkedArray) -> pa.Array:
    """Return the chapters of ICD-9 codes: three digits, or E and V codes for causes and circumstances."""
    chapters = {code: _chapter_of(code) for code in pc.unique(codes).to_pylist() if code is not None}
    return pa.array([chapters.get(code) for code in codes.to_pylist()], pa.string())


def _chapter_of(code: str) -> str | None:
    if code[:1] in ("E", "V"):
        return "external causes" if code[0] == "E" else "circumstances"
    number = code[:3]
    return next((name for end, name in _CHAPTERS if int(number) < end), None) if number.isdigit() else None
