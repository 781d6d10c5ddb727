"""When readmissions come after discharge, by thirds of risk, with death as a competing event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clinical.evaluation.groups import SMALLEST_GROUP
from clinical.risk.reading import RiskGroup
from clinical.stays.choice import readmission_days
from clinical.stays.patients import patient_keys
from domainbert.statistics.bootstrap import RESAMPLES, resample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from clinical.risk.model import ReadmissionModel

    Floats = NDArray[np.float64]

DAYS = (1.0, 3.0, 7.0, 14.0, 21.0, 30.0, 60.0)
"""Days after discharge that a curve is known at, as far as they are within the horizon."""

FEWEST = 10
"""Readmissions that each third needs; with fewer in one of them, all stays are one group."""

READMITTED = 1
DIED = 2


def cumulative_incidence(
    days: ArrayLike, event: ArrayLike, at: ArrayLike
) -> Floats:
    """The chance that each of two competing events came first, by each day.

    The estimator of Aalen and Johansen (1978, Scand J Stat 5:141): the sum over times of the share
    of stays without an event before a time, multiplied by the share of those at risk that have the
    event at this time. A stay whose follow-up ends at a time is at risk at this time.

    Args:
        days: when the first event came or follow-up ended, shape (n,).
        event: 1 or 2, or 0 where follow-up ended without an event, shape (n,).
        at: days, shape (k,).

    Returns:
        Shape (2, k).
    """
    times, rows = np.unique(days, return_inverse=True)
    kinds = np.asarray(event) == np.array([[READMITTED], [DIED]])
    events = np.stack([np.bincount(rows, kind, len(times)) for kind in kinds])
    at_risk = np.searchsorted(-np.sort(days)[::-1], -times, side="right")
    hazards = events / at_risk
    free = np.cumprod(1 - hazards.sum(axis=0))
    incidence = np.cumsum(np.r_[1.0, free[:-1]] * hazards, axis=1)
    n_past = np.searchsorted(times, at, side="right")
    return np.pad(incidence, ((0, 0), (1, 0)))[:, n_past]


def first_events(
    stays: pd.DataFrame, horizon: float
) -> tuple[Floats, NDArray[np.intp]]:
    """The day and the kind of what came first within the horizon, as `cumulative_incidence` reads.

    Without `days_to_death` no death is known. If a readmitted stay has no `days_to_readmission`,
    no stay has an event.
    """
    columns = ["readmitted", "days_to_readmission", "days_to_death"]
    numbers = stays.reindex(columns=columns).apply(pd.to_numeric)
    readmitted, returned, died = numbers.to_numpy(dtype=np.float64).T
    is_back = readmitted == 1
    is_known = not np.isnan(returned[is_back]).any()
    events = [is_back & is_known, (died < horizon) & is_known]
    days = np.select(events, [returned, died], horizon)
    return days, np.select(events, [READMITTED, DIED], 0)


def record_after_discharge(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    probability: Floats,
) -> None:
    """Learn from the stays that a model is calibrated on when readmissions come.

    Its settings get the groups of `fit_after_discharge`, and its manifest the remaining risks of
    these stays (see `remaining_risks`). Both are empty if the outcome is no readmission or the
    model is not calibrated.

    Args:
        model: its settings and its manifest are changed.
        stays: see `fit_after_discharge`.
        probability: their calibrated risks, shape (stays,).
    """
    rows = stays.assign(probability=probability)
    groups: list[RiskGroup] = []
    horizon = readmission_days(model.settings.notes)
    if horizon and model.settings.calibration:
        groups = fit_after_discharge(rows, horizon)
    observed = remaining_risks(groups, rows, bootstrap=400)
    model.settings = model.settings.replaced(after_discharge=groups)
    # JSON has no NaN.
    model.manifest.calibration.remaining = observed.dropna().to_dict("records")


def fit_after_discharge(
    stays: pd.DataFrame, horizon: float
) -> list[RiskGroup]:
    """When the readmissions of each third of the risks came.

    Args:
        stays: `patient_id`, `readmitted`, `probability`, `days_to_readmission` and, where known,
            `days_to_death`.
        horizon: days after discharge in which a readmission counts.

    Returns:
        One group if a third has fewer than `FEWEST` readmissions; none where there are fewer in
        all, or their days are not known.
    """
    days, event = first_events(stays, horizon)
    is_back = event == READMITTED
    if is_back.sum() < FEWEST:
        return []
    risk = stays["probability"].to_numpy(dtype=np.float64)
    above = np.r_[0.0, np.quantile(risk, (1 / 3, 2 / 3)).round(6)]
    thirds = np.searchsorted(above[1:], risk, side="right")
    if np.bincount(thirds[is_back], minlength=3).min() < FEWEST:
        above = above[:1]
        thirds = np.zeros_like(thirds)
    known_days = [*(day for day in DAYS if day < horizon), horizon]
    groups = []
    for number, lowest in enumerate(above):
        of_third = thirds == number
        returned, died = cumulative_incidence(
            days[of_third], event[of_third], known_days
        )
        total = returned[-1]
        others = max(1 - total, 1e-9)
        points = np.stack(
            [known_days, returned / total, died / others], axis=1
        )
        groups.append(RiskGroup(above=lowest, points=points.round(6).tolist()))
    return groups


def remaining_risks(
    groups: Sequence[RiskGroup],
    stays: pd.DataFrame,
    *,
    bootstrap: int = RESAMPLES,
) -> pd.DataFrame:
    """The remaining risk on days after discharge, as predicted and as observed.

    Args:
        groups: of the model.
        stays: see `fit_after_discharge`.
        bootstrap: number of resamples of patients for intervals.

    Returns:
        A row for each group and day with at least `SMALLEST_GROUP` stays whose patient was alive
        and not readmitted: `risk` (of the group, at discharge), `day`, `n`, `predicted` (mean),
        `observed`, `observed_low` and `observed_high`. Without columns where there is no such row,
        or the days of readmissions are not known.
    """
    if not groups:
        return pd.DataFrame()
    days, event = first_events(stays, groups[0].horizon)
    is_back = event == READMITTED
    risk = stays["probability"].to_numpy(dtype=np.float64)
    rows = []
    masks = []
    highest = [*(group.above for group in groups[1:]), 1.0]
    for group, end in zip(groups, highest, strict=True):
        in_group = (risk >= group.above) & ((risk < end) | (end == 1))
        name = f"{group.above:.2f} to {end:.2f}"
        for day in (0.0, *(point[0] for point in group.points[:-1])):
            mask = in_group & ((days > day) | (day == 0))
            if mask.sum() >= SMALLEST_GROUP:
                predicted = float(group.remaining(risk[mask], day).mean())
                rows.append((name, day, int(mask.sum()), predicted))
                masks.append(mask)
    if not rows or not is_back.any():
        return pd.DataFrame()
    at_risk = np.array(masks, dtype=np.float64)

    def measure(weights: Floats) -> Floats:
        return (at_risk @ (weights * is_back)) / (at_risk @ weights)

    patients = patient_keys(stays["patient_id"])
    _, codes = np.unique(patients, return_inverse=True)
    observed = resample(measure, codes, bootstrap=bootstrap)
    table = pd.DataFrame(rows, columns=["risk", "day", "n", "predicted"])
    return table.assign(**observed.columns("observed"))
