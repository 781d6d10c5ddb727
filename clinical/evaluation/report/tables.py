"""Tables of the report: labels and rows of text, from the tables of the evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clinical.evaluation.drift import QUANTITIES, size
from clinical.evaluation.group_measures import GROUP_MEASURES
from clinical.evaluation.subgroups import READINGS
from domainbert.errors import UserError

if TYPE_CHECKING:
    from clinical.evaluation.use import InUse
    from domainbert.intervals import Interval

LONGEST = 200  # characters of a table's cell; a longer one is likely to be a note
_FINDINGS = {"stable": "stable", "watch": "watch", "act": "act on it"}


def plain_table(frame: pd.DataFrame, *, name: str) -> dict[str, Any]:
    """A table as it is; one that may contain notes is refused."""
    for column in frame.columns:
        if str(column).lower() == "text" or any(_noteish(cell) for cell in frame[column]):
            raise UserError(
                f"{name} has a column {str(column)!r} that may hold notes (lists, or more than "
                f"{LONGEST} characters), which a report must not show; drop that column"
            )
    labels = [str(column).replace("_", " ") for column in frame.columns]
    return {"labels": labels, "rows": [list(map(cell, row)) for row in gapless(frame)]}


def gapless(frame: pd.DataFrame) -> list[list[Any]]:
    """The rows as Python objects, None where a value is missing."""
    objects = frame.astype(object)
    return objects.where(objects.notna(), None).to_numpy().tolist()


def _noteish(value: object) -> bool:
    return len(str(value)) > LONGEST or (not isinstance(value, str) and hasattr(value, "__len__"))


def number(value: float | None, digits: int = 3) -> str:
    """A number with three digits and a true minus sign; a dash for none."""
    missing = value is None or np.isnan(value)
    return "–" if missing else f"{value:.{digits}f}".replace("-", "−")


def interval_range(interval: Interval) -> str:
    """The ends of an interval; empty without one."""
    ends = (interval.low, interval.high)
    return "" if None in ends else " to ".join(map(number, ends))


def cell(value: object) -> str:
    """A value of a table: gaps are empty, fractions have three digits."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def spelled(row: dict[str, Any], name: str, digits: int = 3, *, sign: bool = False) -> str:
    """`0.123 (0.100 to 0.150)` from the columns NAME, NAME_low and NAME_high."""
    found = two_lines(row, name, digits, sign=sign)
    return f"{found['text']} ({found['small']})" if found["small"] else found["text"]


def two_lines(
    row: dict[str, Any], name: str, digits: int = 3, *, sign: bool = False
) -> dict[str, str]:
    """A cell with a number and, below it, its interval."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    plus = "+" if sign and value > 0 else ""
    small = "" if pd.isna(low) else f"{number(low, digits)} to {number(high, digits)}"
    return {"text": plus + number(value, digits), "small": small, "more": ""}


def flow_rows(flow: pd.DataFrame) -> dict[str, Any]:
    """How the cohort was selected: the first step and those that removed stays."""
    shown = plain_table(flow, name="flow")
    if not {"removed", "reason", "left"} <= set(flow.columns):
        return shown
    kept = flow[(flow["removed"] > 0) | (np.arange(len(flow)) == 0)]
    return {
        "labels": ["Reason", "Removed", "Left"],
        "rows": [list(map(cell, row)) for row in gapless(kept[["reason", "removed", "left"]])],
    }


def benefit_rows(use: InUse) -> dict[str, Any]:
    """Net benefit at some thresholds."""
    labels = ["Threshold", "Model", "Alert all", "Gain over the better of all and none",
              "Gain as readmissions found per 100 stays"]  # fmt: skip
    rows = [
        [
            f"{row['threshold']:.0%}",
            two_lines(row, "net_benefit"),
            number(row["alert_all"]),
            two_lines(row, "gain", sign=True),
            number(row["per_100"], 1),
        ]
        for row in use.benefit.to_dict("records")
    ]
    return {"labels": labels, "rows": rows}


def burden_rows(use: InUse, *, discharges_per_day: float = 0.0) -> dict[str, Any]:
    """Alerts, recall, precision and number needed to evaluate at each threshold."""
    labels = ["Chosen on validation for", "Probability from", "Alerts per 100 discharges",
              "Recall", "Precision", "Alerts to look at for one readmission"]  # fmt: skip
    rows = []
    for row in use.burden.to_dict("records"):
        cells = [
            row["point"],
            number(row["threshold"]),
            two_lines(row, "alerts_per_100", 1),
            two_lines(row, "recall"),
            two_lines(row, "precision"),
            two_lines(row, "per_find", 1),
        ]
        if discharges_per_day:
            cells.append(number(row["alerts_per_100"] * discharges_per_day / 100, 1))
        rows.append(cells)
    return {"labels": [*labels, "Alerts a day"] if discharges_per_day else labels, "rows": rows}


def group_rows(groups: pd.DataFrame) -> dict[str, Any]:
    """Subgroups with their measures and, below each, the difference from all other stays."""
    labels = ["Group", "Stays", "Readmitted", "Mean risk", *READINGS.values(), "Remark"]
    rows = []
    for row in groups.to_dict("records"):
        cells: list[Any] = [f"{row['column']}: {row['group']}", f"{row['n']:,}"]
        cells += [_share(row["prevalence"]), _share(row["mean_probability"])]
        for name in GROUP_MEASURES:
            difference = spelled(row, f"{name}_difference", sign=True)
            star = " *" if row[f"{name}_p_adjusted"] < 0.05 else ""
            small = "" if difference == "–" else f"difference {difference}{star}"
            own = two_lines(row, name)
            cells.append(own | {"more": small})
        rows.append([*cells, row["reason"]])
    if not any(row[-1] for row in rows):
        labels, rows = labels[:-1], [row[:-1] for row in rows]
    return {"labels": labels, "rows": rows}


def _share(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.1%}"


def period_rows(periods: pd.DataFrame) -> dict[str, Any]:
    """Quality by period of discharge."""
    labels = ["Discharged", "Stays", "Readmitted", "Mean risk", "Observed minus predicted", "AUROC",
              "Alerts per 100"]  # fmt: skip
    rows = [
        [
            row["period"],
            f"{row['n']:,}",
            _share(row["prevalence"]),
            _share(row["mean_probability"]),
            two_lines(row, "calibration", sign=True),
            two_lines(row, "auroc"),
            number(row["alerts_per_100"], 1),
        ]
        for row in periods.to_dict("records")
    ]
    return {"labels": labels, "rows": rows}


def drift_rows(inputs: pd.DataFrame) -> dict[str, Any]:
    """Drift of notes and risks since training and since validation."""
    labels = ["Quantity", "Compared with", "Median then", "Median now", "Stability index",
              "By chance up to", "Finding"]  # fmt: skip
    sides = {"train": "training", "val": "validation"}
    rows = [
        [
            QUANTITIES[row["quantity"]],
            f"{sides[row['side']]} ({row['n_then']:,} stays)",
            size(row["then"]),
            size(row["now"]),
            number(row["psi"]),
            number(row["chance"]),
            _FINDINGS[row["finding"]],
        ]
        for row in inputs.to_dict("records")
    ]
    return {"labels": labels, "rows": rows}
