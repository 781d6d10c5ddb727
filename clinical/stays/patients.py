"""Patients: splits by patient, and the checks that no patient is on two sides."""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError
from domainbert.files import JsonObject
from domainbert.tables.ids import id_key, id_text, is_missing

if TYPE_CHECKING:
    import pandas as pd

FRACTIONS: Mapping[str, float] = {"train": 0.8, "val": 0.1, "test": 0.1}
log = logging.getLogger(__name__)


def patient_keys(patient_ids: Iterable[object]) -> np.ndarray:
    """The key by which each row's patient is compared (see `id_key`), shape (rows,), dtype object.

    A row without a patient id counts as a patient of its own, which is logged.
    """
    keys = [id_key(patient) for patient in patient_ids]
    n_missing = keys.count(None)
    if n_missing:
        log.warning(
            "%d rows have no patient id: each counts as a patient of its own",
            n_missing,
        )
    for row, key in enumerate(keys):
        if key is None:
            # No id begins with a tab: ids are stripped.
            keys[row] = f"\trow {row}"
    return np.array(keys, dtype=object)


def with_patient_keys(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with keys in the column `patient_id`; keys that are there stay as they are."""
    import pandas as pd

    keys = patient_keys(rows.get("patient_id", range(len(rows))))
    # As objects: a column of strings would forget that ids are exact.
    return rows.assign(
        patient_id=pd.Series(keys, index=rows.index, dtype=object)
    )


def patient_codes(patients: Iterable[object], *, n: int) -> np.ndarray:
    """A number for each row's patient, shape (n,), int, from 0; ids are compared by `id_key`.

    Raises:
        UserError: missing ids, or not n of them.
    """
    ids = list(patients)
    if len(ids) != n:
        raise UserError(
            f"patients has {len(ids)} ids and y has {n} values; pass one for each"
        )
    n_missing = sum(map(is_missing, ids))
    if n_missing:
        raise UserError(
            f"patients has {n_missing} missing ids; intervals by patient need them all"
        )
    keys = np.array([id_key(patient) or "" for patient in ids], dtype=str)
    _, codes = np.unique(keys, return_inverse=True)
    return codes


def assign_splits(
    patient_ids: Iterable[object],
    *,
    seed: int = 0,
    fractions: Mapping[str, float] = FRACTIONS,
) -> np.ndarray:
    """The side of every row, decided by its patient id alone, shape (rows,), dtype object.

    A keyed hash maps each patient (see `patient_keys`) to a number in [0, 1), which the fractions
    cut: a patient keeps its side when rows are added or reordered, and sizes are fractions in
    expectation. Rows without a patient id are split by their position.

    Raises:
        UserError: fractions (shares of the patients of each side) that do not sum to 1.
    """
    names = np.array(list(fractions), dtype=object)
    edges = np.cumsum(list(fractions.values()))
    if min(fractions.values()) <= 0 or abs(edges[-1] - 1) > 1e-9:
        raise UserError(
            f"fractions must be positive and sum to 1, got {dict(fractions)}"
        )
    key = str(seed).encode()
    digests = [
        hashlib.blake2b(patient.encode(), digest_size=8, key=key).digest()
        for patient in patient_keys(patient_ids)
    ]
    positions = [int.from_bytes(digest) / 2**64 for digest in digests]
    sides = np.searchsorted(edges, positions, side="right")
    return names[np.minimum(sides, len(names) - 1)]


def check_disjoint(frame: pd.DataFrame) -> None:
    """Check that no patient is on two sides; rows without a side (excluded ones) do not count.

    Raises:
        UserError: with the number of patients on more than one side.
    """
    kept = frame[frame["split"].notna()]
    sides = kept["split"].groupby(patient_keys(kept["patient_id"])).nunique()
    straddling = int((sides > 1).sum())
    if straddling:
        raise UserError(
            f"{straddling} of {len(sides)} patients are on more than one side of the split; "
            "split by patient: frame['split'] = clinical.assign_splits(frame['patient_id']); "
            "split several cohorts with one seed, and give patients of each hospital ids of its own"
        )


# "salt" and "rounds", and for each side its hashes in Base64; as JSON.
PatientHashes = JsonObject
# PBKDF2 rounds: a fraction of a millisecond a patient. A whole cohort takes seconds.
_ROUNDS = 500
_BYTES = 5


def patient_hashes(
    rows: pd.DataFrame,
    earlier: PatientHashes | None = None,
) -> PatientHashes:
    """Hashes of the patients a model is trained and chosen on, by side, for `overlap`.

    `earlier` are those of a model that training starts from; they are kept.

    They do not show ids, but whoever has the model and a list of ids can test each of them: a
    model with these hashes is pseudonymous, not anonymous.
    """
    stored = {
        "salt": secrets.token_hex(16),
        "rounds": _ROUNDS,
        **(earlier or {}),
    }
    for side, ids in rows[rows["split"] != "test"].groupby("split")[
        "patient_id"
    ]:
        stored = with_patients(stored, ids, side=str(side))
    return stored


def with_patients(
    stored: PatientHashes,
    patient_ids: Iterable[object],
    *,
    side: str,
) -> PatientHashes:
    """What `patient_hashes` recorded, with more patients on one side."""
    hashes = _hashes(patient_ids, stored) | _unpacked(stored.get(side, ""))
    return {
        **stored,
        side: base64.b64encode(b"".join(sorted(hashes))).decode(),
    }


def overlap(
    patient_ids: Iterable[object], stored: PatientHashes
) -> dict[str, int]:
    """How many of these patients are on each side that `patient_hashes` recorded."""
    hashes = _hashes(patient_ids, stored)
    sides = sorted(stored.keys() - {"salt", "rounds"})
    return {side: len(hashes & _unpacked(stored[side])) for side in sides}


def _hashes(
    patient_ids: Iterable[object], stored: PatientHashes
) -> set[bytes]:
    salt = bytes.fromhex(stored["salt"])
    rounds = stored["rounds"]
    return {
        hashlib.pbkdf2_hmac("sha256", key.encode(), salt, rounds, dklen=_BYTES)
        for key in _folded(patient_ids)
    }


def _folded(patient_ids: Iterable[object]) -> set[str]:
    """Keys in which upper and lower case never differ: a leak is found in a table of any form."""
    return {
        key for id_ in patient_ids if (key := id_key(id_text(id_))) is not None
    }


def _unpacked(hashes: str) -> set[bytes]:
    packed = base64.b64decode(hashes)
    return {packed[i : i + _BYTES] for i in range(0, len(packed), _BYTES)}


def check_unseen(
    patient_ids: Iterable[object],
    stored: PatientHashes | None,
    *,
    side: str,
) -> list[str]:
    """Check that a model was not trained on the patients of one side of a cohort.

    The model's own patients of the `side` of this name are allowed: validation patients may be
    used for validation again. `stored` comes from `patient_hashes`; None without a record.

    Returns:
        Remarks: that nothing could be checked, or that the model has seen patients of this side.

    Raises:
        UserError: patients on another side of the model's training, with their number.
    """
    if stored is None:
        return [
            "Not checked: whether the model was trained on these patients (no record)."
        ]
    patients = _folded(patient_ids)
    seen = {
        name: number
        for name, number in overlap(patients, stored).items()
        if number
    }
    if not seen:
        return []
    counts = ", ".join(
        f"{number} on its {name} side" for name, number in seen.items()
    )
    if seen.keys() != {side}:
        raise UserError(
            f"the model was trained on patients of the side {side!r}: of {len(patients)}, "
            f"{counts}; use the split it was trained with, or other patients"
        )
    return [
        f"The model has seen patients of this side ({counts}): its numbers are optimistic."
    ]
