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
    """A span of one passage.

    Attributes:
        passage: number of the passage.
        first: its first token, counted in the passage.
        last: its last token.
        score: start plus end logit minus those of [CLS], in the window where this is largest.
        window: range of the passage's tokens in that window.
    """

    passage: int
    first: int
    last: int
    score: float
    window: tuple[int, int]

    def overlaps(self, other: Candidate) -> bool:
        """Whether they share a token."""
        apart = self.last < other.first or other.last < self.first
        return self.passage == other.passage and not apart


def best_spans(
    start: np.ndarray,
    end: np.ndarray,
    *,
    begins: np.ndarray,
    ends: np.ndarray,
    longest: int,
    top_k: int = 1,
) -> list[tuple[int, int, float]]:
    """The spans of one window with the largest sum of start and end logit.

    A span begins where a word begins and ends where a word ends. The spans do not overlap: each
    is the best of those that do not overlap the better ones.

    Args:
        start: start logits of the context's tokens, shape (tokens,).
        end: end logits, shape (tokens,).
        begins: whether a word begins with the token, shape (tokens,), bool.
        ends: whether a word ends with the token, shape (tokens,), bool.
        longest: maximum tokens of a span, >= 1.
        top_k: maximum number of spans, >= 1.

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

    A span found in several windows occurs once, with its best score; of equal scores the first in
    the text wins.
    """
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (-c.score, c.passage, c.first, c.last)):
        if len(kept) == top_k:
            break
        if not any(candidate.overlaps(other) for other in kept):
            kept.append(candidate)
    return kept
