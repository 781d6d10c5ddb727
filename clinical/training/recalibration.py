"""What is fitted around the network: c, the calibrator and the alert threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.evaluation.drift import describe_notes, profile
from clinical.evaluation.measures import precise_threshold
from clinical.risk.aggregation import aggregate_stays
from clinical.stays.choice import CHOICE, choice_of
from clinical.stays.cohorts import usable_stays
from clinical.stays.patients import check_unseen, with_patients
from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated, fit_platt, logit

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.model import RiskModel

C_GRID = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
EPSILON = 1e-6
MIN_EVENTS = 20
"""Calibration needs this many stays of each outcome: ten for each of its two parameters."""


def check_events(outcome: np.ndarray | pd.Series) -> None:
    """Raise `UserError` for fewer than `MIN_EVENTS` stays of an outcome, 0 or 1, shape (stays,)."""
    events = int(outcome.sum())
    if min(events, len(outcome) - events) < MIN_EVENTS:
        raise UserError(
            f"{len(outcome)} stays, {events} with the outcome, are too few to calibrate on; "
            f"at least {MIN_EVENTS} with the outcome and {MIN_EVENTS} others are needed"
        )


def choose(
    model: RiskModel, values: np.ndarray, counts: np.ndarray, outcome: np.ndarray
) -> np.ndarray:
    """Fit c, the calibrator and the 80% precision threshold of `model` on stays kept from training.

    The c with the highest likelihood of the calibrated probabilities is chosen, because the AUROC
    of a few hundred stays is too noisy.

    Args:
        model: its settings are changed.
        values: probabilities of all windows, from `RiskModel.window_probabilities`.
        counts: windows of each stay, from there too; each at least 1.
        outcome: 0 or 1, shape (stays,).

    Returns:
        The probabilities of the stays, shape (stays,).

    Raises:
        UserError: fewer than `MIN_EVENTS` stays of either outcome, or no c allows a calibration
            (see `fit_platt`); the settings stay as they are.
    """
    check_events(outcome)
    fits, refused = [], ""
    for c in C_GRID:
        score = aggregate_stays(values, counts, c=c)
        try:
            platt = fit_platt(logit(score), outcome)
        except UserError as error:
            refused = str(error)
            continue
        probability = np.clip(calibrated(score, *platt), EPSILON, 1 - EPSILON)
        likelihood = np.where(outcome == 1, np.log(probability), np.log1p(-probability)).mean()
        fits.append((likelihood, c, platt, probability))
    if not fits:
        raise UserError(refused)
    _, c, platt, probability = max(fits, key=lambda fitted: fitted[0])
    threshold = precise_threshold(outcome, probability)
    model.settings = model.settings.replaced(
        c=c,
        calibration=platt,
        # A little lower, so that rounding cannot put the stay that defines it below.
        alert_threshold=None if threshold is None else threshold - 1e-9,
    )
    return np.asarray(probability)


def recalibrate(model: RiskModel, cohort: pd.DataFrame, *, split: str = "val") -> None:
    """Fit c, the calibrator and the alert threshold on a hospital's own stays.

    A few hundred stays are enough. They should be like those that will be scored, above all in the
    number of their notes (see docs/explanation/dilution.md); the model reads the notes that this
    cohort chose from then on.

    Args:
        model: its settings are changed, and its manifest says on what.
        cohort: see `clinical.stays.cohorts.usable_stays`.
        split: the side to fit on; measure on another one.

    Raises:
        TableError: a column is missing.
        UserError: no stay on that side can be scored, patients that the model was trained on are
            among them, or the stays allow no calibration (see `choose`).
    """
    rows = usable_stays(cohort)
    rows = rows[rows["split"] == split].reset_index(drop=True)
    check_unseen(rows["patient_id"], model.manifest, side="val")
    windows = model.token_ids(rows["text"])
    readable = [i for i, stay in enumerate(windows) if len(stay)]
    if not readable:
        raise UserError(f"no stay of the side {split!r} can be scored; expected some hundred")
    outcome = rows["readmitted"].to_numpy()[readable]
    values, counts = model.window_probabilities([windows[i] for i in readable])
    probability = choose(model, values, counts, outcome)
    if choice := choice_of(rows.get(CHOICE, ())):
        model.settings = model.settings.replaced(notes=choice)
    model.manifest.pop("calibration_refused", None)
    if stored := model.manifest.get("patients"):
        model.manifest["patients"] = with_patients(stored, rows["patient_id"], side="val")
    found = describe_notes(model, rows["text"]) | {"probability": probability}
    model.manifest["profile"] = {"val": profile(found)}
    model.manifest["recalibrated"] = {"stays": len(readable), "readmitted": int(outcome.sum())}
