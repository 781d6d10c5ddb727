"""Measures of groups of stays, and of everybody else, from the same resamples of patients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from clinical.stays.patients import patient_codes
from domainbert.statistics.bootstrap import Resampled, resample
from domainbert.statistics.calibration import checked

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GROUP_MEASURES = ("calibration", "auroc", "recall", "false_positive_rate")
"""Columns of the tables of groups: observed minus mean predicted risk, area under the ROC curve,
share of readmissions with an alert, share of the others with an alert."""


@dataclass(frozen=True)
class GroupNumbers:
    """`GROUP_MEASURES` of groups, shape (groups, 4), and their differences from the other stays.

    `p_adjusted` are the p-values of the differences after Holm's correction for all of them.
    """

    values: Resampled
    difference: Resampled
    p_adjusted: Floats

    def row(self, group: int) -> dict[str, Floats]:
        """The columns of one group's row."""
        cells: dict[str, Floats] = {}
        for number, name in enumerate(GROUP_MEASURES):
            cells |= self.values[group, number].columns(name)
            cells |= self.difference[group, number].columns(f"{name}_difference")
            cells[f"{name}_p_adjusted"] = self.p_adjusted[group, number]
        return cells


def measure_groups(
    frame: pd.DataFrame,
    *groupings: NDArray[np.intp],
    threshold: float | None,
    bootstrap: int,
    seed: int,
) -> GroupNumbers:
    """Measure groups of stays and compare each with all stays outside it.

    A measure is NaN where a group lacks an outcome, or without a threshold. A difference and its
    interval come from the same resamples, so that patients with stays on both sides are handled
    right. The p-values assume that differences are normally distributed, with the bootstrap's
    standard error.

    Args:
        frame: patient_id, readmitted (0/1) and probability, one row a stay.
        groupings: the number of each stay's group, from 0 without gaps, shape (stays,). The rows
            of the result are the groups of the first grouping, then those of the next.
        threshold: alert where the probability is at least this; None for none.
        bootstrap: resamples of patients; 0 for no intervals.
        seed: of the resampling.

    Raises:
        UserError: values that are missing or out of range.
    """
    y, risk = checked(frame["readmitted"], frame["probability"])
    level = np.nan if threshold is None else threshold
    inside = [groups == n for groups in groupings for n in range(groups.max() + 1)]
    sides = [[Part(y[s], risk[s], s, level) for s in (mask, ~mask)] for mask in inside]

    def measure(weights: Floats) -> Floats:
        return np.array([[side.numbers(weights) for side in pair] for pair in sides])

    codes = patient_codes(frame["patient_id"], n=len(y))
    both = resample(measure, codes, bootstrap=bootstrap, seed=seed)
    values = both[:, 0]
    difference = values - both[:, 1]
    return GroupNumbers(values, difference, _adjusted(difference))


class Part:
    """Some of the stays, measured with any weights in time linear in their number.

    Args:
        y: their outcomes, 0 or 1, shape (n,).
        risk: their risks, shape (n,).
        inside: which stays of all they are, bool, shape (stays,).
        threshold: an alert is a risk of at least this; NaN for none.
    """

    def __init__(
        self, y: Floats, risk: Floats, inside: NDArray[np.bool_], threshold: float
    ) -> None:
        self._y, self._risk, self._inside = y, risk, inside
        self._alert = np.where(np.isnan(threshold), np.nan, risk >= threshold)
        self._rank = np.unique(risk, return_inverse=True)[1]

    def numbers(self, weights: Floats) -> list[float]:
        """`GROUP_MEASURES` of the stays; `weights` are those of all stays, shape (stays,)."""
        inner = weights[self._inside]
        positive = inner * self._y
        negative = inner - positive
        total, events, others = inner.sum(), positive.sum(), negative.sum()
        # Weighted pairs in which the readmitted stay has the higher risk, half at a tie.
        ranked = np.bincount(self._rank, weights=negative, minlength=1)
        below = np.cumsum(ranked) - ranked / 2
        wins = positive @ below[self._rank]
        with np.errstate(divide="ignore", invalid="ignore"):
            return [
                (events - inner @ self._risk) / total,
                wins / (events * others),
                positive @ self._alert / events,
                negative @ self._alert / others,
            ]


def _adjusted(difference: Resampled) -> Floats:
    """Two-sided p-values after Holm's correction for all of the differences, NaN without one."""
    from scipy.stats import norm

    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * norm.sf(np.abs(difference.value) / difference.error)
    p[~(difference.error > 0)] = np.nan
    tested = np.flatnonzero(~np.isnan(p.ravel()))
    order = tested[np.argsort(p.ravel()[tested])]
    steps = p.ravel()[order] * np.arange(len(order), 0, -1)
    adjusted = np.full(p.size, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.reshape(p.shape)
