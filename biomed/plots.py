"""Figures of terms, for a paper or a notebook: each call makes one and returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.embedder import TermEmbedder
from biomed.terms.layout import layout_terms
from biomed.terms.plots import INK, plot_layout
from domainbert.errors import UserError
from domainbert.statistics.figures import new_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from domainbert.models.embedder import Embedder

_CELLS = 15  # a larger heat map has no numbers


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
        terms: two or more (thousands take minutes).
        categories: one for each term, for colours and legend.
        embedder: by default the shipped one.
        **options: method, perplexity and seed, see `biomed.terms.layout.layout_terms`.

    Raises:
        UserError: fewer than two terms, or another number of categories.
    """
    terms = list(terms)
    vectors = (embedder or TermEmbedder.from_pretrained()).embed(terms)
    return plot_layout(layout_terms(terms, vectors, categories=categories, **options))


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
    axes.tick_params(length=0, labelsize=size, labelcolor=INK)
    axes.spines[:].set_visible(False)
    if max(rows, columns) <= _CELLS:
        for row, column in np.ndindex(rows, columns):
            value = values[row, column]
            ink = "white" if float(value) < bright else INK
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", size=size - 2, c=ink)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, label="Cosine")
    bar.outline.set_visible(False)
    return figure
