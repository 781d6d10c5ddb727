"""Cohorts: the one reader of tables with one row per stay, and which of their stays count."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from clinical.stays.patients import check_disjoint, with_patient_keys
from clinical.stays.stays import present_notes
from domainbert.errors import UserError
from domainbert.tables import (
    ExactId,
    is_missing,
    read_table,
    require_columns,
    table_columns,
)
from domainbert.tables.frames import read_metadata

SUMMARY_KEY = "clinical.cohort"  # of the flow in the metadata of a cohort
IDS = ("patient_id", "stay_id", "readmission_stay_id", "episode_stay_id")
LABELS = ("patient_id", "readmitted", "split")
NEEDED = (*LABELS, "text")
log = logging.getLogger(__name__)


def read_stays(
    path: Path,
    *,
    needed: Sequence[str] = ("text",),
    notes: bool = True,
) -> pd.DataFrame:
    """Read a table with one row per stay, such as a cohort: outcomes as integers, notes as lists.

    Without `notes` the column `text` is not read.

    Raises:
        TableError: the file cannot be read, or a column of `needed` is missing.
    """
    columns = [name for name in table_columns(path) if notes or name != "text"]
    require_columns(columns, needed, source=path.name)
    rows = read_table(path, columns=columns, schema={"readmitted": "int"})
    if _has_exact_ids(path):
        for name in set(IDS).intersection(columns):
            ids = [
                id_ if is_missing(id_) else ExactId(id_) for id_ in rows[name]
            ]
            rows[name] = pd.Series(ids, index=rows.index, dtype=object)
    if not notes:
        return rows
    lists = [
        text.tolist() if hasattr(text, "tolist") else text
        for text in rows["text"]
    ]
    return rows.assign(text=pd.Series(lists, index=rows.index, dtype=object))


def _has_exact_ids(path: Path) -> bool:
    """Whether upper and lower case differ in the ids of a cohort."""
    if path.suffix != ".parquet" or not path.is_file():
        return False
    summary = json.loads(read_metadata(path).get(SUMMARY_KEY, "{}"))
    return bool(summary.get("exact_ids"))


def read_cohort(
    path: Path,
    *,
    also: Sequence[Path] = (),
    notes: bool = True,
) -> pd.DataFrame:
    """Read a cohort; see `usable_stays`.

    Args:
        path: the file of the cohort.
        also: further cohorts, of which the train side is added. Ids of patients must differ between
            hospitals, since the same id is the same patient.
        notes: False leaves out the notes.

    Raises:
        TableError: a file cannot be read, or a column is missing.
        UserError: a patient of another cohort's train side is on another side here.
    """
    needed = NEEDED if notes else LABELS
    rows = read_stays(path, needed=needed, notes=notes)
    cohorts = [read_stays(other, needed=NEEDED) for other in also]
    train_sides = [cohort[cohort["split"] == "train"] for cohort in cohorts]
    rows = pd.concat([rows, *train_sides])
    if also:
        check_disjoint(rows)
    return rows.reset_index(drop=True)


def usable_stays(cohort: pd.DataFrame, *, notes: bool = True) -> pd.DataFrame:
    """The rows to train and score on: no exclusion, a label, a side, and at least one note.

    `text` is a list of notes, `readmitted` 0 or 1. Without `notes` there is no text.

    Raises:
        TableError: a column is missing.
        UserError: no row is left, patients on more than one side, labels other than 0 and 1, or
            notes that are not text.
    """
    needed = NEEDED if notes else LABELS
    require_columns(cohort.columns, needed, source="cohort")
    rows = _not_excluded(cohort)
    if rows.empty:
        raise UserError(
            f"the cohort has no stays that can be used: {_lacks(cohort)}"
        )
    rows = rows[rows["split"].notna() & rows["readmitted"].notna()]
    check_disjoint(rows)
    n_wrong = sum(label not in (0, 1) for label in rows["readmitted"])
    if n_wrong:
        raise UserError(
            f"readmitted holds {n_wrong} values that are not 0 or 1; expected 1 = readmitted"
        )
    rows = rows.assign(readmitted=rows["readmitted"].astype(int))
    if not notes:
        return rows.drop(columns="text", errors="ignore").reset_index(
            drop=True
        )
    rows = rows.assign(text=rows["text"].map(present_notes))
    has_text = rows["text"].map(len) > 0
    n_dropped = int((~has_text).sum())
    if n_dropped:
        log.warning("%d stays have no text and are left out", n_dropped)
    return rows[has_text].reset_index(drop=True)


def new_stays(stays: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table of new stays that are not excluded, with `patient_id` as a key.

    Only `text`, a note or a list of notes, is needed.

    Raises:
        TableError: there is no column `text`.
        UserError: a stay has several rows, or no row is left.
    """
    require_columns(stays.columns, ("text",), source="the new stays")
    rows = _not_excluded(stays)
    if "stay_id" in rows.columns:
        stay_ids = rows.loc[~rows["stay_id"].map(is_missing), "stay_id"]
        n_repeated = int(stay_ids.duplicated().sum())
        if n_repeated:
            raise UserError(
                f"{n_repeated} rows repeat a stay_id: expected one row per stay, with its notes as "
                "a list; build such a table with: clinical cohort"
            )
    if rows.empty:
        raise UserError(
            "there is no new stay: the table has no row, or every row is excluded"
        )
    return with_patient_keys(rows).reset_index(drop=True)


def _not_excluded(rows: pd.DataFrame) -> pd.DataFrame:
    if "exclusion" not in rows.columns:
        return rows
    return rows[rows["exclusion"].map(is_missing).astype(bool)]


def _lacks(cohort: pd.DataFrame) -> str:
    """Why no row of a cohort is left."""
    if cohort.empty:
        return "it has no row; build one with an admission: clinical cohort"
    counts = cohort["exclusion"].value_counts().items()
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in counts)
    return f"all {len(cohort):,} are excluded, as {reasons}"
