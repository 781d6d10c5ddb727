"""What alerts gain and what they cost: decision curves and alert burden."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from clinical.evaluation.measures import MEASURES, Stays, measured_values
from clinical.stays.patients import patient_codes
from domainbert.statistics import Floats
from domainbert.statistics.bootstrap import resample
from domainbert.statistics.calibration import checked_risks

GRID = np.arange(1, 100) / 100
"""Threshold probabilities of a decision curve."""

SHOWN = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Threshold probabilities of the table of net benefit."""

CAPACITIES = (5, 10, 20, 30)
"""Alerts per 100 discharges that a team may be able to follow up."""

ALL = "alert all"
NONE = "alert none"
OWN = "the model's alert threshold"


_BURDEN = ("alerts_per_100", "recall_at_threshold", "precision_at_threshold")


@dataclass(frozen=True)
class Point:
    """An alert threshold on the probability, in [0, 1], and where it comes from."""

    threshold: float
    source: str


def decision_curve(
    y: ArrayLike, risks: Mapping[str, ArrayLike]
) -> pd.DataFrame:
    """The net benefit of alerts at each threshold t of `GRID`, for several sets of risks.

    It is (true positives - false positives × t / (1 - t)) / n: whoever alerts at t accepts
    (1 - t) / t false alerts for a right one. The table has the column `threshold`, a column for
    each set of risks, `alert all` for an alert on every stay, and `alert none`, which is 0. Source:
    Vickers and Elkin 2006, Med Decis Making 26:565.

    Raises:
        UserError: bad input, see `checked_risks`.
    """
    table = pd.DataFrame({"threshold": GRID})
    always = np.ones_like(y, dtype=float)
    for name, probability in {**risks, ALL: always}.items():
        outcome, risk = checked_risks(y, probability)
        alerts = risk[:, None] >= GRID
        table[name] = _benefit(outcome, alerts, GRID, always)
    return table.assign(**{NONE: 0.0})


def _benefit(
    y: Floats,
    alerts: NDArray[np.bool_],
    levels: Floats,
    weights: Floats,
) -> Floats:
    true = (weights * y) @ alerts
    false = (weights * (1 - y)) @ alerts
    return np.asarray((true - false * levels / (1 - levels)) / weights.sum())


def benefit_table(
    stays: pd.DataFrame, *, bootstrap: int = 1000
) -> pd.DataFrame:
    """Net benefit at the thresholds `SHOWN`, with intervals, one row per threshold.

    `net_benefit` (see `decision_curve`) is the model's, `alert_all` that of alerting everybody,
    and `gain` the model's over the better of alerting everybody and nobody; `…_low` and `…_high`
    are 95% intervals by resampling patients.

    Args:
        stays: `patient_id`, `readmitted` (0/1) and `probability`, one row per stay.
        bootstrap: resamples of patients; 0 for no intervals.

    Raises:
        UserError: bad input, see `checked_risks`.
    """
    outcome, risk = checked_risks(stays["readmitted"], stays["probability"])
    levels = np.array(SHOWN)
    alerts = risk[:, None] >= levels
    alerts_for_all = np.ones_like(alerts)

    def measure(weights: Floats) -> Floats:
        model = _benefit(outcome, alerts, levels, weights)
        everybody = _benefit(outcome, alerts_for_all, levels, weights)
        return np.stack([model, everybody, model - np.maximum(everybody, 0.0)])

    codes = patient_codes(stays["patient_id"], n=len(outcome))
    benefit = resample(measure, codes, bootstrap=bootstrap)
    columns = {"threshold": levels, **benefit[0].columns("net_benefit")}
    columns |= {"alert_all": benefit.value[1], **benefit[2].columns("gain")}
    return pd.DataFrame(columns)


def alert_burden(
    stays: pd.DataFrame,
    points: Mapping[str, Point],
    *,
    bootstrap: int = 1000,
) -> pd.DataFrame:
    """What alerts at thresholds chosen beforehand cost and find, one row per threshold.

    The columns are `alerts_per_100`, `recall`, `precision` and `per_find`, the alerts to look at
    for each readmission that is found (number needed to evaluate, 1 / precision), each with a 95%
    interval by resampling patients. `points` are thresholds by name; see `benefit_table` for the
    other arguments.

    Raises:
        UserError: bad input, see `checked_risks`.
    """
    outcome, risk = checked_risks(stays["readmitted"], stays["probability"])
    parts = [
        Stays(outcome, risk, point.threshold) for point in points.values()
    ]
    by_name = {measure.field: measure for measure in MEASURES}
    measures = [by_name[name] for name in _BURDEN]

    def measure(weights: Floats) -> Floats:
        rows = [measured_values(part, weights, measures) for part in parts]
        return np.reshape(rows, (-1, len(measures)))

    burden = resample(
        measure,
        patient_codes(stays["patient_id"], n=len(outcome)),
        bootstrap=bootstrap,
    )
    table = pd.DataFrame(
        list(points.values()),
        columns=["threshold", "source"],
    )
    table.insert(0, "point", list(points))
    for number, name in enumerate(("alerts_per_100", "recall", "precision")):
        table = table.assign(**burden[:, number].columns(name))
    for end, other in (("", ""), ("_low", "_high"), ("_high", "_low")):
        right = table[f"precision{other}"]
        table[f"per_find{end}"] = 1 / right.where(right > 0)
    return table


def alert_points(
    threshold: float | None,
    percentiles: Sequence[float],
    *,
    source: str,
) -> dict[str, Point]:
    """Alert thresholds from validation: the model's own, if any, and one for each of `CAPACITIES`.

    The latter are from the `percentiles` 1 to 99 of validation risks; `source` says whose.
    """
    points = {}
    if threshold is not None:
        points[OWN] = Point(
            threshold, "80% of alerts right on the model's validation side"
        )
    if percentiles:
        for capacity in CAPACITIES:
            threshold = percentiles[99 - capacity]
            points[f"{capacity} alerts per 100"] = Point(threshold, source)
    return points
