"""Phrases: neighbouring words that push a window's risk the same way, from token attributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.evidence.pieces import Piece, piece_of, word_starts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clinical.risk.stays import ReadStay

STRONG = 0.2
"""A word counts if its value reaches this share of the largest one of the stay."""
GAP = 1
"""Phrases with at most this many weak words between them are one."""


def phrases(stay: ReadStay, values: Mapping[int, np.ndarray]) -> tuple[list[Piece], np.ndarray]:
    """Merge tokens into words, and strong neighbouring words of one sign into phrases.

    Args:
        stay: from `model.read`.
        values: what each token between [CLS] and [SEP] adds, shape (tokens,), by window number.

    Returns:
        The phrases, and the sum of the values of each, shape (phrases,).
    """
    words = {number: word_starts(stay.windows[number][1]) for number in values}
    sums = {number: np.add.reduceat(values[number], words[number]) for number in values}
    largest = max((float(np.abs(one).max()) for one in sums.values()), default=0.0)
    pieces, totals = [], []
    for number, one in sums.items():
        edges = np.append(words[number], len(values[number]))
        signs = np.sign(one) * (np.abs(one) >= STRONG * largest)
        for first, last in _runs(signs):
            piece = piece_of(stay, number, int(edges[first]), int(edges[last]))
            pieces.append(piece)
            totals.append(float(values[number][piece.first : piece.last].sum()))
    return pieces, np.array(totals)


def _runs(signs: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of entries of one sign, with at most `GAP` zeros between them."""
    start = last = -1
    for index in np.flatnonzero(signs).tolist():
        if start >= 0 and (signs[index] != signs[last] or index - last > GAP + 1):
            yield start, last + 1
            start = index
        start, last = (index if start < 0 else start), index
    if start >= 0:
        yield start, last + 1
