"""explain: the passages that raise or lower the risk of a stay, and what is left without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from clinical.evidence.attribution import attribute, integrated_gradients, windows_that_matter
from clinical.evidence.case import Case
from clinical.evidence.phrases import phrases
from clinical.evidence.pieces import sentence_pieces
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from clinical.evidence.pieces import Piece
    from clinical.evidence.view import StayView
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.stays import StayRisk

TOP = 5


@dataclass(frozen=True)
class Passage:
    """Characters `start` to `end` of note number `note`, and what they do to the risk.

    Attributes:
        window: number of its window in `StayRisk.windows`.
        value: what the method says that it adds to the log-odds of its window, times the window's
            probability; negative where it lowers the risk. It ranks passages.
        score_contribution: the stay's score minus its score without the passage, measured.
        probability_contribution: the same for the probability. It is small where another passage
            says the same thing, because the risk then stays high without this one.
        text: the passage itself, not in the repr.
    """

    note: int
    start: int
    end: int
    window: int
    value: float
    score_contribution: float
    probability_contribution: float
    text: str = field(repr=False)


@dataclass(frozen=True)
class Explanation:
    """Why a stay has its risk.

    Attributes:
        risk: with the exact contribution of each window.
        passages: the raising and lowering ones, the largest `value` (without its sign) first;
            empty where `risk.status` is not "ok".
        method: that found them.
        examined: numbers of the windows that were searched for passages, the riskiest first.
        without_raising: the probability without all raising passages (comprehensiveness is what
            it falls by); None without such a passage.
        raising_alone: the probability of the raising passages alone (sufficiency); likewise.
        texts: the notes by number, not in the repr.
    """

    risk: StayRisk
    passages: tuple[Passage, ...]
    method: str
    examined: tuple[int, ...]
    without_raising: float | None
    raising_alone: float | None
    texts: dict[int, str] = field(repr=False)

    @property
    def raising(self) -> tuple[Passage, ...]:
        """The passages that raise the risk, the strongest first."""
        return tuple(passage for passage in self.passages if passage.value > 0)

    @property
    def lowering(self) -> tuple[Passage, ...]:
        """The passages that lower the risk, the strongest first."""
        return tuple(passage for passage in self.passages if passage.value < 0)

    def to_frame(self) -> pd.DataFrame:
        """One row a passage, with the columns of `Passage`."""
        import pandas as pd

        columns = list(Passage.__dataclass_fields__)
        return pd.DataFrame([vars(p) for p in self.passages], columns=columns)

    def show(self) -> StayView:
        """The notes with the passages tinted, for a notebook."""
        from clinical.evidence.view import StayView, passage_marks, passage_summary

        marks = passage_marks(self.passages)
        return StayView(self.risk, self.texts, marks, passage_summary(self))

    def save_html(self, path: str | Path) -> Path:
        """Write the notes with the passages tinted as one self-contained page."""
        return self.show().save_html(path)


def explain(
    model: ReadmissionModel,
    stay: str | Sequence[str],
    *,
    method: str = "occlusion",
    top: int = TOP,
    windows: int | None = None,
    stay_id: object = None,
) -> Explanation:
    """Find the passages that raise and lower the risk of one stay.

    "occlusion" removes each sentence of the riskiest windows in turn. "gradients" adds up
    integrated gradients over words, and merges neighbouring words into phrases. "attention" ranks
    sentences by the attention of [CLS], which is not an explanation; it is there to be compared.
    Whatever the method, the contributions of the passages are measured by removing them.

    Args:
        model: that scores the stay.
        stay: one note, or a list of its notes in time order.
        method: "occlusion", "gradients" or "attention".
        top: at most this many raising passages, and as many lowering ones, at least 1.
        windows: how many of the riskiest windows to search; by default as many as can be searched
            for about three times the work of scoring the stay, at least one.
        stay_id: returned with the risk.

    Raises:
        UserError: no such method, or `top` or `windows` below 1.
    """
    for name, number in {"top": top, "windows": windows}.items():
        if number is not None and number < 1:
            raise UserError(f"{name} is {number}; expected at least 1")
    case = Case(model, stay, stay_id=stay_id)
    if case.risk.status != "ok":
        return Explanation(case.risk, (), method, (), None, None, case.stay.texts)
    pieces = sentence_pieces(case.stay)
    examined = windows_that_matter(case, pieces, windows=windows)
    if method == "gradients":
        tokens = zip(examined, integrated_gradients(case, examined), strict=True)
        pieces, values = phrases(
            case.stay, {n: case.probabilities[n] * found for n, found in tokens}
        )
    else:
        values = attribute(case, pieces, method=method, windows=examined)
    return _measured(case, _strongest(pieces, values, top), method, examined)


def _strongest(pieces: Sequence[Piece], values: np.ndarray, top: int) -> list[tuple[Piece, float]]:
    """The `top` pieces of either sign, the largest values without their sign first."""
    order = np.argsort(-values, kind="stable")
    chosen = [i for i in order[:top] if values[i] > 0] + [i for i in order[-top:] if values[i] < 0]
    chosen.sort(key=lambda i: -abs(values[i]))
    return [(pieces[i], float(values[i])) for i in chosen]


def _measured(
    case: Case, found: Sequence[tuple[Piece, float]], method: str, examined: Sequence[int]
) -> Explanation:
    """An explanation from pieces with their values: what the risk is without each and all."""
    risk, texts = case.risk, case.stay.texts
    raising = case.kept([piece for piece, value in found if value > 0])
    choices = [case.kept([piece]) for piece, _ in found]
    scores, risks = case.risks([*choices, raising, [~kept for kept in raising]])
    passages = [
        Passage(
            *(piece.note, piece.start, piece.end, piece.window, value),
            score_contribution=risk.score - float(score),
            probability_contribution=risk.probability - float(probability),
            text=texts[piece.note][piece.start : piece.end],
        )
        for (piece, value), score, probability in zip(found, scores, risks, strict=False)
    ]
    some = any(value > 0 for _, value in found)
    without, alone = map(float, risks[-2:]) if some else (None, None)
    return Explanation(risk, tuple(passages), method, tuple(examined), without, alone, texts)
