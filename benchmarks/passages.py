"""How far the risk falls without the passages of `explain`.

`recipes/evidence.py` writes it into a model's card; `faithfulness.py` compares several methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from clinical.evidence.case import Case, Piece, sentence_pieces
from clinical.evidence.explain import occlusion, riskiest_windows
from clinical.stays.patients import patient_codes, patient_keys
from domainbert.errors import UserError
from domainbert.progress import counted
from domainbert.statistics.bootstrap import resample

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.model import ReadmissionModel
    from clinical.risk.reading import PreparedStay

RANDOM_ORDERS = 2
"""Random orders of the sentences whose falls are averaged."""

Measured = TypeVar("Measured")


def evaluate_faithfulness(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    *,
    bootstrap: int = 1000,
    share: float = 0.05,
) -> dict[str, Any]:
    """Measure how far the probability falls without a share of a stay's tokens.

    It is comprehensiveness as in ERASER (DeYoung et al. 2020, arXiv 1911.03429), averaged over
    stays: without the sentences that `explain` ranks first ("occlusion"), without as many random
    tokens ("random"), and the difference in the same stays.

    Args:
        model: the model whose explanations are measured.
        stays: `patient_id` and `text` (a note or a list of notes) of stays that the model was not
            trained on and, for a reported number, not chosen on.
        bootstrap: resamples of patients for 95% intervals; 0 for no intervals.
        share: the share of a stay's tokens that is removed.

    Returns:
        The entries of a model's card: `stays`, `patients`, `table`, `verdicts`, and `measures`
        with `method`, `measure`, `value`, `low` and `high`.

    Raises:
        UserError: no stay can be scored.
    """
    generator = np.random.default_rng(0)
    rows, patients = measure_stays(
        model, stays, lambda case: _falls(case, generator, share)
    )
    codes = patient_codes(patients, n=len(rows))
    falls = np.array(rows)
    means = resample(
        lambda weights: weights @ falls / weights.sum(),
        codes,
        bootstrap=bootstrap,
    )
    occluded = means[0].interval()
    random = means[1].interval()
    difference = (means[0] - means[1]).interval()
    intervals = {
        "occlusion": occluded,
        "random": random,
        "occlusion minus random": difference,
    }
    measure = f"comprehensiveness {share:.0%}"
    comparison = "is not shown to fall further"
    if difference.low is not None and difference.low > 0:
        comparison = "falls further"
    verdict = (
        f"Without the {share:.0%} of its tokens that explain names first, the probability of a "
        f"stay {comparison} than without random sentences of the same length (by {occluded} and "
        f"{random}, difference {difference})."
    )
    return {
        "stays": len(rows),
        "patients": len(set(patients)),
        "table": [["", *intervals], [measure, *map(str, intervals.values())]],
        "verdicts": [verdict],
        "measures": [
            {"method": method, "measure": measure, **vars(interval)}
            for method, interval in intervals.items()
        ],
    }


def measure_stays(
    model: ReadmissionModel,
    stays: pd.DataFrame,
    measure: Callable[[Case], Measured],
) -> tuple[list[Measured], list[str]]:
    """The result of `measure` for each stay that can be scored, and the stays' patients.

    Raises:
        UserError: no stay can be scored.
    """
    results = []
    patients = []
    notes = zip(
        stays.to_dict("records"),
        patient_keys(stays["patient_id"]),
        strict=True,
    )
    for stay, patient in counted(notes, what="explaining", total=len(stays)):
        case = Case(model, stay)
        if case.risk.status == "ok":
            results.append(measure(case))
            patients.append(str(patient))
    if not results:
        raise UserError(f"none of the {len(stays)} stays can be scored")
    return results, patients


def _falls(
    case: Case, generator: np.random.Generator, share: float
) -> tuple[float, float]:
    """How far the probability falls without the first sentences, and without random ones."""
    pieces = sentence_pieces(case.stay)
    values, _ = occlusion(case, pieces, riskiest_windows(case, pieces))
    orders = [np.argsort(-values, kind="stable")]
    orders += [
        generator.permutation(len(pieces)) for _ in range(RANDOM_ORDERS)
    ]
    choices = []
    for order in orders:
        ordered = [pieces[row] for row in order]
        removed = chosen_tokens(case.stay, ordered, share=share)
        choices.append([~mask for mask in removed])
    _, probabilities = case.risks(choices)
    falls = case.risk.probability - probabilities
    return float(falls[0]), float(falls[1:].mean())


def chosen_tokens(
    stay: PreparedStay,
    pieces: Sequence[Piece],
    *,
    share: float,
) -> list[np.ndarray]:
    """The first tokens of the pieces, up to a share of the stay's, as a mask for each window.

    Their number is the same for any order of all pieces, because the last piece is cut.
    """
    masks = [
        np.zeros(len(window.offsets), dtype=bool) for _, window in stay.windows
    ]
    remaining = int(np.ceil(share * sum(map(len, masks))))
    for piece in pieces:
        end = min(piece.last, piece.first + remaining)
        masks[piece.window][piece.first : end] = True
        remaining -= end - piece.first
    return masks
