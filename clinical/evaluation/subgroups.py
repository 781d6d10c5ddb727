"""Subgroups: ranking and mean risk by age, sex, ethnicity and insurance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.intervals import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

SUBGROUPS = ("age", "sex", "ethnicity", "insurance")
SMALLEST_GROUP = 50
_AGE_BANDS = (0, 18, 45, 65, 80)
_GROUP_COLUMNS = (
    *("column", "group", "n", "prevalence", "mean_probability"),
    *("auroc", "auroc_low", "auroc_high", "reason"),
)


def by_group(
    frame: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Ranking and mean risk in groups of stays, one row a group.

    Groups of fewer than `SMALLEST_GROUP` stays show only their n, because more could identify
    people; `reason` says what is missing and why, else it is empty.

    Args:
        frame: one row a stay: patient_id, readmitted (0/1), probability, and the columns to group
            by. A numeric age is put into bands; missing values form the group `not recorded`.
        columns: columns to group by; by default those of `SUBGROUPS` that the frame has.
        bootstrap: resamples of patients for each interval.
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
    rows = [
        {"column": column, "group": name, **_group_row(group, bootstrap=bootstrap, seed=seed)}
        for column in columns
        for name, group in frame.groupby(_labels(frame[column]), observed=True)
    ]
    return pd.DataFrame(rows, columns=list(_GROUP_COLUMNS))


def _labels(values: pd.Series) -> pd.Series:
    """The group of each stay: bands for numeric ages, else the value as a string."""
    import pandas as pd

    if values.name == "age" and pd.api.types.is_numeric_dtype(values):
        edges = [*_AGE_BANDS, np.inf]
        names = [f"{low}–{high - 1}" for low, high in zip(edges, _AGE_BANDS[1:], strict=False)]
        bands = pd.cut(values, bins=edges, right=False, labels=[*names, f"{_AGE_BANDS[-1]}+"])
        return bands.cat.add_categories("not recorded").fillna("not recorded")
    return values.map(str, na_action="ignore").astype(object).fillna("not recorded")


def _group_row(group: pd.DataFrame, *, bootstrap: int, seed: int) -> dict[str, Any]:
    if len(group) < SMALLEST_GROUP:
        return {"n": len(group), "reason": f"fewer than {SMALLEST_GROUP} stays"}
    found = evaluate(
        group["readmitted"],
        group["probability"],
        patients=group["patient_id"],
        bootstrap=bootstrap,
        seed=seed,
    )
    return {
        "n": found.n_stays,
        "prevalence": found.prevalence.value,
        "mean_probability": float(group["probability"].mean()),
        "auroc": found.auroc.value,
        "auroc_low": found.auroc.low,
        "auroc_high": found.auroc.high,
        "reason": found.reason or "",
    }
