"""What alerts gain and what they cost: decision curves and alert burden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clinical.stays.patients import patient_codes
from domainbert.errors import UserError
from domainbert.statistics.bootstrap import resample
from domainbert.statistics.calibration import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

GRID = tuple(step / 100 for step in range(1, 100))
"""Threshold probabilities of a decision curve."""

SHOWN = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Threshold probabilities of the table of net benefit."""

CAPACITIES = (5, 10, 20, 30)
"""Alerts per 100 discharges that a team may be able to follow up."""

ALL, NONE = "alert all", "alert none"
OWN = "the model's alert threshold"


@dataclass(frozen=True)
class Point:
    """An alert threshold on the probability, in [0, 1], and where it comes from."""

    threshold: float
    source: str


def net_benefit(y: ArrayLike, probability: ArrayLike, thresholds: ArrayLike) -> Floats:
    """Net benefit of alerting where `probability >= t`, shape (thresholds,).

    (true positives - false positives × t / (1 - t)) / n: readmissions with an alert per stay, less
    the false alerts at the exchange rate that the threshold implies. Alerting nobody scores 0.
    Source: Vickers and Elkin 2006, Medical Decision Making 26:565.

    Raises:
        UserError: bad input, see `checked`, or thresholds outside [0, 1).
    """
    outcome, risk = checked(y, probability)
    levels = _levels(thresholds)
    return _benefit(outcome, _alerts(risk, levels), levels, np.ones_like(outcome))


def _levels(thresholds: ArrayLike) -> Floats:
    levels = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if wrong := int((~((levels >= 0) & (levels < 1))).sum()):
        raise UserError(f"{wrong} thresholds are outside [0, 1); net benefit divides by 1 - t")
    return levels


def _alerts(risk: Floats, levels: Floats) -> Floats:
    """Whether each stay has an alert at each threshold, shape (stays, thresholds)."""
    return (risk[:, None] >= levels).astype(np.float64)


def _benefit(y: Floats, alerts: Floats, levels: Floats, weights: Floats) -> Floats:
    true, false = (weights * y) @ alerts, (weights * (1 - y)) @ alerts
    return np.asarray((true - false * levels / (1 - levels)) / weights.sum())


def decision_curve(
    y: ArrayLike, scores: Mapping[str, ArrayLike], *, thresholds: Sequence[float] = GRID
) -> pd.DataFrame:
    """Net benefit by threshold: `threshold`, one column a set of risks, `alert all`, `alert none`.

    Raises:
        UserError: see `net_benefit`.
    """
    import pandas as pd

    columns: dict[str, Floats] = {"threshold": _levels(thresholds)}
    for name, probability in scores.items():
        columns[name] = net_benefit(y, probability, thresholds)
    everybody = np.ones(len(np.asarray(y)))
    columns |= {ALL: net_benefit(y, everybody, thresholds), NONE: np.zeros(len(thresholds))}
    return pd.DataFrame(columns)


def benefit_table(
    y: ArrayLike,
    probability: ArrayLike,
    *,
    patients: Iterable[object],
    thresholds: Sequence[float] = SHOWN,
    bootstrap: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Net benefit at some thresholds, with intervals, one row a threshold.

    `net_benefit` is the model's, `alert_all` that of alerting everybody, and `gain` the model's
    over the better of alerting everybody and nobody; `…_low` and `…_high` are 95% intervals by
    resampling patients. `per_100` is the gain as readmissions found per 100 discharges at no
    further false alert.

    Raises:
        UserError: see `net_benefit`.
    """
    import pandas as pd

    outcome, risk = checked(y, probability)
    levels = _levels(thresholds)
    alerts, everybody = _alerts(risk, levels), np.ones((len(risk), len(levels)))

    def measure(weights: Floats) -> Floats:
        own = _benefit(outcome, alerts, levels, weights)
        everyone = _benefit(outcome, everybody, levels, weights)
        return np.stack([own, everyone, own - np.maximum(everyone, 0.0)])

    codes = patient_codes(patients, n=len(outcome))
    benefit = resample(measure, codes, bootstrap=bootstrap, seed=seed)
    columns = {"threshold": levels, **benefit[0].columns("net_benefit")}
    columns |= {"alert_all": benefit.value[1], **benefit[2].columns("gain")}
    return pd.DataFrame({**columns, "per_100": 100 * benefit.value[2]})


def alert_burden(
    y: ArrayLike,
    probability: ArrayLike,
    points: Mapping[str, Point],
    *,
    patients: Iterable[object],
    bootstrap: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """What alerting at thresholds that were chosen beforehand costs and finds, one row a threshold.

    `alerts_per_100` discharges, `recall` (share of readmissions with an alert), `precision` (share
    of alerts that are right) and `per_find`, the alerts to look at for one readmission found
    (number needed to evaluate, 1 / precision), each with a 95% interval by resampling patients.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        points: name -> threshold; choose them on validation.
        patients: n patient ids.
        bootstrap: resamples; 0 for no intervals.
        seed: of the resampling.

    Raises:
        UserError: see `domainbert.statistics.calibration.checked`.
    """
    import pandas as pd

    outcome, risk = checked(y, probability)
    levels = np.array([point.threshold for point in points.values()])
    alerts = _alerts(risk, levels)

    def measure(weights: Floats) -> Floats:
        flagged, right = weights @ alerts, (weights * outcome) @ alerts
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(flagged > 0, right / flagged, np.nan)
            recall = np.full(len(levels), (weights * outcome).sum())
            recall = np.where(recall > 0, right / recall, np.nan)
            per_find = np.where(right > 0, flagged / right, np.nan)
        return np.stack([100 * flagged / weights.sum(), recall, precision, per_find])

    codes = patient_codes(patients, n=len(outcome))
    burden = resample(measure, codes, bootstrap=bootstrap, seed=seed)
    columns: dict[str, object] = {
        "point": list(points),
        "threshold": levels,
        "source": [point.source for point in points.values()],
    }
    names = ("alerts_per_100", "recall", "precision", "per_find")
    for number, name in enumerate(names):
        columns |= burden[number].columns(name)
    return pd.DataFrame(columns)


def capacity_points(quantiles: Sequence[float], *, source: str) -> dict[str, Point]:
    """A threshold for each of `CAPACITIES`, from the percentiles 1 to 99 of validation risks."""
    levels = np.asarray(quantiles, dtype=np.float64)
    if levels.shape != (99,):
        raise UserError(f"expected 99 percentiles of risks, got {levels.shape}")
    return {
        f"{capacity} alerts per 100": Point(float(levels[99 - capacity]), source)
        for capacity in CAPACITIES
    }


def alert_points(
    threshold: float | None,
    percentiles: Sequence[float] | None,
    val_risks: Callable[[], Sequence[float]],
) -> dict[str, Point]:
    """Alert thresholds from validation: the model's own, and those for fixed capacities.

    Args:
        threshold: the model's own, if it has one.
        percentiles: 1 to 99 of the risks of the model's validation, where its manifest has them.
        val_risks: gives the risks of the validation side of the cohort at hand, used without them.
    """
    points = {}
    if threshold is not None:
        points[OWN] = Point(threshold, "80% of alerts right on the model's validation side")
    if percentiles:
        return points | capacity_points(percentiles, source="the model's validation side")
    if not len(risks := val_risks()):
        return points
    levels = np.quantile(risks, np.arange(1, 100) / 100)
    return points | capacity_points(levels.tolist(), source="this cohort's validation side")


def working_point(points: Mapping[str, Point]) -> str | None:
    """The name of the model's own threshold, else of the one for 10 alerts per 100 discharges."""
    return next((name for name in (OWN, "10 alerts per 100") if name in points), None)
