"""The summary a committee votes on: key numbers, what speaks for and against, what is not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from clinical.evaluation.report.tables import interval_range, number, spelled
from clinical.evaluation.subgroups import disparities
from clinical.evaluation.use import OWN

if TYPE_CHECKING:
    from clinical.evaluation.comparison import Comparison
    from clinical.evaluation.report.documents import Item


@dataclass(frozen=True)
class Summary:
    """Cards (label, value, remark), and sentences for, against and on what is not known."""

    cards: list[tuple[str, str, str]]
    speaks_for: list[str]
    against: list[str]
    unknown: list[str]


def summarise(
    comparison: Comparison,
    *,
    attributes: list[Item],
    checklist: list[Item],
    open_count: int,
    limits: str | None = None,
) -> Summary:
    """The summary of an evaluation; the items and the open questions are only counted."""
    found = next(iter(comparison.evaluations.values()))
    use, groups = comparison.use, disparities(comparison.groups)
    cards = [
        ("Ranking: AUROC", number(found.auroc.value), interval_range(found.auroc)),
        (
            "Calibration slope (1 is right)",
            number(found.calibration_slope.value),
            interval_range(found.calibration_slope),
        ),
    ]
    speaks_for, against = _ranking(comparison), [*comparison.verdicts]
    slope = found.calibration_slope
    if slope.low is not None and slope.high is not None and slope.low <= 1 <= slope.high:
        speaks_for.append(f"The calibration slope is not found to differ from 1 ({slope}).")
    if use is not None and use.working is not None:
        name = OWN if OWN in use.points else "10 alerts per 100"
        row = use.burden[use.burden["point"] == name].to_dict("records")[0]
        cards += [
            (f"Alerts per 100 discharges ({name})", number(row["alerts_per_100"], 1), ""),
            ("Of these right (precision)", number(row["precision"]), _ends(row, "precision")),
            ("Readmissions found (recall)", number(row["recall"]), _ends(row, "recall")),
        ]
        gains, losses = _benefit(use.benefit)
        speaks_for += gains
        against += losses
    (against if len(groups) > 1 else speaks_for).extend(groups[1:] or groups)
    if use is not None and use.findings:
        changed = "1 quantity" if len(use.findings) == 1 else f"{len(use.findings)} quantities"
        against.append(f"{changed} of notes or risks changed since training; see Over time.")
    against += [*comparison.caveats, *([limits] if limits else [])]
    unknown = [_count("the 31 source attributes", attributes), _count("TRIPOD+AI", checklist)]
    if open_count:
        unknown.append(
            f"{open_count} questions to the hospital are open; they are listed at the end."
        )
    return Summary(cards, speaks_for, against, [line for line in unknown if line])


def _ends(row: dict[str, float], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "" if pd.isna(low) else f"{number(low)} to {number(high)}"


def _ranking(comparison: Comparison) -> list[str]:
    (_, own), *others = comparison.evaluations.items()
    area = own.auroc
    if area.value is None or area.low is None or area.low <= 0.5:
        return []
    said = [f"It ranks better than chance (AUROC {area})."]
    for name, other in others:
        if other.auroc.value is not None and area.low > other.auroc.value:
            said.append(f"It ranks better than {name} (AUROC {other.auroc.value:.3f}).")
    return said


def _benefit(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Where the net benefit clearly exceeds, or falls below, that of alerting all or none."""
    better = table[table["gain_low"] > 0]
    worse = table[table["gain_high"] < 0]
    gains = losses = []
    if len(better):
        row = better.loc[better["gain"].idxmax()].to_dict()
        listed = ", ".join(f"{level:.0%}" for level in better["threshold"])
        gains = [
            (
                f"Its net benefit exceeds alerting everybody and nobody at thresholds of {listed}; "
                f"most at {row['threshold']:.0%}: {spelled(row, 'gain', sign=True)} per stay."
            )
        ]
    if len(worse):
        listed = ", ".join(f"{level:.0%}" for level in worse["threshold"])
        losses = [f"At thresholds of {listed}, alerting everybody or nobody is better."]
    if not len(better):
        losses = [*losses, "No threshold is shown to be better than alerting everybody or nobody."]
    return gains, losses


def _count(name: str, items: list[Item]) -> str:
    waiting = sum(item.status != "answered" for item in items)
    if not waiting:
        return ""
    part = sum(item.status == "in part" for item in items)
    return f"Of {name}, {waiting - part} are open and {part} answered in part."
