"""The sentences of a stay inside its windows: what is removed, ranked and shown."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from domainbert.pretraining.tokens import sentence_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clinical.risk.stays import ReadStay
    from domainbert.windows import Window

LONGEST = 48
"""A longer sentence is cut into pieces of at most this many tokens."""


@dataclass(frozen=True)
class Piece:
    """Part of a window: its tokens `first` to `last`, counted from 0 after [CLS].

    They cover the characters `start` to `end` of note number `note`.
    """

    window: int
    first: int
    last: int
    note: int
    start: int
    end: int

    def __len__(self) -> int:
        """The number of tokens."""
        return self.last - self.first


def sentence_pieces(stay: ReadStay) -> list[Piece]:
    """The sentences of a stay, cut where windows end; every token is in one piece of its window."""
    starts = {
        note: np.array([start for start, _ in sentence_spans(text)])
        for note, text in stay.texts.items()
    }
    return [
        piece_of(stay, number, first, last)
        for number, (note, window) in enumerate(stay.windows)
        for first, last in _cuts(window, starts[note])
    ]


def piece_of(stay: ReadStay, window: int, first: int, last: int) -> Piece:
    """Tokens `first` to `last` of a window, with their place in the note."""
    note, found = stay.windows[window]
    return Piece(
        window, first, last, note, int(found.offsets[first, 0]), int(found.offsets[last - 1, 1])
    )


def word_starts(window: Window) -> np.ndarray:
    """The tokens of a window that follow a gap in the text, and the first one, ascending."""
    gap = window.offsets[1:, 0] > window.offsets[:-1, 1]
    return np.flatnonzero(np.append(True, gap))


def _cuts(window: Window, starts: np.ndarray) -> Iterator[tuple[int, int]]:
    """The token ranges of a window's sentences, long ones cut between words if possible."""
    sentence = np.searchsorted(starts, window.offsets[:, 0], side="right")
    edges = [0, *(np.flatnonzero(np.diff(sentence)) + 1).tolist(), len(sentence)]
    words = word_starts(window)
    for start, last in pairwise(edges):
        first = start
        while last - first > LONGEST:
            near = first + -(-(last - first) // -(-(last - first) // LONGEST))
            inside = words[(words > first) & (words <= near)]
            stop = int(inside[-1]) if len(inside) else near
            yield first, stop
            first = stop
        yield first, last


def covering(pieces: Sequence[Piece], windows: Iterable[int]) -> list[int]:
    """The indices of the pieces in some windows."""
    chosen = set(windows)
    return [index for index, piece in enumerate(pieces) if piece.window in chosen]
