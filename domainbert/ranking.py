"""Hits: the nearest rows of queries, found in blocks and merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


QUERIES = 256  # compared with a block of rows at a time


@dataclass(frozen=True)
class Hits:
    """The nearest rows of each query, best first.

    Attributes:
        rows: row numbers, shape (queries, k); -1 where the index has fewer than k rows.
        scores: cosines, shape (queries, k), float32; NaN there.
    """

    rows: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)


def top_k(queries: np.ndarray, blocks: Iterable[np.ndarray], *, k: int) -> Hits:
    """The k rows with the largest dot product with each query; of equal ones the first rows.

    Memory grows with a block and the results, not with queries times rows of a block.

    Args:
        queries: shape (queries, dimension), float32.
        blocks: consecutive blocks of rows, each of shape (rows, dimension), float32.
        k: rows of each query.

    Raises:
        UserError: k < 1.
    """
    if k < 1:
        msg = f"k must be at least 1, got {k}"
        raise UserError(msg)
    number = len(queries)
    scores = np.full((number, k), -np.inf, dtype=np.float32)
    rows = np.full((number, k), -1, dtype=np.int64)
    first = 0
    for block in blocks:
        for start in range(0, number, QUERIES):
            some = slice(start, start + QUERIES)
            found = queries[some] @ block.T
            if len(block) > k and first == 0:
                # The k-th best of a part bounds the k-th best of all from below.
                part = min(len(block), max(4 * k, 2048))
                bound = np.partition(found[:, :part], part - k, axis=1)[:, part - k]
            else:
                bound = scores[some, -1]
            where, column = np.nonzero(found >= bound[:, None])
            _merge(scores[some], rows[some], where, column + first, found[where, column])
        first += len(block)
    empty = ~np.isfinite(scores)
    return Hits(np.where(empty, -1, rows), np.where(empty, np.nan, scores))


def _merge(
    scores: np.ndarray, rows: np.ndarray, where: np.ndarray, row: np.ndarray, score: np.ndarray
) -> None:
    """Put candidates (sorted by query, then row) into the k best of each query, in place."""
    k = scores.shape[1]
    edges = np.searchsorted(where, np.arange(len(scores) + 1))
    for query in np.flatnonzero(np.diff(edges)).tolist():
        own = slice(edges[query], edges[query + 1])
        both = np.concatenate([scores[query], score[own]])
        numbers = np.concatenate([rows[query], row[own]])
        order = np.lexsort((numbers, -both))[:k]
        scores[query], rows[query] = both[order], numbers[order]


def merge_hits(found: Sequence[Hits], *, k: int) -> Hits:
    """The k best of each query from hits with different row numbers; equal ones by row."""
    rows = np.concatenate([hits.rows for hits in found], axis=1)
    scores = np.concatenate([hits.scores for hits in found], axis=1)
    order = np.lexsort((rows, -np.nan_to_num(scores, nan=-np.inf)), axis=1)[:, :k]
    return Hits(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1))


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
