"""From the logits of a window to its best spans. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


@dataclass(frozen=True)
class SpanScore:
    """Tokens `first` to `last` (itself counted) of a text, and the score."""

    first: int
    last: int
    score: float


def best_spans(
    start: np.ndarray,
    end: np.ndarray,
    *,
    begins: np.ndarray,
    ends: np.ndarray,
    longest: int,
    top_k: int = 1,
) -> list[SpanScore]:
    """The spans of a run of tokens with the largest sum of start and end logit.

    A span begins where a word begins and ends where a word ends. No two of those returned
    overlap: each is the best of what the better ones leave.

    Args:
        start: logits of the context's tokens in a window, shape (tokens,).
        end: the same, for the last token of a span.
        begins: whether a word begins there, shape (tokens,), bool.
        ends: whether a word ends there, shape (tokens,), bool.
        longest: tokens of a span at most, >= 1.
        top_k: spans wanted, >= 1.

    Returns:
        At most `top_k` spans, best first; fewer where no more fit.
    """
    if not len(start):
        return []
    longest = min(longest, len(start))
    starts = np.where(begins, start, -np.inf)
    padded = np.concatenate((np.where(ends, end, -np.inf), np.full(longest - 1, -np.inf)))
    # Row i, column j: the span of tokens i to i + j.
    scores = starts[:, None] + sliding_window_view(padded, longest)
    found: list[SpanScore] = []
    for _ in range(top_k):
        first, length = divmod(int(scores.argmax()), longest)
        if not np.isfinite(scores[first, length]):
            break
        last = first + length
        found.append(SpanScore(first, last, float(scores[first, length])))
        scores[first : last + 1] = -np.inf
        for row in range(max(0, first - longest + 1), first):
            scores[row, first - row :] = -np.inf
    return found
