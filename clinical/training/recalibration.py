"""Calibration of a trained network: c, the calibrator, the columns and the alert threshold."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from clinical.evaluation.after_discharge import record_after_discharge
from clinical.evaluation.drift import describe_notes, profile
from clinical.evaluation.measures import precise_threshold
from clinical.risk.aggregation import aggregate_stays
from clinical.risk.diagnoses import DiagnosisModel
from clinical.risk.manifest import RiskCalibration, StayCounts
from clinical.risk.model import ReadmissionModel
from clinical.risk.reading import ColumnEffect, shifts
from clinical.stays.choice import CHOICE, choice_of
from clinical.stays.cohorts import usable_stays
from clinical.stays.patients import check_unseen, with_patients
from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated, fit_platt, logit
from domainbert.tables import require_columns
from domainbert.tables.ids import is_id_column

C_GRID = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
EPSILON = 1e-6
MIN_EVENTS = 10
"""Stays of each outcome that calibration needs for each of its parameters."""

# Columns that tell the outcome.
REFUSED = {
    "readmitted",
    "days_to_readmission",
    "days_to_death",
    "died_within_horizon",
    "censored",
    "score",
    "probability",
}


def unseen_stays(
    model: ReadmissionModel | DiagnosisModel, stays: pd.DataFrame, split: str
) -> tuple[pd.DataFrame, list[list[np.ndarray]]]:
    """The stays of a side that can be scored, with their windows.

    Raises:
        UserError: no stay can be scored, or the model was trained on some of the patients.
    """
    hashes = model.manifest.data.patients
    check_unseen(stays["patient_id"], hashes, side="val")
    windows = model.token_ids(stays["text"])
    stays = stays[list(map(bool, windows))]
    if stays.empty:
        raise UserError(
            f"no stay of the side {split!r} can be scored; expected some hundred stays"
        )
    return stays, list(filter(None, windows))


def check_events(
    outcome: np.ndarray | pd.Series, *, parameters: int = 2
) -> None:
    """Raise a `UserError` for fewer than `MIN_EVENTS` stays of an outcome per parameter."""
    events = int(outcome.sum())
    needed = MIN_EVENTS * parameters
    if min(events, len(outcome) - events) < needed:
        raise UserError(
            f"{len(outcome)} stays, {events} with the outcome, are too few to calibrate on; "
            f"at least {needed} with the outcome and {needed} others are needed"
        )


def choose(
    model: ReadmissionModel,
    values: np.ndarray,
    counts: np.ndarray,
    outcome: np.ndarray,
    *,
    grid: Sequence[float] = C_GRID,
) -> np.ndarray:
    """Fit c, the calibrator and the threshold of 80% precision on stays not trained on.

    The c with the highest likelihood of the calibrated probabilities is chosen, because the AUROC
    of a few hundred stays is too noisy.

    Args:
        model: the model; its settings are changed.
        values: probabilities of all windows, from `ReadmissionModel.window_probabilities`.
        counts: number of windows of each stay, at least 1, shape (stays,).
        outcome: 0 or 1, shape (stays,).
        grid: values of c to choose from.

    Returns:
        The probabilities of the stays, shape (stays,).

    Raises:
        UserError: too few stays of an outcome, or no c allows a calibration (see `fit_platt`); the
            settings are then unchanged.
    """
    from sklearn.metrics import log_loss

    check_events(outcome)
    fits = []
    reason = ""
    for c in grid:
        score = aggregate_stays(values, counts, c=c)
        try:
            platt = fit_platt(logit(score), outcome)
        except UserError as error:
            reason = str(error)
            continue
        probability = np.clip(calibrated(score, *platt), EPSILON, 1 - EPSILON)
        loss = log_loss(outcome, probability)
        fits.append((loss, c, platt, probability))
    if not fits:
        raise UserError(reason)
    _, c, platt, probability = min(fits, key=itemgetter(0))
    _update(model, outcome, probability, c=c, calibration=platt, columns=())
    return np.asarray(probability)


def _update(
    model: ReadmissionModel,
    outcome: np.ndarray,
    risk: np.ndarray,
    **settings: Any,
) -> None:
    """Change the settings of a model, and its threshold to that of these risks."""
    threshold = precise_threshold(outcome, risk)
    if threshold is not None:
        # A little lower: rounding must not put the stay that defines it below.
        threshold -= 1e-9
    model.settings = model.settings.replaced(
        **settings, alert_threshold=threshold
    )


def fit_columns(
    columns: pd.DataFrame,
    score: np.ndarray,
    outcome: np.ndarray,
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit a calibrator on the score and further columns.

    It is scikit-learn's logistic regression on the log-odds of the score and the columns, all with
    unit variance; its penalty (C = 1) keeps the weight of a rare value small.

    Args:
        columns: one row per stay.
        score: shape (stays,).
        outcome: 0 or 1, shape (stays,).

    Returns:
        The settings `calibration` and `columns` of the model, and the probabilities of the stays,
        shape (stays,).

    Raises:
        UserError: a column is an outcome or an id, has a cell that is not a number, or does not
            vary; or a higher score would lower the risk.
    """
    from sklearn.linear_model import LogisticRegression

    # These effects still have the weight 1, so their shifts are the values less their median.
    effects = [_column_effect(columns[name], name) for name in columns]
    column_shifts = [shifts(columns, [effect]) for effect in effects]
    design = np.column_stack([logit(score), *column_shifts])
    scale = design.std(axis=0)
    regression = LogisticRegression(solver="newton-cholesky", tol=1e-10)
    regression.fit(design / scale, outcome)
    slope, *weights = (regression.coef_[0] / scale).tolist()
    if slope <= 0:
        raise UserError(
            "with these columns a higher score would lower the risk; leave some out"
        )
    weighted = [
        effect.replaced(weight=weight).model_dump()
        for effect, weight in zip(effects, weights, strict=True)
    ]
    intercept = float(regression.intercept_[0])
    # Lists, as in JSON.
    settings = {"calibration": [slope, intercept], "columns": weighted}
    return settings, regression.predict_proba(design / scale)[:, 1]


def _column_effect(cells: pd.Series, name: str) -> ColumnEffect:
    """The effect of a column, with its median; the weight is 1 until it is fitted."""
    effect = ColumnEffect(name=name)
    values = np.array([effect.shift(cell) for cell in cells])
    present = values[~np.isnan(values)]
    varies = len(np.unique(present)) > 1 and np.isfinite(present).all()
    if name in REFUSED or is_id_column(name) or not varies:
        raise UserError(
            f"column {name!r}: expected numbers that vary, no outcome and no id"
        )
    return effect.replaced(median=np.median(present))


def recalibrate(
    model: ReadmissionModel,
    cohort: pd.DataFrame,
    *,
    split: str = "val",
    columns: Sequence[str] = (),
    keep_c: bool = False,
) -> None:
    """Fit c, the calibrator and the alert threshold on a hospital's own stays.

    The model also learns when readmissions come after discharge, for `StayRisk.remaining`, where
    the cohort has `days_to_readmission`.

    A few hundred stays are enough. They should resemble those that will be scored, above all in the
    number of their notes (see docs/explanation/dilution.md); the model reads the notes that this
    cohort chose from then on.

    Args:
        model: its settings and its manifest are changed.
        cohort: see `clinical.stays.cohorts.usable_stays`.
        split: the side to fit on; measure on another one.
        columns: numbers to read in addition to the notes; by default those that the model reads.
        keep_c: keep c, if shorter or longer stays will be scored too.

    Raises:
        TableError: a column is missing.
        UserError: no stay on that side can be scored, the model was trained on some of their
            patients, or the stays allow no calibration (see `choose`, `fit_columns`).
    """
    effects = model.settings.columns
    names = list(dict.fromkeys(columns)) or [e.name for e in effects]
    require_columns(cohort.columns, names, source="the cohort")
    rows = usable_stays(cohort)
    rows = rows[rows["split"] == split]
    hashes = model.manifest.data.patients
    rows, windows = unseen_stays(model, rows, split)
    outcome = rows["readmitted"].to_numpy()
    check_events(outcome, parameters=2 + len(names))
    values, counts = model.window_probabilities(windows)
    grid = (model.c,) if keep_c else C_GRID
    probability = choose(model, values, counts, outcome, grid=grid)
    manifest = model.manifest
    manifest.example = None  # its probability is no longer right
    manifest.calibration = RiskCalibration(
        recalibrated=StayCounts(stays=len(rows), readmitted=int(outcome.sum()))
    )
    if names:
        score = aggregate_stays(values, counts, c=model.c)
        table = rows[names]
        without = _without_columns(model, table, score, outcome)
        manifest.calibration.without = without
        settings, probability = fit_columns(table, score, outcome)
        _update(model, outcome, probability, **settings)
    choice = choice_of(rows.get(CHOICE, ()))
    if choice:
        model.settings = model.settings.replaced(notes=choice)
    if hashes:
        patients = with_patients(hashes, rows["patient_id"], side="val")
        manifest.data.patients = patients
    record_validation(model, rows, probability)


def record_validation(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    probability: np.ndarray,
) -> None:
    """Keep what the stays of validation were: days of readmission, and the profile for drift.

    Args:
        model: calibrated; its settings and its manifest are changed.
        stays: `text`, and what `record_after_discharge` needs.
        probability: their risks, shape (stays,).
    """
    record_after_discharge(model, stays, probability)
    description = describe_notes(model, stays["text"])
    quantities = {**description, "probability": probability}
    model.manifest.data.profile = profile(quantities)


def _without_columns(
    model: ReadmissionModel,
    table: pd.DataFrame,
    score: np.ndarray,
    outcome: np.ndarray,
) -> dict[str, Any]:
    """The calibrators of the notes alone, and without each column, for comparison."""
    calibrators = {
        "the notes alone": {
            "calibration": list(model.settings.calibration or ())
        }
    }
    if len(table.columns) > 1:
        for name in table:
            settings, _ = fit_columns(table.drop(columns=name), score, outcome)
            calibrators[f"without {name}"] = settings
    return calibrators
