"""Public clinical tables. MIMIC-III is credentialed: three stand in for it, and `mimic3` loads it where it is held."""

from __future__ import annotations

from pathlib import Path

from benchmarks.datasets.dataset import Dataset, as_text, read, stay_class
from benchmarks.datasets.published import TABLE1

MORTALITY, STAY = "MIMIC-III mortality", "MIMIC-III length of stay"


def physionet2012(folder: Path) -> Dataset:
    """Load the PhysioNet Challenge 2012: 12,000 stays in intensive care, does the patient die in hospital?

    Features are those of the first 48 hours: scores (SAPS-I, SOFA) and what is known later are left out.
    """
    left_out = ["RecordID", "set", "SAPS_I", "SOFA", "length_of_stay", "survival_days"]
    return Dataset(
        name="physionet2012",
        title="PhysioNet/CinC Challenge 2012",
        table=as_text(
            read(folder, "physionet2012_icu.parquet", drop=left_out, keep=["in_hospital_death"]), "in_hospital_death"
        ),
        target="in_hospital_death",
        schema=None,
        published=TABLE1[MORTALITY],
        stands_in_for=MORTALITY,
    )


def support2(folder: Path) -> Dataset:
    """Load SUPPORT2: 9,105 seriously ill patients, does one die in hospital?

    What is known only later, costs, and other models' predictions are left out, and so is the length of the stay.
    """
    later = ["slos", "d.time", "death", "dnr", "dnrday", "sfdm2", "charges", "totcst", "totmcst", "avtisst"]
    predictions = ["surv2m", "surv6m", "prg2m", "prg6m"]
    return Dataset(
        name="support2",
        title="SUPPORT2, UCI 880",
        table=as_text(
            read(folder, "support2.parquet", drop=["id", *later, *predictions], keep=["hospdead"]), "hospdead"
        ),
        target="hospdead",
        schema=None,
        published=TABLE1[MORTALITY],
        stands_in_for=MORTALITY,
    )


def diabetes130(folder: Path) -> Dataset:
    """Load Diabetes 130-US Hospitals: 101,766 stays of 1 to 14 days, how long is one, in four classes?

    Ids and the readmission after the stay are left out; the codes of admission and discharge become text.
    """
    codes = ["admission_type_id", "discharge_disposition_id", "admission_source_id"]
    left_out = ["encounter_id", "patient_nbr", "readmitted"]
    table = read(folder, "diabetes130_hospitals.parquet", drop=left_out, keep=[*codes, "time_in_hospital"])
    position = table.column_names.index("time_in_hospital")
    table = table.set_column(position, "time_in_hospital", stay_class(table["time_in_hospital"]))
    return Dataset(
        name="diabetes130",
        title="Diabetes 130-US Hospitals, UCI 296",
        table=as_text(table, *codes),
        target="time_in_hospital",
        schema=None,
        published=TABLE1[STAY],
        stands_in_for=STAY,
    )


def mimic3_demo(folder: Path) -> Dataset:
    """Load the MIMIC-III demo: 129 open admissions, too few for a score that means anything."""
    left_out = ["subject_id", "hadm_id", "diagnosis", "los_icu_days", "los_hospital_days", "discharge_location"]
    table = read(folder, "mimic3_demo_admissions.parquet", drop=left_out, keep=["hospital_expire_flag"])
    return Dataset(
        name="mimic3-demo",
        title="MIMIC-III Clinical Database Demo 1.4",
        table=as_text(table, "hospital_expire_flag"),
        target="hospital_expire_flag",
        schema=None,
    )
