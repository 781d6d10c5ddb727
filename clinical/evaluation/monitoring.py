"""A model in use: drift of notes and risks since validation, and quality by month of discharge."""

from dataclasses import dataclass

import pandas as pd

from clinical.evaluation.comparison import with_risks
from clinical.evaluation.drift import compare_inputs
from clinical.evaluation.groups import by_period
from clinical.evaluation.intervals import Evaluation, evaluate
from clinical.evaluation.verdicts import monitoring_verdicts
from clinical.risk.model import ReadmissionModel
from clinical.stays.choice import check_notes
from clinical.stays.cohorts import new_stays
from clinical.stays.patients import overlap, patient_keys
from domainbert.errors import UserError


@dataclass(frozen=True, repr=False)
class Monitoring:
    """New stays against what the model's manifest says of its training.

    `inputs` is the table of `clinical.evaluation.drift.compare_inputs`, `periods` that of
    `clinical.evaluation.groups.by_period`, empty without outcomes or dates, and `evaluation` the
    quality on all labelled stays, None without outcomes. `n_unscored` stays could not be scored.
    `findings` say what to look at, the most important first.
    """

    n_stays: int
    n_unscored: int
    alerts_per_100: float | None
    inputs: pd.DataFrame
    periods: pd.DataFrame
    evaluation: Evaluation | None
    findings: list[str]


def monitor(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    *,
    bootstrap: int = 1000,
) -> Monitoring:
    """Compare new stays with those the model was validated on.

    Args:
        model: with a profile in its manifest, as every newly trained model has.
        stays: see `new_stays`; where known with `readmitted` (0/1, missing where follow-up is not
            over) and `discharge_time`.
        bootstrap: resamples of patients for intervals.

    Raises:
        TableError: there is no column `text`.
        UserError: the model has no profile, a stay has several rows, or no stay can be scored.
    """
    if not model.manifest.data.profile:
        raise UserError(
            "this model's folder has no profile of its validation side, so there is nothing to "
            "compare with; train it again with this version"
        )
    new = new_stays(stays)
    rows = with_risks(model, new)
    inputs, drifted = compare_inputs(model, rows)
    threshold = model.settings.alert_threshold
    alerts = None
    if threshold is not None:
        alerts = 100 * float((rows["probability"] >= threshold).mean())
    evaluation = None
    periods = pd.DataFrame()
    if "readmitted" in rows.columns and rows["readmitted"].notna().any():
        labelled = rows.dropna(subset="readmitted")
        labelled = labelled.astype({"readmitted": float})
        evaluation = evaluate(
            labelled["readmitted"],
            labelled["probability"],
            patients=labelled["patient_id"],
            threshold=threshold,
            bootstrap=bootstrap,
        )
        periods, _ = by_period(
            labelled, threshold=threshold, bootstrap=bootstrap
        )
    findings = [
        *check_notes(model.settings.notes, rows),
        *_trained_on(model, stays),
        *(
            v.text
            for v in monitoring_verdicts(
                evaluation, model.manifest.scores.model
            )
        ),
        *drifted,
    ]
    return Monitoring(
        n_stays=len(rows),
        n_unscored=len(new) - len(rows),
        alerts_per_100=alerts,
        inputs=inputs,
        periods=periods,
        evaluation=evaluation,
        findings=findings or ["Nothing changed more than by chance."],
    )


def _trained_on(model: ReadmissionModel, stays: pd.DataFrame) -> list[str]:
    """A warning if patients of these stays were in training."""
    stored = model.manifest.data.patients
    if "patient_id" not in stays.columns:
        return []
    if stored is None:
        return [
            "It is not known whether the model was trained on these patients (no record)."
        ]
    n_seen = overlap(stays["patient_id"], stored).get("train", 0)
    if not n_seen:
        return []
    n_patients = len(set(patient_keys(stays["patient_id"])))
    warning = (
        f"The model was trained on {n_seen} of these {n_patients} patients: its quality here is "
        "optimistic. Monitor stays of other patients."
    )
    return [warning]
