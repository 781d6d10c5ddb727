"""Subgroups: whom the model serves less well, by age, sex, ethnicity and insurance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.group_measures import GROUP_MEASURES, measure_groups

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
_FIRST = ("column", "group", "n", "prevalence", "mean_probability")
_EACH = ("", "_low", "_high", "_difference", "_difference_low", "_difference_high", "_p_adjusted")
COLUMNS = (*_FIRST, *(f"{name}{end}" for name in GROUP_MEASURES for end in _EACH), "reason")


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
    labels = [pooled(group_labels(frame[column])) for column in columns]
    found = measure_groups(
        frame,
        *(values.cat.codes.to_numpy(dtype=np.intp) for values in labels),
        threshold=threshold,
        bootstrap=bootstrap,
        seed=seed,
    )
    named = [(values, group) for values in labels for group in values.cat.categories]
    rows = [
        {"column": values.name, "group": group, **_row(frame[values == group], number, found)}
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
        found = bands.cat.add_categories(_UNKNOWN).fillna(_UNKNOWN)
    else:
        text = values.map(str, na_action="ignore").astype(object).fillna(_UNKNOWN)
        order = [*sorted(set(text) - {_UNKNOWN}), _UNKNOWN]
        found = pd.Series(pd.Categorical(text, order), index=values.index, name=values.name)
    return found.cat.remove_unused_categories()


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


def _row(group: pd.DataFrame, number: int, found: Any) -> dict[str, Any]:
    if len(group) < SMALLEST_GROUP:
        return {"n": len(group), "reason": f"fewer than {SMALLEST_GROUP} stays"}
    events = int(group["readmitted"].sum())
    one_sided = events in (0, len(group))
    return {
        "n": len(group),
        "prevalence": events / len(group),
        "mean_probability": float(group["probability"].mean()),
        **found.row(number),
        "reason": f"{events} of {len(group)} stays are readmitted" if one_sided else "",
    }


def disparities(groups: pd.DataFrame) -> list[str]:
    """What the differences say, with how many were tested; one sentence each.

    A difference is named if its p-value, corrected for all of the table, is below 0.05.
    """
    if groups.empty or groups["n"].max() < SMALLEST_GROUP:
        return ["No subgroup has enough stays to be compared with the rest."]
    tested, chance, said = 0, 0, []
    for name in GROUP_MEASURES:
        low, high = groups[f"{name}_difference_low"], groups[f"{name}_difference_high"]
        tested += int(low.notna().sum())
        chance += int(((low > 0) | (high < 0)).sum())
        remaining = groups[groups[f"{name}_p_adjusted"] < 0.05].to_dict("records")
        said += [_difference(row, name) for row in remaining]
    if not tested:
        return ["No difference between subgroups could be tested."]
    head = (
        f"{tested} differences between a subgroup and the other stays were tested: {chance} "
        f"intervals exclude 0 (about {0.05 * tested:.0f} would by chance alone), and "
        f"{len(said) or 'none'} of these remain{'s' if len(said) == 1 else ''} after correction "
        "for multiple comparisons (Holm)."
    )
    return [head, *said]


def _difference(row: dict[str, Any], name: str) -> str:
    change, low, high = (row[f"{name}_difference{end}"] for end in ("", "_low", "_high"))
    return (
        f"{READINGS[name]} differs for {row['column']} {row['group']}: {row[name]:.3f}, that is "
        f"{change:+.3f} [{low:+.3f}, {high:+.3f}] against all other stays."
    )
