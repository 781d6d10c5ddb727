"""Groups of stays, by patient or by time of discharge: whom and when the model serves less well."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clinical.evaluation.measures import GROUP_MEASURES, Stays, measured_values
from clinical.stays.patients import patient_codes
from domainbert.statistics import Floats
from domainbert.statistics.bootstrap import Resampled, resample
from domainbert.statistics.calibration import checked_risks

SUBGROUPS = ("age", "sex", "ethnicity", "insurance")
SMALLEST_GROUP = 50
MOST_PERIODS = 24
_AGE_BANDS = {0: "0–17", 18: "18–44", 45: "45–64", 65: "65–79", 80: "80+"}
_UNKNOWN = "not recorded"
_LONGEST_NAME = 80
_EACH = (
    "",
    "_low",
    "_high",
    "_difference",
    "_difference_low",
    "_difference_high",
    "_p_adjusted",
)
_NUMBERS = (
    *("n", "prevalence", "mean_probability"),
    *(f"{measure.field}{end}" for measure in GROUP_MEASURES for end in _EACH),
    "reason",
)


def by_group(
    frame: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    threshold: float | None = None,
    bootstrap: int = 1000,
) -> pd.DataFrame:
    """Calibration, ranking and alerts in groups of stays, one row per group.

    For each of `clinical.evaluation.measures.GROUP_MEASURES` a row has the value, its 95% interval
    (`NAME_low`, `NAME_high`), the difference from all other stays with its interval
    (`NAME_difference…`), and the p-value of the difference, corrected for all differences of the
    table (`NAME_p_adjusted`, Holm 1979). Groups of fewer than `SMALLEST_GROUP` stays share one row,
    which shows only their number of stays, because more could identify people. `reason` says what
    is missing and why.

    Args:
        frame: one row per stay: patient_id, readmitted (0/1), probability, and the columns to group
            by. A numeric age is put into bands; missing values form the group `not recorded`.
        columns: columns to group by; by default those of `SUBGROUPS` that the frame has.
        threshold: alert where the probability is at least this, chosen on validation.
        bootstrap: resamples of patients for the intervals.

    Raises:
        TableError: a column is missing.
    """
    from domainbert.tables import require_columns

    if columns is None:
        columns = [name for name in SUBGROUPS if name in frame.columns]
    needed = ("patient_id", "readmitted", "probability", *columns)
    require_columns(frame.columns, needed, source="the scored stays")
    rows = []
    masks = []
    for column in columns:
        labels = group_labels(frame[column])
        counts = labels.value_counts(sort=False)
        for group in counts.index[counts >= SMALLEST_GROUP]:
            rows.append({"column": column, "group": group, "reason": ""})
            masks.append((labels == group).to_numpy())
        small = counts[counts < SMALLEST_GROUP]
        if len(small):
            rows.append({"column": column} | _small_groups(small))
    measured = iter(
        _measured(frame, masks, threshold=threshold, bootstrap=bootstrap)
    )
    for row in rows:
        if not row["reason"]:
            row |= next(measured)
    return pd.DataFrame(rows, columns=["column", "group", *_NUMBERS])


def _small_groups(counts: pd.Series) -> dict[str, Any]:
    """The row for the groups that are too small to be measured, from their numbers of stays."""
    group = ", ".join(map(str, counts.index))
    if len(group) > _LONGEST_NAME:
        group = f"{len(counts)} small groups"
    reason = f"fewer than {SMALLEST_GROUP} stays"
    if len(counts) > 1:
        reason += " each"
    return {"group": group, "n": int(counts.sum()), "reason": reason}


def group_labels(values: pd.Series) -> pd.Series:
    """The group of each stay, as ordered categories: age bands, or the values as strings."""
    if values.name == "age" and pd.api.types.is_numeric_dtype(values):
        bands = pd.cut(
            values.astype("Float64").astype(float),
            bins=[*_AGE_BANDS, np.inf],
            right=False,
            labels=list(_AGE_BANDS.values()),
        )
        labels = bands.cat.add_categories(_UNKNOWN).fillna(_UNKNOWN)
    else:
        text = (
            values.map(str, na_action="ignore").astype(object).fillna(_UNKNOWN)
        )
        order = [*sorted(set(text) - {_UNKNOWN}), _UNKNOWN]
        labels = pd.Series(
            pd.Categorical(text, order),
            index=values.index,
            name=values.name,
        )
    return labels.cat.remove_unused_categories()


def _measured(
    frame: pd.DataFrame,
    masks: Sequence[NDArray[np.bool_]],
    *,
    threshold: float | None,
    bootstrap: int,
) -> list[dict[str, Any]]:
    """Measure groups of stays, each a mask of shape (stays,), and compare it with all others.

    A difference and its interval come from the same resamples of patients, so that patients with
    stays on both sides are handled right. The p-values assume that differences are normally
    distributed, with the bootstrap's standard error.
    """
    if not masks:
        return []
    y, risk = checked_risks(frame["readmitted"], frame["probability"])
    sides = [
        (side, Stays(y[side], risk[side], threshold))
        for mask in masks
        for side in (mask, ~mask)
    ]

    def measure(weights: Floats) -> Floats:
        rows = [
            measured_values(part, weights[mask], GROUP_MEASURES)
            for mask, part in sides
        ]
        return np.reshape(rows, (len(masks), 2, len(GROUP_MEASURES)))

    patients = patient_codes(frame["patient_id"], n=len(y))
    measured = resample(measure, patients, bootstrap=bootstrap)
    values = measured[:, 0]
    difference = values - measured[:, 1]
    adjusted = holm(difference)
    rows = []
    for group, mask in enumerate(masks):
        row = _counts(y[mask], risk[mask])
        for number, group_measure in enumerate(GROUP_MEASURES):
            name = group_measure.field
            row |= values[group, number].columns(name)
            row |= difference[group, number].columns(f"{name}_difference")
            row[f"{name}_p_adjusted"] = adjusted[group, number]
        rows.append(row)
    return rows


def _counts(y: Floats, risk: Floats) -> dict[str, Any]:
    """The size, prevalence and mean risk of a group, and why it has no measures, or ""."""
    n_events = int(y.sum())
    reason = ""
    if n_events in (0, len(y)):
        reason = f"{n_events} of {len(y)} stays have the outcome"
    return {
        "n": len(y),
        "prevalence": n_events / len(y),
        "mean_probability": float(risk.mean()),
        "reason": reason,
    }


def holm(difference: Resampled) -> Floats:
    """Two-sided p-values after Holm's correction for all of the differences, NaN without one."""
    from scipy.stats import norm

    error = difference.spread[2]
    p = 2 * norm.sf(
        np.abs(difference.value) / np.where(error > 0, error, np.nan)
    )
    order = np.argsort(p, axis=None)[: np.count_nonzero(~np.isnan(p))]
    steps = p.flat[order] * np.arange(len(order), 0, -1)
    p.flat[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return np.asarray(p)


def by_period(
    frame: pd.DataFrame,
    *,
    threshold: float | None = None,
    bootstrap: int = 1000,
) -> tuple[pd.DataFrame, str]:
    """The measures of `by_group` in periods of discharge, one row per period, in time order.

    Periods are months, quarters or years: the shortest that make at most `MOST_PERIODS`, of at
    least `SMALLEST_GROUP` stays on average. Stays without a readable time of discharge are left
    out. The arguments are those of `by_group`, and the frame has `discharge_time` too.

    Returns:
        The table and a caveat; where months mean nothing, an empty table and the reason.
    """
    if "discharge_time" not in frame.columns:
        return pd.DataFrame(), "The cohort has no times of discharge."
    cells = frame["discharge_time"]
    times = pd.to_datetime(cells, errors="coerce", format="ISO8601")
    n_unreadable = int((times.isna() & cells.notna()).sum())
    caveat = ""
    if n_unreadable:
        caveat = (
            f"{n_unreadable} stays have a discharge_time that is not an ISO 8601 date; they are "
            "in no period."
        )
    frame = frame[times.notna()]
    times = times.dropna()
    if len(times) and times.median().year > datetime.now().year + 1:  # noqa: DTZ005
        return pd.DataFrame(), (
            "The dates of this cohort lie in the future: they were shifted to protect patients, "
            "so months of discharge mean nothing."
        )
    periods = times.dt.to_period("Y")
    for unit in ("Q", "M"):
        finer = times.dt.to_period(unit)
        if finer.nunique() <= min(MOST_PERIODS, len(frame) / SMALLEST_GROUP):
            periods = finer
    frame = frame.assign(period=periods.astype(str))
    table = by_group(
        frame,
        columns=["period"],
        threshold=threshold,
        bootstrap=bootstrap,
    )
    return table.rename(columns={"group": "period"}).drop(
        columns="column"
    ), caveat
