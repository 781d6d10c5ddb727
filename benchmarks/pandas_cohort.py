"""The usual way to a cohort, with pandas: read everything, sort, merge, group.

It is right only where tables are as clean as those of `big_hospital`.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

SUMMARY = "Discharge summary"
HORIZON = 30  # days
PATIENT = "SUBJECT_ID"
STAY = "HADM_ID"
NEEDED = [
    PATIENT,
    STAY,
    "CHARTDATE",
    "CATEGORY",
    "TEXT",
]
NAMES = {
    PATIENT: "patient_id",
    STAY: "stay_id",
}


def write_cohort(
    folder: Path,
    out: Path,
    *,
    lean: bool,
) -> None:
    """Write a cohort step by step as the 2019 code does, with the labels of our definition.

    Args:
        folder: tables of MIMIC-III as CSV.
        out: the Parquet file.
        lean: read no column that is not needed, and keep only the discharge summaries.
    """
    stays = labelled_stays(folder)
    notes = read_notes(folder, lean=lean)
    merged = stays.merge(
        notes[NEEDED],
        on=[PATIENT, STAY],
        how="left",
    )
    if not lean:
        admitted = merged["ADMITTIME"]
        day = admitted.apply(lambda time: str(time).split(" ")[0])
        merged["ADMITTIME_C"] = as_dates(day)
    merged["CHARTDATE"] = as_dates(merged["CHARTDATE"])
    is_summary = merged["CATEGORY"] == SUMMARY
    by_stay = merged[is_summary].groupby(STAY)
    texts = by_stay["TEXT"].agg(list)
    cohort = stays.merge(
        texts.rename("text"),
        left_on=STAY,
        right_index=True,
    )
    cohort = cohort.rename(columns=NAMES)
    cohort.to_parquet(out, index=False)


def read_notes(folder: Path, *, lean: bool) -> pd.DataFrame:
    """The notes in the order of patients, stays and days."""
    notes = pd.read_csv(
        folder / "NOTEEVENTS.csv",
        usecols=NEEDED if lean else None,
    )
    if lean:
        is_summary = notes["CATEGORY"] == SUMMARY
        notes = notes[is_summary]
    return notes.sort_values([PATIENT, STAY, "CHARTDATE"])


def as_dates(days: pd.Series) -> pd.Series:
    """Days as dates, missing where they are not."""
    return pd.to_datetime(
        days,
        format="%Y-%m-%d",
        errors="coerce",
    )


def labelled_stays(folder: Path) -> pd.DataFrame:
    """The stays that can be readmitted, with the column `readmitted` (0 or 1)."""
    stays = pd.read_csv(
        folder / "ADMISSIONS.csv",
        parse_dates=["ADMITTIME", "DISCHTIME"],
    )
    patients = pd.read_csv(
        folder / "PATIENTS.csv",
        parse_dates=["DOB"],
    )
    stays = stays.merge(patients, on=PATIENT, how="left")
    stays = stays.sort_values([PATIENT, "ADMITTIME"])
    is_unplanned = stays["ADMISSION_TYPE"] != "ELECTIVE"
    unplanned = stays["ADMITTIME"].where(is_unplanned)
    by_patient = unplanned.groupby(stays[PATIENT])
    stays["NEXT"] = by_patient.shift(-1)
    stays["NEXT"] = stays.groupby(PATIENT)["NEXT"].bfill()
    until_next = stays["NEXT"] - stays["DISCHTIME"]
    days = until_next.dt.total_seconds() / 86400
    is_readmitted = (days > 0) & (days < HORIZON)
    stays["readmitted"] = is_readmitted.astype(int)
    is_newborn = stays["ADMISSION_TYPE"] == "NEWBORN"
    survived = stays["HOSPITAL_EXPIRE_FLAG"] == 0
    return stays[~is_newborn & survived]
