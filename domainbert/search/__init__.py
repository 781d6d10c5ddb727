"""Rankings: the nearest vectors block by block, texts by words (BM25), and rankings joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from domainbert.errors import UserError

RANK = 60  # added to each rank when rankings are joined
QUERIES = 256  # compared with a block of rows at a time


@dataclass(frozen=True)
class Hits:
    """The nearest rows of each query, best first.

    Attributes:
        rows: row numbers, shape (queries, k or fewer); -1 where fewer than k were found.
        scores: cosines or others, of the same shape, float32; NaN there.
    """

    rows: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)


def top_k(
    queries: np.ndarray, blocks: Iterable[np.ndarray], *, k: int, first: int = 0
) -> Hits:
    """The k rows with the largest dot product with each query; of equal ones the first rows.

    Memory grows with a block and the results, not with queries times rows of a block.

    Args:
        queries: shape (queries, dimension), float32.
        blocks: consecutive blocks of rows, each of shape (rows, dimension), float32.
        k: rows of each query.
        first: number of the first row.

    Raises:
        UserError: k < 1.
    """
    if k < 1:
        raise UserError(f"k must be at least 1, got {k}")
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    for block in blocks:
        for start in range(0, len(queries), QUERIES):
            some = slice(start, start + QUERIES)
            products = queries[some] @ block.T
            bound = scores[some, -1]
            if len(block) > k and np.isneginf(bound).any():
                # The k-th best of a part bounds the k-th best of all from below.
                part = min(len(block), max(4 * k, 2048))
                bound = np.partition(products[:, :part], part - k, axis=1)[:, part - k]
            query, column = np.nonzero(products >= bound[:, None])
            score = np.concatenate([scores[some].ravel(), products[query, column]])
            row = np.concatenate([rows[some].ravel(), column + first])
            number = np.arange(len(products))
            query = np.concatenate([number.repeat(k), query])
            order = np.lexsort((row, -score, query))
            best = order[np.searchsorted(query[order], number)[:, None] + np.arange(k)]
            scores[some], rows[some] = score[best], row[best]
        first += len(block)
    empty = ~np.isfinite(scores)
    return Hits(np.where(empty, -1, rows), np.where(empty, np.nan, scores))


class Words:
    """BM25 over texts (Robertson and Zaragoza 2009, by bm25s): the baseline by words.

    Args:
        texts: the texts, one row each.

    Raises:
        UserError: no text has a word that counts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        self._count, self._index = len(texts), bm25s.BM25()
        self._tokens = partial(bm25s.tokenize, stopwords="en", show_progress=False)
        tokens = self._tokens(list(texts))
        if not any(map(len, tokens.ids)):
            raise UserError(
                "no text has a word that BM25 counts; search by meaning alone"
            )
        self._index.index(tokens, show_progress=False)

    def search(self, queries: Sequence[str], *, k: int) -> Hits:
        """The k best rows of each query; a row without a word of the query is not among them."""
        tokens, most = self._tokens(list(queries)), min(k, self._count)
        rows, scores = self._index.retrieve(tokens, k=most, show_progress=False)
        is_found = scores > 0
        return Hits(np.where(is_found, rows, -1), np.where(is_found, scores, np.nan))


def fuse(rankings: Sequence[Hits], *, k: int) -> Hits:
    """The k best rows by reciprocal ranks in rankings of the same queries (Cormack et al. 2009)."""
    number = len(rankings[0].rows)
    rows, scores = (
        np.full((number, k), -1),
        np.full((number, k), np.nan, dtype=np.float32),
    )
    for query in range(number):
        total: dict[int, float] = {}
        for hits in rankings:
            for rank, row in enumerate(hits.rows[query].tolist(), start=1):
                if row >= 0:
                    total[row] = total.get(row, 0.0) + 1 / (RANK + rank)
        best = sorted(total, key=lambda row: (-total[row], row))[:k]
        rows[query, : len(best)] = best
        scores[query, : len(best)] = [total[row] for row in best]
    return Hits(rows, scores)
