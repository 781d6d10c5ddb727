"""The bootstrap: numbers with 95% intervals, by resampling groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domainbert.statistics import Floats

RESAMPLES = 1000
MIN_GROUPS = 20
"""Fewest groups for an interval: resampling fewer says little about other groups."""

DEFINED = 0.9
"""Smallest share of resamples that must give a number for it to have an interval."""


@dataclass(frozen=True)
class Interval:
    """A number and its 95% interval; None where the data cannot give it."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """As tables show it: `0.791 [0.697, 0.871]`."""
        if self.value is None:
            return "–"
        value = f"{self.value:.3f}"
        if self.low is None:
            return value
        return f"{value} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, eq=False)
class Resampled:
    """Numbers of any shape, and the same numbers in each resample.

    The difference of two of them from the same resamples gives the interval of a paired
    difference.

    Attributes:
        value: the numbers, NaN where undefined.
        replicates: shape (resamples, *value.shape); without resamples there are no intervals.
    """

    value: Floats
    replicates: Floats = field(repr=False)

    @cached_property
    def spread(self) -> Floats:
        """The lower and the upper limit of the 95% interval, and the standard error.

        They are the 2.5% and 97.5% quantiles and the standard deviation of the replicates, shape
        (3, *value.shape). NaN where fewer than 90% of the replicates are defined; a single
        replicate has no standard error.
        """
        spread = np.full((3, *self.value.shape), np.nan)
        defined = (~np.isnan(self.replicates)).sum(axis=0)
        required = max(DEFINED * len(self.replicates), 1)
        has_interval = ~np.isnan(self.value) & (defined >= required)
        if not has_interval.any():
            return spread
        replicates = self.replicates[:, has_interval]
        spread[:2, has_interval] = np.nanquantile(
            replicates, (0.025, 0.975), axis=0
        )
        if len(replicates) > 1:
            spread[2, has_interval] = np.nanstd(
                replicates,
                axis=0,
                ddof=1,
            )
        return spread

    def interval(self) -> Interval:
        """A single number (shape ()) with its interval."""
        low, high, _ = self.spread
        return Interval(_number(self.value), _number(low), _number(high))

    def columns(self, name: str) -> dict[str, Floats]:
        """Columns of a table: the value under its name, `NAME_low` and `NAME_high`."""
        low, high, _ = self.spread
        # Indexing with () makes a scalar of an array of shape ().
        return {
            name: self.value[()],
            f"{name}_low": low[()],
            f"{name}_high": high[()],
        }

    def __getitem__(self, index: object) -> Resampled:
        """A part of the numbers, by an index as NumPy takes it."""
        if not isinstance(index, tuple):
            index = (index,)
        return Resampled(
            np.asarray(self.value[index]), self.replicates[:, *index]
        )

    def __sub__(self, other: Resampled) -> Resampled:
        """The paired difference."""
        return Resampled(
            self.value - other.value, self.replicates - other.replicates
        )


def _number(cell: Floats) -> float | None:
    return None if np.isnan(cell) else float(cell)


def resample(
    measure: Callable[[Floats], ArrayLike],
    codes: NDArray[np.intp],
    *,
    bootstrap: int = RESAMPLES,
    seed: int = 0,
    fewest: int = MIN_GROUPS,
) -> Resampled:
    """A measure and its values in resamples of whole groups; all its numbers share the resamples.

    Args:
        measure: takes the weights of the rows, shape (rows,), and returns numbers of one shape,
            NaN where undefined.
        codes: the group of each row, numbered from 0 without gaps, shape (rows,).
        bootstrap: number of resamples; 0 gives no intervals.
        seed: the seed of the resampling.
        fewest: groups without which there are no intervals.
    """
    value = np.asarray(measure(np.ones(len(codes))), dtype=np.float64)
    groups = int(codes.max()) + 1
    if groups < fewest:
        bootstrap = 0
    random = np.random.default_rng(seed)
    replicates = np.empty((bootstrap, *value.shape))
    for number in range(bootstrap):
        # Drawing a group k times is the same as giving its rows the weight k.
        drawn = random.integers(groups, size=groups)
        counts = np.bincount(drawn, minlength=groups)
        replicates[number] = measure(counts[codes].astype(np.float64))
    return Resampled(value, replicates)


def ratio_interval(above: np.ndarray, below: np.ndarray) -> Interval:
    """sum(above) / sum(below) and its interval, by resampling units; 0 without units.

    Both have shape (units,); a sum of `below` under 1 counts as 1.
    """
    if not len(above):
        return Interval(0.0, 0.0, 0.0)

    def ratio(weights: Floats) -> float:
        return float(weights @ above / max(weights @ below, 1))

    return resample(ratio, np.arange(len(above)), fewest=1).interval()
