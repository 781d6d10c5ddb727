"""A model and the baselines, measured on one side of a cohort: every number of the report."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import pandas as pd

from clinical.evaluation.after_discharge import remaining_risks
from clinical.evaluation.baselines import (
    BaselineRisks,
    baselines,
    lace_and_hospital,
    with_history,
)
from clinical.evaluation.decision import (
    OWN,
    Point,
    alert_burden,
    alert_points,
    benefit_table,
    decision_curve,
)
from clinical.evaluation.drift import PERCENTILES, compare_inputs
from clinical.evaluation.groups import by_group, by_period
from clinical.evaluation.intervals import Evaluation, evaluate, measure_rows
from clinical.evaluation.measures import precise_threshold
from clinical.evaluation.verdicts import (
    Verdict,
    benefit_verdicts,
    group_verdicts,
    verdicts,
)
from clinical.risk.manifest import RiskMeasures, RiskScores
from clinical.risk.model import ReadmissionModel
from clinical.risk.reading import shifts
from clinical.stays.choice import check_notes
from clinical.stays.cohorts import usable_stays
from clinical.stays.patients import check_unseen, with_patient_keys
from clinical.stays.stays import present_notes
from domainbert.errors import UserError
from domainbert.progress import counted
from domainbert.statistics import Floats
from domainbert.tables import key_like, require_columns

MODEL = "domainbert"
_WORKING_POINTS = (OWN, "10 alerts per 100")


@dataclass(frozen=True, repr=False)
class Comparison:
    """A model and the baselines on one side of a cohort.

    Attributes:
        stays: those that were measured, with the model's `probability`.
        evaluations, risks: measures and risks (shape (stays,)) by name, the model first.
        groups: the model by subgroup, from `by_group`.
        points: alert thresholds from validation.
        working: the name of the point that groups and periods are measured at: the model's own
            threshold, else that for 10 alerts per 100 discharges; None without either.
        curve, benefit, burden: the tables of `clinical.evaluation.decision`.
        periods: from `by_period`; empty without dates that mean anything, and `dates` says why.
        remaining: risk after discharge, from `remaining_risks`; empty where it was not measured.
        inputs, findings: drift since validation, from `compare_inputs`.
        caveats: what a reader of the numbers should know.
    """

    stays: pd.DataFrame
    evaluations: dict[str, Evaluation]
    risks: Mapping[str, Floats]
    groups: pd.DataFrame
    points: Mapping[str, Point]
    working: str | None
    curve: pd.DataFrame
    benefit: pd.DataFrame
    burden: pd.DataFrame
    periods: pd.DataFrame
    dates: str
    remaining: pd.DataFrame
    inputs: pd.DataFrame
    findings: list[str]
    caveats: list[str]

    @property
    def model(self) -> Evaluation:
        """The evaluation of the model."""
        return next(iter(self.evaluations.values()))

    def verdicts(self) -> list[Verdict]:
        """What the numbers show: calibration and ranking, then alerts, then groups."""
        judged = verdicts(self.evaluations)
        if self.model.auroc.value is not None:
            judged += benefit_verdicts(self.benefit)
        if len(self.groups):
            judged += group_verdicts(self.groups)
        return judged


def compare(
    model: ReadmissionModel | None,
    cohort: pd.DataFrame,
    *,
    scores: pd.DataFrame | None = None,
    split: str = "test",
    bootstrap: int = 1000,
) -> Comparison:
    """Measure risks on one side of a cohort (see `clinical.stays.cohorts.usable_stays`).

    The baselines (see `baselines` and `lace_and_hospital`) are fitted on the cohort's own training
    side; with `scores` the cohort's notes are not needed, and there is no baseline on words.

    Args:
        model: the model to measure; may be None with `scores`.
        cohort: a table with the columns `patient_id`, `readmitted` and `split`, and with `text`, or
            with `stay_id` if there are `scores`.
        scores: a score table whose risks are measured instead of scoring, see `risks_of`.
        split: the side to measure.
        bootstrap: number of resamples of patients for intervals.

    Raises:
        UserError: the side has no stays, no stay is scored, or the model was trained on patients
            of this side; see `check_unseen`.
    """
    rows = usable_stays(with_history(cohort), notes=scores is None)
    side = rows[rows["split"] == split]
    if side.empty:
        sides = ", ".join(sorted(rows["split"].unique()))
        raise UserError(
            f"the cohort has no stays on the side {split!r}; its sides: {sides}"
        )
    hashes = None
    threshold = None
    if model is not None:
        hashes = model.manifest.data.patients
        threshold = model.settings.alert_threshold
    caveats = check_unseen(side["patient_id"], hashes, side=split)
    stays, scoring_caveats = _measurable(model, side, scores)
    caveats += scoring_caveats
    risks = {MODEL: stays["probability"].to_numpy()}
    if model is not None and scores is None:
        risks |= _without_columns(model, stays)
    thresholds = dict.fromkeys(risks) | {MODEL: threshold}
    train = rows[rows["split"] == "train"]
    val = rows[rows["split"] == "val"]
    fitted: dict[str, BaselineRisks] = {}
    # Baselines see train and val when they are fitted, so they are not measured there.
    if split not in ("train", "val"):
        fitted, baseline_caveats = _baselines(
            train,
            val,
            stays,
            with_words=scores is None,
        )
        caveats += baseline_caveats
    if scores is not None:
        caveats.append(
            "The notes of the cohort were not read: no baseline on words was fitted."
        )
    for name, baseline in fitted.items():
        risks[name] = baseline.test
        thresholds[name] = precise_threshold(
            val["readmitted"], baseline.validation
        )
    percentiles, source = _val_percentiles(model, val, scores)
    return measure(
        stays,
        risks,
        thresholds=thresholds,
        points=alert_points(threshold, percentiles, source=source),
        model=model,
        caveats=caveats,
        bootstrap=bootstrap,
    )


def _baselines(
    train: pd.DataFrame,
    val: pd.DataFrame,
    test: pd.DataFrame,
    *,
    with_words: bool,
) -> tuple[dict[str, BaselineRisks], list[str]]:
    """The baselines that these sides allow, and which are missing and why."""
    if train.empty or val.empty:
        return {}, [
            "No baseline was fitted: the cohort has no train or no val side."
        ]
    fitted, missing = lace_and_hospital(train, val, test)
    if with_words:
        try:
            fitted |= baselines(train, val, test)
        except UserError as error:
            missing.append(f"TF-IDF was not computed: {error}.")
    return fitted, missing


def measure(
    stays: pd.DataFrame,
    risks: Mapping[str, Floats],
    *,
    thresholds: Mapping[str, float | None],
    points: Mapping[str, Point],
    model: ReadmissionModel | None = None,
    caveats: Sequence[str] = (),
    bootstrap: int = 1000,
) -> Comparison:
    """All numbers of a report, from the risks of stays.

    Args:
        stays: `patient_id`, `readmitted`, `probability`; where known `text`, `discharge_time` and
            the columns of subgroups.
        risks: by name, shape (stays,), the model's first.
        thresholds: the alert threshold of each, chosen on validation.
        points: alert thresholds for the model, from `alert_points`.
        model: for the drift since its validation.
        caveats: see `Comparison`.
        bootstrap: resamples of patients for intervals.
    """
    keyed = with_patient_keys(stays)
    outcome = keyed["readmitted"]
    level = None
    working = next((name for name in _WORKING_POINTS if name in points), None)
    if working is not None:
        level = points[working].threshold
    periods, dates = by_period(keyed, threshold=level, bootstrap=bootstrap)
    caveats = list(caveats)
    if len(periods) and dates:
        caveats.append(dates)
    inputs, findings = compare_inputs(model, keyed)
    groups = model.settings.after_discharge if model else ()
    return Comparison(
        stays=stays,
        evaluations={
            name: evaluate(
                outcome,
                risk,
                patients=keyed["patient_id"],
                threshold=thresholds[name],
                bootstrap=bootstrap,
            )
            for name, risk in risks.items()
        },
        risks=risks,
        groups=by_group(keyed, threshold=level, bootstrap=bootstrap),
        points=points,
        working=working,
        curve=decision_curve(outcome, risks),
        benefit=benefit_table(keyed, bootstrap=bootstrap),
        burden=alert_burden(keyed, points, bootstrap=bootstrap),
        periods=periods,
        dates=dates,
        remaining=remaining_risks(groups, keyed, bootstrap=bootstrap),
        inputs=inputs,
        findings=findings,
        caveats=caveats,
    )


def _without_columns(
    model: ReadmissionModel,
    stays: pd.DataFrame,
) -> dict[str, Floats]:
    """The risks of stays from the notes alone, and without each of the columns beside them."""
    risks = {}
    variant = copy(model)
    for name, fitted in model.manifest.calibration.without.items():
        variant.settings = model.settings.replaced(**{"columns": (), **fitted})
        shift = shifts(stays, variant.settings.columns)
        risks[name] = variant.calibrated(stays["score"], shift)
    return risks


def _measurable(
    model: ReadmissionModel | None,
    side: pd.DataFrame,
    scores: pd.DataFrame | None,
) -> tuple[pd.DataFrame, list[str]]:
    """The stays that have a risk, with `probability`, and what to say about it."""
    caveats = []
    if model is not None and model.settings.calibration is None:
        reason = model.manifest.calibration.refused or "none was fitted"
        caveats.append(
            f"The model has no calibrator ({reason}): its probability is the rule's score."
        )
    if scores is not None:
        stays = side.assign(probability=risks_of(scores, side)).dropna(
            subset="probability"
        )
        if stays.empty:
            why = (
                "their stay_id is not in the score table, or has no risk there"
            )
            raise UserError(
                f"none of the {len(side)} stays can be scored: {why}"
            )
    elif model is not None:
        stays = with_risks(model, side)
    else:
        raise UserError(
            "neither a model nor scores were given; pass one of them"
        )
    n_unscored = len(side) - len(stays)
    if n_unscored:
        caveats.append(
            f"{n_unscored} of {len(side)} stays could not be scored and are not measured."
        )
    if model is not None and scores is None:
        caveats += check_notes(model.settings.notes, side)
    return stays.reset_index(drop=True), caveats


def with_risks(model: ReadmissionModel, rows: pd.DataFrame) -> pd.DataFrame:
    """The stays that the model can score, with `probability` and `score`.

    Raises:
        UserError: there is none.
    """
    risks = list(
        counted(
            model.predict_many(rows.to_dict("records")),
            what="scoring",
            total=len(rows),
        )
    )
    scored = [risk.status == "ok" for risk in risks]
    if not any(scored):
        raise UserError(
            f"none of the {len(rows)} stays can be scored: {risks[0].reason}"
        )
    return rows.assign(
        text=rows["text"].map(present_notes),
        probability=[risk.probability for risk in risks],
        score=[risk.score for risk in risks],
    )[scored]


def risks_of(scores: pd.DataFrame, stays: pd.DataFrame) -> list[float]:
    """The probability of each stay from a score table, as `clinical score` writes it.

    NaN for a stay that the table lacks, or whose `status` there is not "ok".

    Raises:
        TableError: a column is missing.
        UserError: the score table has several rows for a stay.
    """
    require_columns(
        scores.columns,
        ("stay_id", "probability"),
        source="the score table",
    )
    require_columns(stays.columns, ("stay_id",), source="the cohort")
    key = key_like(stays["stay_id"])
    keys = scores["stay_id"].map(key)
    n_repeated = int(keys.duplicated().sum())
    if n_repeated:
        raise UserError(
            f"the score table has {n_repeated} repeated stay_id; expected one row per stay, as "
            "clinical score writes"
        )
    risks = scores["probability"].astype(float)
    if "status" in scores.columns:
        risks = risks.where(scores["status"] == "ok")
    return stays["stay_id"].map(key).map(risks.set_axis(keys)).tolist()


def _val_percentiles(
    model: ReadmissionModel | None,
    val: pd.DataFrame,
    scores: pd.DataFrame | None,
) -> tuple[list[float], str]:
    """Percentiles 1 to 99 of validation risks, and whose they are; none without such risks."""
    if model is not None:
        risk = model.manifest.data.profile.get("probability")
        if risk and risk.percentiles:
            return risk.percentiles, "the model's validation side"
    levels = []
    if scores is not None:
        risks = pd.Series(risks_of(scores, val), dtype=float)
        levels = risks.quantile(PERCENTILES).dropna().tolist()
    return levels, "this cohort's validation side"


def record(comparison: Comparison, model: ReadmissionModel) -> None:
    """Put the measures into the model's manifest, for its card."""
    evaluations = comparison.evaluations
    risks = {
        name: RiskMeasures(
            n_stays=evaluation.n_stays,
            n_patients=evaluation.n_patients,
            n_readmitted=evaluation.n_readmitted,
            measures=evaluation.intervals,
        )
        for name, evaluation in evaluations.items()
    }
    model.manifest.scores = RiskScores(
        risks=risks,
        summary=measure_rows(evaluations),
        verdicts=[verdict.text for verdict in verdicts(evaluations)],
        caveats=comparison.caveats,
        disparities=[
            verdict.text for verdict in group_verdicts(comparison.groups)
        ],
    )
