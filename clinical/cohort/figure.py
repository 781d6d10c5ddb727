"""The flow as a figure, in the form that reporting guidelines ask for (STROBE, TRIPOD)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from clinical.cohort.flow import STEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches throughout: the axes span the page, one unit an inch, so that text fits its box.
_WIDTH = 7.2
_LINE = 0.175
_PADDING = 0.12
_GAP = 0.26
_MAIN = (0.1, 3.0)  # left edge and width of the boxes that lead down
_ASIDE = (3.45, 3.65)  # of the boxes of what was left out
_MIDDLE = _MAIN[0] + _MAIN[1] / 2
_SIDES = {"train": "Training", "val": "Validation", "test": "Test"}
_PEN: dict[str, Any] = {"color": "black", "linewidth": 0.9}


def plot_flow(summary: dict[str, Any]) -> Figure:
    """Draw a flow, as `Cohort.save_flow_json` writes it, with what was left out on the right.

    Reasons that removed nothing are not drawn; boxes that no reason separates are drawn as one.
    """
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    y = _box(axes, _MAIN, -0.05, [f"Admissions (n = {summary['steps'][0]['left']:,})"])
    levels = []
    titles = {step: title for title, step, _ in STEPS}
    for title, group in groupby(summary["steps"][1:], key=lambda row: titles[row["step"]]):
        rows = [row for row in group if row["removed"]]
        if rows:
            levels.append((f"{title} (n = {rows[-1]['left']:,})", rows))
    for number, (title, rows) in enumerate(levels or [("", [])], start=1):
        is_last = number >= len(levels)
        y = _step(axes, y, rows, _cohort_lines(summary) if is_last else [title])
    y = _draw_sides(axes, summary, y) - 0.1
    figure.set_size_inches(_WIDTH, -y)
    axes.set_xlim(0, _WIDTH)
    axes.set_ylim(y, 0)
    return figure


def _cohort_lines(summary: dict[str, Any]) -> list[str]:
    kept, days = summary["kept"], summary["definition"]["horizon_days"]
    is_early = summary["notes"] == "early"
    when = f"{summary['hours']:g} h after admission" if is_early else "at discharge"
    return [
        f"Cohort (n = {kept['stays']:,})",
        f"patients: {kept['patients']:,}",
        f"readmitted within {days:g} days: {_share(kept)}",
        f"prediction {when}",
    ]


def _step(axes: Axes, top: float, rows: list[dict[str, Any]], lines: list[str]) -> float:
    """An arrow down to the next box, with a branch to what was left out; the new bottom."""
    space = 2 * _GAP
    if rows:
        aside = [f"Left out (n = {sum(row['removed'] for row in rows):,})"]
        aside += [f"   {row['reason']} (n = {row['removed']:,})" for row in rows]
        space += _height(aside)
        branch = top - space / 2
        _arrow(axes, (_MIDDLE, branch), (_ASIDE[0], branch))
        _box(axes, _ASIDE, branch + _height(aside) / 2, aside)
    _arrow(axes, (_MIDDLE, top), (_MIDDLE, top - space))
    return _box(axes, _MAIN, top - space, lines)


def _draw_sides(axes: Axes, summary: dict[str, Any], top: float) -> float:
    """The sides of the split, side by side below the cohort; the new bottom."""
    sides = [(name, summary["splits"][name]) for name in _SIDES if name in summary["splits"]]
    if not sides:
        return top
    space = 0.2
    width = (_ASIDE[0] + _ASIDE[1] - _MAIN[0] - space * (len(sides) - 1)) / len(sides)
    rail = bottom = top - _GAP
    centres = [_MIDDLE]
    for number, (name, counts) in enumerate(sides):
        left = _MAIN[0] + number * (width + space)
        centres.append(left + width / 2)
        _arrow(axes, (centres[-1], rail), (centres[-1], rail - _GAP))
        bottom = _box(axes, (left, width), rail - _GAP, [
            f"{_SIDES[name]} (n = {counts['stays']:,})",
            f"patients: {counts['patients']:,}",
            f"readmitted: {_share(counts)}",
        ])  # fmt: skip
    axes.plot([_MIDDLE, _MIDDLE], [top, rail], **_PEN)
    axes.plot([min(centres), max(centres)], [rail, rail], **_PEN)
    return bottom


def _box(axes: Axes, place: tuple[float, float], top: float, lines: list[str]) -> float:
    """A box of text, its first line bold; returns its bottom."""
    from matplotlib.patches import Rectangle

    left, width = place
    bottom = top - _height(lines)
    axes.add_patch(Rectangle((left, bottom), width, top - bottom, facecolor="white",
                             edgecolor="black", linewidth=0.9))  # fmt: skip
    for number, line in enumerate(lines):
        axes.text(left + 0.1, top - _PADDING - (number + 0.5) * _LINE, line, fontsize=8.5,
                  va="center", fontweight="normal" if number else "bold")  # fmt: skip
    return bottom


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, **_PEN}
    axes.annotate("", xy=end, xytext=start, arrowprops=arrow)


def _height(lines: list[str]) -> float:
    return 2 * _PADDING + _LINE * len(lines)


def _share(counts: dict[str, int]) -> str:
    rate = f" ({counts['readmitted'] / counts['stays']:.1%})" if counts["stays"] else ""
    return f"{counts['readmitted']:,}{rate}"
