"""95% intervals of any measure, by resampling patients with all of their stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.intervals import EDGES
from domainbert.tables.ids import id_key, is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIN_PATIENTS = 20
"""With fewer patients there are no intervals: resampling them says little about others."""

DEFINED = 0.9
"""Smallest share of resamples that must give a number for it to have an interval."""


@dataclass(frozen=True)
class Resampled:
    """Numbers of any shape with their 95% intervals and standard errors, NaN where there is none.

    `low` and `high` are percentiles of the resamples, `error` their standard deviation.
    """

    value: Floats
    low: Floats
    high: Floats
    error: Floats

    def columns(self, name: str) -> dict[str, Floats]:
        """Columns of a table: the value under its name, `NAME_low` and `NAME_high`."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def __getitem__(self, place: Any) -> Resampled:
        """A part of the numbers."""
        return Resampled(self.value[place], self.low[place], self.high[place], self.error[place])


def patient_codes(patients: Iterable[object], *, n: int) -> NDArray[np.intp]:
    """A number for each stay's patient, shape (n,), from 0; ids are compared by `id_key`.

    Raises:
        UserError: missing ids, or not n of them.
    """
    ids = list(patients)
    if len(ids) != n:
        raise UserError(f"patients has {len(ids)} ids and y has {n} values; pass one for each")
    if missing := sum(map(is_missing, ids)):
        raise UserError(f"patients has {missing} missing ids; intervals by patient need them all")
    return np.unique(np.array([id_key(i) or "" for i in ids], dtype=str), return_inverse=True)[1]


def resampled_weights(codes: NDArray[np.intp], *, bootstrap: int, seed: int) -> Iterator[Floats]:
    """How often each stay is drawn in each resample of patients, shape (stays,) each time.

    `codes` are from `patient_codes`. The same codes and seed give the same resamples.
    """
    random, patients = np.random.default_rng(seed), int(codes.max()) + 1
    for _ in range(bootstrap):
        drawn = np.bincount(random.integers(patients, size=patients), minlength=patients)
        yield drawn[codes].astype(np.float64)


def resample(
    measure: Callable[[Floats], Floats], codes: NDArray[np.intp], *, bootstrap: int, seed: int
) -> Resampled:
    """A measure with its intervals; all of its numbers come from the same resamples.

    Args:
        measure: weights of the stays, shape (stays,) -> numbers of one shape, NaN where undefined.
        codes: of the stays' patients, from `patient_codes`.
        bootstrap: resamples; 0, or fewer than `MIN_PATIENTS` patients, gives no intervals.
        seed: of the resampling.
    """
    value = np.asarray(measure(np.ones(len(codes))), dtype=np.float64)
    gaps = np.full(value.shape, np.nan)
    if not bootstrap or codes.max() + 1 < MIN_PATIENTS:
        return Resampled(value, gaps, gaps, gaps)
    weights = resampled_weights(codes, bootstrap=bootstrap, seed=seed)
    drawn = np.array([measure(weight) for weight in weights])
    enough = ~np.isnan(value) & ((~np.isnan(drawn)).sum(axis=0) >= DEFINED * bootstrap)
    low, high, error = gaps.copy(), gaps.copy(), gaps.copy()
    if enough.any():
        kept = drawn[:, enough]
        low[enough], high[enough] = np.nanquantile(kept, EDGES, axis=0)
        error[enough] = np.nanstd(kept, axis=0, ddof=1)
    return Resampled(value, low, high, error)
