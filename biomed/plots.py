"""Figures of terms, for a paper or a notebook: each call makes one and returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.figures import COLOURS, GREY, STYLE, new_axes
from domainbert.labels import place_labels
from domainbert.layout import TermLayout, layout_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from biomed.terms.embedder import TermEmbedder

# Six colours and five markers tell thirty categories apart.
_MARKERS = ("o", "s", "^", "D", "v")
_INK = "#222222"
_POINTS = 72  # typographic points of an inch
_PANEL = 6.4  # inches of a picture's sides
_LEGEND_COLUMNS = 4
_FEW, _MANY = 60, 1000  # up to few terms labels may be off their points; above many, dots fade
_MOST_LABELS = 120  # of many terms
_LONG = 40  # a longer label is cut
_CELLS = 15  # a larger heat map has no numbers


def plot_terms(
    terms: Sequence[str], categories: Sequence[str] | None = None, **options: Any
) -> Figure:
    """Draw medical terms by t-SNE: similar terms are close, and colours are categories.

    The caption gives the perplexity and the share of true neighbourhoods that the picture keeps.
    Labels never overlap; a label without room is left out. See `term_layouts` for the arguments.
    """
    return plot_layouts(term_layouts(terms, categories, **options))


def term_layouts(
    terms: Sequence[str],
    categories: Sequence[str] | None = None,
    *,
    embedder: TermEmbedder | None = None,
    pca: bool = False,
    perplexity: float | None = None,
    seed: int = 0,
) -> list[TermLayout]:
    """The coordinates behind `plot_terms`: the t-SNE layout, and PCA's if asked for.

    Args:
        terms: two or more (thousands take minutes).
        categories: one for each term, for colours and legend.
        embedder: by default the shipped one.
        pca: add a picture by principal component analysis.
        perplexity: see `domainbert.layout.layout_terms`.
        seed: another seed is another picture.

    Raises:
        ValueError: fewer than two terms, or another number of categories.
    """
    from biomed.terms.embedder import TermEmbedder

    terms = list(terms)
    if len(terms) < 2:
        msg = f"a picture needs at least two terms, got {len(terms)}"
        raise UserError(msg)
    vectors = (embedder or TermEmbedder.from_pretrained()).embed(terms)
    found = [layout_terms(terms, vectors, categories=categories, perplexity=perplexity, seed=seed)]
    if pca and found[0].method != "pca":
        found.append(layout_terms(terms, vectors, categories=categories, method="pca"))
    return found


def plot_layouts(layouts: Sequence[TermLayout]) -> Figure:
    """Draw layouts of the same terms side by side, with one legend.

    Raises:
        ValueError: no layout.
    """
    if not layouts:
        raise UserError("no layout to draw; make one with biomed.plots.term_layouts")
    table = layouts[0].table
    names = list(dict.fromkeys(table["category"])) if "category" in table.columns else []
    spans = [np.ptp(layout.table[["x", "y"]].to_numpy(), axis=0) for layout in layouts]
    tall = _PANEL * float(np.clip(max(y / max(x, 1e-9) for x, y in spans), 0.6, 1.1))
    rows = -(-len(names) // _LEGEND_COLUMNS)
    below, wide = 0.3 + 0.19 * rows, len(layouts) * (_PANEL + 0.2)
    boxes = [
        (i / len(layouts), below / (below + tall), _PANEL / wide, tall / (below + tall))
        for i in range(len(layouts))
    ]
    figure, panels = new_axes((wide, below + tall), *boxes)
    looks = {name: _look(i) for i, name in enumerate(names)}
    for axes, layout in zip(panels, layouts, strict=True):
        _draw_layout(axes, layout, looks, page=(_PANEL * _POINTS, tall * _POINTS))
    if names:
        figure.legend(
            *panels[0].get_legend_handles_labels(),
            loc="lower center",
            ncols=_LEGEND_COLUMNS,
            fontsize=8,
            frameon=False,
            handletextpad=0.2,
            columnspacing=1.2,
            markerscale=6 / _marker_side(len(table)),
        )
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
            color=_INK,
            zorder=3,
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


def _look(number: int) -> dict[str, Any]:
    return {
        "c": COLOURS[number % len(COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
    }


def plot_similarity(matrix: pd.DataFrame) -> Figure:
    """A heat map of cosines, with numbers if there is room.

    Args:
        matrix: from `TermEmbedder.similarity_matrix`: terms down and across.

    Raises:
        ValueError: no row or no column.
    """
    values = matrix.to_numpy(dtype=float)
    if not values.size:
        raise UserError("the matrix is empty; make one with TermEmbedder.similarity_matrix")
    rows, columns = values.shape
    cell = float(np.clip(6 / max(rows, columns), 0.12, 0.5))
    figure, (axes,) = new_axes((2.6 + columns * cell, 1.8 + rows * cell))
    low = min(0.0, float(values.min()))
    image = axes.imshow(values, cmap="cividis", vmin=low, vmax=1)
    size = float(np.clip(60 * cell, 4, 9))
    bright = 0.45 * low + 0.55  # from where on the cells are bright
    axes.set_xticks(
        range(columns), list(matrix.columns), rotation=45, ha="right", rotation_mode="anchor"
    )
    axes.set_yticks(range(rows), list(matrix.index))
    axes.tick_params(length=0, labelsize=size, labelcolor=_INK)
    axes.spines[:].set_visible(False)
    if max(rows, columns) <= _CELLS:
        for row, column in np.ndindex(rows, columns):
            value = values[row, column]
            ink = "white" if float(value) < bright else _INK
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", size=size - 2, c=ink)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, label="Cosine")
    bar.outline.set_visible(False)
    return figure


def plot_comparison(comparison: pd.DataFrame) -> Figure:
    """Encoders side by side: each measure with its 95% interval.

    Args:
        comparison: from `biomed.terms.evaluation.compare_encoders`.

    Raises:
        ValueError: no row.
    """
    if not len(comparison):
        raise UserError("nothing was compared; see biomed.terms.evaluation.compare_encoders")
    encoders = list(dict.fromkeys(comparison["encoder"]))
    measures = list(dict.fromkeys(comparison["measure"]))
    step = 0.8 / max(2, len(encoders))
    height = 1.0 + len(measures) * max(0.45, 0.2 * len(encoders))
    figure, (axes,) = new_axes((6.4, height))
    for i, encoder in enumerate(encoders):
        rows = comparison[comparison["encoder"] == encoder]
        own = rows.set_index("measure").reindex(measures)
        up = np.arange(len(measures)) + (i - (len(encoders) - 1) / 2) * step
        value = own["value"].to_numpy(dtype=float)
        error = np.abs(own[["low", "high"]].to_numpy(dtype=float).T - value)
        look = _look(i)
        axes.errorbar(
            *(value, up),
            xerr=error,
            label=str(encoder),
            color=look["c"],
            marker=look["marker"],
            linestyle="none",
            markersize=6,
            elinewidth=1.2,
        )
    axes.set_yticks(range(len(measures)), measures)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("with 95% intervals")
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=STYLE["font.size"])
    return figure
