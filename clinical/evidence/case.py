"""A stay that is being explained: its sentences, and its risk without some of its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from clinical.risk.aggregation import aggregate_stays
from domainbert.statistics.calibration import sigmoid
from domainbert.text.sentences import sentence_spans

if TYPE_CHECKING:
    from clinical.risk.model import RiskModel
    from clinical.stays.stays import Given, ReadStay
    from domainbert.text.windows import Window

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
        Piece(
            number,
            *(first, last, note),
            *map(int, (offsets[first, 0], offsets[last - 1, 1])),
        )
        for number, (note, window) in enumerate(stay.windows)
        for offsets in [window.offsets]
        for first, last in _cuts(window, starts[note])
    ]


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


class Case:
    """A stay, its risk, and what the model says without some of its words.

    A shortened window is read once, however often it is asked for.

    Args:
        model: that scores the stay.
        notes: of the stay, as for `RiskModel.predict`.

    Attributes:
        model: as given.
        stay: the windows and texts.
        probabilities: of the windows, shape (windows,).
        risk: of the stay.
    """

    def __init__(self, model: RiskModel, notes: Given) -> None:
        self.model, self.stay = model, model.read(notes)
        whole = [window.input_ids for _, window in self.stay.windows]
        self.probabilities = model.score_token_ids(whole)
        self.risk = model.risk_of(self.stay, self.probabilities)
        self._known = dict(
            zip((ids.tobytes() for ids in whole), self.probabilities, strict=True)
        )

    def window(self, number: int) -> Window:
        """A window of the stay."""
        return self.stay.windows[number][1]

    def score(self, windows: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities of windows as token ids with special tokens, shape (windows,)."""
        keys = [ids.tobytes() for ids in windows]
        new = {
            key: ids
            for key, ids in zip(keys, windows, strict=True)
            if key not in self._known
        }
        # Not through the model's cache of windows, which is for windows of notes.
        found = sigmoid(self.model.runner.logits(list(new.values())))
        self._known |= dict(zip(new, found, strict=True))
        return np.array([self._known[key] for key in keys])

    def shortened(self, number: int, pieces: Iterable[Piece]) -> np.ndarray:
        """The token ids of a window without some of its pieces."""
        return _only(self.window(number), self.kept(pieces)[number])

    def kept(self, pieces: Iterable[Piece]) -> list[np.ndarray]:
        """Whether each token of each window, between [CLS] and [SEP], is in none of the pieces."""
        kept = [
            np.ones(len(window.offsets), dtype=bool) for _, window in self.stay.windows
        ]
        for piece in pieces:
            kept[piece.window][piece.first : piece.last] = False
        return kept

    def risks(
        self, choices: Sequence[Sequence[np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and probabilities of the stay with only some tokens, each of shape (choices,).

        A window without a token is left out. If no token is left, a window of [CLS] and [SEP] is
        the stay.

        Args:
            choices: each says which tokens of each window are kept; see `kept`.
        """
        parts = [
            [
                _only(window, mask)
                for (_, window), mask in zip(self.stay.windows, kept, strict=True)
                if mask.any()
            ]
            or [self.window(0).input_ids[[0, -1]]]
            for kept in choices
        ]
        flat = self.score([ids for part in parts for ids in part])
        counts = np.array([len(part) for part in parts])
        scores = aggregate_stays(flat, counts, c=self.model.c)
        return scores, self.model.calibrated(scores, self.risk.shift)


def _only(window: Window, kept: np.ndarray) -> np.ndarray:
    """The token ids of a window with only some of its tokens between [CLS] and [SEP]."""
    ids = window.input_ids
    return np.concatenate((ids[:1], ids[1:-1][kept], ids[-1:]))
