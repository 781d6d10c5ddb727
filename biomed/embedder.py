"""TermEmbedder: the model of terms that users hold; a table of vectors and a plot."""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.terms.similarity import TermIndex, TermModel
from biomed.terms.task import EmbedTask
from domainbert.models.embedder import check_many
from domainbert.models.pooling import unit
from domainbert.scoring import score_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from domainbert.models.embedder import Embedder


class TermEmbedder(TermModel):
    """Medical terms as vectors; see `domainbert.models.embedder.Embedder` for its other methods."""

    _index: tuple[bytes, TermIndex] | None = None  # of the vocabulary that `nearest` searched last

    def similarity_matrix(
        self, terms: Sequence[str], others: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Cosines of all terms with all others (or with each other), named on both sides."""
        import pandas as pd

        for names in (terms, others):
            check_many(names)
        rows = unit(self.embed(list(terms)))
        columns = rows if others is None else unit(self.embed(list(others)))
        across = pd.Index(list(terms if others is None else others))
        cosines = np.clip(rows @ columns.T, -1, 1)
        return pd.DataFrame(cosines, index=pd.Index(list(terms)), columns=across)

    def nearest(
        self,
        term: str,
        vocabulary: Sequence[str] | pd.DataFrame | None = None,
        *,
        k: int = 10,
    ) -> pd.DataFrame:
        """The k terms of a vocabulary nearest to a term, by name, synonym and then by vector.

        The vocabulary is a list of terms, or a table with `term` and `synonyms`; by default the
        shipped one. Its vectors are kept until another vocabulary is searched. For details see
        `biomed.TermIndex.nearest`.

        Raises:
            UserError: an empty vocabulary, one string instead of a list, or k < 1.
        """
        key = hashlib.sha256(pickle.dumps(vocabulary)).digest()
        if self._index is None or self._index[0] != key:
            self._index = key, TermIndex(self, vocabulary)
        return self._index[1].nearest(term, k=k)


def embed_frame(
    embedder: Embedder,
    frame: pd.DataFrame,
    *,
    column: str | None = None,
    keep: Iterable[str] = (),
) -> pd.DataFrame:
    """The vectors of a table of terms; see `EmbedTask` for the columns.

    Args:
        embedder: gives the vectors.
        frame: the terms, and anything else; ids are carried along.
        column: the one with the terms, where it is not called `term`.
        keep: further columns to carry along.

    Raises:
        TableError: no such column.
    """
    named = {"term": column} if column else None
    return score_frame(EmbedTask(embedder), frame, named=named, keep=keep)


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
        **options: perplexity and seed, see `biomed.terms.plots.layout_terms`.

    Raises:
        UserError: fewer than four terms, or another number of categories.
    """
    from biomed.terms.plots import layout_terms, plot_layout

    terms = list(terms)
    vectors = (embedder or TermEmbedder.from_pretrained()).embed(terms)
    return plot_layout(layout_terms(terms, vectors, categories=categories, **options))
