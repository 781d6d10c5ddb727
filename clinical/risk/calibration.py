"""Platt's calibration: a rule's value -> a probability."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from domainbert.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

CLIP = 1e-6
"""Probabilities are clipped to [CLIP, 1 - CLIP] before their logit is taken."""

MIN_EVENTS = 20
"""Calibration needs this many stays of each outcome: ten for each of Platt's two parameters."""


@dataclass(frozen=True)
class Platt:
    """A logistic correction of probabilities: `sigmoid(intercept + slope * logit(p))`.

    A slope below 1 makes overconfident probabilities less extreme. Source: Platt 1999, here on
    the logit of a probability.
    """

    slope: float
    intercept: float

    def apply(self, probability: ArrayLike) -> Floats:
        """Correct probabilities of any shape, in [0, 1]."""
        return sigmoid(self.intercept + self.slope * logit(probability))


def logit(probability: ArrayLike) -> Floats:
    """Log-odds of probabilities (any shape, in [0, 1]), clipped to `CLIP` from both ends."""
    clipped = np.clip(np.asarray(probability, dtype=np.float64), CLIP, 1 - CLIP)
    return np.asarray(special.logit(clipped))


def sigmoid(value: ArrayLike) -> Floats:
    """The logistic function of values of any shape."""
    return np.asarray(special.expit(np.asarray(value, dtype=np.float64)))


def checked(y: ArrayLike, probability: ArrayLike) -> tuple[Floats, Floats]:
    """Outcomes (0 or 1) and probabilities (in [0, 1]) as float arrays of one length, n >= 1.

    Raises:
        UserError: lengths differ, both are empty, or values are missing or out of range. Values
            are counted, never shown.
    """
    outcome, risk = _floats(y, "y"), _floats(probability, "probability")
    if len(outcome) != len(risk):
        raise UserError(
            f"y has {len(outcome)} values and probability has {len(risk)}; "
            "pass one of each for every stay"
        )
    if not len(outcome):
        raise UserError("y and probability are empty; pass at least one stay")
    if wrong := int(np.count_nonzero((outcome != 0) & (outcome != 1))):
        raise UserError(f"y holds {wrong} values that are not 0 or 1; drop unlabelled stays first")
    if wrong := int(np.count_nonzero(~((risk >= 0) & (risk <= 1)))):
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
        # Raised outside the handler: NumPy's error quotes the value, which may be a note.
        raise UserError(f"{name} is not numeric; pass one number for each stay")
    if array.ndim != 1:
        raise UserError(f"{name} has shape {array.shape}; pass one dimension, one number a stay")
    return array


def fit_platt(y: ArrayLike, probability: ArrayLike) -> Platt:
    """Fit y (0 or 1) on logit(probability) by maximum likelihood, on stays kept from training.

    Raises:
        UserError: bad input (see `checked`), fewer than `MIN_EVENTS` stays of either outcome, no
            finite fit, or a slope that is not positive, which would reverse the order of stays.
    """
    outcome, risk = checked(y, probability)
    events = int(outcome.sum())
    if min(events, len(outcome) - events) < MIN_EVENTS:
        raise UserError(
            f"{len(outcome)} stays with {events} readmitted are too few to calibrate on; "
            f"at least {MIN_EVENTS} readmitted and {MIN_EVENTS} others are needed"
        )
    fitted = fit_logistic(logit(risk), outcome, np.ones_like(outcome))
    if fitted is None:
        raise UserError(
            f"no finite calibration exists for these {len(outcome)} stays ({events} readmitted): "
            "the probabilities are constant or separate the outcomes without error; "
            "calibrate on more stays"
        )
    if fitted[0] <= 0:
        raise UserError(
            f"the calibration slope on {len(outcome)} stays is {fitted[0]:.2f}: the model ranks "
            "them no better than chance; train on more stays or other notes"
        )
    return Platt(*fitted)


def fit_logistic(
    x: Floats, y: Floats, weights: Floats, *, start: tuple[float, float] = (1.0, 0.0)
) -> tuple[float, float] | None:
    """Slope and intercept of a weighted, unpenalised logistic regression; None if not finite.

    Args:
        x: shape (n,).
        y: shape (n,), 0 or 1.
        weights: shape (n,), not negative.
        start: slope and intercept to start from.
    """
    from scipy.optimize import root

    if not _overlaps(x, y, weights):
        return None
    design = np.stack([x, np.ones_like(x)])
    share = weights / weights.sum()

    def gradient(beta: Floats) -> tuple[Floats, Floats]:
        fitted = sigmoid(beta @ design)
        hessian = (design * (share * fitted * (1 - fitted))) @ design.T
        return design @ (share * (fitted - y)), hessian

    found = root(gradient, start, jac=True, method="hybr", options={"xtol": 1e-12})
    if np.abs(found.fun).max() < 1e-9:
        slope, intercept = found.x.tolist()
        return slope, intercept
    # Slower, but it converges from anywhere.
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(x[:, None], y, sample_weight=weights)
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def _overlaps(x: Floats, y: Floats, weights: Floats) -> bool:
    """Whether the two outcomes overlap on x; otherwise the slope is infinite or undetermined."""
    positive, negative = x[(y == 1) & (weights > 0)], x[(y == 0) & (weights > 0)]
    if not len(positive) or not len(negative):
        return False
    return bool(positive.min() < negative.max() and negative.min() < positive.max())
