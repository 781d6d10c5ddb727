"""The sentences that raise or lower the risk of a stay, found by leaving each of them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.evidence.case import Case, sentence_pieces
from clinical.evidence.view import Explanation, Passage
from domainbert.errors import UserError
from domainbert.statistics.calibration import logit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clinical.evidence.case import Piece
    from clinical.risk.model import RiskModel

TOP = 5

EFFORT = 3.0
"""Occlusion reads up to this many times the tokens of the stay."""


def explain(
    model: RiskModel,
    stay: str | Sequence[str],
    *,
    top: int = TOP,
    stay_id: object = None,
) -> Explanation:
    """Find the sentences that raise and lower the risk of one stay.

    Each sentence of the riskiest windows is left out in turn; see `occlusion`. The strongest ones
    are then removed from the stay, and what that changes is their contribution and direction.

    Args:
        model: that scores the stay.
        stay: one note, or a list of its notes in time order.
        top: at most this many raising passages, and as many lowering ones, at least 1.
        stay_id: returned with the risk.

    Raises:
        UserError: `top` below 1.
    """
    if top < 1:
        raise UserError(f"top is {top}; expected at least 1")
    case = Case(model, stay, stay_id=stay_id)
    if case.risk.status != "ok":
        return Explanation(case.risk, (), (), None, None, case.stay.texts)
    pieces = sentence_pieces(case.stay)
    examined = windows_that_matter(case, pieces)
    values = occlusion(case, pieces, examined)
    named = _named(case, pieces, values, top=top)
    without = alone = None
    if raising := [piece for piece, passage in named if passage.raises]:
        kept = case.kept(raising)
        without, alone = case.risks([kept, [~mask for mask in kept]])[1].tolist()
    passages = tuple(passage for _, passage in named)
    return Explanation(case.risk, passages, tuple(examined), without, alone, case.stay.texts)


def windows_that_matter(case: Case, pieces: Sequence[Piece]) -> list[int]:
    """The riskiest windows: as many as `EFFORT` allows, and at least one.

    Under the readmission rule the riskiest windows also contribute most.
    """
    order = np.argsort(-case.probabilities, kind="stable")
    sizes, tokens = np.zeros(len(order)), np.zeros(len(order))
    for piece in pieces:
        sizes[piece.window] += 1
        tokens[piece.window] += len(piece)
    # n shortened windows, each without one of n pieces, have n - 1 times the window's tokens.
    cost = np.cumsum(((sizes - 1) * tokens)[order])
    return order[: max(1, int((cost <= EFFORT * tokens.sum()).sum()))].tolist()


def occlusion(case: Case, pieces: Sequence[Piece], windows: Sequence[int]) -> np.ndarray:
    """What a piece adds to its window's log-odds, times the window's probability, shape (pieces,).

    The mean of what is lost when the piece is cut out of the window, and what is gained when it is
    put into an empty one: the last and the first step of a Shapley value. The first alone misses a
    piece whose window says the same thing twice. Occlusion is from Zeiler and Fergus 2014 (arXiv
    1311.2901). The factor puts the riskiest windows first, which decide the stay's score.

    Args:
        case: the stay.
        pieces: of the stay, from `sentence_pieces`.
        windows: numbers of the windows to examine; pieces of the others have the value 0.
    """
    inside = [index for index, piece in enumerate(pieces) if piece.window in set(windows)]
    examined = [pieces[index] for index in inside]
    numbers = [piece.window for piece in examined]
    special = case.window(0).input_ids[[0, -1]]
    alone = [
        np.insert(special, 1, case.window(p.window).input_ids[1:-1][p.first : p.last])
        for p in examined
    ]
    whole = logit(case.probabilities[numbers])
    lost = whole - logit(case.without(examined))
    gained = logit(case.score(alone)) - logit(case.score([special]))
    values = np.zeros(len(pieces))
    values[inside] = (lost + gained) / 2 * case.probabilities[numbers]
    return values


def _named(
    case: Case, pieces: Sequence[Piece], values: np.ndarray, *, top: int
) -> list[tuple[Piece, Passage]]:
    """At most `top` pieces of either direction with what they change, the largest value first."""
    order = np.argsort(-values, kind="stable")
    strongest = [i for i in order[:top] if values[i] > 0] + [
        i for i in order[-top:] if values[i] < 0
    ]
    strongest.sort(key=lambda i: -abs(values[i]))
    scores, risks = case.risks([case.kept([pieces[i]]) for i in strongest])
    effects = case.risk.score - scores, case.risk.probability - risks
    named: list[tuple[Piece, Passage]] = []
    for i, score, probability in zip(strongest, *effects, strict=True):
        piece, alike = pieces[i], sum(passage.raises == (score > 0) for _, passage in named)
        if score and alike < top:
            text = case.stay.texts[piece.note][piece.start : piece.end]
            place = (piece.note, piece.start, piece.end, piece.window)
            effect = (float(values[i]), float(score), float(probability))
            named.append((piece, Passage(*place, *effect, text)))
    return named
