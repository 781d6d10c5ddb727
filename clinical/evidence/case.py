"""Case: a stay that is explained, its sentences, and its risk without some of them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from clinical.risk.aggregation import aggregate_stays
from clinical.risk.model import ReadmissionModel
from clinical.risk.reading import PreparedStay
from clinical.stays.stays import StayInput
from domainbert.statistics.calibration import sigmoid
from domainbert.text.sentences import sentence_spans
from domainbert.text.windows import Window

MAX_TOKENS = 48
"""A longer sentence is cut into pieces of at most this many tokens."""


@dataclass(frozen=True)
class Piece:
    """A sentence, or a part of one, within a window.

    Attributes:
        window: number of the window.
        first: first token, counted from 0 after [CLS].
        last: one past the last token.
        note: number of the note.
        start: first character in the note.
        end: one past the last character.
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


def sentence_pieces(stay: PreparedStay) -> list[Piece]:
    """The sentences of a stay, cut where windows end; every token is in one piece."""
    sentence_starts = {}
    for note, text in stay.texts.items():
        starts = [start for start, _ in sentence_spans(text)]
        sentence_starts[note] = np.array(starts)
    pieces = []
    for number, (note, window) in enumerate(stay.windows):
        for first, last in _cuts(window, sentence_starts[note]):
            start = int(window.offsets[first, 0])
            end = int(window.offsets[last - 1, 1])
            piece = Piece(number, first, last, note, start, end)
            pieces.append(piece)
    return pieces


def word_starts(window: Window) -> np.ndarray:
    """The first token of a window, and those that follow a gap in the text."""
    follows_gap = window.offsets[1:, 0] > window.offsets[:-1, 1]
    return np.flatnonzero(np.append(True, follows_gap))


def _cuts(
    window: Window,
    sentence_starts: np.ndarray,
) -> Iterator[tuple[int, int]]:
    """The token ranges of a window's sentences; see `_parts` for long ones."""
    starts = window.offsets[:, 0]
    sentences = np.searchsorted(sentence_starts, starts, side="right")
    changes = np.flatnonzero(np.diff(sentences)) + 1
    edges = [0, *changes.tolist(), len(sentences)]
    words = word_starts(window)
    for first, last in pairwise(edges):
        yield from _parts(first, last, words)


def _parts(
    first: int,
    last: int,
    words: np.ndarray,
) -> Iterator[tuple[int, int]]:
    """A sentence in parts of about equal length, cut between words if possible."""
    n_tokens = last - first
    while n_tokens > MAX_TOKENS:
        n_parts = math.ceil(n_tokens / MAX_TOKENS)
        cut = first + math.ceil(n_tokens / n_parts)
        before_cut = words[words <= cut]
        if len(before_cut) and before_cut[-1] > first:
            cut = int(before_cut[-1])
        yield first, cut
        first = cut
        n_tokens = last - first
    yield first, last


class Case:
    """A stay with its risk, and with the risks of shortened versions of it.

    Each shortened window is scored only once.

    Args:
        model: the model that scores the stay.
        notes: the notes of the stay, as for `ReadmissionModel.predict`.

    Attributes:
        model: the model.
        stay: the windows and texts of the stay.
        windows: its windows, in reading order.
        probabilities: those of the windows, shape (windows,).
        risk: the risk of the stay.
    """

    def __init__(self, model: ReadmissionModel, notes: StayInput) -> None:
        self.model = model
        self.stay = model.prepared(notes)
        self.windows = [window for _, window in self.stay.windows]
        windows = [window.input_ids for window in self.windows]
        self.probabilities = model.predict_windows(windows)
        self.risk = model.risk_of(self.stay, self.probabilities)
        keys = [ids.tobytes() for ids in windows]
        self._scored = dict(zip(keys, self.probabilities, strict=True))

    def tokens(self, piece: Piece) -> np.ndarray:
        """The token ids of a piece."""
        content = self.windows[piece.window].input_ids[1:-1]
        return content[piece.first : piece.last]

    def predict_windows(self, windows: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities of windows as token ids with special tokens, shape (windows,)."""
        keys = [ids.tobytes() for ids in windows]
        unscored = {
            key: ids
            for key, ids in zip(keys, windows, strict=True)
            if key not in self._scored
        }
        # The model's window cache is not used: it is for windows of notes.
        logits = self.model.runner.logits(list(unscored.values()))
        new = zip(unscored, sigmoid(logits), strict=True)
        self._scored.update(new)
        return np.array([self._scored[key] for key in keys])

    def shortened(self, number: int, pieces: Iterable[Piece]) -> np.ndarray:
        """The token ids of a window without some of its pieces."""
        masks = self.kept(pieces)
        return _only(self.windows[number], masks[number])

    def kept(self, pieces: Iterable[Piece]) -> list[np.ndarray]:
        """A mask of the tokens of each window, without [CLS] and [SEP], that are in no piece."""
        masks = [
            np.ones(len(window.offsets), dtype=bool) for window in self.windows
        ]
        for piece in pieces:
            mask = masks[piece.window]
            mask[piece.first : piece.last] = False
        return masks

    def risks(
        self,
        choices: Sequence[Sequence[np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and probabilities of the stay with only some of its tokens.

        A window without any token is left out. A stay without any token is a window of [CLS] and
        [SEP].

        Args:
            choices: for each shortened stay the masks of its windows, see `kept`.

        Returns:
            Each of shape (choices,).
        """
        stays = [self._shortened_windows(masks) for masks in choices]
        windows = list(chain.from_iterable(stays))
        n_windows = np.array(list(map(len, stays)))
        probabilities = self.predict_windows(windows)
        scores = aggregate_stays(probabilities, n_windows, c=self.model.c)
        return scores, self.model.calibrated(scores, self.risk.shift)

    def _shortened_windows(
        self,
        masks: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        windows = [
            _only(window, mask)
            for window, mask in zip(self.windows, masks, strict=True)
            if mask.any()
        ]
        return windows or [self.empty_window()]

    def empty_window(self) -> np.ndarray:
        """The token ids of a window without text: [CLS] and [SEP]."""
        return self.windows[0].input_ids[[0, -1]]


def _only(window: Window, mask: np.ndarray) -> np.ndarray:
    """The token ids of a window with only the masked tokens between [CLS] and [SEP]."""
    is_kept = np.pad(mask, 1, constant_values=True)
    return window.input_ids[is_kept]
