"""How well risks put readmitted stays first: one sort, then any weights in linear time.

Throughout, alerting at a threshold means `probability >= threshold`, so that stays of equal risk
are always on one side of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clinical.evaluation.calibration import checked
from domainbert.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

PRECISION = 0.8
"""The precision of the paper's RP80: at most one alert in five may be false."""


@dataclass(frozen=True)
class OperatingPoint:
    """What alerting at `probability >= threshold` gives: recall and precision, in [0, 1]."""

    recall: float
    precision: float
    threshold: float


class Ranking:
    """Stays in falling order of risk, equal risks together.

    Args:
        y: shape (n,), 0 or 1, n >= 1.
        probability: shape (n,), finite.

    Attributes:
        thresholds: shape (distinct,), the distinct risks, falling.
    """

    def __init__(self, y: Floats, probability: Floats) -> None:
        self._order = np.argsort(-probability, kind="stable")
        risks = probability[self._order]
        self._positive = y[self._order]
        self._starts = np.flatnonzero(np.r_[True, risks[1:] != risks[:-1]])
        self.thresholds = risks[self._starts]

    def counts(self, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """Readmitted and other stays at or above each threshold, each of shape (distinct,).

        With weights, shape (n,) and not negative, their sums instead of numbers.
        """
        ordered = np.ones_like(self._positive) if weights is None else weights[self._order]
        positive = ordered * self._positive
        true = np.cumsum(np.add.reduceat(positive, self._starts))
        false = np.cumsum(np.add.reduceat(ordered - positive, self._starts))
        return true, false


def area_under_roc(true: Floats, false: Floats) -> float:
    """The chance that a readmitted stay outranks another, ties one half; from `Ranking.counts`."""
    height = true - np.diff(true, prepend=0.0) / 2
    return float(np.diff(false, prepend=0.0) @ height / (true[-1] * false[-1]))


def area_under_precision_recall(true: Floats, false: Floats) -> float:
    """Precision averaged over the steps of recall; from `Ranking.counts`."""
    return float(np.diff(true, prepend=0.0) @ precisions(true, false) / true[-1])


def precisions(true: Floats, false: Floats) -> Floats:
    """Precision at each threshold, 0 where nothing weighs above it; from `Ranking.counts`."""
    alerts = true + false
    return np.divide(true, alerts, out=np.zeros_like(true), where=alerts > 0)


def best_recall(true: Floats, false: Floats, *, precision: float) -> float:
    """The largest recall at no less than a precision, 0 where none is; from `Ranking.counts`."""
    enough = precisions(true, false) >= precision
    return float(np.max(true, where=enough, initial=0.0) / true[-1])


def auroc(
    y: ArrayLike, probability: ArrayLike, *, weights: ArrayLike | None = None
) -> float | None:
    """Area under the ROC curve; equal risks count one half.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        weights: shape (n,), not negative; 1 each by default.

    Returns:
        In [0, 1]; None where only one outcome has any weight.

    Raises:
        ValueError: lengths differ, y is not 0/1, or a probability is missing or outside [0, 1].
    """
    true, false = _counts(y, probability, weights)
    return area_under_roc(true, false) if true[-1] > 0 and false[-1] > 0 else None


def average_precision(
    y: ArrayLike, probability: ArrayLike, *, weights: ArrayLike | None = None
) -> float | None:
    """Area under the precision-recall curve, as a sum of steps and not of trapezia.

    Arguments, result and errors are those of `auroc`.
    """
    true, false = _counts(y, probability, weights)
    both = true[-1] > 0 and false[-1] > 0
    return area_under_precision_recall(true, false) if both else None


def _counts(
    y: ArrayLike, probability: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats]:
    outcome, risk = checked(y, probability)
    weight = np.ones_like(risk) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != risk.shape or not (weight >= 0).all():
        raise UserError(f"weights must be {len(risk)} numbers, none negative and none missing")
    return Ranking(outcome, risk).counts(weight)


def recall_at_precision(
    y: ArrayLike, probability: ArrayLike, *, precision: float = PRECISION
) -> OperatingPoint | None:
    """The largest recall whose precision is enough, and the threshold that reaches it (RP80).

    The threshold is the best one for these very stays: choose it on validation and keep it for
    the test, where a fresh choice flatters.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        precision: the least share of alerts that must be right, in (0, 1].

    Returns:
        Of thresholds with equal recall the highest; None where no threshold is precise enough.

    Raises:
        ValueError: bad input, as for `auroc`, or a precision outside (0, 1].

    Source: Huang, Altosaar and Ranganath 2019, section 4.
    """
    if not 0 < precision <= 1:
        raise UserError(f"precision is {precision}; it must lie in (0, 1], such as 0.8")
    outcome, risk = checked(y, probability)
    ranking = Ranking(outcome, risk)
    true, false = ranking.counts()
    reached = precisions(true, false)
    if not (reached >= precision).any():
        return None
    best = int(np.argmax(np.where(reached >= precision, true, -1.0)))
    return OperatingPoint(
        recall=float(true[best] / true[-1]),
        precision=float(reached[best]),
        threshold=float(ranking.thresholds[best]),
    )


def at_threshold(y: Floats, alert: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """Recall and precision of given alerts; NaN where there is nothing to find or no alert.

    Args:
        y: shape (n,), 0 or 1.
        alert: shape (n,).
        weights: shape (n,), not negative.
    """
    found, alerts, all_positive = weights @ (y * alert), weights @ alert, weights @ y
    return (
        float(found / all_positive) if all_positive else np.nan,
        float(found / alerts) if alerts else np.nan,
    )
