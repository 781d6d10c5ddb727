"""Pictures of terms: where terms and labels stand, how faithful that is, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.statistics.figures import COLOURS, GREY, drawing, new_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PERPLEXITY, NEIGHBOURS = 30.0, 5
LEAST_TERMS = 4  # t-SNE of fewer says nothing
# Positions of a label: right, left, above, below, then the corners.
_DIRECTIONS = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)], dtype=float
)
# Six colours and five markers tell thirty categories apart.
_MARKERS = ("o", "s", "^", "D", "v")
INK = "#222222"
_POINTS = 72  # typographic points of an inch
_PANEL = 6.4  # inches of a picture's sides
_LEGEND_COLUMNS = 4
_FEW = 60  # up to so many terms, labels may be off their points
_LONG = 40  # a longer label is cut


@dataclass(frozen=True)
class TermLayout:
    """Terms in a picture.

    Attributes:
        table: `term, category` (where categories were given), `x, y`.
        perplexity: of t-SNE.
        trustworthiness: of the nearest neighbours, in [0, 1]; 1 means that none is false
            (Venna and Kaski 2001, by scikit-learn).
    """

    table: pd.DataFrame = field(repr=False)
    perplexity: float
    trustworthiness: float

    def caption(self) -> str:
        """Method and trustworthiness of the picture."""
        how = f"t-SNE, perplexity {self.perplexity:.3g} of {len(self.table):,} terms"
        return f"{how}; trustworthiness of neighbours: {self.trustworthiness:.2f} (1 is best)."


def layout_terms(
    terms: Sequence[str],
    vectors: np.ndarray,
    *,
    categories: Sequence[str] | None = None,
    perplexity: float | None = None,
    seed: int = 0,
) -> TermLayout:
    """Place terms in two dimensions so that terms with a high cosine are close.

    Args:
        terms: four or more.
        vectors: theirs, shape (terms, dimension).
        categories: one for each term.
        perplexity: effective number of neighbours in t-SNE, above 0 and below the number of
            terms; by default 30, or a third of the terms if there are few.
        seed: of t-SNE.

    Raises:
        UserError: fewer than four terms, identical vectors, a wrong number of categories, or a
            perplexity out of range.
    """
    import pandas as pd
    from sklearn.manifold import TSNE, trustworthiness

    number = len(terms)
    if number < LEAST_TERMS:
        raise UserError(f"a picture needs at least {LEAST_TERMS} terms, got {number}")
    if categories is not None and len(categories) != number:
        raise UserError(f"{number} terms but {len(categories)} categories; give one for each term")
    if not np.ptp(vectors, axis=0).any():
        raise UserError(f"these {number} terms all have the same vector; there is nothing to place")
    perplexity = min(PERPLEXITY, (number - 1) / 3) if perplexity is None else perplexity
    if not 0 < perplexity < number:
        msg = f"perplexity must be above 0 and below {number}, the terms; got {perplexity:g}"
        raise UserError(msg)
    points = unit(np.asarray(vectors, dtype=np.float32))
    places = TSNE(perplexity=perplexity, random_state=seed).fit_transform(points)
    k = min(NEIGHBOURS, (number - 1) // 2)
    trust = float(trustworthiness(points, places, n_neighbors=k))
    table = pd.DataFrame({"term": list(terms)})
    if categories is not None:
        table["category"] = list(categories)
    table[["x", "y"]] = places
    return TermLayout(table, perplexity, trust)


def place_labels(
    points: np.ndarray, sizes: np.ndarray, *, page: tuple[float, float], gap: float, rings: int
) -> np.ndarray:
    """Choose a place beside each point for its label, or none.

    A label takes the first position, the nearest first, where it covers no other point. No two
    labels overlap, and no label leaves the page. All lengths have the same unit, such as
    typographic points.

    Args:
        points: shape (n, 2), with the page's lower left corner at (0, 0).
        sizes: width and height of each label, shape (n, 2).
        page: its width and height.
        gap: between a point's centre and a label beside it.
        rings: distances to try, in steps of the label's height; 1 is directly beside the point.

    Returns:
        Lower left corners, shape (n, 2); NaN where a label is left out.
    """
    corners = np.full((len(points), 2), np.nan)
    taken = np.hstack([points - gap / 2, points + gap / 2])  # a point is as wide as the gap
    ways = np.tile(_DIRECTIONS, (rings, 1))
    for i, (point, size) in enumerate(zip(points, sizes, strict=True)):
        far = gap + size[1] * np.arange(rings).repeat(len(_DIRECTIONS))[:, None]
        low = point + far * ways + (ways - 1) / 2 * size
        boxes = np.hstack([low, low + size])
        free = (low >= 0).all(axis=1) & (boxes[:, 2:] <= page).all(axis=1)
        free &= ~_overlaps(boxes, taken).any(axis=1)
        if free.any():
            corners[i] = low[free.argmax()]
            taken = np.vstack([taken, boxes[free.argmax()]])
    return corners


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether boxes (left, bottom, right, top) share any area, shape (boxes, others)."""
    a, b = boxes[:, None], others[None]
    apart = (a[..., :2] >= b[..., 2:]) | (b[..., :2] >= a[..., 2:])
    return np.logical_not(apart.any(axis=2))


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
    rings = 4 if number <= _FEW else 1
    corners = place_labels(points, sizes, page=page, gap=gap, rings=rings)
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
