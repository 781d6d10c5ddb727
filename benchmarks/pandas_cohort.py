"""The usual way to a cohort, with pandas: read everything, sort, merge, group.

It is right only where tables are as clean as those of `big_hospital`.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

SUMMARY = "Discharge summary"
NEEDED = ["SUBJECT_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "TEXT"]
STAY = ["SUBJECT_ID", "HADM_ID"]
NAMES = {"SUBJECT_ID": "patient_id", "HADM_ID": "stay_id"}


def write_cohort(folder: Path, out: Path, *, lean: bool) -> None:
    """Write a cohort step by step as the 2019 code does, with the labels of our definition.

    Args:
        folder: tables of MIMIC-III as CSV.
        out: the Parquet file.
        lean: read no column that is not needed, and keep only the discharge summaries.
    """
    stays = labelled_stays(folder)
    columns = NEEDED if lean else None
    notes = pd.read_csv(folder / "NOTEEVENTS.csv", usecols=columns)
    if lean:
        notes = notes[notes["CATEGORY"] == SUMMARY]
    notes = notes.sort_values([*STAY, "CHARTDATE"])
    merged = stays.merge(notes[NEEDED], on=STAY, how="left")
    if not lean:
        day = merged["ADMITTIME"].apply(lambda time: str(time).split(" ")[0])
        merged["ADMITTIME_C"] = as_dates(day)
    merged["CHARTDATE"] = as_dates(merged["CHARTDATE"])
    summaries = merged[merged["CATEGORY"] == SUMMARY]
    texts = summaries.groupby("HADM_ID")["TEXT"].agg(list).rename("text")
    cohort = stays.merge(texts, left_on="HADM_ID", right_index=True)
    cohort.rename(columns=NAMES).to_parquet(out, index=False)


def as_dates(days: pd.Series) -> pd.Series:
    """Days as dates, missing where they are not."""
    return pd.to_datetime(days, format="%Y-%m-%d", errors="coerce")


def labelled_stays(folder: Path) -> pd.DataFrame:
    """The stays that can be readmitted, with the column `readmitted` (0 or 1)."""
    times = ["ADMITTIME", "DISCHTIME"]
    stays = pd.read_csv(folder / "ADMISSIONS.csv", parse_dates=times)
    patients = pd.read_csv(folder / "PATIENTS.csv", parse_dates=["DOB"])
    stays = stays.merge(patients, on="SUBJECT_ID", how="left")
    stays = stays.sort_values(["SUBJECT_ID", "ADMITTIME"])
    is_unplanned = stays["ADMISSION_TYPE"] != "ELECTIVE"
    unplanned = stays["ADMITTIME"].where(is_unplanned)
    stays["NEXT"] = unplanned.groupby(stays["SUBJECT_ID"]).shift(-1)
    stays["NEXT"] = stays.groupby("SUBJECT_ID")["NEXT"].bfill()
    until_next = stays["NEXT"] - stays["DISCHTIME"]
    days = until_next.dt.total_seconds() / 86400
    stays["readmitted"] = ((days > 0) & (days < 30)).astype(int)
    is_born_here = stays["ADMISSION_TYPE"] == "NEWBORN"
    survived = stays["HOSPITAL_EXPIRE_FLAG"] == 0
    return stays[~is_born_here & survived]
