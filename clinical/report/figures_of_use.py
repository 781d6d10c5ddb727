"""Figures of use: net benefit, subgroups and months."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.decision import ALL, NONE
from clinical.evaluation.groups import READINGS
from domainbert.statistics.figures import COLOURS, DASHES, GREY, new_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_decision_curve(curve: pd.DataFrame, *, points: Sequence[float] = ()) -> Figure:
    """Net benefit against the threshold probability; see `decision.decision_curve`.

    `points` are alert thresholds to mark. The axis ends a little after the last threshold at which
    any curve is above 0.
    """
    figure, (axes,) = new_axes((6.4, 4.4))
    names = [name for name in curve.columns if name not in ("threshold", ALL, NONE)]
    useful = curve.loc[(curve[[*names, ALL]] > 0).any(axis=1), "threshold"]
    right = min(0.99, max([*useful.tail(1), *points, 0.1]) + 0.05)
    shown = curve[curve["threshold"] <= right]
    axes.plot(shown["threshold"], shown[ALL], color=GREY, linewidth=1.3, label=ALL)
    axes.axhline(0, color="#222222", linewidth=1.3, linestyle=(0, (5, 3)), label=NONE)
    for number, name in enumerate(names):
        look: dict[str, Any] = {"color": COLOURS[number], "linestyle": DASHES[number]}
        width = 1.4 if number else 2.2
        axes.plot(shown["threshold"], shown[name], label=name, linewidth=width, **look)
    for point in points:
        axes.axvline(point, color=COLOURS[4], linewidth=1, linestyle=(0, (1, 2)))
    top = float(max(shown[[*names, ALL]].max()))
    axes.set(xlim=(0, right), ylim=(-0.25 * top, 1.08 * top))
    axes.set(xlabel="Threshold probability", ylabel="Net benefit per stay")
    axes.legend(fontsize=9, framealpha=1, edgecolor="none")
    return figure


def plot_groups(groups: pd.DataFrame) -> Figure:
    """Differences of each subgroup from all other stays, one panel a measure; see `by_group`."""
    rows = groups[groups["reason"] == ""].iloc[::-1]
    height = 1.1 + 0.28 * max(len(rows), 1)
    boxes = [(0.2 + 0.2 * n, 0.75 / height, 0.17, 1 - 1.1 / height) for n in range(4)]
    figure, panels = new_axes((9.6, height), *boxes)
    places = np.arange(len(rows))
    for number, (axes, (name, reading)) in enumerate(zip(panels, READINGS.items(), strict=True)):
        axes.axvline(0, color=GREY, linewidth=0.8)
        for place, row in zip(places, rows.to_dict("records"), strict=True):
            sure = row[f"{name}_p_adjusted"] < 0.05
            colour = COLOURS[1] if sure else COLOURS[0]
            axes.plot(row[f"{name}_difference"], place, "s" if sure else "o", color=colour)
            ends = [row[f"{name}_difference_low"], row[f"{name}_difference_high"]]
            axes.plot(ends, [place, place], color=colour, linewidth=1.4)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_yticks(places, [] if number else list(rows["column"] + ": " + rows["group"]))
        axes.set_title(reading, fontsize=10)
        axes.margins(x=0.15)
    figure.supxlabel("Difference from all other stays, with its 95% interval", fontsize=10, x=0.58)
    return figure


def plot_periods(periods: pd.DataFrame) -> Figure:
    """AUROC, and observed with mean predicted risk, by period of discharge; see `by_period`."""
    places = np.arange(len(periods))
    figure, (upper, lower) = new_axes((7.2, 5.6), (0.1, 0.6, 0.87, 0.36), (0.1, 0.2, 0.87, 0.36))
    _whiskers(upper, places, periods, "auroc", COLOURS[0])
    upper.axhline(0.5, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    upper.set(ylabel="AUROC", ylim=(min(0.4, upper.get_ylim()[0]), 1.0))
    observed, off = periods["prevalence"], periods["calibration"]
    error = np.stack([off - periods["calibration_low"], periods["calibration_high"] - off])
    lower.errorbar(
        places, observed, np.nan_to_num(np.clip(error, 0, None)), fmt="o", color=COLOURS[1],
        label="observed, with the interval of its distance from predicted",
    )  # fmt: skip
    lower.plot(places, periods["mean_probability"], "s--", color=COLOURS[0], label="mean predicted")
    lower.set_ylim(bottom=0)
    lower.set_ylabel("Risk")
    lower.legend(fontsize=9, framealpha=1, edgecolor="none")
    upper.set_xticks(places, [])
    lower.set_xticks(places, periods["period"], rotation=30 if len(places) > 3 else 0, ha="right")
    for axes in (upper, lower):
        axes.set_xlim(-0.5, len(places) - 0.5)
    return figure


def _whiskers(axes: Axes, places: Any, table: pd.DataFrame, name: str, colour: str) -> None:
    error = np.stack([table[name] - table[f"{name}_low"], table[f"{name}_high"] - table[name]])
    axes.errorbar(
        places, table[name], np.nan_to_num(np.clip(error, 0, None)), fmt="o", color=colour
    )
