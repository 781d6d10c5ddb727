"""The flow as a figure, in the form that reporting guidelines ask for (STROBE, TRIPOD)."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
_FONT = 8.5
_SIDES = {"train": "Training", "val": "Validation", "test": "Test"}


@dataclass(frozen=True)
class _Level:
    """A box and, on the way to it, what was left out."""

    title: str
    left: int
    removed: tuple[tuple[str, int], ...]


def plot_flow(summary: dict[str, Any]) -> Figure:
    """Draw a flow from top to bottom, with what was left out on the right.

    Reasons that removed nothing are not drawn.

    Args:
        summary: what `Cohort.save_flow_json` writes.
    """
    from matplotlib.figure import Figure

    levels = _levels(summary)
    cohort = _cohort_lines(summary)
    asides = [_aside_lines(level) for level in levels]
    down = [_GAP * 2 + (_height(lines) if lines else 0) for lines in asides]
    total = (
        _height([""]) + sum(down) + _height([""]) * (len(levels) - 1)
        + _height(cohort) + _GAP * 2 + _height(["", "", ""]) + 0.1
    )  # fmt: skip
    figure = Figure(figsize=(_WIDTH, total))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, _WIDTH)
    axes.set_ylim(-total, 0)
    axes.axis("off")
    y = _box(axes, _MAIN, -0.05, [f"Admissions (n = {_n(summary['steps'][0]['left'])})"])
    for level, aside, space in zip(levels, asides, down, strict=True):
        lines = cohort if level is levels[-1] else [f"{level.title} (n = {_n(level.left)})"]
        y = _step(axes, y, space, aside, lines)
    _draw_sides(axes, summary, y)
    return figure


def _levels(summary: dict[str, Any]) -> list[_Level]:
    """The boxes below the first; boxes that no reason separates are drawn as the lower one."""
    titles = {step: title for title, step, _ in STEPS}
    levels: list[_Level] = []
    for row in summary["steps"][1:]:
        title = titles[row["step"]]
        if not levels or levels[-1].title != title:
            levels.append(_Level(title, row["left"], ()))
        removed = levels[-1].removed
        if row["removed"]:
            removed = (*removed, (row["reason"], row["removed"]))
        levels[-1] = _Level(title, row["left"], removed)
    drawn = [level for level in levels if level.removed]
    last = levels[-1]
    return drawn if last.removed else [*drawn[:-1], replace(last, removed=_removed(drawn[-1:]))]


def _removed(levels: list[_Level]) -> tuple[tuple[str, int], ...]:
    return levels[0].removed if levels else ()


def _aside_lines(level: _Level) -> list[str]:
    if not level.removed:
        return []
    total = sum(count for _, count in level.removed)
    reasons = [f"   {reason} (n = {_n(count)})" for reason, count in level.removed]
    return [f"Left out (n = {_n(total)})", *reasons]


def _cohort_lines(summary: dict[str, Any]) -> list[str]:
    kept, days = summary["kept"], summary["definition"]["horizon_days"]
    when = (
        "at discharge"
        if summary["notes"] == "discharge"
        else f"{summary['hours']:g} h after admission"
    )
    return [
        f"Cohort (n = {_n(kept['stays'])})",
        f"patients: {_n(kept['patients'])}",
        f"readmitted within {days:g} days: {_share(kept)}",
        f"prediction {when}",
    ]


def _draw_sides(axes: Axes, summary: dict[str, Any], top: float) -> None:
    """The sides of the split, side by side below the cohort."""
    sides = [(name, summary["splits"][name]) for name in _SIDES if name in summary["splits"]]
    if not sides:
        return
    space = 0.2
    width = (_ASIDE[0] + _ASIDE[1] - _MAIN[0] - space * (len(sides) - 1)) / len(sides)
    middle = _MAIN[0] + _MAIN[1] / 2
    rail = top - _GAP
    centres = []
    for number, (name, counts) in enumerate(sides):
        left = _MAIN[0] + number * (width + space)
        centres.append(left + width / 2)
        _arrow(axes, (centres[-1], rail), (centres[-1], rail - _GAP))
        _box(axes, (left, width), rail - _GAP, [
            f"{_SIDES[name]} (n = {_n(counts['stays'])})",
            f"patients: {_n(counts['patients'])}",
            f"readmitted: {_share(counts)}",
        ])  # fmt: skip
    axes.plot([middle, middle], [top, rail], color="black", linewidth=0.9)
    axes.plot([min(*centres, middle), max(*centres, middle)], [rail, rail],
              color="black", linewidth=0.9)  # fmt: skip


def _step(axes: Axes, top: float, space: float, aside: list[str], lines: list[str]) -> float:
    """An arrow down to the next box, with a branch to what was left out; the new bottom."""
    middle = _MAIN[0] + _MAIN[1] / 2
    if aside:
        branch = top - space / 2
        _arrow(axes, (middle, branch), (_ASIDE[0], branch))
        _box(axes, _ASIDE, branch + _height(aside) / 2, aside)
    _arrow(axes, (middle, top), (middle, top - space))
    return _box(axes, _MAIN, top - space, lines)


def _box(axes: Axes, place: tuple[float, float], top: float, lines: list[str]) -> float:
    """A box of text, its first line bold; returns its bottom."""
    from matplotlib.patches import Rectangle

    left, width = place
    height = _height(lines)
    axes.add_patch(Rectangle((left, top - height), width, height, facecolor="white",
                             edgecolor="black", linewidth=0.9))  # fmt: skip
    for number, line in enumerate(lines):
        axes.text(left + 0.1, top - _PADDING - (number + 0.5) * _LINE, line, fontsize=_FONT,
                  va="center", fontweight="bold" if number == 0 else "normal")  # fmt: skip
    return top - height


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", xy=end, xytext=start, arrowprops={
        "arrowstyle": "-|>", "color": "black", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0,
    })  # fmt: skip


def _height(lines: list[str]) -> float:
    return 2 * _PADDING + _LINE * len(lines)


def _share(counts: dict[str, int]) -> str:
    rate = f" ({100 * counts['readmitted'] / counts['stays']:.1f}%)" if counts["stays"] else ""
    return f"{_n(counts['readmitted'])}{rate}"


def _n(count: int) -> str:
    return f"{count:,}"
