"""The picture of a layout of terms: dots, labels, legend and caption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.terms.layout import TermLayout, place_labels
from domainbert.statistics.figures import COLOURS, GREY, drawing, new_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Six colours and five markers tell thirty categories apart.
_MARKERS = ("o", "s", "^", "D", "v")
INK = "#222222"
_POINTS = 72  # typographic points of an inch
_PANEL = 6.4  # inches of a picture's sides
_LEGEND_COLUMNS = 4
_FEW, _MANY = 60, 1000  # up to few terms labels may be off their points; above many, dots fade
_MOST_LABELS = 120  # of many terms
_LONG = 40  # a longer label is cut


@drawing
def plot_layout(layout: TermLayout) -> Figure:
    """Draw a layout of terms, with a legend of the categories."""
    table = layout.table
    names = list(dict.fromkeys(table["category"])) if "category" in table.columns else []
    across, up = np.ptp(table[["x", "y"]].to_numpy(), axis=0)
    tall = _PANEL * float(np.clip(up / max(across, 1e-9), 0.6, 1.1))
    below, wide = 0.3 + 0.19 * -(-len(names) // _LEGEND_COLUMNS), _PANEL + 0.2
    box = (0, below / (below + tall), _PANEL / wide, tall / (below + tall))
    figure, (axes,) = new_axes((wide, below + tall), box)
    looks = {
        name: {"c": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
        for i, name in enumerate(names)
    }
    _draw_layout(axes, layout, looks, page=(_PANEL * _POINTS, tall * _POINTS))
    if names:
        legend = figure.legend(
            *axes.get_legend_handles_labels(),
            loc="lower center",
            ncols=_LEGEND_COLUMNS,
            fontsize=8,
            frameon=False,
            handletextpad=0.2,
            columnspacing=1.2,
            markerscale=6 / _marker_side(len(table)),
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # "$" in a name is no formula
    return figure


def _draw_layout(
    axes: Axes, layout: TermLayout, looks: dict[str, dict[str, Any]], *, page: tuple[float, float]
) -> None:
    table = layout.table
    places = table[["x", "y"]].to_numpy(dtype=float)
    dots: dict[str, Any] = {"s": _marker_side(len(places)) ** 2, "linewidths": 0, "zorder": 2}
    dots["alpha"] = 0.9 if len(places) <= _MANY else 0.6
    for name, look in looks.items():
        own = (table["category"] == name).to_numpy()
        axes.scatter(places[own, 0], places[own, 1], label=name, **look, **dots)
    if not looks:
        axes.scatter(places[:, 0], places[:, 1], c=COLOURS[0], **dots)
    # One scale on both axes, the terms in the middle of the page.
    low, high = places.min(axis=0), places.max(axis=0)
    scale = 0.92 * float((page / np.maximum(high - low, 1e-9)).min())
    corner = (low + high) / 2 - np.array(page) / scale / 2
    far = corner + np.array(page) / scale
    axes.set(xlim=(corner[0], far[0]), ylim=(corner[1], far[1]), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color="#CCCCCC", linewidth=0.6)
    _draw_labels(axes, places, (places - corner) * scale, table["term"].tolist(), page=page)
    axes.annotate(
        layout.caption(),
        *((0, 0), (0, -5)),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        size=7,
        color=GREY,
        annotation_clip=False,
    )


def _marker_side(terms: int) -> float:
    """In points: the fewer the terms, the larger."""
    return float(np.clip(80 / terms**0.5, 2, 6))


def _draw_labels(
    axes: Axes,
    places: np.ndarray,
    points: np.ndarray,
    terms: list[str],
    *,
    page: tuple[float, float],
) -> None:
    """Write the labels that fit; with few terms a label may be off its point, with a line to it."""
    from matplotlib.patheffects import withStroke

    number = len(terms)
    size = float(np.clip(11 - np.log2(number) / 2, 5.5, 9))
    shown = [term if len(term) <= _LONG else f"{term[: _LONG - 1]}…" for term in terms]
    sizes = _text_sizes(shown, size)
    gap = _marker_side(number) / 2 + 2
    corners = place_labels(
        *(points, sizes),
        page=page,
        gap=gap,
        rings=4 if number <= _FEW else 1,
        crowding=0 if number <= _MANY else 4,
        most=number if number <= _MANY else _MOST_LABELS,
    )
    halo: list[Any] = [withStroke(linewidth=1.2, foreground="white")]
    line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    for i in np.flatnonzero(np.isfinite(corners).all(axis=1)).tolist():
        place, centre = tuple(places[i]), tuple(corners[i] + sizes[i] / 2 - points[i])
        text = axes.annotate(
            shown[i],
            *(place, centre),
            textcoords="offset points",
            ha="center",
            va="center_baseline",
            size=size,
            color=INK,
            zorder=3,
            parse_math=False,
        )
        text.set_path_effects(halo)
        edge = np.clip(points[i], corners[i], corners[i] + sizes[i]) - points[i]
        if np.abs(edge).max() > gap + 0.1:
            axes.annotate("", place, tuple(edge), textcoords="offset points", arrowprops=line)


def _text_sizes(texts: Sequence[str], size: float) -> np.ndarray:
    """Width and height of each text in points, a little air around it, shape (texts, 2)."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    measure, font = TextToPath(), FontProperties(size=size)
    widths = [measure.get_text_width_height_descent(text, font, ismath=False)[0] for text in texts]
    return np.array([(width + 1.5, 1.25 * size) for width in widths])
