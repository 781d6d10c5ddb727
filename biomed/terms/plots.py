"""Pictures of terms: where terms and labels stand, how faithful that is, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.terms.similarity import TermEmbedder
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.statistics.figures import COLOURS, GREY, drawing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from domainbert.models.embedder import Embedder

PERPLEXITY, NEIGHBOURS = 30.0, 5
LEAST_TERMS = 4  # t-SNE of fewer says nothing
# Positions of a label: right, left, above, below, then the corners.
_DIRECTIONS = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)], dtype=float
)
# Six colours and five markers tell thirty categories apart.
_MARKERS = ("o", "s", "^", "D", "v")
INK = "#222222"
_WIDTH = 6.6  # inches
_LEGEND_COLUMNS = 4
_FEW = 60  # up to so many terms, labels may be off their points
_LONG = 40  # a longer label is cut


@dataclass(frozen=True)
class TermLayout:
    """Terms in a picture.

    Attributes:
        table: `term, category` (where categories were given), `x, y`.
        caption: the method, its perplexity, and the trustworthiness of the nearest neighbours, in
            [0, 1]; 1 means that none is false (Venna and Kaski 2001, by scikit-learn).
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

    The caption gives the perplexity and the share of true neighbourhoods that the picture keeps.
    Labels never overlap; a label without room is left out.

    Args:
        terms: four or more (thousands take minutes).
        categories: one for each term, for colours and legend.
        embedder: by default the shipped one.
        **options: perplexity and seed, see `layout_terms`.

    Raises:
        UserError: fewer than four terms.
    """
    terms = list(terms)
    vectors = (embedder or TermEmbedder.from_pretrained()).embed(terms)
    return plot_layout(layout_terms(terms, vectors, categories=categories, **options))


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
        UserError: fewer than four terms, identical vectors, a perplexity out of range, or a wrong
            number of categories.
    """
    import pandas as pd
    from sklearn.manifold import TSNE, trustworthiness

    number = len(terms)
    if number < LEAST_TERMS:
        raise UserError(f"a picture needs at least {LEAST_TERMS} terms, got {number}")
    if categories is not None and len(categories) != number:
        msg = f"{number} terms but {len(categories)} categories; give one for each term"
        raise UserError(msg)
    if not np.ptp(vectors, axis=0).any():
        raise UserError(
            f"these {number} terms all have the same vector; there is nothing to place"
        )
    perplexity = min(PERPLEXITY, (number - 1) / 3) if perplexity is None else perplexity
    if not 0 < perplexity < number:
        msg = f"perplexity must be above 0 and below {number}, the terms; got {perplexity:g}"
        raise UserError(msg)
    points = unit(np.asarray(vectors, dtype=np.float32))
    places = TSNE(perplexity=perplexity, random_state=seed).fit_transform(points)
    trust = trustworthiness(
        points, places, n_neighbors=min(NEIGHBOURS, (number - 1) // 2)
    )
    columns = {
        "term": terms,
        "category": categories,
        "x": places[:, 0],
        "y": places[:, 1],
    }
    table = pd.DataFrame({k: list(v) for k, v in columns.items() if v is not None})
    how = f"t-SNE, perplexity {perplexity:.3g} of {number:,} terms"
    return TermLayout(
        table, f"{how}; trustworthiness of neighbours: {trust:.2f} (1 is best)."
    )


def place_labels(
    points: np.ndarray, sizes: np.ndarray, *, page: np.ndarray, gap: float, rings: int
) -> np.ndarray:
    """Choose a place beside each point for its label, or none.

    A label takes the first position, the nearest first, where it covers no other point. No two
    labels overlap, and no label leaves the page. All lengths have the same unit, such as
    typographic points.

    Args:
        points: shape (n, 2), with the page's lower left corner at (0, 0).
        sizes: width and height of each label, shape (n, 2).
        page: its width and height, shape (2,).
        gap: between a point's centre and a label beside it.
        rings: distances to try, in steps of the label's height; 1 is directly beside the point.

    Returns:
        Lower left corners, shape (n, 2); NaN where a label is left out.
    """
    corners = np.full((len(points), 2), np.nan)
    # Lower left and upper right corners; a point is as wide as the gap.
    taken = np.stack([points - gap / 2, points + gap / 2], axis=1)
    ways = np.tile(_DIRECTIONS, (rings, 1))
    for i, (point, size) in enumerate(zip(points, sizes, strict=True)):
        far = gap + size[1] * np.arange(rings).repeat(len(_DIRECTIONS))[:, None]
        low = point + far * ways + (ways - 1) / 2 * size
        high = low + size
        overlaps = ((low[:, None] < taken[:, 1]) & (high[:, None] > taken[:, 0])).all(
            axis=2
        )
        free = ((low >= 0) & (high <= page)).all(axis=1) & ~overlaps.any(axis=1)
        if free.any():
            best = free.argmax()
            corners[i] = low[best]
            taken = np.vstack([taken, [[low[best], high[best]]]])
    return corners


@drawing()
def plot_layout(layout: TermLayout) -> Figure:
    """Draw a layout of terms, with a legend of the categories."""
    from matplotlib.figure import Figure

    table = layout.table
    groups = (
        [*table.groupby("category", sort=False, dropna=False)]
        if "category" in table
        else []
    )
    across, up = np.ptp(table[["x", "y"]].to_numpy(), axis=0)
    height = _WIDTH * float(np.clip(up / max(across, 1e-9), 0.6, 1.1))
    legend = 0.4 + 0.2 * -(-len(groups) // _LEGEND_COLUMNS)
    figure = Figure(figsize=(_WIDTH, height + legend), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.set_adjustable("datalim")
    axes.spines[:].set(visible=True, color="#CCCCCC", linewidth=0.6)
    axes.set_xlabel(layout.caption, loc="left", size=7, color=GREY)
    side = float(
        np.clip(80 / len(table) ** 0.5, 2, 6)
    )  # in points: the fewer, the larger
    for number, (name, part) in enumerate(groups or [("", table)]):
        axes.scatter(
            part["x"],
            part["y"],
            s=side**2,
            c=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            linewidths=0,
            zorder=2,
            label=name,
        )
    if groups:
        place, columns = "outside lower center", _LEGEND_COLUMNS
        figure.legend(
            loc=place, ncols=columns, fontsize=8, frameon=False, markerscale=6 / side
        )
    figure.draw_without_rendering()  # from here on the axes have their place
    figure.set_layout_engine("none")
    _draw_labels(axes, table, gap=side / 2 + 2, to_points=72 / figure.dpi)
    return figure


def _draw_labels(
    axes: Axes, table: pd.DataFrame, *, gap: float, to_points: float
) -> None:
    """Write the labels that fit; with few terms a label may be off its point, with a line to it."""
    from matplotlib.patheffects import withStroke

    number = len(table)
    places = table[["x", "y"]].to_numpy(dtype=float)
    points = (axes.transData.transform(places) - axes.bbox.min) * to_points
    texts = [
        axes.annotate(
            term if len(term) <= _LONG else f"{term[: _LONG - 1]}…",
            *(place, (0, 0)),
            textcoords="offset points",
            ha="center",
            va="center",
            size=float(np.clip(11 - np.log2(number) / 2, 5.5, 9)),
            color=INK,
            zorder=3,
            path_effects=[withStroke(linewidth=1.2, foreground="white")],
        )
        for term, place in zip(table["term"], places.tolist(), strict=True)
    ]
    # A little air: the width in print differs by up to two points from that on the screen.
    sizes = np.array([text.get_window_extent().size for text in texts]) * to_points + (
        2,
        0,
    )
    page, rings = np.multiply(axes.bbox.size, to_points), 4 if number <= _FEW else 1
    corners = place_labels(points, sizes, page=page, gap=gap, rings=rings)
    line = {
        "arrowstyle": "-",
        "color": GREY,
        "linewidth": 0.5,
        "shrinkA": 0,
        "shrinkB": 2,
    }
    for i, text in enumerate(texts):
        if np.isnan(corners[i]).any():
            text.remove()
            continue
        text.set_position(corners[i] + sizes[i] / 2 - points[i])
        edge = np.clip(points[i], corners[i], corners[i] + sizes[i]) - points[i]
        if np.abs(edge).max() > gap + 0.1:
            axes.annotate(
                "", places[i], edge, textcoords="offset points", arrowprops=line
            )
