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


# --- many groups at once

RANKED = 5
"""Groups of a stay that recall@5 looks at."""
RANKING_MEASURES = (
    "macro AUROC",
    "micro AUROC",
    "macro AUPRC",
    "micro AUPRC",
    "MAP a stay",
    f"recall@{RANKED}",
)


class Ranking:
    """Outcomes and values of columns, sorted once, and measured with any weights.

    Args:
        labels: 0 or 1, shape (rows, columns).
        values: the higher, the more probable; same shape.
    """

    def __init__(self, labels: Floats, values: Floats) -> None:
        self._order = np.argsort(-values, axis=0, kind="stable")
        ordered = np.take_along_axis(values, self._order, axis=0)
        self._labels = np.take_along_axis(labels, self._order, axis=0)
        rows, columns = values.shape
        # Equal values count together: first and last row of each one's block.
        position = np.broadcast_to(np.arange(rows)[:, None], values.shape)
        is_new = np.ones((rows, columns), dtype=bool)
        is_new[1:] = ordered[1:] != ordered[:-1]
        self._first = np.maximum.accumulate(np.where(is_new, position, 0))
        is_last = np.ones((rows, columns), dtype=bool)
        is_last[:-1] = is_new[1:]
        ends = np.where(is_last, position, rows - 1)
        self._last = np.minimum.accumulate(ends[::-1])[::-1]

    def measured(self, weights: Floats) -> tuple[Floats, Floats]:
        """AUROC and average precision of each column; NaN where an outcome is absent.

        `weights` have the shape (rows,) or (rows, columns).
        """
        if weights.ndim == 1:
            weights = weights[:, None]
        weights = np.broadcast_to(weights, self._order.shape)
        weights = np.take_along_axis(weights, self._order, axis=0)
        positive = weights * self._labels
        negative = weights - positive
        true = np.cumsum(positive, axis=0)
        false = np.cumsum(negative, axis=0)
        n_positive = true[-1]
        n_negative = false[-1]
        true_here = np.take_along_axis(true, self._last, axis=0)
        false_here = np.take_along_axis(false, self._last, axis=0)
        before = np.take_along_axis(false - negative, self._first, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = true_here / (true_here + false_here)
            precision = np.where(positive > 0, precision, 0)
            average = (positive * precision).sum(axis=0) / n_positive
            above = n_negative - (before + false_here) / 2
            area = (positive * above).sum(axis=0) / (n_positive * n_negative)
        average = np.where(n_negative > 0, average, np.nan)
        return area, average


class AllGroups:
    """The measures over all groups, for weights of stays."""

    def __init__(self, labels: Floats, values: Floats) -> None:
        self._shape = labels.shape
        self._groups = Ranking(labels, values)
        self._pairs = Ranking(labels.reshape(-1, 1), values.reshape(-1, 1))
        # A stay's own groups, ranked: the rows are groups and the columns stays.
        _, self._of_stay = Ranking(labels.T, values.T).measured(
            np.ones(labels.shape[1])
        )
        has_all = labels.all(axis=1)
        self._of_stay = np.where(has_all, 1.0, self._of_stay)
        top = np.argsort(-values, axis=1, kind="stable")[:, :RANKED]
        hits = np.take_along_axis(labels, top, axis=1).sum(axis=1)
        with np.errstate(invalid="ignore"):
            self._recall = hits / labels.sum(axis=1)

    def measured(self, weights: Floats) -> Floats:
        """The numbers of `RANKING_MEASURES`."""
        return self.with_groups(weights)[: len(RANKING_MEASURES)]

    def with_groups(self, weights: Floats) -> Floats:
        """The numbers of `RANKING_MEASURES`, then AUROC and average precision of each group."""
        area, average = self._groups.measured(weights)
        pair_weights = np.repeat(weights, self._shape[1])
        micro_area, micro_average = self._pairs.measured(pair_weights)
        overall = [
            _mean(area),
            micro_area[0],
            _mean(average),
            micro_average[0],
            _mean(self._of_stay, weights),
            _mean(self._recall, weights),
        ]
        return np.concatenate([overall, area, average])


def _mean(values: Floats, weights: Floats | None = None) -> float:
    """The mean of the numbers that are defined; NaN if there is none."""
    is_defined = ~np.isnan(values)
    if weights is None:
        weights = np.ones_like(values)
    total = weights[is_defined].sum()
    if not total:
        return float("nan")
    return float((values * weights)[is_defined].sum() / total)
