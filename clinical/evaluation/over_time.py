"""Calibration, ranking and alerts by month of discharge."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from clinical.evaluation.group_measures import GROUP_MEASURES, measure_groups
from clinical.evaluation.subgroups import SMALLEST_GROUP
from domainbert.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

MOST_PERIODS = 24
COLUMNS = (
    *("period", "start", "end", "n", "prevalence", "mean_probability", "alerts_per_100"),
    *(f"{name}{end}" for name in GROUP_MEASURES for end in ("", "_low", "_high")),
    *(f"{name}_{part}" for name in GROUP_MEASURES for part in ("difference", "p_adjusted")),
)


def by_period(
    frame: pd.DataFrame,
    *,
    threshold: float | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """The measures of `by_group` in periods of discharge, one row a period, in time order.

    Periods are months, or quarters or years where there would be more than `MOST_PERIODS`;
    neighbours are joined until each has at least `SMALLEST_GROUP` stays. Differences and their
    p-values compare a period with all others. Stays without a time of discharge are left out.

    Args:
        frame: patient_id, readmitted (0/1), probability and discharge_time, one row a stay.
        threshold: alert where the probability is at least this.
        bootstrap: resamples of patients for the intervals.
        seed: of the resampling.

    Raises:
        UserError: times that are not dates.
    """
    import pandas as pd

    times = _times(frame["discharge_time"])
    kept = times.notna()
    frame, times = frame[kept].reset_index(drop=True), times[kept].reset_index(drop=True)
    if frame.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    numbers, names = _periods(times)
    found = measure_groups(frame, numbers, threshold=threshold, bootstrap=bootstrap, seed=seed)
    rows = []
    for number, name in enumerate(names):
        part, when = frame[numbers == number], times[numbers == number]
        alerts = np.nan if threshold is None else 100 * (part["probability"] >= threshold).mean()
        facts = {
            "period": name,
            "start": when.min().date().isoformat(),
            "end": when.max().date().isoformat(),
            "n": len(part),
            "prevalence": part["readmitted"].mean(),
            "mean_probability": part["probability"].mean(),
            "alerts_per_100": alerts,
        }
        rows.append(facts | found.row(number))
    return pd.DataFrame(rows)[list(COLUMNS)]


def _times(values: pd.Series) -> pd.Series:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values):
        return values
    found = pd.to_datetime(values, errors="coerce", format="ISO8601")
    if wrong := int((found.isna() & values.notna()).sum()):
        raise UserError(f"discharge_time holds {wrong} values that are not ISO 8601 dates")
    return found


def _periods(times: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The number of each stay's period, and the names of the periods."""
    calendar = times.dt.to_period("M")
    for unit in ("M", "Q", "Y"):
        calendar = times.dt.to_period(unit)
        if calendar.nunique() <= MOST_PERIODS:
            break
    counts = calendar.value_counts().sort_index()
    parts: list[list[object]] = [[]]
    size = 0
    for period, count in counts.items():
        if size >= SMALLEST_GROUP:
            parts.append([])
            size = 0
        parts[-1].append(period)
        size += count
    if size < SMALLEST_GROUP and len(parts) > 1:  # the last one is too small: join it
        rest = parts.pop()
        parts[-1] += rest
    names = [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
    number = {period: place for place, part in enumerate(parts) for period in part}
    return calendar.map(number).to_numpy(dtype=int), names


def shifted_dates(frame: pd.DataFrame) -> bool:
    """Whether most discharges lie in the future: dates were shifted to protect patients."""
    times = _times(frame["discharge_time"]).dropna()
    return bool(len(times)) and times.median().year > datetime.now().year + 1  # noqa: DTZ005
