"""Evaluate a model on one side of a cohort, beside the baselines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.splits import overlap, patient_keys, usable_stays
from clinical.evaluation.baselines import baselines
from clinical.evaluation.figures import plot_calibration, plot_precision_recall, plot_roc
from clinical.evaluation.intervals import Evaluation, evaluate, measure_rows, verdicts
from clinical.evaluation.measures import recall_at_precision
from clinical.evaluation.report import write_metrics, write_report
from clinical.evaluation.subgroups import by_group
from domainbert.console import counted
from domainbert.errors import UserError
from domainbert.figures import save_figure

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.model import ReadmissionModel

MODEL = "domainbert"


@dataclass(frozen=True)
class Comparison:
    """A model and the baselines on one side of a cohort.

    Attributes:
        stays: the stays that were scored, with the model's `probability` and `score`.
        evaluations: name -> measures; the model first, then the baselines.
        scores: name -> risks, shape (stays,).
        groups: the model by subgroup.
        verdicts: what the measures say, in sentences.
        caveats: what a reader of the measures should know.
    """

    stays: pd.DataFrame = field(repr=False)
    evaluations: dict[str, Evaluation]
    scores: dict[str, Any] = field(repr=False)
    groups: pd.DataFrame = field(repr=False)
    verdicts: list[str]
    caveats: list[str]


def compare(
    model: ReadmissionModel, cohort: pd.DataFrame, *, split: str = "test", bootstrap: int = 1000
) -> Comparison:
    """Score one side of a cohort and measure it.

    The baselines are fitted on the cohort's own training side and tuned on its validation side.

    Args:
        model: its calibrator and alert threshold come from its own validation.
        cohort: see `clinical.cohort.splits.usable_stays`.
        split: the side to measure.
        bootstrap: resamples of patients for the intervals.

    Raises:
        UserError: the side has no stays, no stay can be scored, or the model was trained on
            patients of this side (unless it is called "train" or "val").
    """
    rows = usable_stays(cohort)
    side = rows[rows["split"] == split].reset_index(drop=True)
    if side.empty:
        there = ", ".join(sorted(rows["split"].unique())) or "none, every row is excluded"
        msg = f"the cohort has no stays on the side {split!r}; its sides: {there}"
        raise UserError(msg)
    caveats = [*_seen_patients(model, side, split), *_calibration_caveat(model)]
    risks = list(counted(model.predict_many(side["text"]), what="scoring", total=len(side)))
    scored = [risk.status == "ok" for risk in risks]
    if not any(scored):
        msg = f"none of the {len(side)} stays can be scored: {risks[0].reason}"
        raise UserError(msg)
    if unscored := len(scored) - sum(scored):
        caveats.append(f"{unscored} of {len(side)} stays could not be scored and are not measured.")
    side = side.assign(
        probability=[risk.probability for risk in risks], score=[risk.score for risk in risks]
    )[scored].reset_index(drop=True)
    scores = {MODEL: side["probability"].to_numpy()}
    thresholds = {MODEL: model.settings.alert_threshold}
    train, val = (rows[rows["split"] == name] for name in ("train", "val"))
    if len(train) and len(val) and split not in ("train", "val"):
        for name, baseline in baselines(train, val, side).items():
            scores[name] = baseline.test
            point = recall_at_precision(val["readmitted"], baseline.validation)
            thresholds[name] = point.threshold if point else None
    keys = patient_keys(side["patient_id"])
    evaluations = {
        name: evaluate(
            side["readmitted"],
            score,
            patients=keys,
            threshold=thresholds[name],
            bootstrap=bootstrap,
        )
        for name, score in scores.items()
    }
    return Comparison(
        stays=side,
        evaluations=evaluations,
        scores=scores,
        groups=by_group(side.assign(patient_id=keys)),
        verdicts=verdicts(evaluations),
        caveats=caveats,
    )


def _seen_patients(model: ReadmissionModel, side: pd.DataFrame, split: str) -> list[str]:
    """Refuse patients that the model was trained on, or say why that is not refused."""
    stored = model.manifest.get("patients")
    if stored is None:
        return ["Not checked: whether the model was trained on these patients (no record)."]
    found = overlap(side["patient_id"], stored)
    total = len(set(patient_keys(side["patient_id"])))
    if not any(found.values()):
        return []
    counts = ", ".join(f"{number} on its {name} side" for name, number in sorted(found.items()))
    if split in ("train", "val"):
        return [f"The model has seen patients of this side ({counts}): its numbers are optimistic."]
    msg = (
        f"the model was trained on patients of the side {split!r}: of {total}, {counts}; "
        "evaluate on the split it was trained with, or on other patients"
    )
    raise UserError(msg)


def _calibration_caveat(model: ReadmissionModel) -> list[str]:
    if model.settings.calibration is not None:
        return []
    reason = model.manifest.get("calibration_refused") or "none was fitted"
    return [f"The model has no calibrator ({reason}): its probability is the rule's score."]


def write_comparison(
    comparison: Comparison,
    folder: str | Path,
    *,
    title: str,
    facts: dict[str, str],
    flow: pd.DataFrame | None = None,
) -> Path:
    """Write `metrics.json`, the figures and `report.html`; returns the path of the report."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    outcome, scores = comparison.stays["readmitted"], comparison.scores
    drawn = {"calibration.png": plot_calibration(outcome, scores)}
    if outcome.nunique() == 2:
        numbers = comparison.evaluations
        drawn = {
            "roc.png": plot_roc(outcome, scores, evaluations=numbers),
            "precision_recall.png": plot_precision_recall(outcome, scores, evaluations=numbers),
            **drawn,
        }
    figures = [save_figure(figure, folder / name) for name, figure in drawn.items()]
    said: dict[str, Any] = {
        "groups": comparison.groups,
        "facts": facts,
        "verdicts": comparison.verdicts,
        "caveats": comparison.caveats,
    }
    write_metrics(folder, comparison.evaluations, **said)
    return write_report(
        folder, comparison.evaluations, title=title, figures=figures, flow=flow, **said
    )


def record(comparison: Comparison, model: ReadmissionModel) -> None:
    """Put the measures into the model's manifest, for its card."""
    model.manifest["scores"] = {n: e.to_dict() for n, e in comparison.evaluations.items()}
    model.manifest["score_table"] = measure_rows(comparison.evaluations)
    model.manifest["verdicts"] = comparison.verdicts
    model.manifest["caveats"] = comparison.caveats
