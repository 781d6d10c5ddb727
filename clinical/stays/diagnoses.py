"""Groups of diagnosis codes of stays: which stays count, and their groups as numbers."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from clinical.stays.patients import check_disjoint
from clinical.stays.stays import present_notes
from domainbert.errors import UserError
from domainbert.tables import is_missing, require_columns

DIAGNOSES = "diagnoses"
"""The groups of a stay, a list; null for a stay without any code, whose groups are not known."""
EVIDENCE = "evidence"
"""Where groups were found: dicts of `group`, `note` (its number), `start`, `end`; or null."""


def coded_stays(cohort: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The stays to train and measure on: not excluded, with a side, codes, and at least one note.

    Args:
        cohort: `patient_id, split, text` (a note or a list of notes), `diagnoses` (see
            `DIAGNOSES`), and what else it has, such as `exclusion` and `evidence`.

    Returns:
        The rows, with `text` as a list of notes, and the number of stays without any code.

    Raises:
        TableError: a column is missing.
        UserError: no row is left, a patient is on two sides, or `diagnoses` holds no lists.
    """
    needed = ("patient_id", "split", "text", DIAGNOSES)
    require_columns(cohort.columns, needed, source="cohort")
    rows = cohort[cohort["split"].notna()]
    if "exclusion" in rows:
        rows = rows[rows["exclusion"].map(is_missing).astype(bool)]
    lists = [_group_list(cell) for cell in rows[DIAGNOSES]]
    is_known = np.array([groups is not None for groups in lists], dtype=bool)
    unknown = int((~is_known).sum())
    rows = rows.assign(
        **{DIAGNOSES: pd.Series(lists, index=rows.index, dtype=object)},
        text=rows["text"].map(_notes),
    )
    rows = rows[is_known]
    rows = rows[rows["text"].map(len) > 0].reset_index(drop=True)
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
