"""Captions of the report's figures, and texts that say the same to those who cannot see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from clinical.evaluation.report.tables import number

if TYPE_CHECKING:
    from clinical.evaluation.comparison import Comparison
    from clinical.evaluation.use import InUse

# Figure -> the section it belongs to, and its caption.
CAPTIONS = {
    "roc": ("results", "ROC curve. The dotted diagonal is a model that guesses."),
    "precision_recall": (
        "results",
        ("Precision and recall at every threshold. The dashed line is the prevalence, the dotted "
        "line a precision of 80%."),
    ),
    "calibration": (
        "results",
        ("Observed against predicted risk in bins of equally many stays, with 95% intervals; "
        "below, a histogram of the risks. A calibrated model lies on the diagonal."),
    ),
    "windows": ("results", "Risk along one stay, window by window."),
    "decision_curve": (
        "alerts",
        ("Net benefit by threshold probability, against alerting everybody and nobody. Dotted: "
        "the thresholds of the table of alerts."),
    ),
    "burden": (
        "alerts",
        ("Recall and precision by the number of alerts. The points are the thresholds chosen on "
        "validation, with 95% intervals."),
    ),
    "groups": (
        "groups",
        ("Difference of each subgroup from all other stays, with 95% intervals. Squares remain "
        "after correction for multiple comparisons."),
    ),
    "periods": (
        "time",
        "AUROC, and observed with mean predicted risk, by period of discharge, with 95% intervals.",
    ),
    "drift": (
        "time",
        ("Stability index of what the model reads and predicts. The black marks show the most that "
        "chance alone gives; 0.1 and 0.25 are the usual limits for watching and acting."),
    ),
}  # fmt: skip
WIDE = ("calibration", "groups")


def alternative(name: str, comparison: Comparison) -> str:
    """The text alternative of a figure: its findings in numbers; "" for an unknown figure."""
    evaluations = comparison.evaluations.items()
    if name in ("roc", "precision_recall"):
        measure, field = ("AUROC", "auroc") if name == "roc" else ("AUPRC", "auprc")
        values = [f"{model} {measure} {getattr(found, field)}" for model, found in evaluations]
        kind = "ROC curves" if name == "roc" else "Precision-recall curves"
        return f"{kind}: {'; '.join(values)}."
    if name == "calibration":
        values = [f"{model} slope {found.calibration_slope}" for model, found in evaluations]
        return f"Observed against predicted risk: {'; '.join(values)}."
    if name == "groups":
        return _groups(comparison.groups)
    tell = {"decision_curve": _benefit, "burden": _burden, "periods": _periods, "drift": _drift}
    return tell[name](comparison.use) if comparison.use and name in tell else ""


def _groups(groups: pd.DataFrame) -> str:
    measured = groups[groups["reason"] == ""]
    low, high = measured["auroc_difference"].min(), measured["auroc_difference"].max()
    if pd.isna(low):
        return ""
    return (
        f"Differences of {len(measured)} subgroups from all other stays. In AUROC they reach from "
        f"{number(low)} to {number(high)}; the table below has all of them."
    )


def _benefit(use: InUse) -> str:
    points = [
        f"at {row['threshold']:.0%} the model has {number(row['net_benefit'])} and alerting "
        f"everybody {number(row['alert_all'])}"
        for row in use.benefit.to_dict("records")
    ]
    return f"Net benefit: {'; '.join(points)}. That of alerting nobody is 0."


def _burden(use: InUse) -> str:
    points = [
        f"{number(row['alerts_per_100'], 1)} alerts per 100 discharges find "
        f"{number(row['recall'])} of readmissions with precision {number(row['precision'])}"
        for row in use.burden.to_dict("records")
    ]
    return f"Recall and precision by the number of alerts: {'; '.join(points)}."


def _periods(use: InUse) -> str:
    if use.periods is None:
        return ""
    rows = use.periods.to_dict("records")
    points = [f"{row['period']} AUROC {number(row['auroc'])}" for row in rows]
    return f"Quality by period of discharge: {'; '.join(points)}."


def _drift(use: InUse) -> str:
    sides = {"train": "training", "val": "validation"}
    points = [
        f"{row['quantity'].replace('_', ' ')} {number(row['psi'])} since {sides[row['side']]}"
        for row in use.inputs.to_dict("records")
    ]
    return f"Stability indices: {'; '.join(points)}."
