"""Explanations: the sentences that raise or lower the risk of a stay, found by occlusion."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from clinical.evidence.case import Case, Piece, sentence_pieces
from clinical.evidence.view import Explanation, Passage
from clinical.risk.model import ReadmissionModel
from clinical.stays.stays import StayInput
from domainbert.errors import UserError
from domainbert.statistics.calibration import logit
from domainbert.text.windows import SPECIAL_TOKENS

TOP = 5

EFFORT = 2.5
"""The search reads at most this many times the tokens of the stay."""

LEAST_TOKENS = 2_500
"""The search of a short stay may read this many tokens."""

LEAST_LEFT_OUT = 3
"""Sentences that are left out in turn, however long their windows are."""

ALONE_SHARE = 0.25
"""Share of the token budget for reading sentences alone, to choose which ones to leave out."""


def explain(
    model: ReadmissionModel, stay: StayInput, *, top: int = TOP
) -> Explanation:
    """Find the sentences that raise and lower the risk of one stay.

    The sentences of the riskiest windows are read alone, and the strongest of them are left out in
    turn, see `occlusion`. The strongest ones are then removed from the stay one by one; the change
    of the risk is their contribution.

    Args:
        model: the model that scores the stay.
        stay: as for `ReadmissionModel.predict`.
        top: maximum number of raising passages, and of lowering passages, at least 1.

    Raises:
        UserError: `top` below 1.
    """
    if top < 1:
        raise UserError(f"top is {top}; expected at least 1")
    case = Case(model, stay)
    explanation = Explanation(case.risk, case.stay.texts, model.outcome)
    if case.risk.status != "ok":
        return explanation
    pieces = sentence_pieces(case.stay)
    examined = riskiest_windows(case, pieces)
    values, left_out = occlusion(case, pieces, examined)
    passages = _measured(case, pieces, values * left_out, top=top)
    explanation = replace(
        explanation,
        passages=tuple(passage for _, passage in passages),
        examined=tuple(examined),
    )
    raising = [piece for piece, passage in passages if passage.raises]
    if not raising:
        return explanation
    other_tokens = case.kept(raising)
    raising_tokens = [~mask for mask in other_tokens]
    _, probabilities = case.risks([other_tokens, raising_tokens])
    without, alone = probabilities.tolist()
    return replace(explanation, without_raising=without, raising_alone=alone)


def riskiest_windows(case: Case, pieces: Sequence[Piece]) -> list[int]:
    """The windows to examine: the riskiest, whose sentences `ALONE_SHARE` of the search can read.

    It is at least one. Under the readmission rule, the riskiest windows contribute most to the
    stay's score.
    """
    order = np.argsort(-case.probabilities, kind="stable")
    # Every window has a piece, so the costs have the shape (windows,).
    costs = np.bincount(
        [piece.window for piece in pieces],
        weights=[len(piece) + SPECIAL_TOKENS for piece in pieces],
    )
    is_affordable = np.cumsum(costs[order]) <= ALONE_SHARE * _budget(case)
    n_windows = max(1, int(is_affordable.sum()))
    return order[:n_windows].tolist()


def _budget(case: Case) -> float:
    """The tokens that the search may read."""
    return max(EFFORT * case.risk.coverage.tokens, LEAST_TOKENS)


def occlusion(
    case: Case,
    pieces: Sequence[Piece],
    windows: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """What each piece adds to the log-odds of its window, times the window's probability.

    It is the mean of two changes: the loss when the piece is removed from the window, and the gain
    when it is put into an empty window, which are the last and the first step of a Shapley value.
    The loss alone misses a piece whose window says the same thing twice. Occlusion is from Zeiler
    and Fergus 2014 (arXiv 1311.2901). The factor ranks pieces of the riskiest windows first, which
    decide the stay's score.

    To measure a gain, the model reads as many tokens as the piece has; for a loss, as many as its
    window. The gains are therefore measured first, and then the losses of the pieces with the
    largest gains, as far as the budget of tokens goes. Without a loss, the value is half the gain.

    Args:
        case: the stay.
        pieces: the pieces of the stay, from `sentence_pieces`.
        windows: numbers of the windows to examine.

    Returns:
        The values, 0 for pieces of other windows, and whether the loss of a piece was measured;
        each of shape (pieces,).
    """
    rows = np.flatnonzero(np.isin([p.window for p in pieces], windows))
    examined = [pieces[row] for row in rows.tolist()]
    empty = case.empty_window()
    alone = [np.insert(empty, 1, case.tokens(piece)) for piece in examined]
    gains = logit(case.predict_windows(alone)) - logit(
        case.predict_windows([empty])
    )
    window_numbers = [piece.window for piece in examined]
    probabilities = case.probabilities[window_numbers]
    order = np.argsort(-np.abs(gains * probabilities), kind="stable")
    lengths = np.array([len(window.input_ids) for window in case.windows])
    costs = lengths[window_numbers][order]
    remaining = _budget(case) - sum(map(len, alone))
    n_affordable = int((np.cumsum(costs) <= remaining).sum())
    chosen = order[: max(LEAST_LEFT_OUT, n_affordable)]
    shortened = [
        case.shortened(window_numbers[i], [examined[i]]) for i in chosen
    ]
    losses = logit(probabilities[chosen]) - logit(
        case.predict_windows(shortened)
    )
    gains[chosen] += losses
    values = np.zeros(len(pieces))
    values[rows] = gains / 2 * probabilities
    left_out = np.zeros(len(pieces), dtype=bool)
    left_out[rows[chosen]] = True
    return values, left_out


def _measured(
    case: Case,
    pieces: Sequence[Piece],
    values: np.ndarray,
    *,
    top: int,
) -> list[tuple[Piece, Passage]]:
    """The strongest pieces and their passages, the largest absolute value first.

    There are at most `top` raising and `top` lowering passages.
    """
    order = np.argsort(-values, kind="stable")
    strongest = [row for row in order[:top] if values[row] > 0]
    strongest += [row for row in order[-top:] if values[row] < 0]
    strongest.sort(key=lambda row: -abs(values[row]))
    scores, probabilities = case.risks(
        [case.kept([pieces[i]]) for i in strongest]
    )
    changes = pd.DataFrame(
        {
            "score": case.risk.score - scores,
            "probability": case.risk.probability - probabilities,
        },
        index=strongest,
    )
    changes = changes[changes["score"] != 0]
    # At most `top` that raise the score, and as many that lower it.
    changes = changes.groupby(changes["score"] > 0).head(top)
    measured = []
    for row, of_score, of_probability in changes.itertuples():
        piece = pieces[row]
        passage = Passage(
            note=piece.note,
            start=piece.start,
            end=piece.end,
            window=piece.window,
            value=float(values[row]),
            score_contribution=of_score,
            probability_contribution=of_probability,
            text=case.stay.texts[piece.note][piece.start : piece.end],
        )
        measured.append((piece, passage))
    return measured
