"""The measures of quality: one table with each measure's name, how to read it, and its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError
from domainbert.statistics.calibration import (
    calibration_error,
    checked,
    equal_mass_bins,
    fit_logistic,
    logit,
    sigmoid,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

PRECISION = 0.8
"""The precision of the paper's RP80: at most one alert in five may be false."""


@dataclass(frozen=True)
class Stays:
    """Outcomes (0 or 1) and risks of stays, shape (n,), and the alert threshold of validation.

    Holds what does not depend on the weights.
    """

    y: Floats
    risk: Floats
    threshold: float | None = None

    @cached_property
    def varies(self) -> bool:
        """Whether both outcomes occur."""
        return bool(0 < self.y.sum() < len(self.y))

    @cached_property
    def cells(self) -> NDArray[np.intp]:
        """The calibration bin of each stay."""
        return equal_mass_bins(self.risk)

    @cached_property
    def ranks(self) -> NDArray[np.intp]:
        """The rank of each risk among the distinct ones, from 0."""
        return np.unique(self.risk, return_inverse=True)[1]

    @cached_property
    def logits(self) -> Floats:
        """Log-odds of the risks."""
        return logit(self.risk)

    @cached_property
    def calibration(self) -> tuple[float, float] | None:
        """Slope and intercept of the unweighted stays, where others start from."""
        return fit_logistic(self.logits, self.y, np.ones_like(self.y)) if self.varies else None


class WeightedStays:
    """Stays with weights, 1 by default, as the measures read them; equal risks count together."""

    def __init__(self, stays: Stays, weights: Floats | None = None) -> None:
        weights = np.ones_like(stays.risk) if weights is None else weights
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
    """The share of pairs in which the readmitted stay has the higher risk, half at a tie."""
    positives, ranks = stays.weights * stays.stays.y, stays.stays.ranks
    others = np.bincount(ranks, weights=stays.weights - positives)
    below = np.cumsum(others) - others / 2
    return float(positives @ below[ranks] / (stays.positive * (stays.total - stays.positive)))


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


def _false_positive_rate(stays: WeightedStays) -> float:
    alerts, right = stays.alerts
    return (alerts - right) / (stays.total - stays.positive)


def _observed_expected(stays: WeightedStays) -> float:
    expected = float(stays.weights @ stays.stays.risk)
    return stays.positive / expected if expected else np.nan


def _in_the_large(stays: WeightedStays) -> float:
    """The intercept of a logistic regression with the slope held at 1."""
    from scipy.optimize import brentq

    logits, weights, positive = stays.stays.logits, stays.weights, stays.positive
    return float(brentq(lambda shift: positive - weights @ sigmoid(logits + shift), -40, 40))


def _slope(stays: WeightedStays) -> float:
    inner = stays.stays
    start = inner.calibration or (1.0, 0.0)
    fitted = fit_logistic(inner.logits, inner.y, stays.weights, start=start)
    return fitted[0] if fitted else np.nan


def _ece(stays: WeightedStays) -> float:
    inner = stays.stays
    return calibration_error(inner.y, inner.risk, stays.weights, cells=inner.cells)


@dataclass(frozen=True)
class Measure:
    """One measure: its key in tables and JSON, its name, how to read it, its function.

    `both` says whether it needs both outcomes, and `by_group` whether groups and periods are
    compared in it too.
    """

    field: str
    name: str
    reading: str
    function: Callable[[WeightedStays], float]
    both: bool = True
    by_group: bool = False


MEASURES = (
    Measure(
        "auroc",
        "AUROC",
        "How often a stay with the outcome gets a higher risk than one without; 0.5 is chance.",
        _auroc,
        by_group=True,
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
        "Share of these stays that had the outcome, as found.",
        lambda stays: stays.positive / stays.total,
        both=False,
    ),
    Measure(
        "rp80",
        "Recall at 80% precision",
        "Share of outcomes found when at least 80% of alerts are right, at the best threshold "
        "for these very stays, as papers report it. It is optimistic.",
        _rp80,
    ),
    Measure(
        "recall_at_threshold",
        "Recall at the threshold",
        "Share of outcomes found at the threshold chosen beforehand on validation: what to "
        "expect in use.",
        lambda stays: stays.alerts[1] / stays.positive,
        by_group=True,
    ),
    Measure(
        "precision_at_threshold",
        "Precision at the threshold",
        "Share of those alerts that are right; the threshold was chosen for 80% on validation.",
        _precision,
    ),
    Measure(
        "false_positive_rate",
        "False-positive rate",
        "Share of the stays without the outcome that get an alert at the threshold.",
        _false_positive_rate,
        by_group=True,
    ),
    Measure(
        "alerts_per_100",
        "Alerts per 100 stays",
        "How many of 100 stays have an alert at the threshold.",
        lambda stays: 100 * stays.alerts[0] / stays.total,
        both=False,
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
        "observed_expected",
        "Observed / expected",
        "Outcomes that happened for each one that the risks predict. 1 is right; above 1 the "
        "risks are too low, below 1 too high.",
        _observed_expected,
        both=False,
    ),
    Measure(
        "observed_minus_predicted",
        "Observed minus predicted",
        "Share of stays with the outcome minus the mean risk; above 0 the risks are too low.",
        lambda stays: (stays.positive - float(stays.weights @ stays.stays.risk)) / stays.total,
        both=False,
        by_group=True,
    ),
    Measure(
        "calibration_in_the_large",
        "Calibration in the large",
        "What must be added to the log-odds of all risks to make their level right (the intercept "
        "with the slope held at 1). 0 is right; above 0 the risks are too low, below 0 too high.",
        _in_the_large,
    ),
    Measure(
        "calibration_slope",
        "Calibration slope",
        "How the risks spread, whatever their level. 1 is right; below 1 they are too extreme, "
        "above 1 not extreme enough.",
        _slope,
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
GROUP_MEASURES = tuple(measure for measure in MEASURES if measure.by_group)


def numbers(
    stays: Stays, weights: Floats | None = None, measures: Sequence[Measure] = MEASURES
) -> list[float]:
    """Measures of weighted stays, NaN where there is none.

    A resample with one outcome of stays that have both gives none at all.
    """
    weighted = WeightedStays(stays, weights)
    if not weighted.total or (stays.varies and not weighted.varies):
        return [np.nan] * len(measures)
    return [
        measure.function(weighted) if weighted.varies or not measure.both else np.nan
        for measure in measures
    ]


def precise_threshold(
    y: ArrayLike, probability: ArrayLike, *, precision: float = PRECISION
) -> float | None:
    """The threshold with the largest recall among those with at least a given precision (RP80).

    It is the best one for these very stays: choose it on validation and keep it for the test, where
    a fresh choice is optimistic. Of thresholds with equal recall the highest is returned; None
    where no threshold is precise enough.

    Source: Huang, Altosaar and Ranganath 2019, section 4.

    Raises:
        UserError: bad input, see `checked`, or a precision outside (0, 1].
    """
    if not 0 < precision <= 1:
        raise UserError(f"precision is {precision}; it must be in (0, 1], such as 0.8")
    true, false, thresholds = WeightedStays(Stays(*checked(y, probability))).curve
    right = np.where(precisions(true, false) >= precision, true, 0.0)
    return float(thresholds[np.argmax(right)]) if right.any() else None
