"""Patient-disjoint splits: by a hash of the patient id, so that a patient never changes side."""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd

FRACTIONS: Mapping[str, float] = MappingProxyType({"train": 0.8, "val": 0.1, "test": 0.1})


def assign_splits(
    patient_ids: Iterable[object], *, seed: int = 0, fractions: Mapping[str, float] = FRACTIONS
) -> np.ndarray:
    """The side of every row, decided by its patient id alone.

    A keyed hash of `str(patient_id)` is a number in [0, 1); the fractions cut that interval. So a
    patient keeps its side when rows are added or their order changes, 7 and "7" are one patient,
    and labels have no say: their share differs between the sides by chance alone. Sizes are
    fractions of patients in expectation, not exact counts.

    Args:
        patient_ids: one id a row, shape (rows,); none may be missing.
        seed: another seed is another split.
        fractions: share of the patients of each side; positive, summing to 1.

    Returns:
        Names of sides, shape (rows,), dtype object.

    Raises:
        ValueError: a missing id, or fractions that do not sum to 1.
    """
    names, edges = list(fractions), np.cumsum(list(fractions.values()))
    if min(fractions.values()) <= 0 or abs(edges[-1] - 1) > 1e-9:
        msg = f"fractions must be positive and sum to 1, got {dict(fractions)}"
        raise UserError(msg)
    sides: dict[str, str] = {}
    result = []
    for patient in patient_ids:
        if patient is None or patient != patient:
            msg = "a row has no patient_id; a split by patient needs one on every row"
            raise UserError(msg)
        key = str(patient)
        if key not in sides:
            place = int(np.searchsorted(edges, _unit_hash(key, seed=seed), side="right"))
            sides[key] = names[min(place, len(names) - 1)]
        result.append(sides[key])
    return np.array(result, dtype=object)


def _unit_hash(key: str, *, seed: int) -> float:
    digest = hashlib.blake2b(key.encode(), digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(digest) / 2**64


def check_disjoint(
    frame: pd.DataFrame, *, patient: str = "patient_id", split: str = "split"
) -> None:
    """Check that no patient sits on two sides; ids are compared as strings.

    Rows without a side (excluded ones) do not count.

    Raises:
        ValueError: with the number of patients on more than one side.
    """
    kept = frame[frame[split].notna()]
    sides = kept[split].groupby(kept[patient].astype(str)).nunique()
    straddling = int((sides > 1).sum())
    if straddling:
        msg = (
            f"{straddling} of {len(sides)} patients are on more than one side of the split; "
            "split by patient: frame['split'] = clinical.assign_splits(frame['patient_id'])"
        )
        raise UserError(msg)
