"""Plots of terms: t-SNE layout, its trustworthiness, label placement, and the figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biomed.terms.similarity import TermEmbedder
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder, check_many
from domainbert.models.pooling import unit
from domainbert.statistics.figures import GREY, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation


PERPLEXITY = 30.0
NEIGHBOURS = 5
MIN_TERMS = 4  # t-SNE of fewer points is meaningless
# Positions of a label: right, left, above, below, then the corners.
_DIRECTIONS = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)],
    dtype=float,
)
# Six colours and five markers tell thirty categories apart.
_MARKERS = ("o", "s", "^", "D", "v")
INK = "#222222"
_WIDTH = 6.6  # inches
_LEGEND_COLUMNS = 4
# With more terms, each label is right next to its point.
_LEADER_LINE_TERMS = 60
_RINGS = 4  # distances that are tried for labels with leader lines
_LABEL_LENGTH = 40  # a longer label is cut


@dataclass(frozen=True)
class TermLayout:
    """Terms and their positions in a plot.

    Attributes:
        table: `term, category` (where categories were given), `x, y`.
        caption: the method, its perplexity, and the trustworthiness of the nearest neighbours in
            [0, 1], where 1 means that no neighbour is false (Venna and Kaski 2001).
    """

    table: pd.DataFrame = field(repr=False)
    caption: str


def plot_terms(
    terms: Sequence[str],
    categories: Sequence[str] | None = None,
    *,
    embedder: Embedder | None = None,
    **options: Any,
) -> Figure:
    """Draw medical terms by t-SNE: similar terms are close, and colours are categories.

    The caption gives the perplexity and how many of the neighbours in the plot are true ones.
    Labels never overlap; a label that does not fit is left out.

    Args:
        terms: at least four; thousands take minutes.
        categories: one for each term, for colours and legend.
        embedder: by default the shipped one.
        **options: `perplexity` and `seed`, see `layout_terms`.

    Raises:
        UserError: fewer than four terms, or one string.
    """
    check_many(terms)
    terms = list(terms)
    if embedder is None:
        embedder = TermEmbedder.from_pretrained()
    vectors = embedder.embed(terms)
    layout = layout_terms(terms, vectors, categories=categories, **options)
    return plot_layout(layout)


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
        terms: at least four.
        vectors: their vectors, shape (terms, dimension).
        categories: one for each term.
        perplexity: effective number of neighbours in t-SNE, above 0 and below the number of
            terms; by default 30, or a third of the terms if there are few.
        seed: the seed of t-SNE.

    Raises:
        UserError: fewer than four terms, identical vectors, a perplexity out of range, or a wrong
            number of categories.
    """
    from sklearn.manifold import TSNE, trustworthiness

    n_terms = len(terms)
    perplexity = _checked_perplexity(vectors, categories, perplexity)
    points = unit(np.asarray(vectors, dtype=np.float32))
    tsne = TSNE(perplexity=perplexity, random_state=seed)
    positions = tsne.fit_transform(points)
    # scikit-learn defines the measure for fewer neighbours than half of the points.
    neighbours = min(NEIGHBOURS, (n_terms - 1) // 2)
    trust = trustworthiness(points, positions, n_neighbors=neighbours)
    table = pd.DataFrame({"term": list(terms)})
    if categories is not None:
        table["category"] = list(categories)
    table["x"] = positions[:, 0]
    table["y"] = positions[:, 1]
    caption = (
        f"t-SNE, perplexity {perplexity:.3g} of {n_terms:,} terms; "
        f"trustworthiness of neighbours: {trust:.2f} (1 is best)."
    )
    return TermLayout(table, caption)


def _checked_perplexity(
    vectors: np.ndarray,
    categories: Sequence[str] | None,
    perplexity: float | None,
) -> float:
    """The perplexity to use, after the arguments of `layout_terms` have been checked."""
    n_terms = len(vectors)
    if n_terms < MIN_TERMS:
        raise UserError(
            f"a picture needs at least {MIN_TERMS} terms, got {n_terms}"
        )
    if categories is not None and len(categories) != n_terms:
        raise UserError(
            f"{n_terms} terms but {len(categories)} categories; give one for each term"
        )
    if not np.ptp(vectors, axis=0).any():
        raise UserError(
            f"these {n_terms} terms all have the same vector; there is nothing to place"
        )
    if perplexity is None:
        perplexity = min(PERPLEXITY, (n_terms - 1) / 3)
    if not 0 < perplexity < n_terms:
        raise UserError(
            f"perplexity must be above 0 and below the number of terms ({n_terms}); "
            f"got {perplexity:g}"
        )
    return perplexity


def place_labels(
    points: np.ndarray,
    sizes: np.ndarray,
    *,
    page: np.ndarray,
    gap: float,
    rings: int,
) -> np.ndarray:
    """Choose a position next to each point for its label, or none.

    Positions are tried from the nearest to the farthest, and the first free one is taken: the label
    covers no other point, overlaps no other label, and stays on the page. All lengths have the
    same unit, such as typographic points.

    Args:
        points: shape (n, 2), with the page's lower left corner at (0, 0).
        sizes: width and height of each label, shape (n, 2).
        page: its width and height, shape (2,).
        gap: between a point's centre and the nearest position of its label.
        rings: number of distances to try, one label height apart, from the nearest one on.

    Returns:
        Lower left corners, shape (n, 2); NaN where a label is left out.
    """
    corners = np.full((len(points), 2), np.nan)
    # Boxes (lower left, upper right) that are taken; a point is as wide as the gap.
    boxes = np.stack([points - gap / 2, points + gap / 2], axis=1)
    directions = np.tile(_DIRECTIONS, (rings, 1))
    steps = np.arange(rings).repeat(len(_DIRECTIONS))[:, None]
    for number, (point, size) in enumerate(zip(points, sizes, strict=True)):
        distances = gap + size[1] * steps
        low = point + distances * directions + (directions - 1) / 2 * size
        high = low + size
        starts_before = low[:, None] < boxes[:, 1]
        ends_after = high[:, None] > boxes[:, 0]
        overlaps = (starts_before & ends_after).all(axis=2).any(axis=1)
        is_on_page = ((low >= 0) & (high <= page)).all(axis=1)
        is_free = is_on_page & ~overlaps
        if is_free.any():
            best = is_free.argmax()
            corners[number] = low[best]
            boxes = np.vstack([boxes, [[low[best], high[best]]]])
    return corners


@drawing()
def plot_layout(layout: TermLayout) -> Figure:
    """Draw a layout of terms, with a legend of the categories."""
    from matplotlib.figure import Figure

    table = layout.table
    groups = [("", table)]
    legend_rows = 0
    if "category" in table:
        groups = [*table.groupby("category", sort=False, dropna=False)]
        legend_rows = math.ceil(len(groups) / _LEGEND_COLUMNS)
    width, height = np.ptp(table[["x", "y"]].to_numpy(), axis=0)
    aspect = float(np.clip(height / max(width, 1e-9), 0.6, 1.1))
    figure_height = _WIDTH * aspect + 0.4 + 0.2 * legend_rows
    figure = Figure(figsize=(_WIDTH, figure_height), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
    axes.spines[:].set(visible=True, color="#CCCCCC", linewidth=0.6)
    axes.set_xlabel(layout.caption, loc="left", size=7, color=GREY)
    # In typographic points.
    marker_size = float(np.clip(80 / len(table) ** 0.5, 2, 6))
    for (category, members), marker in zip(
        groups, cycle(_MARKERS), strict=False
    ):
        axes.scatter(
            members["x"],
            members["y"],
            s=marker_size**2,
            marker=marker,
            linewidths=0,
            zorder=2,
            label=category,
        )
    if legend_rows:
        figure.legend(
            loc="outside lower center",
            ncols=_LEGEND_COLUMNS,
            fontsize=8,
            frameon=False,
            markerscale=6 / marker_size,
        )
    # Labels need the final size of the axes, so the layout is computed and then kept.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    _draw_labels(
        axes, table, gap=marker_size / 2 + 2, to_points=72 / figure.dpi
    )
    return figure


def _draw_labels(
    axes: Axes,
    table: pd.DataFrame,
    *,
    gap: float,
    to_points: float,
) -> None:
    """Write the labels that fit, with a leader line where a label is off its point."""
    positions = table[["x", "y"]].to_numpy(dtype=float)
    points = (axes.transData.transform(positions) - axes.bbox.min) * to_points
    labels = _write_labels(axes, table["term"], positions)
    extents = np.array([label.get_window_extent().size for label in labels])
    # A little air: the width in print differs by up to two points from that on the screen.
    sizes = extents * to_points + (2, 0)
    page = np.multiply(axes.bbox.size, to_points)
    rings = _RINGS if len(table) <= _LEADER_LINE_TERMS else 1
    corners = place_labels(points, sizes, page=page, gap=gap, rings=rings)
    line = {
        "arrowstyle": "-",
        "color": GREY,
        "linewidth": 0.5,
        "shrinkA": 0,
        "shrinkB": 2,
    }
    for position, point, label, corner, size in zip(
        positions,
        points,
        labels,
        corners,
        sizes,
        strict=True,
    ):
        if np.isnan(corner).any():
            label.remove()
            continue
        label.set_position(corner + size / 2 - point)
        nearest_edge = np.clip(point, corner, corner + size) - point
        if np.abs(nearest_edge).max() > gap + 0.1:
            axes.annotate(
                "",
                position,
                nearest_edge,
                textcoords="offset points",
                arrowprops=line,
            )


def _write_labels(
    axes: Axes,
    terms: Iterable[str],
    positions: np.ndarray,
) -> list[Annotation]:
    """A label at the position of each term, with a white outline."""
    from matplotlib.patheffects import withStroke

    size = float(np.clip(11 - np.log2(len(positions)) / 2, 5.5, 9))
    outline = withStroke(linewidth=1.2, foreground="white")
    labels = []
    for term, position in zip(terms, positions.tolist(), strict=True):
        if len(term) > _LABEL_LENGTH:
            term = f"{term[: _LABEL_LENGTH - 1]}…"
        label = axes.annotate(
            term,
            position,
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            size=size,
            color=INK,
            zorder=3,
            path_effects=[outline],
        )
        labels.append(label)
    return labels
