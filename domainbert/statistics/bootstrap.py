"""The bootstrap: numbers with 95% intervals, by resampling groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

RESAMPLES = 1000
MIN_GROUPS = 20
"""With fewer groups there are no intervals: resampling them says little about others."""

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
        return (
            value if self.low is None else f"{value} [{self.low:.3f}, {self.high:.3f}]"
        )


@dataclass(frozen=True, eq=False)
class Resampled:
    """Numbers of any shape, and the same numbers in each resample.

    Two of them from the same resamples can be subtracted: that gives the interval of a paired
    difference.

    Attributes:
        value: the numbers, NaN where undefined.
        replicates: shape (resamples, *value.shape); no resamples give no intervals.
    """

    value: Floats
    replicates: Floats = field(repr=False)

    @cached_property
    def spread(self) -> Floats:
        """Low and high, the 2.5% and 97.5% quantiles of the replicates, and their standard error.

        Shape (3, *value.shape), NaN where fewer than 90% of the replicates are defined.
        """
        summary = np.full((3, *self.value.shape), np.nan)
        defined = (~np.isnan(self.replicates)).sum(axis=0)
        enough = ~np.isnan(self.value) & (
            defined >= max(DEFINED * len(self.replicates), 1)
        )
        if enough.any():
            kept = self.replicates[:, enough]
            summary[:2, enough] = np.nanquantile(kept, (0.025, 0.975), axis=0)
            summary[2, enough] = np.nanstd(kept, axis=0, ddof=1) if len(kept) > 1 else 0
        return summary

    def interval(self) -> Interval:
        """A single number (shape ()) with its interval."""
        known = (
            None if np.isnan(n) else float(n) for n in (self.value, *self.spread[:2])
        )
        return Interval(*known)

    def columns(self, name: str) -> dict[str, Floats]:
        """Columns of a table: the value under its name, `NAME_low` and `NAME_high`."""
        low, high, _ = self.spread
        cells = {name: self.value, f"{name}_low": low, f"{name}_high": high}
        return {
            column: cell[()] for column, cell in cells.items()
        }  # of one number, a scalar

    def __getitem__(self, place: Any) -> Resampled:
        """A part of the numbers."""
        places = place if isinstance(place, tuple) else (place,)
        return Resampled(np.asarray(self.value[place]), self.replicates[:, *places])

    def __sub__(self, other: Resampled) -> Resampled:
        """The paired difference."""
        return Resampled(self.value - other.value, self.replicates - other.replicates)


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
        measure: weights of the rows, shape (rows,) -> numbers of one shape, NaN where undefined.
        codes: the number of each row's group, from 0 without gaps, shape (rows,).
        bootstrap: resamples; 0, or fewer than `fewest` groups, gives no intervals.
        seed: of the resampling.
        fewest: see `bootstrap`.
    """
    value = np.asarray(measure(np.ones(len(codes))), dtype=np.float64)
    random, groups, drawn = np.random.default_rng(seed), int(codes.max()) + 1, []
    for _ in range(bootstrap if groups >= fewest else 0):
        counts = np.bincount(random.integers(groups, size=groups), minlength=groups)
        drawn.append(measure(counts[codes].astype(np.float64)))
    return Resampled(
        value, np.asarray(drawn, dtype=np.float64).reshape(len(drawn), *value.shape)
    )


def ratio_interval(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """The interval of sum(above) / sum(below), by resampling units; (0, 0) without units.

    Both have shape (units,); a sum of `below` under 1 counts as 1.
    """
    if not len(above):
        return 0.0, 0.0
    ratio = resample(
        lambda weights: float(weights @ above / max(weights @ below, 1)),
        np.arange(len(above)),
        fewest=1,
    )
    low, high, _ = ratio.spread
    return float(low), float(high)
