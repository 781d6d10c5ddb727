"""Search: the nearest vectors, block by block; BM25 over words; fusion of rankings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from domainbert.errors import UserError

# Added to each rank when rankings are fused, as in Cormack et al. 2009.
RANK = 60
QUERIES = 256  # compared with a block of rows at a time


@dataclass(frozen=True, repr=False)
class Hits:
    """The nearest rows of each query, best first.

    Attributes:
        rows: row numbers, shape (queries, k or fewer); -1 where fewer than k were found.
        scores: cosines or others, of the same shape, float32; NaN there.
    """

    rows: np.ndarray
    scores: np.ndarray


def check_k(k: object) -> None:
    """Check a number of results, also one from code that is not checked for its types.

    Raises:
        UserError: k < 1, or no whole number.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise UserError(f"k: expected a whole number, such as 10, got {k!r}")
    if k < 1:
        raise UserError(f"k must be at least 1, got {k}")


def top_k(
    queries: np.ndarray,
    blocks: Iterable[np.ndarray],
    *,
    k: int,
) -> Hits:
    """The k rows with the largest dot product with each query; of equal ones the first rows.

    Memory grows with a block and the results, not with queries times rows of a block.

    Args:
        queries: shape (queries, dimension), float32.
        blocks: consecutive blocks of rows, each of shape (rows, dimension), float32.
        k: rows of each query.

    Raises:
        UserError: k < 1, or no whole number.
    """
    check_k(k)
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    first_row = 0  # of the block
    for block in blocks:
        for start in range(0, len(queries), QUERIES):
            batch = slice(start, start + QUERIES)
            products = queries[batch] @ block.T
            best_scores, best_rows = _merge_best(
                scores[batch],
                rows[batch],
                products,
                first_row=first_row,
            )
            scores[batch] = best_scores
            rows[batch] = best_rows
        first_row += len(block)
    is_empty = ~np.isfinite(scores)
    return Hits(
        np.where(is_empty, -1, rows),
        np.where(is_empty, np.nan, scores),
    )


def _merge_best(
    scores: np.ndarray,
    rows: np.ndarray,
    products: np.ndarray,
    *,
    first_row: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The k best of each query among its best so far and its products with a block.

    Args:
        scores: the best scores so far, shape (queries, k), -inf where there is none.
        rows: their row numbers, of the same shape.
        products: shape (queries, rows of the block).
        first_row: number of the block's first row.
    """
    k = scores.shape[1]
    query_numbers = np.arange(len(products))
    # Only products that reach the bound can be among the best: the others are not sorted.
    bounds = _lower_bounds(scores, products)
    new_queries, new_columns = np.nonzero(products >= bounds[:, None])
    new_scores = products[new_queries, new_columns]
    all_queries = np.concatenate([query_numbers.repeat(k), new_queries])
    all_scores = np.concatenate([scores.ravel(), new_scores])
    all_rows = np.concatenate([rows.ravel(), new_columns + first_row])
    order = np.lexsort((all_rows, -all_scores, all_queries))
    starts = np.searchsorted(all_queries[order], query_numbers)
    best = order[starts[:, None] + np.arange(k)]
    return all_scores[best], all_rows[best]


def _lower_bounds(scores: np.ndarray, products: np.ndarray) -> np.ndarray:
    """A score of each query that its k best reach, shape (queries,)."""
    k = scores.shape[1]
    bounds = scores[:, -1]
    width = products.shape[1]
    if width <= k or not np.isneginf(bounds).any():
        return bounds
    # The k-th best of a part bounds the k-th best of all from below.
    part = min(width, max(4 * k, 2048))
    kth_best = part - k
    return np.partition(products[:, :part], kth_best, axis=1)[:, kth_best]


class WordIndex:
    """BM25 over texts (Robertson and Zaragoza 2009, by bm25s): a ranking by words.

    Args:
        texts: the texts, one row each.

    Raises:
        UserError: no text has a word that counts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        self._count = len(texts)
        self._index = bm25s.BM25()
        self._tokenize = partial(
            bm25s.tokenize,
            stopwords="en",
            show_progress=False,
        )
        tokens = self._tokenize(list(texts))
        if not any(map(len, tokens.ids)):
            raise UserError(
                "no text has a word that BM25 counts; search by meaning alone"
            )
        self._index.index(tokens, show_progress=False)

    def search(self, queries: Sequence[str], *, k: int) -> Hits:
        """The k best rows of each query; rows that share no word with it are left out."""
        tokens = self._tokenize(list(queries))
        k = min(k, self._count)
        rows, scores = self._index.retrieve(tokens, k=k, show_progress=False)
        has_word = scores > 0
        return Hits(
            np.where(has_word, rows, -1),
            np.where(has_word, scores, np.nan),
        )


def fuse(rankings: Sequence[Hits], *, k: int) -> Hits:
    """The k best rows by reciprocal ranks in rankings of the same queries (Cormack et al. 2009)."""
    n_queries = len(rankings[0].rows)
    rows = np.full((n_queries, k), -1)
    scores = np.full((n_queries, k), np.nan, dtype=np.float32)
    for query in range(n_queries):
        totals = _reciprocal_ranks(hits.rows[query] for hits in rankings)
        best = sorted(totals, key=lambda row: (-totals[row], row))[:k]
        rows[query, : len(best)] = best
        scores[query, : len(best)] = [totals[row] for row in best]
    return Hits(rows, scores)


def _reciprocal_ranks(rankings: Iterable[np.ndarray]) -> dict[int, float]:
    """Row -> the sum of 1 / (RANK + rank) over the rankings of one query."""
    totals: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking.tolist(), start=1):
            if row >= 0:
                totals[row] = totals.get(row, 0.0) + 1 / (RANK + rank)
    return totals
