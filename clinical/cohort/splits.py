"""Patients and sides: splits by patient, and the checks that no patient is on two sides."""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.tables.ids import id_key, is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

FRACTIONS: Mapping[str, float] = MappingProxyType({"train": 0.8, "val": 0.1, "test": 0.1})
NEEDED = ("patient_id", "text", "readmitted", "split")
log = logging.getLogger(__name__)


def patient_keys(patient_ids: Iterable[object]) -> np.ndarray:
    """The key by which each row's patient is compared (see `id_key`), shape (rows,), dtype object.

    A row without a patient id counts as a patient of its own, which is logged.
    """
    keys = [id_key(patient) for patient in patient_ids]
    if missing := sum(key is None for key in keys):
        log.warning("%d rows have no patient id: each counts as a patient of its own", missing)
    # No id contains a tab at its start, because ids are stripped.
    return np.array([f"\trow {n}" if k is None else k for n, k in enumerate(keys)], dtype=object)


def assign_splits(
    patient_ids: Iterable[object], *, seed: int = 0, fractions: Mapping[str, float] = FRACTIONS
) -> np.ndarray:
    """The side of every row, decided by its patient id alone, shape (rows,), dtype object.

    A keyed hash maps each patient (see `patient_keys`) to a number in [0, 1), and the fractions
    cut that interval. A patient therefore keeps its side when rows are added or reordered. The
    sizes are fractions of the patients in expectation, not exact counts.

    Rows without a patient id are split by their position. Another seed is another split.

    Raises:
        UserError: fractions (shares of the patients of each side) that do not sum to 1.
    """
    names, edges = list(fractions), np.cumsum(list(fractions.values()))
    if min(fractions.values()) <= 0 or abs(edges[-1] - 1) > 1e-9:
        msg = f"fractions must be positive and sum to 1, got {dict(fractions)}"
        raise UserError(msg)
    keys, key = patient_keys(patient_ids), str(seed).encode()
    digests = [hashlib.blake2b(k.encode(), digest_size=8, key=key).digest() for k in keys]
    places = [int.from_bytes(digest) / 2**64 for digest in digests]
    found = np.searchsorted(edges, places, side="right")
    return np.array(names, dtype=object)[np.minimum(found, len(names) - 1)]


def check_disjoint(
    frame: pd.DataFrame, *, patient: str = "patient_id", split: str = "split"
) -> None:
    """Check that no patient is on two sides; rows without a side (excluded ones) do not count.

    Raises:
        UserError: with the number of patients on more than one side.
    """
    kept = frame[frame[split].notna()]
    sides = kept[split].groupby(patient_keys(kept[patient])).nunique()
    straddling = int((sides > 1).sum())
    if straddling:
        msg = (
            f"{straddling} of {len(sides)} patients are on more than one side of the split; "
            "split by patient: frame['split'] = clinical.assign_splits(frame['patient_id'])"
        )
        raise UserError(msg)


def usable_stays(cohort: pd.DataFrame) -> pd.DataFrame:
    """The rows to train and score on: no exclusion, a label, a side, and at least one note.

    The columns are `patient_id`, `text` (list of notes), `readmitted` (0/1, missing on excluded
    rows), `split` and optionally `exclusion`.

    Raises:
        TableError: a column is missing.
        UserError: patients on more than one side, or labels other than 0 and 1.
    """
    from domainbert.tables import require_columns

    require_columns(cohort.columns, NEEDED, source="cohort")
    kept = cohort["split"].notna() & cohort["readmitted"].notna()
    if "exclusion" in cohort.columns:
        kept &= cohort["exclusion"].isna()
    rows = cohort[kept]
    check_disjoint(rows)
    if wrong := sum(label not in (0, 1) for label in rows["readmitted"]):
        msg = f"readmitted holds {wrong} values that are not 0 or 1; expected 1 = readmitted"
        raise UserError(msg)
    rows = rows.assign(
        readmitted=rows["readmitted"].astype(int), text=rows["text"].map(_present_notes)
    )
    has_text = rows["text"].map(len) > 0
    if dropped := int((~has_text).sum()):
        log.warning("%d stays have no text and are left out", dropped)
    return rows[has_text].reset_index(drop=True)


def _present_notes(notes: Any) -> list[str]:
    """The notes that have text; one string is one note."""
    if isinstance(notes, str):
        notes = [notes]
    if not hasattr(notes, "__iter__"):
        return []  # None or NaN
    kept = [note for note in notes if not is_missing(note)]
    if kinds := sorted({type(note).__name__ for note in kept if not isinstance(note, str)}):
        msg = f"text holds notes of type {', '.join(kinds)}; expected a list of strings"
        raise UserError(msg)
    return [note for note in kept if note.strip()]


def read_cohort(path: Path, *, also: Sequence[Path] = ()) -> pd.DataFrame:
    """Read a cohort (see `usable_stays`), with the train sides of others.

    Patients have one identity everywhere: ids of different hospitals must differ.

    Raises:
        UserError: patients of another cohort's train side are on the val or test side here.
    """
    import pandas as pd

    cohort = _read_rows(path)
    if not also:
        return cohort
    held_out = set(patient_keys(cohort.loc[cohort["split"].isin(["val", "test"]), "patient_id"]))
    parts = [cohort]
    for other in also:
        rows = _read_rows(other)
        rows = rows[rows["split"] == "train"]
        both = held_out & set(patient_keys(rows["patient_id"]))
        if shared := sum(not key.startswith("\t") for key in both):
            msg = (
                f"{shared} patients of the train side of {other.name} are on the val or test side "
                f"of {path.name}; split both cohorts with the same seed, or give patients of "
                "different hospitals different ids"
            )
            raise UserError(msg)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _read_rows(path: Path) -> pd.DataFrame:
    from domainbert.tables import read_table, require_columns, table_columns

    require_columns(table_columns(path), NEEDED, source=path.name)
    return read_table(path, schema={"readmitted": "int"})


# PBKDF2 rounds: a fraction of a millisecond a patient. A whole cohort takes seconds.
_ROUNDS = 500
_BYTES = 5


def patient_hashes(rows: pd.DataFrame) -> dict[str, Any]:
    """Hashes of the patients a model is trained and chosen on, for its manifest.

    They let `overlap` find patients of another cohort among them. They do not show ids, but
    someone with the model folder and a list of candidate ids can test each of them: a folder with
    these hashes is pseudonymous, not anonymous. Rows of the side "test" are left out.
    """
    salt = secrets.token_bytes(16)
    sides = rows[rows["split"] != "test"].groupby("split")["patient_id"]
    packed = {str(side): _pack(_hashes(ids, salt, _ROUNDS)) for side, ids in sides}
    return {"salt": salt.hex(), "rounds": _ROUNDS, **packed}


def with_patients(
    stored: Mapping[str, Any], patient_ids: Iterable[object], *, side: str
) -> dict[str, Any]:
    """What `patient_hashes` recorded, with more patients on one side."""
    mine = _hashes(patient_ids, bytes.fromhex(stored["salt"]), stored["rounds"])
    return {**stored, side: _pack(mine | _unpack(stored.get(side, "")))}


def overlap(patient_ids: Iterable[object], stored: Mapping[str, Any]) -> dict[str, int]:
    """How many of these patients are on each side that `patient_hashes` recorded."""
    salt, rounds = bytes.fromhex(stored["salt"]), stored["rounds"]
    mine = _hashes(patient_ids, salt, rounds)
    found = {}
    for side in stored.keys() - {"salt", "rounds"}:
        found[side] = len(mine & _unpack(stored[side]))
    return found


def _pack(hashes: set[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(hashes))).decode()


def _unpack(packed: str) -> set[bytes]:
    hashes = base64.b64decode(packed)
    return {hashes[i : i + _BYTES] for i in range(0, len(hashes), _BYTES)}


def _hashes(patient_ids: Iterable[object], salt: bytes, rounds: int) -> set[bytes]:
    keys = {key for patient in patient_ids if (key := id_key(patient)) is not None}
    return {hashlib.pbkdf2_hmac("sha256", key.encode(), salt, rounds, dklen=_BYTES) for key in keys}
