"""Agreement: whether models that were trained with other seeds name the same passages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.evidence.attribution import METHODS, attribute
from clinical.evidence.case import Case
from clinical.evidence.measured import Measured, Numbers, interval, measure_stays, resampled
from clinical.evidence.pieces import sentence_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from clinical.evidence.pieces import Piece
    from clinical.risk.model import ReadmissionModel

TOP = 3
SHARED, CHANCE = "agreement", "agreement by chance"


class Agreement(Measured):
    """The share of a stay's top passages that overlap a top passage of another model.

    Measures are "agreement", and "agreement by chance": that of as many random sentences.
    """

    def verdicts(self) -> list[str]:
        """One sentence a method."""
        return [
            f"Of the {TOP} top passages by {name}, a share of {self.intervals[name, SHARED]} "
            "overlaps a top passage of a model trained with another seed; of random sentences, "
            f"{self.intervals[name, CHANCE]}."
            for name in METHODS
        ]


def evaluate_agreement(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    *,
    others: Sequence[ReadmissionModel],
    bootstrap: int = 1000,
    seed: int = 0,
) -> Agreement:
    """Compare the top passages of models on stays with `patient_id` and `text`.

    Args:
        model: whose explanations are compared with the others'.
        stays: that none of the models was trained on.
        others: the same recipe trained with other seeds, at least one.
        bootstrap: resamples of patients; 0 gives no intervals.
        seed: of the random sentences and of resampling.

    Raises:
        UserError: no stay can be scored.
    """
    generator = np.random.default_rng(seed)

    def measure(case: Case) -> Numbers:
        pieces = sentence_pieces(case.stay)
        chance = [pieces[i] for i in generator.permutation(len(pieces))[:TOP]]
        notes = sorted(case.stay.texts)
        cases = [Case(other, [case.stay.texts[note] for note in notes]) for other in others]
        numbers: Numbers = {}
        for method in METHODS:
            mine = _top(case, method)
            # The others count the notes from 0.
            theirs = [[(notes[p.note], p.start, p.end) for p in _top(one, method)] for one in cases]
            for name, chosen in ((SHARED, mine), (CHANCE, chance)):
                numbers[method, name] = float(np.mean([_overlap(chosen, one) for one in theirs]))
        return numbers

    rows, patients = measure_stays(model, stays, measure)
    columns = resampled(rows, patients, bootstrap=bootstrap, seed=seed)
    found = {name: interval(column) for name, column in columns.items()}
    return Agreement(len(rows), len(set(patients)), found)


def _top(case: Case, method: str) -> list[Piece]:
    pieces = sentence_pieces(case.stay)
    values = attribute(case, pieces, method=method)
    return [pieces[i] for i in np.argsort(-values, kind="stable")[:TOP]]


def _overlap(pieces: Sequence[Piece], places: Sequence[tuple[int, int, int]]) -> float:
    """The share of pieces that meet one of the places."""
    hits = [
        any(note == p.note and p.start < end and start < p.end for note, start, end in places)
        for p in pieces
    ]
    return float(np.mean(hits))
