"""The sentences that raise or lower the risk of a stay, found by leaving each of them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evidence.case import Case, sentence_pieces
from clinical.evidence.view import Explanation, Passage
from clinical.stays.patients import patient_codes, patient_keys
from domainbert.errors import UserError
from domainbert.progress import counted
from domainbert.statistics.bootstrap import resample
from domainbert.statistics.calibration import logit

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evidence.case import Piece
    from clinical.risk.model import RiskModel
    from clinical.stays.stays import Given, ReadStay

TOP = 5

EFFORT = 3.0
"""Occlusion reads up to this many times the tokens of the stay."""

SHARE = 0.05
"""Share of a stay's tokens that is removed to measure faithfulness."""

RANDOM = 2
"""Random orders of the sentences that are averaged."""


def explain(model: RiskModel, stay: Given, *, top: int = TOP) -> Explanation:
    """Find the sentences that raise and lower the risk of one stay.

    Each sentence of the riskiest windows is left out in turn; see `occlusion`. The strongest ones
    are then removed from the stay, and what that changes is their contribution and direction.

    Args:
        model: that scores the stay.
        stay: as for `RiskModel.predict`.
        top: at most this many raising passages, and as many lowering ones, at least 1.

    Raises:
        UserError: `top` below 1.
    """
    if top < 1:
        raise UserError(f"top is {top}; expected at least 1")
    case = Case(model, stay)
    if case.risk.status != "ok":
        return Explanation(
            case.risk, (), (), None, None, case.stay.texts, model.outcome
        )
    pieces = sentence_pieces(case.stay)
    examined = windows_that_matter(case, pieces)
    values = occlusion(case, pieces, examined)
    named = _named(case, pieces, values, top=top)
    without = alone = None
    if raising := [piece for piece, passage in named if passage.raises]:
        kept = case.kept(raising)
        without, alone = case.risks([kept, [~mask for mask in kept]])[1].tolist()
    passages = tuple(passage for _, passage in named)
    found = (passages, tuple(examined), without, alone)
    return Explanation(case.risk, *found, case.stay.texts, model.outcome)


def windows_that_matter(case: Case, pieces: Sequence[Piece]) -> list[int]:
    """The riskiest windows: as many as `EFFORT` allows, and at least one.

    Under the readmission rule the riskiest windows also contribute most.
    """
    order = np.argsort(-case.probabilities, kind="stable")
    numbers = [piece.window for piece in pieces]
    # Every window has a piece, so both have the shape (windows,).
    sizes, tokens = (
        np.bincount(numbers),
        np.bincount(numbers, weights=[*map(len, pieces)]),
    )
    # n shortened windows, each without one of n pieces, have n - 1 times the window's tokens.
    cost = np.cumsum(((sizes - 1) * tokens)[order])
    return order[: max(1, int((cost <= EFFORT * tokens.sum()).sum()))].tolist()


def occlusion(
    case: Case, pieces: Sequence[Piece], windows: Sequence[int]
) -> np.ndarray:
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
    inside = [
        index for index, piece in enumerate(pieces) if piece.window in set(windows)
    ]
    examined = [pieces[index] for index in inside]
    numbers = [piece.window for piece in examined]
    special = case.window(0).input_ids[[0, -1]]
    alone = [
        np.insert(special, 1, case.window(p.window).input_ids[1:-1][p.first : p.last])
        for p in examined
    ]
    whole = logit(case.probabilities[numbers])
    lost = whole - logit(case.score([case.shortened(p.window, [p]) for p in examined]))
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
        piece, alike = (
            pieces[i],
            sum(passage.raises == (score > 0) for _, passage in named),
        )
        if score and alike < top:
            text = case.stay.texts[piece.note][piece.start : piece.end]
            place = (piece.note, piece.start, piece.end, piece.window)
            effect = (float(values[i]), float(score), float(probability))
            named.append((piece, Passage(*place, *effect, text)))
    return named


def evaluate_faithfulness(
    model: RiskModel, stays: pd.DataFrame, *, bootstrap: int = 1000
) -> dict[str, Any]:
    """How far the probability falls without `SHARE` of a stay's tokens, mean over stays.

    Comprehensiveness as in ERASER (DeYoung et al. 2020, arXiv 1911.03429): without the sentences
    that `explain` names first ("occlusion"), without as many random tokens ("random"), and the
    difference in the same stays.

    Args:
        model: whose explanations are measured.
        stays: `patient_id` and `text` (a note or a list of notes), neither trained on nor, to
            report a number, chosen on.
        bootstrap: resamples of patients for 95% intervals; 0 gives none.

    Returns:
        What a model's card shows: `stays`, `patients`, `table`, `verdicts`, and `measures`
        with `method`, `measure`, `value`, `low` and `high`.

    Raises:
        UserError: no stay can be scored.
    """
    generator = np.random.default_rng(0)
    rows, patients = measure_stays(model, stays, lambda case: _falls(case, generator))
    codes, falls = patient_codes(patients, n=len(rows)), np.array(rows)
    means = resample(lambda w: w @ falls / w.sum(), codes, bootstrap=bootstrap)
    named, chance, lead = (
        m.interval() for m in (means[0], means[1], means[0] - means[1])
    )
    intervals = {"occlusion": named, "random": chance, "occlusion minus random": lead}
    measure = f"comprehensiveness {SHARE:.0%}"
    shown = lead.low is not None and lead.low > 0
    verdict = (
        f"Without the {SHARE:.0%} of its tokens that explain names first, the probability of a "
        f"stay {'falls further' if shown else 'is not shown to fall further'} than without random "
        f"sentences of the same length (by {named} and {chance}, difference {lead})."
    )
    return {
        "stays": len(rows),
        "patients": len(set(patients)),
        "table": [["", *intervals], [measure, *map(str, intervals.values())]],
        "verdicts": [verdict],
        "measures": [
            {"method": n, "measure": measure, **vars(i)} for n, i in intervals.items()
        ],
    }


def measure_stays(
    model: RiskModel, stays: pd.DataFrame, measure: Callable[[Case], Any]
) -> tuple[list[Any], list[str]]:
    """What `measure` finds in each stay that can be scored, and the stays' patients.

    Raises:
        UserError: no stay can be scored.
    """
    rows, patients = [], []
    texts = zip(
        stays.to_dict("records"), patient_keys(stays["patient_id"]), strict=True
    )
    for text, patient in counted(texts, what="explaining", total=len(stays)):
        case = Case(model, text)
        if case.risk.status == "ok":
            rows.append(measure(case))
            patients.append(str(patient))
    if not rows:
        raise UserError(f"none of the {len(stays)} stays can be scored")
    return rows, patients


def _falls(case: Case, generator: np.random.Generator) -> tuple[float, float]:
    """How far the probability falls without the named sentences, and without random ones."""
    pieces = sentence_pieces(case.stay)
    values = occlusion(case, pieces, windows_that_matter(case, pieces))
    orders = [np.argsort(-values, kind="stable")]
    orders += [generator.permutation(len(pieces)) for _ in range(RANDOM)]
    chosen = [
        chosen_tokens(case.stay, [pieces[i] for i in one], share=SHARE)
        for one in orders
    ]
    left = case.risks([[~mask for mask in masks] for masks in chosen])[1]
    falls = case.risk.probability - left
    return float(falls[0]), float(falls[1:].mean())


def chosen_tokens(
    stay: ReadStay, pieces: Sequence[Piece], *, share: float
) -> list[np.ndarray]:
    """Which tokens of each window are the first ones of pieces, up to a share of the stay's.

    Equally many for any order of all pieces, because the last one is cut.
    """
    chosen = [np.zeros(len(window.offsets), dtype=bool) for _, window in stay.windows]
    left = int(np.ceil(share * sum(map(len, chosen))))
    for piece in pieces:
        chosen[piece.window][piece.first : min(piece.last, piece.first + left)] = True
        left -= min(len(piece), left)
    return chosen
