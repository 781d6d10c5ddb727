"""Faithfulness: whether the passages that a method names are those that the model uses.

Comprehensiveness and sufficiency at fixed shares of the tokens, as in ERASER (DeYoung et al. 2020,
arXiv 1911.03429), their mean over the shares (AOPC), and the AOPC between the limits that the model
allows for each stay (normalised AOPC, Edin et al., arXiv 2408.08137).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.evidence.attribution import METHODS, attribute, windows_that_matter
from clinical.evidence.case import greedy_order
from clinical.evidence.measured import Measured, Numbers, interval, measure_stays, resampled
from clinical.evidence.pieces import sentence_pieces, word_starts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from clinical.evidence.case import Case
    from clinical.evidence.pieces import Piece
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.stays import ReadStay
    from domainbert.intervals import Interval

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
RANDOM = 2
"""Random orders of the sentences that are averaged."""
LIMITS = ("best", "worst")
"""Orders from a greedy search, which say what comprehensiveness the model allows for a stay."""
CONTROLS = ("windows", "random")
"""Sentences in the order of their windows' risk, and in a random order."""
DEFAULT = "occlusion"
SHUFFLED = "words shuffled"
AREAS = ("AOPC", "normalised AOPC")
TINY = 1e-12


def lead(area: str) -> str:
    """The name of the default method's lead over another one, in the same stays."""
    return f"{area} of {DEFAULT} minus this"


class Faithfulness(Measured):
    """The measured faithfulness of the methods.

    Measures are "comprehensiveness 5%" and so on, "sufficiency 5%", "AOPC", "normalised AOPC",
    "AOPC over random", and the default's lead in both AOPCs (see `lead`); for "words shuffled",
    the probability before and after, and the absolute change.
    """

    def to_rows(self, *, without: str = SHUFFLED) -> list[list[str]]:
        """Table of measures by methods; without the shuffled words."""
        return super().to_rows(without=without)

    def verdicts(self) -> list[str]:
        """What the numbers say of the default method, and of the order of words."""
        said = []
        for name in (*(m for m in METHODS if m != DEFAULT), *CONTROLS):
            leads = [self.intervals[name, lead(area)] for area in AREAS]
            shown = all(each.low is not None and each.low > 0 for each in leads)
            ahead = "beats" if shown else "is not shown to beat"
            said.append(
                f"{DEFAULT} {ahead} {name}: AOPC higher by {leads[0]}, normalised by {leads[1]}."
            )
        before, after, change = (
            self.intervals[SHUFFLED, m]
            for m in ("probability before", "probability after", "absolute change")
        )
        said.append(
            f"With the words of each window shuffled, the mean probability changes from {before} "
            f"to {after}, and that of a stay by {change} on average."
        )
        return said


def evaluate_faithfulness(
    model: ReadmissionModel, stays: pd.DataFrame, *, bootstrap: int = 1000, seed: int = 0
) -> Faithfulness:
    """Measure the methods on stays with `patient_id` and `text` (a note or a list of notes).

    Args:
        model: whose explanations are measured.
        stays: neither trained on nor, to report a number, chosen on.
        bootstrap: resamples of patients; 0 gives no intervals.
        seed: of random orders, of shuffling and of resampling.

    Raises:
        UserError: no stay can be scored.
    """
    generator = np.random.default_rng(seed)
    rows, patients = measure_stays(model, stays, lambda case: _measure(case, generator))
    found = _intervals(resampled(rows, patients, bootstrap=bootstrap, seed=seed))
    return Faithfulness(len(rows), len(set(patients)), found)


def _measure(case: Case, generator: np.random.Generator) -> Numbers:
    """All measures of one stay, by method and name."""
    pieces = sentence_pieces(case.stay)
    windows = windows_that_matter(case, pieces)
    values = {name: attribute(case, pieces, method=name, windows=windows) for name in METHODS}
    orders = {name: [np.argsort(-one, kind="stable")] for name, one in values.items()}
    risks = np.array([case.probabilities[piece.window] for piece in pieces])
    orders["windows"] = [np.argsort(-risks, kind="stable")]
    orders["random"] = [generator.permutation(len(pieces)) for _ in range(RANDOM)]
    best = greedy_order(case, pieces, windows)
    orders |= {"best": [best], "worst": [best[::-1]]}
    numbers = _numbers(_curves(case, pieces, orders))
    return numbers | _shuffled(case, generator)


def _curves(
    case: Case, pieces: Sequence[Piece], orders: Mapping[str, Sequence[np.ndarray]]
) -> dict[str, np.ndarray]:
    """Comprehensiveness and sufficiency at every share, shape (2, shares), means over orders."""
    chosen = [
        chosen_tokens(case.stay, [pieces[i] for i in order], share=share)
        for some in orders.values()
        for order in some
        for share in SHARES
    ]
    choices = [kept for one in chosen for kept in ([~mask for mask in one], one)]
    drops = (case.risk.probability - case.risks(choices)[1]).reshape(-1, len(SHARES), 2)
    ends = np.cumsum([len(some) for some in orders.values()])[:-1]
    return {
        name: part.mean(axis=0).T for name, part in zip(orders, np.split(drops, ends), strict=True)
    }


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


def _numbers(curves: Mapping[str, np.ndarray]) -> Numbers:
    """The measures of the curves; AOPC is also placed between the worst and the best order."""
    areas = {name: float(comprehensive.mean()) for name, (comprehensive, _) in curves.items()}
    low, high = min(areas.values()), max(areas.values())
    numbers: Numbers = {}
    for name, (comprehensive, sufficient) in curves.items():
        if name in LIMITS:
            continue
        for share, one, other in zip(SHARES, comprehensive, sufficient, strict=True):
            numbers[name, f"comprehensiveness {share:.0%}"] = float(one)
            numbers[name, f"sufficiency {share:.0%}"] = float(other)
        numbers[name, "AOPC"] = areas[name]
        numbers[name, "normalised AOPC"] = (areas[name] - low) / max(high - low, TINY)
    return numbers


def _shuffled(case: Case, generator: np.random.Generator) -> Numbers:
    """The risk of the same words with their order shuffled inside each window."""
    windows = []
    for _, window in case.stay.windows:
        words = np.split(window.input_ids[1:-1], word_starts(window)[1:])
        mixed = [words[i] for i in generator.permutation(len(words))]
        windows.append(np.concatenate((window.input_ids[:1], *mixed, window.input_ids[-1:])))
    before = case.risk.probability
    after = case.model.risk_of(case.stay, case.score(windows)).probability
    return {
        (SHUFFLED, "probability before"): before,
        (SHUFFLED, "probability after"): after,
        (SHUFFLED, "absolute change"): abs(after - before),
    }


def _intervals(columns: dict[tuple[str, str], np.ndarray]) -> dict[tuple[str, str], Interval]:
    """With the ratios of the AOPCs to that of random, and the default's leads."""
    by_chance = columns["random", "AOPC"]
    for name in (*METHODS, *CONTROLS):
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[name, "AOPC over random"] = columns[name, "AOPC"] / by_chance
        for area in AREAS if name != DEFAULT else ():
            columns[name, lead(area)] = columns[DEFAULT, area] - columns[name, area]
    return {name: interval(column) for name, column in columns.items()}
