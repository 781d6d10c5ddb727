"""The readmission rule: a stay's risk from its windows' probabilities.

    P = (P_max + P_mean n/c) / (1 + n/c)

Huang, Altosaar and Ranganath, "ClinicalBERT" (arXiv 1904.05342), equation 4. The maximum alone
grows by chance with the length of the notes; the mean alone hides one telling passage among
routine text. With c windows, the mean weighs as much as the maximum; see
docs/explanation/dilution.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError
from domainbert.statistics.calibration import floats

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike

DEFAULT_C = 2.0


def check_c(c: float) -> None:
    """Raise UserError unless c is a finite number above 0."""
    if not (math.isfinite(c) and c > 0):
        raise UserError(
            f"c must be a finite number above 0, got {c}; the usual choice is c=2.0"
        )


def aggregate(probabilities: ArrayLike, c: float = DEFAULT_C) -> float:
    """The risk of one stay, between the mean and the maximum of its windows.

    Args:
        probabilities: those of its windows in any order, shape (n,), n >= 1, each in [0, 1].
        c: > 0; the mean weighs n/c against the maximum's 1.

    Raises:
        UserError: no window, a probability outside [0, 1] or NaN, or c not above 0.
    """
    values = floats(probabilities, "probabilities")
    if not len(values):
        raise UserError("probabilities is empty; pass at least one number")
    return float(aggregate_stays(values, np.array([len(values)]), c=c)[0])


def aggregate_stays(
    probabilities: np.ndarray,
    counts: np.ndarray,
    *,
    c: float = DEFAULT_C,
) -> np.ndarray:
    """The risks of many stays, shape (stays,); errors as for `aggregate`.

    Args:
        probabilities: those of all windows, stay after stay, shape (windows,); or of several
            outcomes, shape (windows, outcomes), for risks of shape (stays, outcomes).
        counts: windows of each stay, shape (stays,), each >= 1.
        c: > 0.
    """
    check_c(c)
    values = np.asarray(probabilities, dtype=np.float64)
    if not len(counts):
        return values[:0]
    if counts.min() < 1 or counts.sum() != len(values):
        raise UserError(
            f"counts must each be at least 1 and sum to {len(values)}, got a sum of {counts.sum()}"
        )
    if not ((values >= 0) & (values <= 1)).all():  # NaN fails this too
        raise UserError("probabilities must be numbers between 0 and 1")
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    n = counts.reshape(-1, *[1] * (values.ndim - 1))
    largest = np.maximum.reduceat(values, starts)
    mean = np.add.reduceat(values, starts) / n
    result = (largest + mean * n / c) / (1 + n / c)
    # Rounding must not carry the result past its bounds.
    return np.clip(result, np.minimum(mean, largest), largest)


def aggregate_tensor(
    probabilities: torch.Tensor,
    stay: torch.Tensor,
    *,
    stays: int,
    c: float = DEFAULT_C,
) -> torch.Tensor:
    """The rule on tensors, with gradients (shared at a tie for the maximum), shape (stays,).

    Args:
        probabilities: those of windows, shape (windows,), in [0, 1]; with several outcomes both
            have a second axis.
        stay: the stay of each window, shape (windows,), int64, each of 0 to stays - 1 occurring.
        stays: how many there are.
        c: > 0.
    """
    check_c(c)
    _, *outcomes = probabilities.shape
    empty = probabilities.new_zeros(stays, *outcomes)
    index = stay.reshape(-1, *[1] * len(outcomes)).expand_as(probabilities)
    n = empty.scatter_add(
        0, index, probabilities.new_ones(probabilities.shape)
    )
    mean = empty.scatter_add(0, index, probabilities) / n
    largest = empty.scatter_reduce(
        0,
        index,
        probabilities,
        reduce="amax",
        include_self=False,
    )
    return (largest + mean * n / c) / (1 + n / c)
