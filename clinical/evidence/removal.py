"""What is left of a stay's risk without some of its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.risk.aggregation import aggregate_stays
from clinical.risk.calibration import sigmoid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clinical.evidence.pieces import Piece
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.stays import ReadStay
    from domainbert.windows import Window


def kept_tokens(stay: ReadStay, pieces: Iterable[Piece]) -> list[np.ndarray]:
    """Whether each token of each window, between [CLS] and [SEP], is in none of the pieces."""
    kept = [np.ones(len(window.offsets), dtype=bool) for _, window in stay.windows]
    for piece in pieces:
        kept[piece.window][piece.first : piece.last] = False
    return kept


def shortened(window: Window, kept: np.ndarray) -> np.ndarray:
    """The token ids of a window with only some of its tokens between [CLS] and [SEP]."""
    ids = window.input_ids
    return np.concatenate((ids[:1], ids[1:-1][kept], ids[-1:]))


def probabilities_without(
    model: ReadmissionModel, stay: ReadStay, pieces: Sequence[Piece]
) -> np.ndarray:
    """The probability of each piece's window without this piece, shape (pieces,)."""
    return sigmoid(model.runner.logits([_without(stay, p.window, [p]) for p in pieces]))


def _without(stay: ReadStay, number: int, pieces: Iterable[Piece]) -> np.ndarray:
    """The token ids of a window without some of its pieces."""
    window = stay.windows[number][1]
    kept = np.ones(len(window.offsets), dtype=bool)
    for piece in pieces:
        kept[piece.first : piece.last] = False
    return shortened(window, kept)


def stay_without(
    model: ReadmissionModel,
    stay: ReadStay,
    probabilities: np.ndarray,
    removals: Sequence[Sequence[np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and probabilities of a stay with only some of its tokens, each of shape (removals,).

    A window without a token is left out. If no token is left, one window of [CLS] and [SEP] is
    scored. Windows that change are scored in one batch.

    Args:
        model: which gave the probabilities.
        stay: from `model.read`.
        probabilities: of its windows, shape (windows,).
        removals: each says which tokens of each window are kept; see `kept_tokens`.
    """
    changed: list[np.ndarray] = []
    parts: list[list[float | int]] = []  # a probability, or the index of a changed window
    for kept in removals:
        part: list[float | int] = []
        for (_, window), mask, probability in zip(stay.windows, kept, probabilities, strict=True):
            if mask.all():
                part.append(float(probability))
            elif mask.any():
                part.append(len(changed))
                changed.append(shortened(window, mask))
        if not part:
            part.append(len(changed))
            changed.append(stay.windows[0][1].input_ids[[0, -1]])
        parts.append(part)
    new = sigmoid(model.runner.logits(changed))
    flat = [new[value] if isinstance(value, int) else value for part in parts for value in part]
    scores = aggregate_stays(np.array(flat), np.array([len(part) for part in parts]), c=model.c)
    return scores, model.calibrated(scores)


def greedy_order(
    model: ReadmissionModel,
    stay: ReadStay,
    probabilities: np.ndarray,
    pieces: Sequence[Piece],
    windows: Sequence[int],
) -> np.ndarray:
    """An order of removal that lowers the risk fast, shape (pieces,): an estimate of the best one.

    In each of the windows given, the piece whose removal leaves the lowest probability goes next;
    among windows, the one that is then riskiest. The pieces of other windows follow, from the
    riskiest window to the least risky. Reversed, it is an estimate of the worst order.
    """
    left = {w: [i for i, piece in enumerate(pieces) if piece.window == w] for w in windows}
    paths: dict[int, list[int]] = {w: [] for w in windows}
    risks = {w: [float(probabilities[w])] for w in windows}
    while any(left.values()):
        tried = [(w, i) for w in windows for i in left[w]]
        shorter = [_without(stay, w, [pieces[j] for j in (*paths[w], i)]) for w, i in tried]
        found = sigmoid(model.runner.logits(shorter))
        for w in windows:
            options = [(float(p), i) for p, (v, i) in zip(found, tried, strict=True) if v == w]
            if options:
                lowest, i = min(options)
                paths[w].append(i)
                left[w].remove(i)
                risks[w].append(lowest)
    order: list[int] = []
    done = dict.fromkeys(windows, 0)
    while open_windows := [w for w in windows if done[w] < len(paths[w])]:
        riskiest = max(open_windows, key=lambda w: risks[w][done[w]])
        order.append(paths[riskiest][done[riskiest]])
        done[riskiest] += 1
    rest = [i for i, piece in enumerate(pieces) if piece.window not in paths]
    return np.array([*order, *sorted(rest, key=lambda i: -probabilities[pieces[i].window])])
