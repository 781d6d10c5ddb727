"""Score one side of a cohort, compare with the baselines, and write it all down."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.evaluation.bagofwords import baselines
from clinical.evaluation.calibration import Platt
from clinical.evaluation.figures import plot_calibration, plot_precision_recall, plot_roc
from clinical.evaluation.measures import Evaluation, evaluate
from clinical.evaluation.ranking import recall_at_precision
from clinical.evaluation.report import write_metrics, write_report
from clinical.evaluation.subgroups import by_group
from clinical.risk.fitting import eligible
from domainbert.console import counted
from domainbert.errors import UserError
from domainbert.figures import save_figure

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.model import ReadmissionModel

MODEL = "domainbert"


@dataclass(frozen=True)
class Assessment:
    """Everything measured on one side of a cohort.

    Attributes:
        stays: the cohort's rows of that side with `risk` added, the calibrated probability where
            the model has a calibrator, else the rule's.
        evaluations: name -> numbers; the model first, then the baselines.
        scores: name -> risks, shape (stays,).
        groups: the model by subgroup.
    """

    stays: pd.DataFrame = field(repr=False)
    evaluations: dict[str, Evaluation]
    scores: dict[str, Any] = field(repr=False)
    groups: pd.DataFrame = field(repr=False)


def assess(
    model: ReadmissionModel, cohort: pd.DataFrame, *, split: str = "test", bootstrap: int = 1000
) -> Assessment:
    """Score one side and measure it; baselines are fitted on the cohort's own training side.

    Args:
        model: the model; its threshold and calibrator came from its validation.
        cohort: as `clinical.risk.fitting.fit` takes it.
        split: the side to measure.
        bootstrap: resamples of patients for the intervals.

    Raises:
        ValueError: the side has no stays.
    """
    rows = eligible(cohort)
    side = rows[rows["split"] == split].reset_index(drop=True)
    if side.empty:
        there = ", ".join(sorted(rows["split"].unique()))
        msg = f"the cohort has no stays on the side {split!r}; there are {there}"
        raise UserError(msg)
    risks = list(counted(model.predict_many(side["text"]), what="scoring", total=len(side)))
    calibrated = model.settings.calibration is not None
    side = side.assign(risk=[r.calibrated if calibrated else r.probability for r in risks])
    scores = {MODEL: side["risk"].to_numpy()}
    thresholds = {MODEL: _threshold(model)}
    train, val = (rows[rows["split"] == name] for name in ("train", "val"))
    if len(train) and len(val) and split not in ("train", "val"):
        for name, baseline in baselines(train, val, side).items():
            scores[name] = baseline.test
            point = recall_at_precision(val["readmitted"], baseline.validation)
            thresholds[name] = point.threshold if point else None
    evaluations = {
        name: evaluate(
            side["readmitted"],
            score,
            patients=side["patient_id"],
            threshold=thresholds[name],
            bootstrap=bootstrap,
        )
        for name, score in scores.items()
    }
    groups = by_group(side.rename(columns={"risk": "probability"}))
    return Assessment(stays=side, evaluations=evaluations, scores=scores, groups=groups)


def _threshold(model: ReadmissionModel) -> float | None:
    threshold, calibration = model.settings.threshold, model.settings.calibration
    if threshold is None or calibration is None:
        return threshold
    return float(Platt(*calibration).apply(threshold))


def write_assessment(
    assessment: Assessment,
    folder: str | Path,
    *,
    title: str,
    facts: dict[str, str],
    flow: pd.DataFrame | None = None,
) -> Path:
    """Write `metrics.json`, the figures and `report.html`; returns the path of the report."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    outcome = assessment.stays["readmitted"]
    scores, numbers = assessment.scores, assessment.evaluations
    drawn = {
        "roc.png": plot_roc(outcome, scores, evaluations=numbers),
        "precision_recall.png": plot_precision_recall(outcome, scores, evaluations=numbers),
        "calibration.png": plot_calibration(outcome, scores),
    }
    figures = [save_figure(figure, folder / name) for name, figure in drawn.items()]
    others = {name: e for name, e in assessment.evaluations.items() if name != MODEL}
    write_metrics(
        folder,
        evaluation=assessment.evaluations[MODEL],
        baselines=others,
        groups=assessment.groups,
        model_facts=facts,
    )
    return write_report(
        folder,
        title=title,
        evaluation=assessment.evaluations[MODEL],
        baselines=others,
        figures=figures,
        groups=assessment.groups,
        flow=flow,
        model_facts=facts,
    )
