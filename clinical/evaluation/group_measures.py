"""Measures of groups of stays, and of everybody else, from the same resamples of patients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.resampling import Resampled, patient_codes, resample
from clinical.risk.calibration import checked

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

    own: Resampled
    difference: Resampled
    p_adjusted: Floats

    def row(self, group: int) -> dict[str, Any]:
        """The columns of one group's row."""
        cells: dict[str, Any] = {}
        for number, name in enumerate(GROUP_MEASURES):
            cells |= self.own[group, number].columns(name)
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
    codes = patient_codes(frame["patient_id"], n=len(y))
    parts = [_Grouping(y, risk, groups, threshold) for groups in groupings]

    def measure(weights: Floats) -> Floats:
        return np.concatenate([part.measure(weights) for part in parts], axis=1)

    both = resample(measure, codes, bootstrap=bootstrap, seed=seed)
    return GroupNumbers(own=both[0], difference=both[1], p_adjusted=_adjusted(both[1]))


class _Grouping:
    """The measures of the groups of one grouping, in time linear in the number of stays."""

    def __init__(
        self, y: Floats, risk: Floats, groups: NDArray[np.intp], threshold: float | None
    ) -> None:
        self._y, self._risk, self._groups, self._count = y, risk, groups, int(groups.max()) + 1
        self._alert = None if threshold is None else (risk >= threshold).astype(np.float64)
        self._rank = np.unique(risk, return_inverse=True)[1]
        # Ranks within a group; the places of a group follow those of the one before.
        pairs = groups * (self._rank.max() + 1) + self._rank
        distinct, self._own_rank = np.unique(pairs, return_inverse=True)
        self._group_of = distinct // (self._rank.max() + 1)

    def measure(self, weights: Floats) -> Floats:
        """The groups' numbers, and their differences from the other stays, (2, groups, 4)."""
        positive = weights * self._y
        columns = [weights, positive, weights * self._risk]
        if self._alert is not None:
            columns += [weights * self._alert, positive * self._alert]
        own = np.stack([self._sums(column) for column in columns])
        wins, other_wins = self._wins(positive, weights - positive)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = _numbers(own, wins)
            return np.stack(
                [found, found - _numbers(own.sum(axis=1, keepdims=True) - own, other_wins)]
            )

    def _sums(self, values: Floats) -> Floats:
        return np.bincount(self._groups, weights=values, minlength=self._count).astype(np.float64)

    def _wins(self, positive: Floats, negative: Floats) -> tuple[Floats, Floats]:
        """Weighted pairs in which the readmitted stay has the higher risk (half at a tie).

        Within each group, and among the stays outside it: all pairs, less those of the group's
        readmitted with anyone and of anyone with the group's others, which counts its own twice.
        """
        below = _up_to(self._rank, negative)[self._rank]
        above = positive.sum() - _up_to(self._rank, positive)[self._rank]
        own_below = _up_to(self._own_rank, negative)
        sums = np.bincount(self._group_of, np.bincount(self._own_rank, negative))
        own_below -= (np.cumsum(sums) - sums)[self._group_of]  # what the groups before hold
        own = self._sums(positive * own_below[self._own_rank])
        either = self._sums(positive * below) + self._sums(negative * above)
        return own, float(positive @ below) - either + own


def _up_to(rank: NDArray[np.intp], values: Floats) -> Floats:
    """The sum of values of lower rank and half of those of equal rank, for each rank."""
    sums = np.bincount(rank, weights=values)
    return np.asarray(np.cumsum(sums) - sums / 2)


def _numbers(sums: Floats, wins: Floats) -> Floats:
    """`GROUP_MEASURES`, shape (groups, 4), from sums of weights; NaN where one is undefined."""
    total, events, risks = sums[:3]
    others = total - events
    # Differences of sums leave rounding errors where there is nothing.
    total, events, others = (np.where(np.abs(n) > 1e-9, n, np.nan) for n in (total, events, others))
    columns = [(np.nan_to_num(events) - risks) / total, wins / (events * others)]
    if len(sums) > 3:
        alerts, right = sums[3:]
        columns += [right / events, (alerts - right) / others]
    else:
        columns += [np.full(len(total), np.nan)] * 2
    return np.stack(columns, axis=1)


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
