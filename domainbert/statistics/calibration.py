"""Platt scaling, expected calibration error and reliability curves."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domainbert.errors import UserError
from domainbert.statistics import Floats

if TYPE_CHECKING:
    import pandas as pd


CLIP = 1e-6
"""Probabilities are clipped to [CLIP, 1 - CLIP] before their logit is taken."""
_NEWTON_STEPS = 100
_TOLERANCE = 1e-10  # of the last step, relative to slope and intercept


def logit(probability: ArrayLike) -> Floats:
    """Log-odds of probabilities (any shape, in [0, 1]), clipped to `CLIP` from both ends."""
    clipped = np.clip(
        np.asarray(probability, dtype=np.float64), CLIP, 1 - CLIP
    )
    # As SciPy computes it, whose import takes longer than scoring a note: exact near 1/2 too.
    doubled = 2 * (clipped - 0.5)
    near = np.log1p(doubled) - np.log1p(-doubled)
    far = np.log(clipped / (1 - clipped))
    is_near = (clipped >= 0.3) & (clipped <= 0.65)
    return np.asarray(np.where(is_near, near, far))


def sigmoid(values: ArrayLike) -> Floats:
    """The logistic function of values of any shape."""
    with np.errstate(over="ignore"):  # far below 0 it is 1 / inf
        return np.asarray(1 / (1 + np.exp(-np.asarray(values, np.float64))))


def platt(
    values: ArrayLike,
    slope: float,
    intercept: float,
) -> Floats:
    """1 / (1 + exp(-(slope · value + intercept))), elementwise, for real values of any shape."""
    return sigmoid(slope * np.asarray(values, dtype=np.float64) + intercept)


def calibrated(
    probability: ArrayLike,
    slope: float,
    intercept: float,
) -> Floats:
    """`platt` of the log-odds of probabilities, which corrects them, elementwise.

    A slope below 1 makes overconfident probabilities less extreme.
    """
    return platt(logit(probability), slope, intercept)


def fit_platt(values: ArrayLike, outcome: ArrayLike) -> tuple[float, float]:
    """Slope and intercept that make values the probability of an outcome, by maximum likelihood.

    Source: Platt 1999, without his correction of the outcomes for small samples. Values (any real
    numbers, from data kept from training) and outcomes (0 or 1) have shape (n,).

    Raises:
        UserError: no finite fit exists, or the slope is not positive, which would reverse the
            order of the values.
    """
    x = np.asarray(values, dtype=np.float64)
    y = np.asarray(outcome, dtype=np.float64)
    fitted = fit_logistic(x, y, np.ones_like(y))
    if fitted is None:
        raise UserError(
            f"no finite calibration exists for these {len(y)} values ({int(y.sum())} positive): "
            "they are constant or separate the outcomes without error; calibrate on more data"
        )
    slope = fitted[0]
    if slope <= 0:
        raise UserError(
            f"the calibration slope on {len(y)} values is {slope:.2f}: the model ranks them "
            "no better than chance; train on more data, or calibrate on other data"
        )
    return fitted


def fit_logistic(
    x: Floats,
    y: Floats,
    weights: Floats,
) -> tuple[float, float] | None:
    """Slope and intercept of a weighted, unpenalised logistic regression; None if not finite.

    Args:
        x: shape (n,).
        y: shape (n,), 0 or 1.
        weights: shape (n,), not negative.
    """
    if not _overlaps(x, y, weights):
        return None
    design = np.stack([x, np.ones_like(x)])
    share = weights / weights.sum()
    beta = np.zeros(2)
    # Newton's method on the mean log-loss, which has one minimum if the outcomes overlap.
    for _ in range(_NEWTON_STEPS):
        fitted = sigmoid(beta @ design)
        gradient = design @ (share * (fitted - y))
        hessian = (design * share * fitted * (1 - fitted)) @ design.T
        step = np.linalg.solve(hessian, gradient)
        beta = beta - step
        if np.abs(step).max() <= _TOLERANCE * np.abs(beta).max():
            slope, intercept = beta.tolist()
            return slope, intercept
    return None


def _overlaps(
    x: Floats,
    y: Floats,
    weights: Floats,
) -> bool:
    """Whether the two outcomes overlap on x; otherwise the slope is infinite or undetermined."""
    is_counted = weights > 0
    positive = x[is_counted & (y == 1)]
    negative = x[is_counted & (y == 0)]
    if not len(positive) or not len(negative):
        return False
    return bool(
        positive.min() < negative.max() and negative.min() < positive.max()
    )


def checked_risks(
    y: ArrayLike, probability: ArrayLike
) -> tuple[Floats, Floats]:
    """Outcomes (0 or 1) and probabilities (in [0, 1]) as float arrays of one length, n >= 1.

    Raises:
        UserError: lengths differ, both are empty, or values are missing or out of range. Values
            are counted, never shown.
    """
    outcome = floats(y, "y")
    risk = floats(probability, "probability")
    if len(outcome) != len(risk):
        raise UserError(
            f"y has {len(outcome)} values and probability has {len(risk)}; pass one of each per row"
        )
    if not len(outcome):
        raise UserError("y and probability are empty; pass at least one row")
    if wrong := np.count_nonzero((outcome != 0) & (outcome != 1)):
        raise UserError(
            f"y holds {wrong} values that are not 0 or 1; drop unlabelled rows first"
        )
    if wrong := np.count_nonzero(~((risk >= 0) & (risk <= 1))):  # also NaN
        raise UserError(
            f"probability holds {wrong} values that are missing or outside [0, 1]; "
            "pass probabilities, not logits, and only rows that were scored"
        )
    return outcome, risk


def floats(values: ArrayLike, name: str) -> Floats:
    """Numbers as a float array of one dimension; `UserError` for anything else, never quoted."""
    array = None
    with contextlib.suppress(TypeError, ValueError):
        array = np.asarray(values, dtype=np.float64)
    if array is None:
        # Raised outside the handler: NumPy's error quotes the value, which may be a note.
        raise UserError(f"{name} is not numeric; pass one number per row")
    if array.ndim != 1:
        raise UserError(
            f"{name} has shape {array.shape}; pass one dimension, one number per row"
        )
    return array


def equal_mass_bins(
    probability: Floats, *, bins: int = 10
) -> NDArray[np.intp]:
    """The bin of each row when sorted probabilities are cut into at most `bins` bins of equal size.

    Bins are numbered from 0 by rising probability, and none is empty. Equal probabilities share
    a bin, so the result does not depend on the order of the rows; if many are equal, there are
    fewer bins, of different sizes.
    """
    _, tied, counts = np.unique(
        probability,
        return_inverse=True,
        return_counts=True,
    )
    middle = np.cumsum(counts) - counts / 2
    bin_of_value = np.floor(bins * middle / len(probability)).astype(np.intp)
    _, numbered = np.unique(bin_of_value, return_inverse=True)
    return numbered[tied]


def calibration_error(
    y: ArrayLike,
    probability: ArrayLike,
    weights: Floats | None = None,
    *,
    cells: NDArray[np.intp] | None = None,
) -> float:
    """Expected calibration error: the mean distance of predicted and observed share over bins.

    Source: Naeini et al. 2015, with ten bins of equal mass.

    Args:
        y: outcomes, 0 or 1, shape (n,).
        probability: shape (n,), in [0, 1].
        weights: shape (n,), not all 0; by default 1.
        cells: the bin of each row, by default from `equal_mass_bins`.
    """
    outcome = np.asarray(y, dtype=np.float64)
    risk = np.asarray(probability, dtype=np.float64)
    if weights is None:
        weights = np.ones_like(risk)
    if cells is None:
        cells = equal_mass_bins(risk)
    gaps = np.bincount(cells, weights=weights * (outcome - risk))
    return float(np.abs(gaps).sum() / weights.sum())


def reliability_curve(
    y: ArrayLike,
    probability: ArrayLike,
    *,
    bins: int = 10,
) -> pd.DataFrame:
    """Predicted and observed shares in bins of equal size, one row per bin, by rising prediction.

    The columns are `predicted` (the mean probability), `observed` (the share of outcomes), `low`
    and `high` (its 95% Wilson interval, for independent rows), and `count`.

    Raises:
        UserError: bad input; see `checked_risks`.
    """
    import pandas as pd
    from scipy.stats import binomtest

    outcome, risk = checked_risks(y, probability)
    cells = equal_mass_bins(risk, bins=bins)
    counts = np.bincount(cells)
    predicted = np.bincount(cells, weights=risk) / counts
    events = np.bincount(cells, weights=outcome).astype(int)
    edges = [
        binomtest(k, n).proportion_ci(method="wilson")
        for k, n in zip(events.tolist(), counts.tolist(), strict=True)
    ]
    low, high = np.transpose(edges)
    columns = {
        "predicted": predicted,
        "observed": events / counts,
        "low": low,
        "high": high,
        "count": counts,
    }
    return pd.DataFrame(columns)
