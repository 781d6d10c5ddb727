"""When readmissions come after discharge, by thirds of risk, with death as a competing event."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from clinical.evaluation.groups import SMALLEST_GROUP
from clinical.risk.model import ReadmissionModel
from clinical.risk.reading import RiskGroup
from clinical.stays.choice import readmission_days
from clinical.stays.patients import patient_keys
from domainbert.statistics import Floats
from domainbert.statistics.bootstrap import RESAMPLES, resample

DAYS = (1.0, 3.0, 7.0, 14.0, 21.0, 30.0, 60.0)
"""Days after discharge that a curve is known at, as far as they are within the horizon."""

FEWEST = 10
"""Readmissions that each third needs; with fewer in one of them, all stays are one group."""

READMITTED = 1
DIED = 2


def cumulative_incidence(
    days: ArrayLike,
    event: ArrayLike,
    at: ArrayLike,
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
    times, time_numbers, n_ending = np.unique(
        days,
        return_inverse=True,
        return_counts=True,
    )
    # Follow-up of a stay that is at risk ends at this time or later.
    n_at_risk = n_ending[::-1].cumsum()[::-1]
    events = np.asarray(event)
    n_events = [
        np.bincount(time_numbers, events == outcome, len(times))
        for outcome in (READMITTED, DIED)
    ]
    hazards = n_events / n_at_risk
    event_free = np.cumprod(1 - hazards.sum(axis=0))
    free_before = np.append(1.0, event_free[:-1])
    incidence = np.cumsum(free_before * hazards, axis=1)
    from_discharge = np.insert(incidence, 0, 0.0, axis=1)
    n_past_times = np.searchsorted(times, at, side="right")
    return from_discharge[:, n_past_times]


def first_events(
    stays: pd.DataFrame,
    horizon: float,
) -> tuple[Floats, NDArray[np.intp]]:
    """The day and the kind of each stay's first event, as `cumulative_incidence` reads them.

    Follow-up ends at the horizon. Without `days_to_death` no death is known. If a readmitted stay
    has no `days_to_readmission`, no stay has an event.
    """
    columns = ["readmitted", "days_to_readmission", "days_to_death"]
    numbers = stays.reindex(columns=columns).apply(pd.to_numeric)
    readmitted, readmission_day, death_day = numbers.to_numpy(np.float64).T
    is_back = readmitted == 1
    is_known = not np.isnan(readmission_day[is_back]).any()
    is_first = [is_back & is_known, (death_day < horizon) & is_known]
    days = np.select(is_first, [readmission_day, death_day], horizon)
    events = np.select(is_first, [READMITTED, DIED], 0)
    return days, events


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
    stays: pd.DataFrame,
    horizon: float,
) -> list[RiskGroup]:
    """On which days the readmissions came, for each third of the stays by risk.

    Args:
        stays: `patient_id`, `readmitted`, `probability`, `days_to_readmission` and, where known,
            `days_to_death`.
        horizon: days after discharge in which a readmission counts.

    Returns:
        A group for each third; one for all stays if a third has fewer than `FEWEST` readmissions;
        none if there are fewer in all, or their days are not known.
    """
    days, event = first_events(stays, horizon)
    is_back = event == READMITTED
    if is_back.sum() < FEWEST:
        return []
    risk = stays["probability"].to_numpy(np.float64)
    bounds = np.quantile(risk, (1 / 3, 2 / 3)).round(6)
    thirds = np.searchsorted(bounds, risk, side="right")
    n_back = np.bincount(thirds[is_back], minlength=3)
    if n_back.min() < FEWEST:
        bounds = bounds[:0]
        thirds[:] = 0
    days_within = [day for day in DAYS if day < horizon]
    groups = []
    for number, lowest in enumerate([0.0, *bounds]):
        is_third = thirds == number
        points = _points(
            days[is_third], event[is_third], [*days_within, horizon]
        )
        groups.append(RiskGroup(above=lowest, points=points.tolist()))
    return groups


def _points(days: Floats, event: ArrayLike, at: ArrayLike) -> Floats:
    """The points of a `RiskGroup`, from the first events of its stays.

    They are shares of its readmissions and of its other stays, so that over the whole horizon a
    stay keeps its calibrated risk.
    """
    returned, died = cumulative_incidence(days, event, at)
    never_returned = max(1 - returned[-1], 1e-9)
    columns = [at, returned / returned[-1], died / never_returned]
    return np.stack(columns, axis=1).round(6)


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
    risk = stays["probability"].to_numpy(np.float64)
    cells = list(_cells(groups, risk, days))
    if not cells or not is_back.any():
        return pd.DataFrame()
    rows, masks = zip(*cells, strict=True)
    at_risk = np.array(masks, dtype=np.float64)

    def readmitted_share(weights: Floats) -> Floats:
        n_back = at_risk @ (weights * is_back)
        return n_back / (at_risk @ weights)

    patients = patient_keys(stays["patient_id"])
    _, codes = np.unique(patients, return_inverse=True)
    observed = resample(readmitted_share, codes, bootstrap=bootstrap)
    table = pd.DataFrame(rows)
    return table.assign(**observed.columns("observed"))


def _cells(
    groups: Sequence[RiskGroup],
    risk: Floats,
    days: Floats,
) -> Iterator[tuple[dict[str, object], NDArray[np.bool]]]:
    """Each group and day with enough stays without an event: its row, and which stays these are."""
    upper_bounds = [group.above for group in groups[1:]]
    for group, upper in zip(groups, [*upper_bounds, np.inf], strict=True):
        in_group = (risk >= group.above) & (risk < upper)
        name = f"{group.above:.2f} to {min(upper, 1):.2f}"
        later_days = [day for day, *_ in group.points[:-1]]
        for day in [0.0, *later_days]:
            # At discharge all are at risk, also those with an event on day 0.
            is_free = (days > day) | (day == 0)
            mask = in_group & is_free
            n_stays = int(mask.sum())
            if n_stays < SMALLEST_GROUP:
                continue
            predicted = group.remaining(risk[mask], day)
            row = {
                "risk": name,
                "day": day,
                "n": n_stays,
                "predicted": predicted.mean(),
            }
            yield row, mask
