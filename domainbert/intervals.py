"""Numbers with their 95% bootstrap intervals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RESAMPLES = 1000
EDGES = (0.025, 0.975)
"""Quantiles of the resamples that bound a 95% interval."""


@dataclass(frozen=True)
class Interval:
    """A number and its 95% interval; None where the data cannot give it."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """As tables show it: `0.791 [0.697, 0.871]`."""
        return spell(asdict(self))


def spell(value: Mapping[str, Any] | None) -> str:
    """A number with its interval, from the dictionary of an `Interval`."""
    if not value or value["value"] is None:
        return "–"
    if value["low"] is None:
        return f"{value['value']:.3f}"
    return f"{value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def bootstrap_interval(
    measure: Callable[[np.ndarray], float], *, n: int, bootstrap: int = RESAMPLES, seed: int = 0
) -> Interval:
    """A measure with its interval, from resamples of the rows; those that give NaN are left out.

    Args:
        measure: row numbers -> value.
        n: rows, at least 1.
        bootstrap: resamples.
        seed: of the resamples.
    """
    generator = np.random.default_rng(seed)
    draws = [measure(generator.integers(n, size=n)) for _ in range(bootstrap)]
    low, high = np.nanquantile(draws, EDGES)
    return Interval(measure(np.arange(n)), float(low), float(high))


def ratio_interval(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """The interval of sum(above) / sum(below), by resampling units; (0, 0) without units.

    Both have shape (units,); a sum of `below` under 1 counts as 1.
    """
    if not len(above):
        return 0.0, 0.0
    found = bootstrap_interval(
        lambda units: float(above[units].sum() / max(below[units].sum(), 1)), n=len(above)
    )
    return found.low or 0.0, found.high or 0.0
