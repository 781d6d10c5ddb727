"""Reliability: predicted against observed risk, in bins of equally many stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clinical.risk.calibration import checked
from domainbert.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReliabilityBin:
    """One point of a reliability curve.

    `predicted` is the mean probability of the bin's `count` stays and `observed` the share of them
    that were readmitted, with its 95% Wilson interval `low` to `high`. All in [0, 1].
    """

    predicted: float
    observed: float
    low: float
    high: float
    count: int


def equal_mass_bins(probability: Floats, *, bins: int = 10) -> NDArray[np.intp]:
    """The bin of each stay when sorted risks are cut into bins of equally many stays.

    Equal risks share a bin, so the result does not depend on the order of the stays; with many
    equal risks there are fewer bins, and their sizes differ.

    Args:
        probability: shape (n,), in [0, 1].
        bins: largest number of bins, at least 1.

    Returns:
        Shape (n,): numbers from 0, rising with the risk, none of them unused.
    """
    if bins < 1:
        raise UserError(f"bins is {bins}; it must be at least 1")
    _, tied, counts = np.unique(probability, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    cell = np.floor(bins * middle / len(probability)).astype(np.intp)
    return np.unique(cell, return_inverse=True)[1][tied]


def calibration_error(
    y: Floats,
    probability: Floats,
    weights: Floats,
    *,
    cells: NDArray[np.intp],
) -> float:
    """Expected calibration error: the mean distance of predicted and observed risk over bins.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        weights: shape (n,), not negative, not all 0.
        cells: shape (n,), the bin of each stay, as from `equal_mass_bins`.

    Returns:
        The sum over bins of |weight * (observed - predicted)| over the weight of all, in [0, 1].

    Source: Naeini et al. 2015, with bins of equal mass.
    """
    gaps = np.bincount(cells, weights=weights * (y - probability))
    return float(np.abs(gaps).sum() / weights.sum())


def reliability_curve(
    y: ArrayLike, probability: ArrayLike, *, bins: int = 10
) -> tuple[ReliabilityBin, ...]:
    """Predicted against observed risk, in bins of equally many stays.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        bins: largest number of bins.

    Returns:
        One point a bin, by rising risk, with 95% Wilson intervals (Wilson 1927), which take the
        stays of a patient as independent.

    Raises:
        ValueError: bad input; see `checked`.
    """
    outcome, risk = checked(y, probability)
    cells = equal_mass_bins(risk, bins=bins)
    counts = np.bincount(cells)
    predicted = np.bincount(cells, weights=risk) / counts
    events = np.bincount(cells, weights=outcome).astype(int)
    return tuple(
        ReliabilityBin(float(mean), float(k / n), *_wilson(int(k), int(n)), int(n))
        for mean, k, n in zip(predicted, events, counts, strict=True)
    )


def _wilson(events: int, count: int) -> tuple[float, float]:
    from scipy.stats import binomtest

    interval = binomtest(events, count).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
