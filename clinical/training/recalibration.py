"""What is fitted around the network: c, the calibrator and the alert threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.drift import describe_notes, profile
from clinical.evaluation.measures import precise_threshold
from clinical.risk.aggregation import aggregate_stays
from clinical.stays.choice import CHOICE, choice_of
from clinical.stays.cohorts import usable_stays
from clinical.stays.patients import check_unseen, with_patients
from clinical.stays.stays import ColumnEffect, shifts
from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated, fit_platt, logit
from domainbert.tables import require_columns
from domainbert.tables.ids import is_id_column

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.model import RiskModel

C_GRID = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
EPSILON = 1e-6
MIN_EVENTS = 10
"""Calibration needs this many stays of each outcome for each of its parameters."""

REFUSED = (
    "readmitted days_to_readmission died_within_horizon censored score probability"
)


def check_events(outcome: np.ndarray | pd.Series, *, parameters: int = 2) -> None:
    """Raise `UserError` for fewer than `MIN_EVENTS` stays a parameter of an outcome, 0 or 1."""
    events, needed = int(outcome.sum()), MIN_EVENTS * parameters
    if min(events, len(outcome) - events) < needed:
        raise UserError(
            f"{len(outcome)} stays, {events} with the outcome, are too few to calibrate on; "
            f"at least {needed} with the outcome and {needed} others are needed"
        )


def choose(
    model: RiskModel,
    values: np.ndarray,
    counts: np.ndarray,
    outcome: np.ndarray,
    *,
    grid: Sequence[float] = C_GRID,
) -> np.ndarray:
    """Fit c, the calibrator and the 80% precision threshold of `model` on stays kept from training.

    The c with the highest likelihood of the calibrated probabilities is chosen, because the AUROC
    of a few hundred stays is too noisy.

    Args:
        model: its settings are changed.
        values: probabilities of all windows, from `RiskModel.window_probabilities`.
        counts: windows of each stay, from there too; each at least 1.
        outcome: 0 or 1, shape (stays,).
        grid: the values of c to choose from.

    Returns:
        The probabilities of the stays, shape (stays,).

    Raises:
        UserError: too few stays of either outcome, or no c allows a calibration
            (see `fit_platt`); the settings stay as they are.
    """
    check_events(outcome)
    fits, refused = [], ""
    for c in grid:
        score = aggregate_stays(values, counts, c=c)
        try:
            platt = fit_platt(logit(score), outcome)
        except UserError as error:
            refused = str(error)
            continue
        probability = np.clip(calibrated(score, *platt), EPSILON, 1 - EPSILON)
        likelihood = np.where(
            outcome == 1, np.log(probability), np.log1p(-probability)
        ).mean()
        fits.append((likelihood, c, platt, probability))
    if not fits:
        raise UserError(refused)
    _, c, platt, probability = max(fits, key=lambda fitted: fitted[0])
    _settle(model, outcome, probability, c=c, calibration=platt, columns=())
    return np.asarray(probability)


def _settle(
    model: RiskModel, outcome: np.ndarray, risk: np.ndarray, **fitted: Any
) -> None:
    """Change settings of a model, and its threshold to that of these risks."""
    threshold = precise_threshold(outcome, risk)
    # A little lower, so that rounding cannot put the stay that defines it below.
    lower = None if threshold is None else threshold - 1e-9
    model.settings = model.settings.replaced(**fitted, alert_threshold=lower)


def fit_columns(
    columns: pd.DataFrame, score: np.ndarray, outcome: np.ndarray
) -> tuple[dict[str, Any], np.ndarray]:
    """`calibration` and `columns` of a model, and the probabilities of the stays, shape (stays,).

    It is scikit-learn's logistic regression on the log-odds of the score (shape (stays,)) and the
    columns, all with unit variance; its penalty (C = 1) keeps the weight of a rare value small.

    Raises:
        UserError: a column is an outcome or an id, holds what is no number, or does not vary; or a
            higher score would lower the risk.
    """
    from sklearn.linear_model import LogisticRegression

    effects = []
    for name in columns:
        number = ColumnEffect(name=name)
        values = np.array([number.shift(cell) for cell in columns[name]])
        known = values[~np.isnan(values)]
        varies = len(np.unique(known)) > 1 and np.isfinite(known).all()
        if name in REFUSED.split() or is_id_column(name) or not varies:
            raise UserError(
                f"column {name!r}: expected numbers that vary, no outcome and no id"
            )
        effects.append(number.replaced(median=np.median(known)))
    design = np.column_stack(
        [logit(score), *(shifts(columns, [one]) for one in effects)]
    )
    scale = design.std(axis=0)
    model = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(
        design / scale, outcome
    )
    slope, *weights = (model.coef_[0] / scale).tolist()
    if slope <= 0:
        raise UserError(
            "beside these columns a higher score would lower the risk; leave some out"
        )
    weighed = [
        one.replaced(weight=w).model_dump()
        for one, w in zip(effects, weights, strict=True)
    ]
    fitted = {"calibration": (slope, float(model.intercept_[0])), "columns": weighed}
    return fitted, model.predict_proba(design / scale)[:, 1]


def recalibrate(
    model: RiskModel,
    cohort: pd.DataFrame,
    *,
    split: str = "val",
    columns: Sequence[str] = (),
    keep_c: bool = False,
) -> None:
    """Fit c, the calibrator and the alert threshold on a hospital's own stays.

    A few hundred stays are enough. They should be like those that will be scored, above all in the
    number of their notes (see docs/explanation/dilution.md); the model reads the notes that this
    cohort chose from then on.

    Args:
        model: its settings are changed, and its manifest says on what.
        cohort: see `clinical.stays.cohorts.usable_stays`.
        split: the side to fit on; measure on another one.
        columns: numbers to read beside the notes; by default those that the model reads.
        keep_c: leave c as it is, where shorter or longer stays will be scored too.

    Raises:
        TableError: a column is missing.
        UserError: no stay on that side can be scored, patients that the model was trained on are
            among them, or the stays allow no calibration (see `choose`, `fit_columns`).
    """
    names = list(dict.fromkeys(columns)) or [one.name for one in model.settings.columns]
    require_columns(cohort.columns, names, source="the cohort")
    rows = usable_stays(cohort)
    rows = rows[rows["split"] == split].reset_index(drop=True)
    check_unseen(rows["patient_id"], model.manifest, side="val")
    windows = model.token_ids(rows["text"])
    readable = [i for i, stay in enumerate(windows) if len(stay)]
    if not readable:
        raise UserError(
            f"no stay of the side {split!r} can be scored; expected some hundred"
        )
    outcome = rows["readmitted"].to_numpy()[readable]
    check_events(outcome, parameters=2 + len(names))
    values, counts = model.window_probabilities([windows[i] for i in readable])
    grid = (model.c,) if keep_c else C_GRID
    probability = choose(model, values, counts, outcome, grid=grid)
    for outdated in ("calibration_refused", "example", "without"):
        model.manifest.pop(outdated, None)
    if names:
        score, table = (
            aggregate_stays(values, counts, c=model.c),
            rows.loc[readable, names],
        )
        parts = {
            f"without {name}": table.drop(columns=name)
            for name in names
            if len(names) > 1
        }
        without = {
            name: fit_columns(part, score, outcome)[0] for name, part in parts.items()
        }
        alone = {"the notes alone": {"calibration": model.settings.calibration}}
        model.manifest["without"] = alone | without
        fitted, probability = fit_columns(table, score, outcome)
        _settle(model, outcome, probability, **fitted)
    if choice := choice_of(rows.get(CHOICE, ())):
        model.settings = model.settings.replaced(notes=choice)
    if stored := model.manifest.get("patients"):
        model.manifest["patients"] = with_patients(
            stored, rows["patient_id"], side="val"
        )
    found = describe_notes(model, rows["text"]) | {"probability": probability}
    model.manifest["profile"] = {"val": profile(found)}
    model.manifest["recalibrated"] = {
        "stays": len(readable),
        "readmitted": int(outcome.sum()),
    }
