"""Faithfulness: whether the passages that a method names are those that the model uses.

Comprehensiveness and sufficiency at fixed shares of the tokens, as in ERASER (DeYoung et al. 2020,
arXiv 1911.03429), their mean over the shares (AOPC), and the AOPC between the limits that the model
allows for each stay (normalised AOPC, Edin et al., arXiv 2408.08137).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from clinical.cohort.splits import patient_keys
from clinical.evaluation.intervals import MIN_PATIENTS, Interval
from clinical.evidence.attribution import METHODS, attribute, windows_that_matter
from clinical.evidence.case import Case, greedy_order
from clinical.evidence.pieces import sentence_pieces, word_starts
from domainbert.console import counted
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from clinical.evidence.pieces import Piece
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.stays import ReadStay

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
RANDOM = 2
"""Random orders of the sentences that are averaged."""
LIMITS = ("best", "worst")
"""Orders from a greedy search, which say what comprehensiveness the model allows for a stay."""
CONTROLS = ("windows", "random")
"""Sentences in the order of their windows' risk, and in a random order."""
DEFAULT = "occlusion"
SHUFFLED = "words shuffled"
BEHIND = f"AOPC of {DEFAULT} minus this"
TOP = 3
TINY = 1e-12

Numbers = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Faithfulness:
    """The measured faithfulness of the methods.

    Attributes:
        stays: how many were measured.
        patients: of how many patients.
        intervals: means over stays by (method, measure), with 95% intervals from resampling
            patients. Measures are "comprehensiveness 5%" and so on, "sufficiency 5%", "AOPC",
            "normalised AOPC", "AOPC over random", the default's AOPC minus this one, and
            "agreement"; for "words shuffled", the probability before and after, and the absolute
            change.
    """

    stays: int
    patients: int
    intervals: Mapping[tuple[str, str], Interval] = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """One row a method and measure: method, measure, value, low, high."""
        import pandas as pd

        rows = [[*key, i.value, i.low, i.high] for key, i in self.intervals.items()]
        return pd.DataFrame(rows, columns=["method", "measure", "value", "low", "high"])

    def to_rows(self) -> list[list[str]]:
        """Table of measures by methods as text, a head row first; without the shuffled words."""
        kept = [key for key in self.intervals if key[0] != SHUFFLED]
        methods, measures = (list(dict.fromkeys(names)) for names in zip(*kept, strict=True))
        cells = [
            [measure, *(str(self.intervals.get((m, measure), Interval(None))) for m in methods)]
            for measure in measures
        ]
        return [["", *methods], *cells]

    def verdicts(self) -> list[str]:
        """What the numbers say of the default method, and of the order of words."""
        said = []
        for name in (*(m for m in METHODS if m != DEFAULT), *CONTROLS):
            lead = self.intervals[name, BEHIND]
            shown = lead.low is not None and lead.low > 0
            ahead = "beats" if shown else "is not shown to beat"
            said.append(f"{DEFAULT} {ahead} {name}: AOPC higher by {lead}.")
        before, after, change = (
            self.intervals[SHUFFLED, m]
            for m in ("probability before", "probability after", "absolute change")
        )
        said.append(
            f"With the words of each window shuffled the mean probability goes from {before} to "
            f"{after}; a stay's changes by {change}."
        )
        return said


def evaluate_faithfulness(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    *,
    others: Sequence[ReadmissionModel] = (),
    bootstrap: int = 1000,
    seed: int = 0,
) -> Faithfulness:
    """Measure the methods on stays with `patient_id` and `text` (a note or a list of notes).

    Args:
        model: whose explanations are measured.
        stays: neither trained on nor, to report a number, chosen on.
        others: the same recipe trained with other seeds; "agreement" is the share of a stay's
            three top passages that overlap one of the three top passages of another model.
        bootstrap: resamples of patients; 0 gives no intervals.
        seed: of random orders, of shuffling and of resampling.

    Raises:
        UserError: no stay can be scored.
    """
    generator = np.random.default_rng(seed)
    rows, keys = [], patient_keys(stays["patient_id"])
    patients = []
    texts = zip(stays["text"], keys, strict=True)
    for text, patient in counted(texts, what="explaining", total=len(stays)):
        case = Case(model, text)
        if case.risk.status == "ok":
            rows.append(_measure(case, others, generator))
            patients.append(patient)
    if not rows:
        raise UserError(f"none of the {len(stays)} stays can be scored")
    found = _intervals(rows, patients, bootstrap, seed)
    return Faithfulness(len(rows), len(set(patients)), found)


def _measure(
    case: Case, others: Sequence[ReadmissionModel], generator: np.random.Generator
) -> Numbers:
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
    for name in METHODS if others else ():
        top = [pieces[i] for i in orders[name][0][:TOP]]
        shared = [_agreement(top, case.stay, other, name) for other in others]
        numbers[name, "agreement"] = float(np.mean(shared))
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


def _agreement(top: Sequence[Piece], stay: ReadStay, other: ReadmissionModel, method: str) -> float:
    """The share of passages that overlap one of another model's top passages."""
    numbers = sorted(stay.texts)
    case = Case(other, [stay.texts[number] for number in numbers])
    pieces = sentence_pieces(case.stay)
    values = attribute(case, pieces, method=method)
    found = [pieces[i] for i in np.argsort(-values, kind="stable")[:TOP]]
    hits = [
        any(
            numbers[one.note] == piece.note and piece.start < one.end and one.start < piece.end
            for one in found
        )
        for piece in top
    ]
    return float(np.mean(hits))


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


def _intervals(
    rows: Sequence[Numbers], patients: Sequence[object], bootstrap: int, seed: int
) -> dict[tuple[str, str], Interval]:
    """Means over stays with intervals, and the ratios of the methods' AOPC to that of random."""
    names = list(rows[0])
    values = np.array([[row[name] for name in names] for row in rows])
    _, codes = np.unique(np.array(patients, dtype=str), return_inverse=True)
    count = int(codes.max()) + 1
    generator = np.random.default_rng(seed)
    repeats = bootstrap if count >= MIN_PATIENTS else 0
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=repeats)[:, codes]
    means = np.vstack([values.mean(axis=0), drawn @ values / drawn.sum(axis=1, keepdims=True)])
    columns = dict(zip(names, means.T, strict=True))
    by_chance = columns["random", "AOPC"]
    for name in (*METHODS, *CONTROLS):
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[name, "AOPC over random"] = columns[name, "AOPC"] / by_chance
        if name != DEFAULT:
            columns[name, BEHIND] = columns[DEFAULT, "AOPC"] - columns[name, "AOPC"]
    return {name: _interval(column) for name, column in columns.items()}


def _interval(column: np.ndarray) -> Interval:
    """From a value, followed by those of resamples."""
    if len(column) == 1:
        return Interval(float(column[0]))
    low, high = np.nanquantile(column[1:], [0.025, 0.975])
    return Interval(float(column[0]), float(low), float(high))
