"""Calibration: whether one in five stays of risk 0.2 returns, and the repair when not."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

CLIP = 1e-6
"""Probabilities are kept this far from 0 and 1 before their logit is taken."""

_STEPS = 50
_TOLERANCE = 1e-12
_Z95 = 1.959963984540054  # 97.5% quantile of the normal distribution


@dataclass(frozen=True)
class Platt:
    """A logistic correction of probabilities: `sigmoid(intercept + slope * logit(p))`.

    A slope below 1 draws overconfident risks together; below 0 the risks ranked backwards where
    this was fitted, and a model that does so should not be used.

    Source: Platt 1999, here on the logit of a probability.
    """

    slope: float
    intercept: float

    def apply(self, probability: ArrayLike) -> Floats:
        """Correct probabilities.

        Args:
            probability: any shape, in [0, 1].

        Returns:
            The same shape, in (0, 1); the order is kept while the slope is positive.
        """
        return sigmoid(self.intercept + self.slope * logit(probability))


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


def logit(probability: ArrayLike) -> Floats:
    """Log-odds of probabilities (any shape, in [0, 1]), clipped to `CLIP` from both ends."""
    p = np.clip(np.asarray(probability, dtype=np.float64), CLIP, 1 - CLIP)
    return np.log(p) - np.log1p(-p)


def sigmoid(value: ArrayLike) -> Floats:
    """The logistic function, any shape, without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(value, dtype=np.float64)))


def checked(y: ArrayLike, probability: ArrayLike) -> tuple[Floats, Floats]:
    """Outcomes and probabilities as two float arrays of one length.

    Args:
        y: shape (n,), 0 or 1 (or False and True), n >= 1.
        probability: shape (n,), in [0, 1].

    Raises:
        ValueError: lengths differ, nothing came, y holds something else than 0 and 1, or a
            probability is missing or outside [0, 1]. Values are counted, never shown.
    """
    outcome, risk = _floats(y, "y"), _floats(probability, "probability")
    if len(outcome) != len(risk):
        raise UserError(
            f"y has {len(outcome)} values and probability has {len(risk)}; "
            "pass one of each for every stay"
        )
    if not len(outcome):
        raise UserError("y and probability are empty; pass at least one stay")
    wrong = int(np.count_nonzero((outcome != 0) & (outcome != 1)))
    if wrong:
        raise UserError(f"y holds {wrong} values that are not 0 or 1; drop unlabelled stays first")
    wrong = int(np.count_nonzero(~((risk >= 0) & (risk <= 1))))
    if wrong:
        raise UserError(
            f"probability holds {wrong} values that are missing or outside [0, 1]; "
            "pass probabilities, not logits, and only stays that were scored"
        )
    return outcome, risk


def _floats(values: ArrayLike, name: str) -> Floats:
    array = None
    with contextlib.suppress(TypeError, ValueError):
        array = np.asarray(values, dtype=np.float64)
    if array is None:
        # Raised out here since NumPy's own error quotes the value, and that may be a note.
        raise UserError(f"{name} is not numeric; pass one number for each stay")
    if array.ndim != 1:
        raise UserError(f"{name} has shape {array.shape}; pass one dimension, one number a stay")
    return array


def fit_platt(y: ArrayLike, probability: ArrayLike) -> Platt:
    """Fit a logistic correction, on stays the model was not trained on.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].

    Returns:
        The unpenalised maximum-likelihood slope and intercept of y on logit(probability).

    Raises:
        ValueError: bad input (see `checked`), or no finite fit exists: one outcome only, all
            probabilities equal, or one cut that parts the outcomes without error.
    """
    outcome, risk = checked(y, probability)
    fitted = fit_logistic(logit(risk), outcome, np.ones_like(outcome))
    if fitted is None:
        raise UserError(
            f"no finite calibration exists for these {len(outcome)} stays "
            f"({int(outcome.sum())} readmitted): the outcome does not vary, the probabilities do "
            "not vary, or they part the outcomes without error; calibrate on more stays"
        )
    return Platt(slope=fitted[0], intercept=fitted[1])


def fit_logistic(
    x: Floats,
    y: Floats,
    weights: Floats,
    *,
    start: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float] | None:
    """Slope and intercept of a weighted logistic regression of y on one variable.

    Args:
        x: shape (n,).
        y: shape (n,), 0 or 1.
        weights: shape (n,), not negative.
        start: slope and intercept to begin from.

    Returns:
        The maximum-likelihood (slope, intercept), by Newton's method with halved steps; None
        where it does not exist.
    """
    if not _overlaps(x, y, weights):
        return None
    design = np.stack([x, np.ones_like(x)])
    beta = np.array(start)
    loss = _loss(design, y, weights, beta)
    for _ in range(_STEPS):
        fitted = sigmoid(beta @ design)
        gradient = design @ (weights * (y - fitted))
        hessian = (design * (weights * fitted * (1 - fitted))) @ design.T
        try:
            step = np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
        if gradient @ step <= _TOLERANCE * weights.sum():
            slope, intercept = (beta + step).tolist()
            return slope, intercept
        beta, loss = _descend(design, y, weights, beta, step, loss)
    return None


def _overlaps(x: Floats, y: Floats, weights: Floats) -> bool:
    """Whether the two outcomes overlap on x, without which the slope is infinite or free."""
    positive, negative = x[(y == 1) & (weights > 0)], x[(y == 0) & (weights > 0)]
    if not len(positive) or not len(negative):
        return False
    return bool(positive.min() < negative.max() and negative.min() < positive.max())


def _loss(
    design: Floats,
    y: Floats,
    weights: Floats,
    beta: Floats,
) -> float:
    z = beta @ design
    return float(weights @ (np.logaddexp(0, z) - y * z))


def _descend(
    design: Floats,
    y: Floats,
    weights: Floats,
    beta: Floats,
    step: Floats,
    loss: float,
) -> tuple[Floats, float]:
    """The full Newton step, halved until the loss does not rise."""
    for _ in range(_STEPS):
        trial = beta + step
        trial_loss = _loss(design, y, weights, trial)
        if trial_loss <= loss:
            return trial, trial_loss
        step = step / 2
    return beta, loss


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
    events = np.bincount(cells, weights=outcome)
    return tuple(
        ReliabilityBin(float(mean), float(k / n), *_wilson(float(k), int(n)), int(n))
        for mean, k, n in zip(predicted, events, counts, strict=True)
    )


def _wilson(events: float, count: int) -> tuple[float, float]:
    share, square = events / count, _Z95**2
    centre = (share + square / (2 * count)) / (1 + square / count)
    half = np.sqrt(share * (1 - share) / count + square / (4 * count**2))
    half = _Z95 / (1 + square / count) * half
    # Where all or none are readmitted an edge is the share itself, but for rounding.
    return max(0.0, min(share, float(centre - half))), min(1.0, max(share, float(centre + half)))
