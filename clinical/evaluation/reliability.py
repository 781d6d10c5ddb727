"""Reliability: predicted against observed risk, in bins of equally many stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.risk.calibration import checked
from domainbert.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def equal_mass_bins(probability: Floats, *, bins: int = 10) -> NDArray[np.intp]:
    """The bin of each stay when sorted risks are cut into at most `bins` bins of equal size.

    Bins count from 0, rising with the risk, and all are used. Equal risks share a bin, so the
    result does not depend on the order of the stays; with many equal risks there are fewer bins,
    and their sizes differ.
    """
    if bins < 1:
        raise UserError(f"bins is {bins}; it must be at least 1")
    _, tied, counts = np.unique(probability, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    cell = np.floor(bins * middle / len(probability)).astype(np.intp)
    return np.unique(cell, return_inverse=True)[1][tied]


def calibration_error(
    y: Floats, probability: Floats, weights: Floats, *, cells: NDArray[np.intp]
) -> float:
    """Expected calibration error: the mean distance of predicted and observed risk over bins.

    The arguments have shape (n,): outcomes, risks, weights that are not all 0, and the bin of each
    stay from `equal_mass_bins`. Source: Naeini et al. 2015, with bins of equal mass.
    """
    gaps = np.bincount(cells, weights=weights * (y - probability))
    return float(np.abs(gaps).sum() / weights.sum())


def reliability_curve(y: ArrayLike, probability: ArrayLike, *, bins: int = 10) -> pd.DataFrame:
    """Predicted against observed risk: one row a bin of equally many stays, by rising risk.

    The columns are `predicted` (the mean risk), `observed` (the share readmitted), `low` and `high`
    (its 95% Wilson interval, which takes the stays of a patient as independent), and `count`.

    Raises:
        UserError: bad input; see `clinical.risk.calibration.checked`.
    """
    import pandas as pd
    from scipy.stats import binomtest

    outcome, risk = checked(y, probability)
    cells = equal_mass_bins(risk, bins=bins)
    counts = np.bincount(cells)
    predicted = np.bincount(cells, weights=risk) / counts
    events = np.bincount(cells, weights=outcome).astype(int)
    tests = [binomtest(k, n) for k, n in zip(events.tolist(), counts.tolist(), strict=True)]
    wilson = [test.proportion_ci(method="wilson") for test in tests]
    edges = {"low": [float(w.low) for w in wilson], "high": [float(w.high) for w in wilson]}
    columns = {"predicted": predicted, "observed": events / counts, **edges, "count": counts}
    return pd.DataFrame(columns)
