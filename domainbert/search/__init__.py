"""Search: vectors by cosine, texts by words, and the nearest rows of queries, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from domainbert.errors import UserError

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


def top_k(queries: np.ndarray, blocks: Iterable[np.ndarray], *, k: int, first: int = 0) -> Hits:
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
