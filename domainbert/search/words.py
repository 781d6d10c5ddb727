"""Words: the ranking of texts by the words of a query (BM25), and rankings joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bm25s
import numpy as np

from domainbert.errors import UserError
from domainbert.search import Hits


class Words:
    """BM25 over texts (Robertson and Zaragoza 2009, by bm25s): the baseline by words.

    Args:
        texts: the texts, one row each.

    Raises:
        UserError: no text has a word that counts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._count, self._index = len(texts), bm25s.BM25()
        tokens = _tokens(texts)
        if not any(map(len, tokens.ids)):
            raise UserError("no text has a word that BM25 counts; search by meaning alone")
        self._index.index(tokens, show_progress=False)

    def search(self, queries: Sequence[str], *, k: int) -> Hits:
        """The k best rows of each query; a row without a word of the query is not among them."""
        rows, scores = self._index.retrieve(
            _tokens(queries), k=min(k, self._count), show_progress=False
        )
        is_found = scores > 0
        return Hits(np.where(is_found, rows, -1), np.where(is_found, scores, np.nan))


def _tokens(texts: Sequence[str]) -> Any:
    return bm25s.tokenize(list(texts), stopwords="en", show_progress=False)


def fuse(rankings: Sequence[Hits], *, k: int, constant: int = 60) -> Hits:
    """Join rankings of the same queries by reciprocal ranks (Cormack et al. 2009).

    Args:
        rankings: of the same rows.
        k: rows of each query.
        constant: added to each rank.
    """
    number = len(rankings[0].rows)
    rows, scores = np.full((number, k), -1), np.full((number, k), np.nan, dtype=np.float32)
    for query in range(number):
        total: dict[int, float] = {}
        for hits in rankings:
            for rank, row in enumerate(hits.rows[query].tolist(), start=1):
                if row >= 0:
                    total[row] = total.get(row, 0.0) + 1 / (constant + rank)
        best = sorted(total, key=lambda row: (-total[row], row))[:k]
        rows[query, : len(best)] = best
        scores[query, : len(best)] = [total[row] for row in best]
    return Hits(rows, scores)
