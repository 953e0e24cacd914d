"""MIMIC-III from tables of the same shape, made here, and beside the open demo's columns where it is present."""

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import datasets
from benchmarks.datasets import mimic3
from threea.errors import InputError
from threea.table.supported import kind_of

DEMO = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[3] / "shared" / "data"))
DEMO /= "mimic3_demo_admissions.parquet"

HEAD = "subject_id,hadm_id,admittime,dischtime,deathtime,admission_type,admission_location,discharge_location,"
HEAD += "insurance,language,religion,marital_status,ethnicity,edregtime,edouttime,diagnosis,hospital_expire_flag"
# A patient of 40 with two admissions, the second of them first in the file; one over 89; a newborn.
TABLES = {
    "ADMISSIONS": f"""row_id,{HEAD}
1,10,102,2150-06-10 08:30:00,2150-06-24 08:30:00,,EMERGENCY,EMERGENCY ROOM ADMIT,HOME,\
Medicare,ENGL,CATHOLIC,MARRIED,"WHITE, OTHER",2150-06-10 02:30:00,2150-06-10 08:00:00,"PAIN
IN CHEST",0
2,10,101,2149-06-10 23:10:00,2149-06-12 23:09:00,,URGENT,CLINIC REFERRAL,HOME,Private,,,SINGLE,ASIAN,,,FEVER,0
3,20,103,2120-01-05 00:00:00,2120-01-12 00:00:00,2120-01-12 00:00:00,ELECTIVE,TRANSFER,DEAD,Medicare,,,,BLACK,,,X,1
4,30,104,2130-03-01 12:00:00,2130-02-28 12:00:00,,NEWBORN,BIRTH,HOME,Private,,,,WHITE,,,NEWBORN,0
""",
    "PATIENTS": """row_id,subject_id,gender,dob,dod
1,30,F,2130-03-01 00:00:00,
2,10,M,2109-06-11 00:00:00,
3,20,F,1820-01-05 00:00:00,2120-01-12 00:00:00
""",
    "ICUSTAYS": """row_id,hadm_id,icustay_id,first_careunit,last_careunit,intime
1,102,2,MICU,MICU,2150-06-12 00:00:00
2,102,1,CCU,MICU,2150-06-10 09:00:00
3,103,3,SICU,SICU,2120-01-05 01:00:00
""",
    "DIAGNOSES_ICD": """row_id,hadm_id,seq_num,icd9_code
1,102,2,25000
2,102,1,41401
3,102,10,4019
4,103,1,V3000
5,101,1,E8781
6,101,,
""",
    "PROCEDURES_ICD": "row_id,hadm_id,seq_num,icd9_code\n1,102,1,3961\n",
    "PRESCRIPTIONS": """row_id,hadm_id,drug
1,102,Heparin
2,102,Heparin
3,102,Aspirin
4,,Aspirin
""",
    "MICROBIOLOGYEVENTS": """row_id,hadm_id,org_name
1,102,STAPH AUREUS
2,102,
3,103,
""",
    "SERVICES": """row_id,hadm_id,transfertime,prev_service,curr_service
1,102,2150-06-13 00:00:00,CMED,SURG
2,102,2150-06-10 08:31:00,,CMED
""",
    "TRANSFERS": "row_id,hadm_id\n1,102\n2,102\n3,104\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_mortality_has_18_features_per_admission(folder: Path) -> None:
    dataset = mimic3.mortality(folder)
    assert dataset.features == 18 == dataset.published.features
    assert dataset.table.column_names == [*mimic3.MORTALITY_FEATURES, "hospital_expire_flag"]
    assert dataset.table.to_pylist()[:3] == [
        {
            "age": 39, "gender": "M", "admission_type": "URGENT", "admission_location": "CLINIC REFERRAL",
            "insurance": "Private", "religion": None, "marital_status": "SINGLE", "ethnicity": "ASIAN",
            "admission_hour": 23, "emergency_hours": None, "prior_admissions": 0, "first_careunit": None,
            "n_icu_stays": 0, "main_diagnosis": "external causes", "n_diagnoses": 2, "n_procedures": 0,
            "n_prescriptions": 0, "n_microbiology": 0, "hospital_expire_flag": "0",
        },
        {
            "age": 40, "gender": "M", "admission_type": "EMERGENCY", "admission_location": "EMERGENCY ROOM ADMIT",
            "insurance": "Medicare", "religion": "CATHOLIC", "marital_status": "MARRIED",
            "ethnicity": "WHITE, OTHER", "admission_hour": 8, "emergency_hours": 5.5, "prior_admissions": 1,
            "first_careunit": "CCU", "n_icu_stays": 2, "main_diagnosis": "circulatory", "n_diagnoses": 3,
            "n_procedures": 1, "n_prescriptions": 3, "n_microbiology": 2, "hospital_expire_flag": "0",
        },
        {
            "age": 90, "gender": "F", "admission_type": "ELECTIVE", "admission_location": "TRANSFER",
            "insurance": "Medicare", "religion": None, "marital_status": None, "ethnicity": "BLACK",
            "admission_hour": 0, "emergency_hours": None, "prior_admissions": 0, "first_careunit": "SICU",
            "n_icu_stays": 1, "main_diagnosis": "circumstances", "n_diagnoses": 1, "n_procedures": 0,
            "n_prescriptions": 0, "n_microbiology": 1, "hospital_expire_flag": "1",
        },
    ]  # fmt: skip


def test_length_of_stay_has_25_features_and_leaves_impossible_stays_out(folder: Path) -> None:
    dataset = mimic3.length_of_stay(folder)
    assert dataset.features == 25 == dataset.published.features
    assert dataset.table["length_of_stay"].to_pylist() == ["under 3 days", "14 days or more", "7 to 13 days"]
    added = {name: dataset.table[name].to_pylist()[1] for name in mimic3.STAY_FEATURES[18:]}
    assert added == {
        "language": "ENGL",
        "admission_weekday": "Wednesday",
        "first_service": "CMED",
        "n_services": 2,
        "n_transfers": 2,
        "n_drugs": 2,
        "n_organisms": 1,
    }


def test_gzipped_files_in_a_folder_of_their_own_with_other_cases_are_the_same(folder: Path, tmp_path: Path) -> None:
    expected = mimic3.length_of_stay(folder).table
    inner = tmp_path / "data" / "mimic3"
    inner.mkdir(parents=True)
    for name, text in TABLES.items():
        head, rest = text.split("\n", 1)
        quoted = ",".join(f'"{word.upper()}"' for word in head.split(","))
        (inner / f"{name.lower()}.csv.gz").write_bytes(gzip.compress(f"{quoted}\n{rest}".encode()))
    assert datasets.load("mimic3-stay", tmp_path / "data").table == expected


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_table_is_one_line_that_names_it(folder: Path, name: str) -> None:
    (folder / f"{name}.csv").unlink()
    with pytest.raises(InputError, match=rf"{name}\.csv \(or \.csv\.gz\) is missing") as caught:
        mimic3.length_of_stay(folder)
    assert "\n" not in str(caught.value)


def test_a_missing_column_is_one_line(folder: Path) -> None:
    (folder / "PATIENTS.csv").write_text("row_id,subject_id,gender\n1,10,M\n")
    with pytest.raises(InputError, match=r"PATIENTS\.csv lacks columns \(dob\)"):
        mimic3.mortality(folder)


@pytest.mark.parametrize(
    ("code", "chapter"),
    [
        ("0389", "infections"), ("1400", "neoplasms"), ("25000", "endocrine"), ("41401", "circulatory"),
        ("4660", "respiratory"), ("7999", "symptoms"), ("99859", "injury"), ("V3000", "circumstances"),
        ("E8781", "external causes"), ("", None), ("X1", None),
    ],
)  # fmt: skip
def test_codes_have_chapters(code: str, chapter: str | None) -> None:
    assert mimic3._chapter_of(code) == chapter


def test_columns_are_those_of_the_open_demo(folder: Path) -> None:
    if not DEMO.exists():
        pytest.skip("mimic3_demo_admissions.parquet is not in the data folder")
    demo = pq.read_schema(DEMO)
    mine = mimic3.mortality(folder).table.schema
    shared = [name for name in demo.names if name in mine.names and name != "hospital_expire_flag"]
    # All but ids, free text, outcomes and what is known only at the end.
    assert set(demo.names) - set(shared) == {
        "subject_id",
        "hadm_id",
        "diagnosis",
        "los_icu_days",
        "los_hospital_days",
        "discharge_location",
        "hospital_expire_flag",
    }
    for name in shared:
        plain = demo.field(name)
        plain = plain.with_type(pa.string()) if pa.types.is_large_string(plain.type) else plain
        assert kind_of(mine.field(name)) is kind_of(plain), name
