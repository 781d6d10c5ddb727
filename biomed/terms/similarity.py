"""Cosines of terms: matrices, and the nearest terms of a vocabulary."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from domainbert.embedding import check_many
from domainbert.errors import UserError
from domainbert.pooling import unit
from domainbert.ranking import top_k

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder

Neighbour = tuple[int, str, float]  # rank from 1, term, cosine
_BLOCK = 1024  # terms looked up at a time


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

    for names in (terms, others):
        check_many(names)
    rows = unit(embedder.embed(list(terms)))
    columns = rows if others is None else unit(embedder.embed(list(others)))
    names = list(terms if others is None else others)
    return pd.DataFrame(
        np.clip(rows @ columns.T, -1, 1), index=pd.Index(list(terms)), columns=pd.Index(names)
    )


class TermIndex:
    """A vocabulary embedded once, for many look-ups.

    Args:
        embedder: gives the vectors.
        vocabulary: its terms; a term that repeats counts once.

    Raises:
        UserError: no term, one string instead of a list, or a term that has no vector.
    """

    def __init__(self, embedder: TermEmbedder, vocabulary: Iterable[str]) -> None:
        check_many(vocabulary)
        self.terms = list(dict.fromkeys(vocabulary))
        if not self.terms:
            raise UserError("the vocabulary is empty; expected at least one term")
        self.embedder = embedder
        self._vectors = unit(embedder.embed(self.terms))
        self._spellings = Counter(term.casefold() for term in self.terms)

    @property
    def digest(self) -> str:
        """A hash of the vocabulary."""
        return hashlib.sha256("\0".join(self.terms).encode(errors="replace")).hexdigest()

    def nearest(self, term: str, *, k: int = 10) -> pd.DataFrame:
        """The k nearest terms of the vocabulary, the term itself (in any case) left out.

        Returns:
            `rank` (from 1), `neighbour`, `similarity` (cosine), nearest first; fewer rows where
            the vocabulary is smaller.

        Raises:
            UserError: k < 1, or a term that has no vector.
        """
        import pandas as pd

        (found,) = self.neighbours([term], self.embedder.embed([term]), k=k)
        return pd.DataFrame(found, columns=["rank", "neighbour", "similarity"])

    def neighbours(
        self, terms: Sequence[str], vectors: np.ndarray, *, k: int
    ) -> Iterator[list[Neighbour]]:
        """The neighbours of each term.

        Args:
            terms: the terms asked for.
            vectors: theirs, shape (terms, dimension).
            k: neighbours of each.
        """
        if k < 1:
            msg = f"k must be at least 1, got {k}"
            raise UserError(msg)
        most = max((self._spellings[term.casefold()] for term in terms), default=0)
        for start in range(0, len(terms), _BLOCK):
            part = slice(start, start + _BLOCK)
            hits = top_k(unit(vectors[part]), [self._vectors], k=k + most)
            for term, rows, scores in zip(terms[part], hits.rows, hits.scores, strict=True):
                own = term.casefold()
                found = [
                    (self.terms[row], float(np.clip(score, -1, 1)))
                    for row, score in zip(rows.tolist(), scores, strict=True)
                    if row >= 0 and self.terms[row].casefold() != own
                ]
                yield [(rank, *pair) for rank, pair in enumerate(found[:k], start=1)]
