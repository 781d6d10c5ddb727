"""Case: a stay that is being explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.risk.aggregation import aggregate_stays
from clinical.risk.calibration import sigmoid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clinical.evidence.pieces import Piece
    from clinical.risk.model import ReadmissionModel
    from domainbert.windows import Window


class Case:
    """A stay, its risk, and what the model says without some of its words.

    A shortened window is read once, however often it is asked for.

    Args:
        model: that scores the stay.
        notes: one note, or a list of notes in time order.
        stay_id: returned with the risk.

    Attributes:
        model: as given.
        stay: the windows and texts.
        probabilities: of the windows, shape (windows,).
        risk: of the stay.
    """

    def __init__(
        self, model: ReadmissionModel, notes: str | Sequence[str], *, stay_id: object = None
    ) -> None:
        self.model, self.stay = model, model.read(notes, stay_id)
        whole = [window.input_ids for _, window in self.stay.windows]
        self.probabilities = model.score_token_ids(whole)
        self.risk = model.risk_of(self.stay, self.probabilities)
        self._known = dict(zip((ids.tobytes() for ids in whole), self.probabilities, strict=True))

    def window(self, number: int) -> Window:
        """A window of the stay."""
        return self.stay.windows[number][1]

    def score(self, windows: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities of windows as token ids with special tokens, shape (windows,)."""
        keys = [ids.tobytes() for ids in windows]
        new = {key: ids for key, ids in zip(keys, windows, strict=True) if key not in self._known}
        # Not through the model's cache of windows, which is for windows of notes.
        found = sigmoid(self.model.runner.logits(list(new.values())))
        self._known |= dict(zip(new, found, strict=True))
        return np.array([self._known[key] for key in keys])

    def without(self, pieces: Sequence[Piece]) -> np.ndarray:
        """The probability of each piece's window without this piece, shape (pieces,)."""
        return self.score([self.shortened(piece.window, [piece]) for piece in pieces])

    def shortened(self, number: int, pieces: Iterable[Piece]) -> np.ndarray:
        """The token ids of a window without some of its pieces."""
        kept = np.ones(len(self.window(number).offsets), dtype=bool)
        for piece in pieces:
            kept[piece.first : piece.last] = False
        return _only(self.window(number), kept)

    def kept(self, pieces: Iterable[Piece]) -> list[np.ndarray]:
        """Whether each token of each window, between [CLS] and [SEP], is in none of the pieces."""
        kept = [np.ones(len(window.offsets), dtype=bool) for _, window in self.stay.windows]
        for piece in pieces:
            kept[piece.window][piece.first : piece.last] = False
        return kept

    def risks(self, choices: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
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
        return scores, self.model.calibrated(scores)


def _only(window: Window, kept: np.ndarray) -> np.ndarray:
    """The token ids of a window with only some of its tokens between [CLS] and [SEP]."""
    ids = window.input_ids
    return np.concatenate((ids[:1], ids[1:-1][kept], ids[-1:]))


def greedy_order(case: Case, pieces: Sequence[Piece], windows: Sequence[int]) -> np.ndarray:
    """An order of removal that lowers the risk fast, shape (pieces,): an estimate of the best one.

    In each of the windows given, the piece whose removal leaves the lowest probability goes next;
    among windows, the one that is then riskiest. The pieces of other windows follow, from the
    riskiest window to the least risky. Reversed, it is an estimate of the worst order.
    """
    left = {w: [i for i, piece in enumerate(pieces) if piece.window == w] for w in windows}
    paths: dict[int, list[int]] = {w: [] for w in windows}
    risks = {w: [float(case.probabilities[w])] for w in windows}
    while any(left.values()):
        tried = [(w, i) for w in windows for i in left[w]]
        shorter = [case.shortened(w, [pieces[j] for j in (*paths[w], i)]) for w, i in tried]
        found = case.score(shorter)
        for w in windows:
            options = [(float(p), i) for p, (v, i) in zip(found, tried, strict=True) if v == w]
            if options:
                lowest, i = min(options)
                paths[w].append(i)
                left[w].remove(i)
                risks[w].append(lowest)
    order: list[int] = []
    done = dict.fromkeys(windows, 0)
    while unfinished := [w for w in windows if done[w] < len(paths[w])]:
        riskiest = max(unfinished, key=lambda w: risks[w][done[w]])
        order.append(paths[riskiest][done[riskiest]])
        done[riskiest] += 1
    rest = [i for i, piece in enumerate(pieces) if piece.window not in paths]
    return np.array([*order, *sorted(rest, key=lambda i: -case.probabilities[pieces[i].window])])
