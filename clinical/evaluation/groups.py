"""Groups of stays, by patient or by time of discharge: whom and when the model serves less well."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.group_measures import GROUP_MEASURES, GroupNumbers, measure_groups
from clinical.evaluation.verdicts import Verdict
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

SUBGROUPS = ("age", "sex", "ethnicity", "insurance")
SMALLEST_GROUP = 50
READINGS = {
    "calibration": "Calibration in the large",
    "auroc": "AUROC",
    "recall": "Recall",
    "false_positive_rate": "False-positive rate",
}
_AGE_BANDS = (0, 18, 45, 65, 80)
_UNKNOWN = "not recorded"
_LONGEST_NAME = 80
MOST_PERIODS = 24
_FIRST = ("column", "group", "pooled", "n", "prevalence", "mean_probability")
_EACH = ("", "_low", "_high", "_difference", "_difference_low", "_difference_high", "_p_adjusted")
COLUMNS = (*_FIRST, *(f"{name}{end}" for name in GROUP_MEASURES for end in _EACH), "reason")
PERIOD_COLUMNS = (
    *("period", "start", "end", "n", "prevalence", "mean_probability", "alerts_per_100"),
    *(f"{name}{end}" for name in GROUP_MEASURES for end in ("", "_low", "_high")),
    *(f"{name}_{part}" for name in GROUP_MEASURES for part in ("difference", "p_adjusted")),
)


def by_group(
    frame: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    threshold: float | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Calibration, ranking and alerts in groups of stays, one row a group.

    For each of `clinical.evaluation.group_measures.GROUP_MEASURES` a row has the value, its 95%
    interval (`NAME_low`, `NAME_high`), the difference from all other stays with its interval
    (`NAME_difference…`), and the p-value of the difference, corrected for all differences of the
    table (`NAME_p_adjusted`, Holm 1979). `prevalence` and `mean_probability` are shares.

    Groups of fewer than `SMALLEST_GROUP` stays are pooled within their column. Where even the pool
    is smaller, the row shows only its n, because more could identify people. `reason` says what is
    missing and why, else it is empty.

    Args:
        frame: one row a stay: patient_id, readmitted (0/1), probability, and the columns to group
            by. A numeric age is put into bands; missing values form the group `not recorded`.
        columns: columns to group by; by default those of `SUBGROUPS` that the frame has.
        threshold: alert where the probability is at least this, chosen on validation.
        bootstrap: resamples of patients for the intervals.
        seed: of the resampling.

    Raises:
        TableError: a column is missing.
    """
    import pandas as pd

    from domainbert.tables import require_columns

    if columns is None:
        columns = [name for name in SUBGROUPS if name in frame.columns]
    needed = ("patient_id", "readmitted", "probability", *columns)
    require_columns(frame.columns, needed, source="the scored stays")
    if not columns:
        return pd.DataFrame(columns=list(COLUMNS))
    own = [group_labels(frame[column]) for column in columns]
    originals = {values.name: set(values.cat.categories) for values in own}
    labels = [pooled(values) for values in own]
    numbers = measure_groups(
        frame,
        *(values.cat.codes.to_numpy(dtype=np.intp) for values in labels),
        threshold=threshold,
        bootstrap=bootstrap,
        seed=seed,
    )
    named = [(values, group) for values in labels for group in values.cat.categories]
    rows = [
        {
            "column": values.name,
            "group": group,
            "pooled": group not in originals[values.name],
            **_row(frame[values == group], number, numbers),
        }
        for number, (values, group) in enumerate(named)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def group_labels(values: pd.Series) -> pd.Series:
    """The group of each stay, as ordered categories: age bands, or the values as strings."""
    import pandas as pd

    if values.name == "age" and pd.api.types.is_numeric_dtype(values):
        edges = [*_AGE_BANDS, np.inf]
        names = [f"{low}–{high - 1}" for low, high in zip(edges, _AGE_BANDS[1:], strict=False)]
        ages = values.astype("Float64").astype(float)
        bands = pd.cut(ages, bins=edges, right=False, labels=[*names, f"{_AGE_BANDS[-1]}+"])
        labels = bands.cat.add_categories(_UNKNOWN).fillna(_UNKNOWN)
    else:
        text = values.map(str, na_action="ignore").astype(object).fillna(_UNKNOWN)
        order = [*sorted(set(text) - {_UNKNOWN}), _UNKNOWN]
        labels = pd.Series(pd.Categorical(text, order), index=values.index, name=values.name)
    return labels.cat.remove_unused_categories()


def pooled(labels: pd.Series) -> pd.Series:
    """The same labels, with groups of fewer than `SMALLEST_GROUP` stays in one group, the last."""
    counts = labels.value_counts()
    small = [name for name in labels.cat.categories if counts[name] < SMALLEST_GROUP]
    if len(small) < 2:
        return labels
    name = " or ".join(small)
    if len(name) > _LONGEST_NAME:
        name = f"{len(small)} smaller groups together"
    order = [group for group in labels.cat.categories if group not in small]
    text = labels.astype(object).where(~labels.isin(small), name)
    return text.astype("category").cat.set_categories([*order, name])


def _row(group: pd.DataFrame, number: int, numbers: GroupNumbers) -> dict[str, Any]:
    if len(group) < SMALLEST_GROUP:
        return {"n": len(group), "reason": f"fewer than {SMALLEST_GROUP} stays"}
    events = int(group["readmitted"].sum())
    one_sided = events in (0, len(group))
    return {
        "n": len(group),
        "prevalence": events / len(group),
        "mean_probability": float(group["probability"].mean()),
        **numbers.row(number),
        "reason": f"{events} of {len(group)} stays are readmitted" if one_sided else "",
    }


def group_verdicts(groups: pd.DataFrame) -> list[Verdict]:
    """What the table of `by_group` says: how many differences were tested, which remain, the rest.

    A difference is named if its p-value, corrected for all of the table, is below 0.05.
    """
    untested = _untested(groups)
    tested, chance, named = 0, 0, []
    for name in GROUP_MEASURES:
        low, high = groups[f"{name}_difference_low"], groups[f"{name}_difference_high"]
        tested += int(low.notna().sum())
        chance += int(((low > 0) | (high < 0)).sum())
        remaining = groups[groups[f"{name}_p_adjusted"] < 0.05].to_dict("records")
        named += [Verdict("against", _difference(row, name)) for row in remaining]
    if not tested:
        text = "No difference between subgroups could be tested."
        return [Verdict("not shown", text), *untested]
    head = (
        f"{tested} differences between a subgroup and the other stays were tested: {chance} "
        f"intervals exclude 0 (about {0.05 * tested:.0f} would by chance alone), and "
        f"{len(named) or 'none'} of these remain{'s' if len(named) == 1 else ''} after correction "
        "for multiple comparisons (Holm). That no difference remains does not show that there is "
        "none."
    )
    return [Verdict("not shown", head), *named, *untested]


def _untested(groups: pd.DataFrame) -> list[Verdict]:
    """The groups that were too small, had one outcome only, or were measured together."""
    reasons = [
        f"{row['column']} {row['group']} ({row['reason']})"
        for row in groups[groups["reason"] != ""].to_dict("records")
    ]
    reasons += [
        f"{row['column']} {row['group']} (only measured together)"
        for row in groups[groups["reason"] == ""].to_dict("records")
        if row["pooled"]
    ]
    if not reasons:
        return []
    return [Verdict("not shown", f"Not tested on their own: {'; '.join(reasons)}.")]


def _difference(row: dict[str, Any], name: str) -> str:
    change, low, high = (row[f"{name}_difference{end}"] for end in ("", "_low", "_high"))
    return (
        f"{READINGS[name]} differs for {row['column']} {row['group']}: {row[name]:.3f}, that is "
        f"{change:+.3f} [{low:+.3f}, {high:+.3f}] against all other stays."
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
        return pd.DataFrame(columns=list(PERIOD_COLUMNS))
    numbers, names = _periods(times)
    measured = measure_groups(frame, numbers, threshold=threshold, bootstrap=bootstrap, seed=seed)
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
        rows.append(facts | measured.row(number))
    return pd.DataFrame(rows)[list(PERIOD_COLUMNS)]


def _times(values: pd.Series) -> pd.Series:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(values):
        return values
    times = pd.to_datetime(values, errors="coerce", format="ISO8601")
    if wrong := int((times.isna() & values.notna()).sum()):
        raise UserError(f"discharge_time holds {wrong} values that are not ISO 8601 dates")
    return times


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
