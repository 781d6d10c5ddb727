"""The measures of quality: one table with each measure's name, how to read it, and its function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from clinical.evaluation.reliability import calibration_error, equal_mass_bins
from clinical.risk.calibration import checked, fit_logistic, logit
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

PRECISION = 0.8
"""The precision of the paper's RP80: at most one alert in five may be false."""


@dataclass(frozen=True)
class OperatingPoint:
    """Recall and precision of alerting where `probability >= threshold`, in [0, 1]."""

    recall: float
    precision: float
    threshold: float


@dataclass(frozen=True)
class Stays:
    """Outcomes (0 or 1) and risks of stays, shape (n,), and the alert threshold of validation.

    Holds what does not depend on the weights.
    """

    y: Floats
    risk: Floats
    threshold: float | None = None

    def weighted(self, weights: Floats | None = None) -> WeightedStays:
        """The stays with a weight each, shape (n,), by default 1."""
        return WeightedStays(self, np.ones_like(self.risk) if weights is None else weights)

    @cached_property
    def varies(self) -> bool:
        """Whether both outcomes occur."""
        return bool(0 < self.y.sum() < len(self.y))

    @cached_property
    def cells(self) -> NDArray[np.intp]:
        """The calibration bin of each stay."""
        return equal_mass_bins(self.risk)

    @cached_property
    def logits(self) -> Floats:
        """Log-odds of the risks."""
        return logit(self.risk)

    @cached_property
    def calibration(self) -> tuple[float, float] | None:
        """Slope and intercept of the unweighted stays."""
        return fit_logistic(self.logits, self.y, np.ones_like(self.y)) if self.varies else None


class WeightedStays:
    """Stays with weights, as the measures read them. Equal risks always count together."""

    def __init__(self, stays: Stays, weights: Floats) -> None:
        self.stays, self.weights = stays, weights
        self.positive, self.total = float(weights @ stays.y), float(weights.sum())
        self.varies = 0 < self.positive < self.total

    @cached_property
    def curve(self) -> tuple[Floats, Floats, Floats]:
        """True positives, false positives and threshold, by falling distinct threshold."""
        from sklearn.metrics import confusion_matrix_at_thresholds

        _, false, _, true, thresholds = confusion_matrix_at_thresholds(
            self.stays.y, self.stays.risk, sample_weight=self.weights
        )
        return true, false, thresholds

    @cached_property
    def calibration(self) -> tuple[float, float]:
        """Slope and intercept; NaN where no finite fit exists."""
        start = self.stays.calibration or (1.0, 0.0)
        found = fit_logistic(self.stays.logits, self.stays.y, self.weights, start=start)
        return found or (np.nan, np.nan)

    @cached_property
    def alerts(self) -> tuple[float, float]:
        """Weight of the stays at or above the threshold, and of the readmitted among them."""
        if self.stays.threshold is None:
            return np.nan, np.nan
        alerts = self.weights * (self.stays.risk >= self.stays.threshold)
        return float(alerts.sum()), float(alerts @ self.stays.y)


def precisions(true: Floats, false: Floats) -> Floats:
    """Precision at each threshold, 0 without alerts."""
    alerts = true + false
    return np.divide(true, alerts, out=np.zeros_like(true), where=alerts > 0)


def _auroc(stays: WeightedStays) -> float:
    from sklearn.metrics import auc

    true, false, _ = stays.curve
    return float(auc(np.r_[0, false / false[-1]], np.r_[0, true / true[-1]]))


def _auprc(stays: WeightedStays) -> float:
    true, false, _ = stays.curve
    return float(np.diff(true, prepend=0.0) @ precisions(true, false) / true[-1])


def _rp80(stays: WeightedStays) -> float:
    true, false, _ = stays.curve
    enough = precisions(true, false) >= PRECISION
    return float(np.max(true, where=enough, initial=0.0) / true[-1])


def _precision(stays: WeightedStays) -> float:
    alerts, right = stays.alerts
    return right / alerts if alerts else np.nan


def _ece(stays: WeightedStays) -> float:
    inner = stays.stays
    return calibration_error(inner.y, inner.risk, stays.weights, cells=inner.cells)


@dataclass(frozen=True)
class Measure:
    """One measure: its key in `Evaluation` and JSON, its name, how to read it, its function.

    `both` says whether it needs both outcomes, `card` whether cards and the command line show it.
    """

    field: str
    name: str
    reading: str
    function: Callable[[WeightedStays], float]
    both: bool = True
    card: bool = True


MEASURES = (
    Measure(
        "auroc",
        "AUROC",
        "How often a readmitted stay gets a higher risk than one not readmitted; 0.5 is chance.",
        _auroc,
    ),
    Measure(
        "auprc",
        "AUPRC",
        "Precision averaged over recall. Chance gives the prevalence.",
        _auprc,
    ),
    Measure(
        "prevalence",
        "Prevalence",
        "Share of these stays that were readmitted, as found.",
        lambda stays: stays.positive / stays.total,
        both=False,
    ),
    Measure(
        "rp80",
        "Recall at 80% precision",
        "Share of readmissions found when at least 80% of alerts are right, at the best threshold "
        "for these very stays, as papers report it. It is optimistic.",
        _rp80,
    ),
    Measure(
        "recall_at_threshold",
        "Recall at the threshold",
        "Share of readmissions found at the threshold chosen beforehand on validation: what to "
        "expect in use.",
        lambda stays: stays.alerts[1] / stays.positive,
    ),
    Measure(
        "precision_at_threshold",
        "Precision at the threshold",
        "Share of those alerts that are right; the threshold was chosen for 80% on validation.",
        _precision,
    ),
    Measure(
        "brier",
        "Brier score",
        "Mean squared difference of risk and outcome. Giving everyone the prevalence p scores "
        "p × (1 − p).",
        lambda stays: float(stays.weights @ (stays.stays.risk - stays.stays.y) ** 2 / stays.total),
        both=False,
    ),
    Measure(
        "calibration_slope",
        "Calibration slope",
        "1 is right; below 1 the risks are too extreme, above 1 not extreme enough.",
        lambda stays: stays.calibration[0],
    ),
    Measure(
        "calibration_intercept",
        "Calibration intercept",
        "With slope 1: 0 is right, below 0 the risks are too high, above 0 too low (log-odds, "
        "fitted together with the slope).",
        lambda stays: stays.calibration[1],
        card=False,
    ),
    Measure(
        "ece",
        "Expected calibration error",
        "Mean difference of predicted and observed risk over ten bins of equally many stays. "
        "Chance alone keeps it above 0, more so with few stays.",
        _ece,
        both=False,
    ),
)


def recall_at_precision(
    y: ArrayLike, probability: ArrayLike, *, precision: float = PRECISION
) -> OperatingPoint | None:
    """The largest recall with at least a given precision, and its threshold (RP80).

    The threshold is the best one for these very stays: choose it on validation and keep it for
    the test, where a fresh choice is optimistic. Of thresholds with equal recall the highest is
    returned; None where no threshold is precise enough.

    Source: Huang, Altosaar and Ranganath 2019, section 4.

    Raises:
        UserError: bad input, see `checked`, or a precision outside (0, 1].
    """
    if not 0 < precision <= 1:
        raise UserError(f"precision is {precision}; it must be in (0, 1], such as 0.8")
    outcome, risk = checked(y, probability)
    if not outcome.any():
        return None
    true, false, thresholds = Stays(outcome, risk).weighted().curve
    reached = precisions(true, false)
    if not (reached >= precision).any():
        return None
    best = int(np.argmax(np.where(reached >= precision, true, -1.0)))
    return OperatingPoint(
        recall=float(true[best] / true[-1]),
        precision=float(reached[best]),
        threshold=float(thresholds[best]),
    )
