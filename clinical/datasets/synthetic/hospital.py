"""Write the made-up hospital as the tables of MIMIC-III, and beside them the true risks."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.datasets.synthetic import rows
from clinical.datasets.synthetic.stays import draw_patients
from domainbert.errors import UserError
from domainbert.tables import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Hospital:
    """What was written.

    Attributes:
        folder: Where the four tables are.
        patients: Rows of PATIENTS.csv.
        admissions: Rows of ADMISSIONS.csv.
        stays: Index stays, those with a true risk; rows of TRUE_RISK.csv.
        notes: Rows of NOTEEVENTS.csv.
        prevalence: Share of the index stays, 0 to 1, that were followed by an unplanned
            readmission within 30 days.
        best_auroc: AUROC of the true risks against these outcomes, the most that a reader of the
            notes can reach.
        expected_auroc: The same over all outcomes that these risks could have led to.
    """

    folder: Path
    patients: int
    admissions: int
    stays: int
    notes: int
    prevalence: float
    best_auroc: float
    expected_auroc: float


def synthesize(
    folder: str | Path, *, stays: int = 1000, seed: int = 0, brief: bool = False
) -> Hospital:
    """Write a made-up hospital whose readmission risks are known.

    PATIENTS.csv, ADMISSIONS.csv and NOTEEVENTS.csv are shaped as in MIMIC-III. TRUE_RISK.csv holds,
    for each index stay, the probability with which its 30-day readmission was drawn: the logistic
    function of the weights of the stay's facts (`FACTS`), which its notes tell,
    and of nothing else. Newborns, deaths in hospital and stays that end in a transfer have no true
    risk; planned returns are no readmissions.

    Args:
        folder: Where to write; made if absent. Tables of these names in it are replaced.
        stays: Index stays to make, at least 1.
        seed: The same seed gives the same bytes.
        brief: Discharge summaries of the hospital course alone, about 200 word-pieces instead of
            1,000 to 4,000: much to learn from at little cost.

    Raises:
        ValueError: `stays` is less than 1.
    """
    if stays < 1:
        msg = f"stays is {stays}, it must be at least 1: synthesize(folder, stays=1000)"
        raise UserError(msg)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Outcomes and wordings are drawn apart, so that a new phrase leaves the patients as they are.
    patients = draw_patients(stays, random.Random(seed))  # noqa: S311 - no secret
    rng = random.Random(f"wording {seed}")  # noqa: S311 - no secret
    numbered = rows.number(patients, rng)
    tables = {
        "PATIENTS": rows.patient_rows(numbered),
        "ADMISSIONS": rows.admission_rows(numbered, rng),
        "NOTEEVENTS": rows.note_rows(numbered, rng, brief=brief),
        "TRUE_RISK": rows.risk_rows(numbered),
    }
    counts = {
        name: _write(folder / f"{name}.csv", rows.COLUMNS[name], table)
        for name, table in tables.items()
    }
    index = [stay for patient in patients for stay in patient.stays if stay.risk is not None]
    risk = np.array([stay.risk for stay in index], dtype=float)
    outcome = np.array([stay.readmitted for stay in index], dtype=float)
    return Hospital(
        folder=folder,
        patients=counts["PATIENTS"],
        admissions=counts["ADMISSIONS"],
        stays=counts["TRUE_RISK"],
        notes=counts["NOTEEVENTS"],
        prevalence=float(outcome.mean()),
        best_auroc=ceiling_auroc(risk, outcome),
        expected_auroc=ceiling_auroc(risk, risk),
    )


def ceiling_auroc(risk: np.ndarray, outcome: np.ndarray) -> float:
    """AUROC of risks against outcomes, ties counting half.

    Args:
        risk: Shape (stays,), the scores.
        outcome: Shape (stays,), 0 or 1; or probabilities, which give the expected AUROC, that is
            the probability that of a random positive and a random negative the positive has the
            higher score.

    Returns:
        The area, 0 to 1; NaN where there is no positive or no negative.
    """
    _, group = np.unique(risk, return_inverse=True)
    positives, negatives = np.bincount(group, outcome), np.bincount(group, 1 - outcome)
    pairs = positives.sum() * negatives.sum()
    below = np.cumsum(negatives) - negatives / 2
    return float((positives * below).sum() / pairs) if pairs > 0 else float("nan")


def _write(path: Path, columns: Sequence[str], table: Iterable[list[Any]]) -> int:
    """Write rows, each with its ROW_ID where the table has one, as they come; their number."""
    count = 0
    with (
        atomic_path(path) as partial,
        partial.open("w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        for count, row in enumerate(table, start=1):
            writer.writerow([count, *row] if columns[0] == "ROW_ID" else row)
    return count
