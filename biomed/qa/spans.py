"""The best spans of a window and of all windows, from start and end logits. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Candidate:
    """Tokens `first` to `last` of one passage, and the range of tokens of their window.

    The score is start plus end logit minus those of [CLS], in the window where this is largest.
    Candidates are ranked by score plus `bonus`.
    """

    passage: int
    first: int
    last: int
    score: float
    window: tuple[int, int]
    bonus: float = 0.0


def best_spans(
    start: np.ndarray,
    end: np.ndarray,
    *,
    begins: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    limits: tuple[float, float] = (1, np.inf),
    longest: int,
    top_k: int = 1,
) -> list[tuple[int, int, float]]:
    """The spans of whole words in one window with the largest sum of start and end logit.

    All arrays have shape (tokens,): start and end logits of the context, whether a word begins or
    ends with the token, and weights (0 or more), whose sum over a span must lie within `limits`. A
    span has at most `longest` tokens. Each is the best of those that do not overlap a better one.

    Returns:
        First token, last token (inclusive) and score of each span, best first.
    """
    if not len(start):
        return []
    longest = min(longest, len(start))
    starts = np.where(begins, start, -np.inf)
    padded = np.concatenate((np.where(ends, end, -np.inf), np.full(longest - 1, -np.inf)))
    # Row i, column j: the span of tokens i to i + j.
    scores = starts[:, None] + sliding_window_view(padded, longest)
    sums = np.cumsum(np.concatenate((weights, np.zeros(longest - 1, dtype=int))))
    inside = sliding_window_view(sums, longest) - (sums[: len(start)] - weights)[:, None]
    scores[(inside < limits[0]) | (inside > limits[1])] = -np.inf
    found: list[tuple[int, int, float]] = []
    for _ in range(top_k):
        first, length = divmod(int(scores.argmax()), longest)
        if not np.isfinite(scores[first, length]):
            break
        last = first + length
        found.append((first, last, float(scores[first, length])))
        scores[first : last + 1] = -np.inf
        for row in range(max(0, first - longest + 1), first):
            scores[row, first - row :] = -np.inf
    return found


def best_candidates(candidates: Iterable[Candidate], *, top_k: int) -> list[Candidate]:
    """The best candidates of all windows, best first, none overlapping a better one.

    A span found in several windows occurs once, with its best score; of equal ones the first in
    the text wins.
    """

    def order(candidate: Candidate) -> tuple[float, int, int, int]:
        ranked = -(candidate.score + candidate.bonus)
        return ranked, candidate.passage, candidate.first, candidate.last

    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=order):
        if len(kept) == top_k:
            break
        here = (other for other in kept if other.passage == candidate.passage)
        if all(other.last < candidate.first or candidate.last < other.first for other in here):
            kept.append(candidate)
    return kept
