"""Bootstrap intervals."""

from __future__ import annotations

import numpy as np

RESAMPLES = 1000


def ratio_interval(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """The 95% bootstrap interval of sum(above) / sum(below), from 1,000 resamples of the units.

    Both have shape (units,); a sum of `below` under 1 counts as 1. (0, 0) without units.
    """
    if not len(above):
        return 0.0, 0.0
    drawn = np.random.default_rng(0).integers(len(above), size=(RESAMPLES, len(above)))
    ratios = [above[units].sum() / max(below[units].sum(), 1) for units in drawn]
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)
