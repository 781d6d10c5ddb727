"""Cosines of terms: matrices, and the nearest terms of a vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError
from domainbert.pooling import unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder, TermVectors

NEIGHBOUR_COLUMNS = ("rank", "neighbour", "similarity")


def similarity_matrix(
    embedder: TermEmbedder, terms: Sequence[str], others: Sequence[str] | None = None
) -> pd.DataFrame:
    """Cosines of all terms with all others.

    Args:
        embedder: gives the vectors.
        terms: the rows.
        others: the columns; by default the rows again.

    Returns:
        A frame of cosines in [-1, 1], terms as its index and others as its columns.
    """
    import pandas as pd

    rows = unit(embedder.embed(list(terms)))
    columns = rows if others is None else unit(embedder.embed(list(others)))
    names = list(terms if others is None else others)
    return pd.DataFrame(
        np.clip(rows @ columns.T, -1, 1), index=pd.Index(list(terms)), columns=pd.Index(names)
    )


class TermIndex:
    """A vocabulary embedded once, to be asked for neighbours many times.

    Args:
        embedder: gives the vectors.
        vocabulary: its terms; one that stands twice counts once.

    Raises:
        ValueError: no term, or one that cannot be embedded.
    """

    def __init__(self, embedder: TermEmbedder, vocabulary: Iterable[str]) -> None:
        self.terms = list(dict.fromkeys(vocabulary))
        if not self.terms:
            raise UserError("the vocabulary is empty; nearest needs one term at least")
        self._embedder = embedder
        self._vectors = unit(embedder.embed(self.terms))
        self._folded = np.array([term.casefold() for term in self.terms])

    def nearest(self, term: str, *, k: int = 10) -> pd.DataFrame:
        """The k nearest terms of the vocabulary, the term itself left out (in any casing).

        Returns:
            `rank` (from 1), `neighbour`, `similarity` (cosine), nearest first; fewer rows where
            the vocabulary is smaller.

        Raises:
            ValueError: k < 1, or a term that cannot be embedded.
        """
        import pandas as pd

        rows = self.rows([term], self._embedder.embed([term]), k=k)
        return pd.DataFrame(next(rows), columns=list(NEIGHBOUR_COLUMNS))

    def rows(
        self, terms: Sequence[str], vectors: np.ndarray, *, k: int
    ) -> Iterator[list[tuple[int, str, float]]]:
        """Rank, neighbour and cosine of each term's neighbours, term by term.

        Args:
            terms: the terms asked for.
            vectors: theirs, shape (terms, dimension).
            k: neighbours of each.
        """
        if k < 1:
            msg = f"k must be at least 1, got {k}"
            raise UserError(msg)
        cosines = unit(vectors) @ self._vectors.T
        for term, row in zip(terms, cosines, strict=True):
            row[self._folded == term.casefold()] = -np.inf
            order = np.argsort(-row, kind="stable")[:k]
            found = order[np.isfinite(row[order])]
            yield [
                (rank, self.terms[i], float(np.clip(row[i], -1, 1)))
                for rank, i in enumerate(found, start=1)
            ]

    def of_part(
        self, terms: Sequence[object], part: TermVectors, *, k: int
    ) -> Iterator[list[tuple[int, str, float]]]:
        """`rows` for a piece from `TermEmbedder.embed_many`; none for a term without a vector."""
        good = [i for i, fault in enumerate(part.faults) if not fault]
        found = self.rows([str(terms[i]) for i in good], part.vectors[good], k=k)
        for fault in part.faults:
            yield [] if fault else next(found)
