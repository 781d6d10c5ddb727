"""Cohorts: the one reader of tables with one row per stay, and which of their stays count."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
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
DIAGNOSES = "diagnoses"
"""The groups of a stay, a list; null for a stay without any code, whose groups are not known."""
EVIDENCE = "evidence"
"""Where groups were found: dicts of `group`, `note` (its number), `start`, `end`; or null."""


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
    outcome: str = "readmitted",
) -> pd.DataFrame:
    """Read a cohort; see `usable_stays`.

    Args:
        path: the file of the cohort.
        also: further cohorts, of which the train side is added. Ids of patients must differ between
            hospitals, since the same id is the same patient.
        notes: False leaves out the notes.
        outcome: the column that it must have: "readmitted", or "diagnoses" (see
            `clinical.stays.cohorts.coded_stays`).

    Raises:
        TableError: a file cannot be read, or a column is missing.
        UserError: a patient of another cohort's train side is on another side here.
    """
    needed = ["patient_id", outcome, "split"]
    if notes:
        needed.append("text")
    rows = read_stays(path, needed=needed, notes=notes)
    cohorts = [read_stays(other, needed=needed) for other in also]
    train_sides = [cohort[cohort["split"] == "train"] for cohort in cohorts]
    rows = pd.concat([rows, *train_sides])
    if also:
        check_disjoint(rows)
    return rows.reset_index(drop=True)


def is_of_diagnoses(path: Path) -> bool:
    """Whether the outcome of a cohort is groups of diagnosis codes."""
    return DIAGNOSES in table_columns(path)


def groups_summary(path: Path) -> dict[str, Any]:
    """What `clinical cohort` says of the groups of a file: their counts and names; or nothing."""
    if path.suffix != ".parquet" or not path.is_file():
        return {}
    summary = json.loads(read_metadata(path).get(SUMMARY_KEY, "{}"))
    facts: dict[str, Any] = summary.get(DIAGNOSES, {})
    return facts


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


def coded_stays(
    cohort: pd.DataFrame, *, notes: bool = True
) -> tuple[pd.DataFrame, int]:
    """The stays to train and measure on: not excluded, with a side, codes, and at least one note.

    Args:
        cohort: `patient_id, split, text` (a note or a list of notes), `diagnoses` (see
            `DIAGNOSES`), and what else it has, such as `exclusion` and `evidence`.
        notes: False leaves out the notes, and keeps stays without any.

    Returns:
        The rows, with `text` as a list of notes, and the number of stays without any code.

    Raises:
        TableError: a column is missing.
        UserError: no row is left, a patient is on two sides, or `diagnoses` holds no lists.
    """
    needed = ["patient_id", "split", DIAGNOSES]
    if notes:
        needed.append("text")
    require_columns(cohort.columns, needed, source="cohort")
    rows = cohort[cohort["split"].notna()]
    if "exclusion" in rows:
        rows = rows[rows["exclusion"].map(is_missing).astype(bool)]
    lists = [_group_list(cell) for cell in rows[DIAGNOSES]]
    is_known = np.array([groups is not None for groups in lists], dtype=bool)
    unknown = int((~is_known).sum())
    rows = rows.assign(
        **{DIAGNOSES: pd.Series(lists, index=rows.index, dtype=object)}
    )[is_known]
    if notes:
        rows = rows.assign(text=rows["text"].map(_notes))
        rows = rows[rows["text"].map(len) > 0]
    else:
        rows = rows.drop(columns="text", errors="ignore")
    rows = rows.reset_index(drop=True)
    if rows.empty:
        raise UserError(
            f"the cohort has no stay with codes, a side and notes; {unknown} of {len(cohort)} "
            "stays have no code"
        )
    check_disjoint(rows)
    if EVIDENCE in rows:
        places = [_listed(cell) for cell in rows[EVIDENCE]]
        rows[EVIDENCE] = pd.Series(places, index=rows.index, dtype=object)
    return rows, unknown


def labels_of(rows: pd.DataFrame, groups: Sequence[str]) -> np.ndarray:
    """1 for each group that a stay has, shape (stays, groups), float32."""
    numbers = {group: number for number, group in enumerate(groups)}
    labels = np.zeros((len(rows), len(groups)), np.float32)
    for row, stay_groups in enumerate(rows[DIAGNOSES]):
        columns = [numbers[g] for g in stay_groups if g in numbers]
        labels[row, columns] = 1
    return labels


def _listed(cell: object) -> object:
    """A list of Parquet, which comes as an array, as a list."""
    if hasattr(cell, "tolist"):
        return cell.tolist()
    return cell


def _notes(cell: object) -> list[str]:
    return present_notes(_listed(cell))


def _group_list(cell: object) -> list[str] | None:
    cell = _listed(cell)
    if isinstance(cell, list | tuple):
        return [str(group) for group in cell]
    if is_missing(cell):
        return None
    raise UserError(
        f"{DIAGNOSES} holds a {type(cell).__name__}; expected a list of groups for each stay, "
        "such as ['I50', 'E11']"
    )
