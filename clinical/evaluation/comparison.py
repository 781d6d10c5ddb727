"""Evaluate a model on one side of a cohort and compare it with the baselines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.splits import overlap, patient_keys, usable_stays
from clinical.evaluation.baselines import baselines
from clinical.evaluation.committee_figures import (
    plot_burden,
    plot_decision_curve,
    plot_drift,
    plot_groups,
    plot_periods,
)
from clinical.evaluation.figures import plot_calibration, plot_precision_recall, plot_roc
from clinical.evaluation.intervals import Evaluation, evaluate, measure_rows, verdicts
from clinical.evaluation.measures import recall_at_precision
from clinical.evaluation.report import write_metrics, write_report
from clinical.evaluation.subgroups import by_group, disparities
from clinical.evaluation.use import InUse, alert_points, measure_use, working_point
from domainbert.console import counted
from domainbert.errors import UserError
from domainbert.figures import save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from clinical.evaluation.report import About
    from clinical.risk.model import ReadmissionModel

MODEL = "domainbert"


@dataclass(frozen=True)
class Comparison:
    """A model and the baselines on one side of a cohort.

    `stays` are those that were scored, with the model's `probability` and `score`. `evaluations`
    and `scores` (risks, shape (stays,)) are by name, the model first. `groups` is the model by
    subgroup. `verdicts` say what the measures mean, `caveats` what their reader should know. `use`
    are alerts, months and drift; `same_source` says whether the model was trained on patients of
    this cohort's training side, None where that is not known.
    """

    stays: pd.DataFrame = field(repr=False)
    evaluations: dict[str, Evaluation]
    scores: dict[str, Any] = field(repr=False)
    groups: pd.DataFrame = field(repr=False)
    verdicts: list[str]
    caveats: list[str]
    use: InUse | None = None
    same_source: bool | None = None


def compare(
    model: ReadmissionModel, cohort: pd.DataFrame, *, split: str = "test", bootstrap: int = 1000
) -> Comparison:
    """Score and measure one side of a cohort (see `clinical.cohort.splits.usable_stays`).

    The baselines are fitted on the cohort's own training side and tuned on its validation side.
    The model's calibrator and alert threshold come from its own validation.

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
    caveats = _seen_patients(model, side, split)
    stays, unscored = _score(model, side)
    caveats += unscored
    train, val = (rows[rows["split"] == name] for name in ("train", "val"))
    scores = {MODEL: stays["probability"].to_numpy()}
    thresholds = {MODEL: model.settings.alert_threshold}
    if len(train) and len(val) and split not in ("train", "val"):
        for name, baseline in baselines(train, val, stays).items():
            scores[name] = baseline.test
            point = recall_at_precision(val["readmitted"], baseline.validation)
            thresholds[name] = point.threshold if point else None
    keyed = stays.assign(patient_id=patient_keys(stays["patient_id"]))
    outcome, patients = keyed["readmitted"], keyed["patient_id"]
    evaluations = {
        name: evaluate(
            outcome, score, patients=patients, threshold=thresholds[name], bootstrap=bootstrap
        )
        for name, score in scores.items()
    }
    points = alert_points(model, val)
    working = working_point(points)
    level = working.threshold if working else None
    return Comparison(
        stays=stays,
        evaluations=evaluations,
        scores=scores,
        groups=by_group(keyed, threshold=level, bootstrap=bootstrap),
        verdicts=verdicts(evaluations),
        caveats=caveats,
        use=measure_use(model, keyed, scores, points, bootstrap=bootstrap),
        same_source=_same_source(model, train),
    )


def _score(model: ReadmissionModel, side: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The stays that can be scored, with `probability` and `score`, and what to say about it."""
    caveats = []
    if model.settings.calibration is None:
        reason = model.manifest.get("calibration_refused") or "none was fitted"
        caveats.append(
            f"The model has no calibrator ({reason}): its probability is the rule's score."
        )
    risks = list(counted(model.predict_many(side["text"]), what="scoring", total=len(side)))
    scored = [risk.status == "ok" for risk in risks]
    if not any(scored):
        msg = f"none of the {len(side)} stays can be scored: {risks[0].reason}"
        raise UserError(msg)
    if unscored := len(scored) - sum(scored):
        caveats.append(f"{unscored} of {len(side)} stays could not be scored and are not measured.")
    numbers = {name: [getattr(risk, name) for risk in risks] for name in ("probability", "score")}
    return side.assign(**numbers)[scored].reset_index(drop=True), caveats


def _same_source(model: ReadmissionModel, train: pd.DataFrame) -> bool | None:
    """Whether patients of a cohort's training side are among those the model was trained on."""
    stored = model.manifest.get("patients")
    if stored is None or train.empty:
        return None
    few = train["patient_id"].drop_duplicates().head(200)  # hashing an id is slow on purpose
    return overlap(few, stored).get("train", 0) > 0


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


def write_comparison(
    comparison: Comparison,
    folder: str | Path,
    *,
    title: str,
    facts: dict[str, str],
    flow: pd.DataFrame | None = None,
    about: About | None = None,
) -> Path:
    """Write `metrics.json`, the figures and `report.html`; returns the path of the report.

    With `about`, the documents of `clinical.evaluation.report.write_report` too.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = _figures(comparison)
    figures = [save_figure(figure, folder / f"{name}.png") for name, figure in drawn.items()]
    write_metrics(folder, comparison, facts=facts)
    asked: dict[str, Any] = {"figures": figures, "flow": flow, "facts": facts, "about": about}
    return write_report(folder, comparison, title=title, **asked)


def _figures(comparison: Comparison) -> dict[str, Figure]:
    """The figures that these stays allow, by name."""
    outcome, scores = comparison.stays["readmitted"], comparison.scores
    drawn, use = {}, comparison.use
    varies = outcome.nunique() == 2
    if varies:
        numbers = comparison.evaluations
        drawn["roc"] = plot_roc(outcome, scores, evaluations=numbers)
        drawn["precision_recall"] = plot_precision_recall(outcome, scores, evaluations=numbers)
    drawn["calibration"] = plot_calibration(outcome, scores)
    if use is not None and varies:
        levels = [point.threshold for point in use.points.values()]
        drawn["decision_curve"] = plot_decision_curve(use.curve, points=levels)
        if levels:
            risks = next(iter(scores.values()))
            drawn["burden"] = plot_burden(risks, outcome.to_numpy(), use.burden)
    if (comparison.groups["reason"] == "").any():
        drawn["groups"] = plot_groups(comparison.groups)
    if use is not None and use.periods is not None and len(use.periods) > 1:
        drawn["periods"] = plot_periods(use.periods)
    if use is not None and len(use.inputs):
        drawn["drift"] = plot_drift(use.inputs)
    return drawn


def record(comparison: Comparison, model: ReadmissionModel) -> None:
    """Put the measures into the model's manifest, for its card."""
    model.manifest["scores"] = {n: e.to_dict() for n, e in comparison.evaluations.items()}
    model.manifest["score_table"] = measure_rows(comparison.evaluations)
    model.manifest["verdicts"] = comparison.verdicts
    model.manifest["caveats"] = comparison.caveats
    model.manifest["disparities"] = disparities(comparison.groups)
