"""Faithfulness: how much more of a risk the named sentences carry than random ones do.

Comprehensiveness as in ERASER (DeYoung et al. 2020, arXiv 1911.03429) at one share of the tokens.
`benchmarks/faithfulness.py` compares methods over several shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clinical.evidence.case import Case, sentence_pieces
from clinical.evidence.explain import occlusion, windows_that_matter
from clinical.stays.patients import patient_codes, patient_keys
from domainbert.cli.console import counted
from domainbert.errors import UserError
from domainbert.statistics.bootstrap import Interval, resample

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from clinical.evidence.case import Piece
    from clinical.risk.model import RiskModel
    from clinical.stays.stays import ReadStay

SHARE = 0.05
"""Share of a stay's tokens that is removed."""
RANDOM = 2
"""Random orders of the sentences that are averaged."""
NAMED, CHANCE, LEAD = "occlusion", "random", "occlusion minus random"


@dataclass(frozen=True)
class Faithfulness:
    """How far the probability falls without `SHARE` of a stay's tokens, mean over stays.

    `intervals` are those of the sentences that `explain` names first, of as many random tokens,
    and of the difference in the same stays.
    """

    stays: int
    patients: int
    intervals: dict[str, Interval]

    def verdict(self) -> str:
        """What the numbers say, in one sentence."""
        lead = self.intervals[LEAD]
        shown = lead.low is not None and lead.low > 0
        ahead = "falls further" if shown else "is not shown to fall further"
        return (
            f"Without the {SHARE:.0%} of its tokens that explain names first, the probability of a "
            f"stay {ahead} than without random sentences of the same length (by "
            f"{self.intervals[NAMED]} and {self.intervals[CHANCE]}, difference {lead})."
        )

    def to_dict(self) -> dict[str, object]:
        """As JSON and a model's card hold it."""
        measure = f"comprehensiveness {SHARE:.0%}"
        return {
            "stays": self.stays,
            "patients": self.patients,
            "table": [["", *self.intervals], [measure, *map(str, self.intervals.values())]],
            "verdicts": [self.verdict()],
            "measures": [
                {"method": name, "measure": measure, **vars(interval)}
                for name, interval in self.intervals.items()
            ],
        }


def evaluate_faithfulness(
    model: RiskModel, stays: pd.DataFrame, *, bootstrap: int = 1000, seed: int = 0
) -> Faithfulness:
    """Measure explanations on stays with `patient_id` and `text` (a note or a list of notes).

    Args:
        model: whose explanations are measured.
        stays: neither trained on nor, to report a number, chosen on.
        bootstrap: resamples of patients; 0 gives no intervals.
        seed: of random orders and of resampling.

    Raises:
        UserError: no stay can be scored.
    """
    generator = np.random.default_rng(seed)
    rows, patients = [], []
    texts = zip(stays["text"], patient_keys(stays["patient_id"]), strict=True)
    for text, patient in counted(texts, what="explaining", total=len(stays)):
        case = Case(model, text)
        if case.risk.status == "ok":
            rows.append(_falls(case, generator))
            patients.append(patient)
    if not rows:
        raise UserError(f"none of the {len(stays)} stays can be scored")
    codes, falls = patient_codes(patients, n=len(rows)), np.array(rows)
    means = resample(lambda w: w @ falls / w.sum(), codes, bootstrap=bootstrap, seed=seed)
    named = {NAMED: means[0], CHANCE: means[1], LEAD: means[0] - means[1]}
    intervals = {name: resampled.interval() for name, resampled in named.items()}
    return Faithfulness(len(rows), len(set(patients)), intervals)


def _falls(case: Case, generator: np.random.Generator) -> tuple[float, float]:
    """How far the probability falls without the named sentences, and without random ones."""
    pieces = sentence_pieces(case.stay)
    values = occlusion(case, pieces, windows_that_matter(case, pieces))
    orders = [np.argsort(-values, kind="stable")]
    orders += [generator.permutation(len(pieces)) for _ in range(RANDOM)]
    chosen = [chosen_tokens(case.stay, [pieces[i] for i in one], share=SHARE) for one in orders]
    left = case.risks([[~mask for mask in masks] for masks in chosen])[1]
    falls = case.risk.probability - left
    return float(falls[0]), float(falls[1:].mean())


def chosen_tokens(stay: ReadStay, pieces: Sequence[Piece], *, share: float) -> list[np.ndarray]:
    """Which tokens of each window are the first ones of pieces, up to a share of the stay's.

    Equally many for any order of all pieces, because the last one is cut.
    """
    chosen = [np.zeros(len(window.offsets), dtype=bool) for _, window in stay.windows]
    left = int(np.ceil(share * sum(map(len, chosen))))
    for piece in pieces:
        chosen[piece.window][piece.first : min(piece.last, piece.first + left)] = True
        left -= min(len(piece), left)
    return chosen
