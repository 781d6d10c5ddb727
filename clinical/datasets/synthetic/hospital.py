"""Write the made-up hospital as the tables of MIMIC-III, with the true risk of each stay."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.datasets.synthetic import rows
from clinical.datasets.synthetic.stays import CALENDARS, draw_patients
from domainbert.errors import UserError
from domainbert.tables import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Hospital:
    """What was written.

    Attributes:
        folder: folder of the four tables.
        patients: rows of PATIENTS.csv.
        admissions: rows of ADMISSIONS.csv.
        stays: index stays, which have a true risk; rows of TRUE_RISK.csv.
        notes: rows of NOTEEVENTS.csv.
        told: rows of TOLD.csv.
        prevalence: share, 0 to 1, of the index stays with an unplanned readmission within 30 days.
        best_auroc: AUROC of the true risks against these outcomes, an upper limit for any model.
        expected_auroc: the AUROC expected over all outcomes that these risks could have led to.
    """

    folder: Path
    patients: int
    admissions: int
    stays: int
    notes: int
    told: int
    prevalence: float
    best_auroc: float
    expected_auroc: float


def synthesize(
    folder: str | Path,
    *,
    stays: int = 1000,
    seed: int = 0,
    brief: bool = False,
    notes_per_stay: str = "few",
    dates: str = "shifted",
) -> Hospital:
    """Write a made-up hospital whose readmission risks are known.

    PATIENTS.csv, ADMISSIONS.csv and NOTEEVENTS.csv have the columns of MIMIC-III. TRUE_RISK.csv
    holds the probability with which the 30-day readmission of each index stay was drawn: the
    logistic function of the weights of the stay's facts (`FACTS`), which its notes tell. TOLD.csv
    lists every sentence of these notes that names a fact, and whether it is "true" of the stay,
    "denied", or told of "elsewhere": another time or person. Newborns,
    deaths in hospital and stays that end in a transfer have no true risk. Planned returns are not
    readmissions.

    Args:
        folder: where to write; created if absent. Existing tables of these names are replaced.
        stays: number of index stays, at least 1.
        seed: the same seed and options give the same bytes.
        brief: write discharge summaries with the hospital course only, about 200 word-pieces
            instead of 1,000 to 4,000.
        notes_per_stay: "few" gives each stay 1 to 3 short notes in its first two days, each with
            half of the true facts; "many" gives 20 to 60, most without any.
        dates: "shifted" spreads the admissions over 90 years from 2100, as MIMIC-III's are;
            "real" over 2018 and 2019.

    Raises:
        UserError: `stays` is less than 1, or an option is not one of those above.
    """
    if stays < 1:
        msg = f"stays is {stays}, expected at least 1: synthesize(folder, stays=1000)"
        raise UserError(msg)
    if notes_per_stay not in rows.NOTES_PER_STAY:
        msg = f"notes_per_stay is {notes_per_stay!r}, expected 'few' or 'many'"
        raise UserError(msg)
    if dates not in CALENDARS:
        msg = f"dates is {dates!r}, expected 'shifted' or 'real'"
        raise UserError(msg)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Separate generators: a new phrase does not change the patients.
    patients = draw_patients(stays, random.Random(seed), dates=dates)  # noqa: S311 - no secret
    rng = random.Random(f"wording {seed}")  # noqa: S311 - no secret
    numbered = rows.number(patients, rng)
    told: list[list[Any]] = []
    notes = rows.note_rows(numbered, rng, told=told, brief=brief, notes_per_stay=notes_per_stay)
    index = [stay for patient in patients for stay in patient.stays if stay.risk is not None]
    risk = np.array([stay.risk for stay in index], dtype=float)
    outcome = np.array([stay.readmitted for stay in index], dtype=float)
    # The tables draw from one generator: their order decides the words.
    return Hospital(
        folder=folder,
        patients=_write(folder, "PATIENTS", rows.patient_rows(numbered)),
        admissions=_write(folder, "ADMISSIONS", rows.admission_rows(numbered, rng)),
        notes=_write(folder, "NOTEEVENTS", notes),
        stays=_write(folder, "TRUE_RISK", rows.risk_rows(numbered)),
        told=_write(folder, "TOLD", told),
        prevalence=float(outcome.mean()),
        best_auroc=ceiling_auroc(risk, outcome),
        expected_auroc=ceiling_auroc(risk, risk),
    )


def ceiling_auroc(risk: np.ndarray, outcome: np.ndarray) -> float:
    """AUROC of risks against outcomes, both of shape (stays,); ties count half.

    Probabilities as outcomes give the expected AUROC. NaN without a positive or a negative.
    """
    _, group = np.unique(risk, return_inverse=True)
    positives, negatives = np.bincount(group, outcome), np.bincount(group, 1 - outcome)
    pairs = positives.sum() * negatives.sum()
    below = np.cumsum(negatives) - negatives / 2
    return float((positives * below).sum() / pairs) if pairs > 0 else float("nan")


def _write(folder: Path, name: str, table: Iterable[list[Any]]) -> int:
    """Write rows, with a ROW_ID if the table has one; returns their number."""
    count, columns = 0, rows.COLUMNS[name]
    with (
        atomic_path(folder / f"{name}.csv") as partial,
        partial.open("w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        for count, row in enumerate(table, start=1):
            writer.writerow([count, *row] if columns[0] == "ROW_ID" else row)
    return count
