"""The measures of quality, each a function with its name and how to read it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domainbert.statistics import Floats
from domainbert.statistics.calibration import (
    calibration_error,
    checked_risks,
    equal_mass_bins,
    fit_logistic,
    logit,
    sigmoid,
)

Function = Callable[["WeightedStays"], float]
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


class WeightedStays:
    """Stays with weights, 1 by default, as the measures read them; equal risks count together."""

    def __init__(self, stays: Stays, weights: Floats | None = None) -> None:
        if weights is None:
            weights = np.ones_like(stays.risk)
        self.stays = stays
        self.y = stays.y
        self.risk = stays.risk
        self.weights = weights
        self.positive = float(weights @ stays.y)
        self.total = float(weights.sum())
        self.expected = float(self.weights @ self.risk)
        self.varies = 0 < self.positive < self.total

    @cached_property
    def curve(self) -> tuple[Floats, Floats]:
        """Outcomes among the alerts, and alerts, by falling distinct threshold."""
        ranks = self.stays.ranks
        totals = np.bincount(ranks, weights=self.weights)
        positives = np.bincount(ranks, weights=self.weights * self.y)
        falling = np.flatnonzero(totals)[::-1]  # a resample lacks some risks
        return np.cumsum(positives[falling]), np.cumsum(totals[falling])

    @cached_property
    def alerts(self) -> tuple[float, float]:
        """Weight of all alerts, and of the right ones (the stay had the outcome)."""
        if self.stays.threshold is None:
            return np.nan, np.nan
        alerts = self.weights * (self.risk >= self.stays.threshold)
        return float(alerts.sum()), float(alerts @ self.y)


@dataclass(frozen=True)
class Measure:
    """One measure: its key in tables and JSON, its name, how to read it, its function.

    `needs_both` says whether it needs both outcomes, and `by_group` whether groups and periods are
    compared in it too.
    """

    field: str
    name: str
    reading: str
    function: Function
    needs_both: bool = True
    by_group: bool = False


MEASURES: list[Measure] = []
"""All measures, in the order of tables."""


def measure(name: str, **options: bool) -> Callable[[Function], Function]:
    """Add a function to `MEASURES`; its docstring tells readers of a report how to read it."""

    def add(function: Function) -> Function:
        reading = " ".join((function.__doc__ or "").split())
        field = function.__name__
        MEASURES.append(Measure(field, name, reading, function, **options))
        return function

    return add


@measure("AUROC", by_group=True)
def auroc(stays: WeightedStays) -> float:
    """How often a stay with the outcome gets a higher risk than one without; 0.5 is chance."""
    ranks = stays.stays.ranks
    positives = stays.weights * stays.y
    negatives = np.bincount(ranks, weights=stays.weights - positives)
    below = np.cumsum(negatives) - negatives / 2  # a tie counts as half
    n_pairs = stays.positive * (stays.total - stays.positive)
    return float(positives @ below[ranks] / n_pairs)


@measure("AUPRC")
def auprc(stays: WeightedStays) -> float:
    """Precision averaged over recall. Chance gives the prevalence."""
    true, alerts = stays.curve
    return float(np.diff(true, prepend=0.0) @ (true / alerts) / true[-1])


@measure("Prevalence", needs_both=False)
def prevalence(stays: WeightedStays) -> float:
    """Share of these stays that had the outcome, as found."""
    return stays.positive / stays.total


@measure("Recall at 80% precision")
def rp80(stays: WeightedStays) -> float:
    """Share of outcomes found when at least 80% of alerts are right, at the best such threshold.

    It is chosen on these very stays, as papers report it, and is therefore optimistic.
    """
    true, alerts = stays.curve
    enough = true / alerts >= PRECISION
    return float(np.max(true, where=enough, initial=0.0) / true[-1])


@measure("Recall at the threshold", by_group=True)
def recall_at_threshold(stays: WeightedStays) -> float:
    """Share of outcomes found at the threshold chosen on validation: what to expect in use."""
    return stays.alerts[1] / stays.positive


@measure("Precision at the threshold")
def precision_at_threshold(stays: WeightedStays) -> float:
    """Share of those alerts that are right; the threshold was chosen for 80% on validation."""
    alerts, right = stays.alerts
    if not alerts:
        return np.nan
    return right / alerts


@measure("False-positive rate", by_group=True)
def false_positive_rate(stays: WeightedStays) -> float:
    """Share of the stays without the outcome that get an alert at the threshold."""
    alerts, right = stays.alerts
    return (alerts - right) / (stays.total - stays.positive)


@measure("Alerts per 100 stays", needs_both=False)
def alerts_per_100(stays: WeightedStays) -> float:
    """How many of 100 stays have an alert at the threshold."""
    return 100 * stays.alerts[0] / stays.total


@measure("Brier score", needs_both=False)
def brier(stays: WeightedStays) -> float:
    """Mean squared difference of risk and outcome.

    Giving everyone the prevalence p scores p × (1 − p).
    """
    return float(stays.weights @ (stays.risk - stays.y) ** 2 / stays.total)


@measure("Observed / expected", needs_both=False)
def observed_expected(stays: WeightedStays) -> float:
    """Outcomes that happened for each one that the risks predict.

    1 is right; above 1 the risks are too low, below 1 too high.
    """
    if not stays.expected:
        return np.nan
    return stays.positive / stays.expected


@measure("Observed minus predicted", needs_both=False, by_group=True)
def observed_minus_predicted(stays: WeightedStays) -> float:
    """Share of stays with the outcome minus the mean risk; above 0 the risks are too low."""
    return (stays.positive - stays.expected) / stays.total


@measure("Calibration in the large")
def calibration_in_the_large(stays: WeightedStays) -> float:
    """What must be added to the log-odds of all risks to make their level right.

    It is the intercept with the slope held at 1. 0 is right; above 0 the risks are too low, below
    0 too high.
    """
    from scipy.optimize import brentq

    logits = stays.stays.logits

    def excess(shift: float) -> float:
        return float(stays.positive - stays.weights @ sigmoid(logits + shift))

    return float(brentq(excess, -40, 40))


@measure("Calibration slope")
def calibration_slope(stays: WeightedStays) -> float:
    """How the risks spread, whatever their level.

    1 is right; below 1 they are too extreme, above 1 not extreme enough.
    """
    fitted = fit_logistic(stays.stays.logits, stays.y, stays.weights)
    if fitted is None:
        return np.nan
    return fitted[0]


@measure("Expected calibration error", needs_both=False)
def ece(stays: WeightedStays) -> float:
    """Mean difference of predicted and observed risk over ten bins of equally many stays.

    Chance alone keeps it above 0, more so with few stays.
    """
    return calibration_error(
        stays.y,
        stays.risk,
        stays.weights,
        cells=stays.stays.cells,
    )


GROUP_MEASURES = [measure for measure in MEASURES if measure.by_group]


def measured_values(
    stays: Stays,
    weights: Floats | None = None,
    measures: Sequence[Measure] = MEASURES,
) -> list[float]:
    """Measures of weighted stays, NaN where there is none.

    A resample with one outcome of stays that have both gives none at all.
    """
    weighted = WeightedStays(stays, weights)
    values = [np.nan] * len(measures)
    if not weighted.total or (not weighted.varies and 0 < stays.y.mean() < 1):
        return values
    for number, measure in enumerate(measures):
        if weighted.varies or not measure.needs_both:
            values[number] = measure.function(weighted)
    return values


def precise_threshold(y: ArrayLike, probability: ArrayLike) -> float | None:
    """The threshold with the largest recall among those with at least 80% precision (RP80).

    It is the best one for these very stays: choose it on validation and keep it for the test, where
    a fresh choice is optimistic. Of thresholds with equal recall the highest is returned; None
    where no threshold is precise enough.

    Source: Huang, Altosaar and Ranganath 2019, section 4.

    Raises:
        UserError: bad input, see `checked_risks`.
    """
    stays = Stays(*checked_risks(y, probability))
    true, alerts = WeightedStays(stays).curve
    right = np.where(true / alerts >= PRECISION, true, 0.0)
    if not right.any():
        return None
    thresholds = np.unique(stays.risk)[::-1]
    return float(thresholds[np.argmax(right)])
