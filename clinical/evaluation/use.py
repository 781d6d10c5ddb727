"""A model in use: what alerts gain and cost, how it holds over time, and what has drifted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.decision import (
    Point,
    alert_burden,
    benefit_table,
    capacity_points,
    decision_curve,
)
from clinical.evaluation.monitoring import compare_inputs
from clinical.evaluation.over_time import by_period, shifted_dates

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.model import ReadmissionModel

OWN = "the model's alert threshold"


@dataclass(frozen=True)
class InUse:
    """What a committee asks about alerts, time and drift.

    `points` are alert thresholds from validation and `working` the one that recall and
    false-positive rates are measured at; None without any. `curve`, `benefit` and `burden` are the
    tables of `clinical.evaluation.decision`, `periods` is `by_period` (None without dates that
    mean anything; `dates` says why) and `inputs` is `clinical.evaluation.monitoring`'s.
    """

    points: dict[str, Point]
    working: Point | None
    curve: pd.DataFrame = field(repr=False)
    benefit: pd.DataFrame = field(repr=False)
    burden: pd.DataFrame = field(repr=False)
    periods: pd.DataFrame | None = field(repr=False)
    dates: str
    inputs: pd.DataFrame = field(repr=False)
    findings: list[str]


def alert_points(model: ReadmissionModel, val: pd.DataFrame) -> dict[str, Point]:
    """Alert thresholds from validation: the model's own, and those for fixed capacities.

    Capacities come from the risks of the model's own validation, which its manifest keeps; for a
    model without them, from scoring `val`, the validation side of the cohort at hand.
    """
    points = {}
    if (own := model.settings.alert_threshold) is not None:
        points[OWN] = Point(own, "80% of alerts right on the model's validation side")
    kept = model.manifest.get("profile", {}).get("val", {}).get("probability")
    if kept:
        return points | capacity_points(kept["percentiles"], source="the model's validation side")
    risks = [risk.probability for risk in model.predict_many(val["text"]) if risk.status == "ok"]
    if not risks:
        return points
    levels = np.quantile(risks, np.arange(1, 100) / 100)
    return points | capacity_points(levels.tolist(), source="this cohort's validation side")


def working_point(points: dict[str, Point]) -> Point | None:
    """The model's own threshold, else the one for 10 alerts per 100 discharges."""
    return points.get(OWN) or points.get("10 alerts per 100")


def measure_use(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    scores: dict[str, Any],
    points: dict[str, Point],
    *,
    bootstrap: int,
) -> InUse:
    """Measure scored stays; `scores` are risks by name, the model first.

    The stays have text, patient_id, readmitted, probability and, where known, discharge_time.
    """
    outcome, patients = stays["readmitted"], stays["patient_id"]
    risks, working = next(iter(scores.values())), working_point(points)
    inputs, findings = compare_inputs(model, stays)
    periods, dates = None, "The cohort has no times of discharge."
    if "discharge_time" in stays.columns:
        dates = (
            "The dates of this cohort lie in the future: they were shifted to protect patients, "
            "so months of discharge mean nothing."
        )
        if not shifted_dates(stays):
            level = working.threshold if working else None
            periods, dates = by_period(stays, threshold=level, bootstrap=bootstrap), ""
    asked: dict[str, Any] = {"patients": patients, "bootstrap": bootstrap}
    return InUse(
        points=points,
        working=working,
        curve=decision_curve(outcome, scores),
        benefit=benefit_table(outcome, risks, **asked),
        burden=alert_burden(outcome, risks, points, **asked),
        periods=periods,
        dates=dates,
        inputs=inputs,
        findings=findings,
    )
