"""Similar stays: those whose notes have the nearest vectors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clinical.risk.stays import NOTE_JOINT, clean, note_texts
from clinical.risk.task import read_notes
from domainbert.embedding import NO_TEXT, Embedder
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.errors import UserError
from domainbert.pooling import unit
from domainbert.ranking import top_k
from domainbert.scoring import Fault, Task, score_frame
from domainbert.tables import NOTE, PATIENT, STAY, TEXT, TIME, id_key, match_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from domainbert.tables import Row

_QUERIES = 256  # stays compared with all others at a time
_STAY = replace(STAY, required=True)


def similar_stays(
    notes: pd.DataFrame,
    *,
    among: pd.DataFrame | None = None,
    k: int = 5,
    encoder: str | Path | Embedder = DEFAULT_ENCODER,
    named: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """For each stay the stays of other patients whose notes are most alike.

    The vector of a stay is the mean over its tokens, every one of which is read. All pairs are
    compared exactly. A stay never finds itself, nor, where patients are known, another stay of
    its patient, which would often have the same text.

    Args:
        notes: a row per note, with `stay_id, text` and where known `patient_id, note_id,
            chart_time`; or a row per stay whose `text` is a list of notes.
        among: the stays to find, in the same form; by default those of `notes`.
        k: stays to find for each.
        encoder: an embedding model, or its name; see `Embedder.from_pretrained`.
        named: our column -> the table's, where its name is not recognised.

    Returns:
        A row per pair: the stay's ids, `rank` (from 1), `similar_stay_id`, `similar_patient_id`
        (where known), `similarity` (cosine, in [-1, 1]), `status, reason`. A stay without text,
        or with nothing to be compared to, has one row that says so.

    Raises:
        UserError: k < 1, or a column that is needed is not there.
    """
    if k < 1:
        msg = f"k must be at least 1, got {k}"
        raise UserError(msg)
    embedder = encoder if isinstance(encoder, Embedder) else Embedder.from_pretrained(encoder)
    task = StayVectorTask(embedder)
    own = score_frame(task, notes, named=named)
    others = own if among is None else score_frame(task, among, named=named)
    return _pairs(own, others, k=k, named=named)


class StayVectorTask(Task):
    """The vector of each stay: the rows with one `stay_id`."""

    name: ClassVar[str] = "stay vectors"
    columns = (PATIENT, _STAY, NOTE, TIME, TEXT)
    group = STAY.name

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        import pyarrow as pa

        return pa.schema([("n_tokens", pa.int64()), ("vector", pa.list_(pa.float32()))])

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The notes of one stay as one text, without de-identification marks."""
        found = read_notes(rows)
        if isinstance(found, Fault):
            return found
        notes, _missing, fault = note_texts(found.notes)
        return Fault(fault) if fault else clean(NOTE_JOINT.join(text for _, text in notes))

    def run(self, items: Iterable[str]) -> Iterator[tuple[np.ndarray, int] | Fault]:
        """The vector of each stay and its number of tokens."""
        for part in self._embedder.embed_many(items):
            for vector, tokens, fault in zip(part.vectors, part.tokens, part.faults, strict=True):
                if fault == NO_TEXT:
                    yield Fault("no note of this stay has any text", "empty")
                else:
                    yield Fault(fault) if fault else (vector, int(tokens))

    def rows(self, item: str, result: tuple[np.ndarray, int]) -> list[dict[str, Any]]:
        """One row."""
        del item
        return [{"vector": result[0], "n_tokens": result[1]}]

    def facts(self) -> dict[str, Any]:
        """The encoder."""
        return {"encoder": self._embedder.fingerprint()}


def _pairs(
    own: pd.DataFrame, others: pd.DataFrame, *, k: int, named: Mapping[str, str] | None
) -> pd.DataFrame:
    """The nearest stays of each stay, as a table."""
    import pandas as pd

    columns = match_columns(list(own.columns), (PATIENT, _STAY), named=named, source="the table")
    theirs = match_columns(list(others.columns), (PATIENT, _STAY), named=named, source="`among`")
    found = _nearest(_Side(own, columns), _Side(others[others["status"] == "ok"], theirs), k=k)
    rows: list[dict[str, Any]] = []
    for place, stay in enumerate(own.to_dict("records")):
        ids = {columns[name]: stay[columns[name]] for name in columns}
        told = {"status": stay["status"], "reason": stay["reason"]}
        matches = found.get(place, [])
        if stay["status"] == "ok" and not matches:
            told["reason"] = "no stay of another patient to compare with"
        for rank, (other, cosine) in enumerate(matches, start=1):
            names = {f"similar_{name}": others.loc[other, theirs[name]] for name in theirs}
            rows.append({**ids, "rank": rank, **names, "similarity": cosine, **told})
        if not matches:
            rows.append({**ids, **told})
    named_ids = [f"similar_{name}" for name in theirs]
    return pd.DataFrame(
        rows,
        columns=[*columns.values(), "rank", *named_ids, "similarity", "status", "reason"],
    ).astype({"rank": "Int64", "similarity": "float64"})


class _Side:
    """The stays of one table: what identifies them, and their vectors."""

    def __init__(self, table: pd.DataFrame, columns: Mapping[str, str]) -> None:
        self.index = table.index.to_numpy()
        self.stays = [id_key(value) for value in table[columns["stay_id"]]]
        patients = table[columns["patient_id"]] if "patient_id" in columns else [None] * len(table)
        self.patients = [id_key(value) for value in patients]
        self.ok = np.flatnonzero(table["status"] == "ok")
        vectors = [table["vector"].iloc[row] for row in self.ok]
        self.vectors = unit(np.array(vectors, dtype=np.float32)) if vectors else None

    def is_other(self, place: int, stay: str | None, patient: str | None) -> bool:
        """Whether a stay here is another one, of another patient as far as is known."""
        same_patient = patient is not None and self.patients[place] == patient
        return not same_patient and self.stays[place] != stay


def _nearest(own: _Side, others: _Side, *, k: int) -> dict[int, list[tuple[Any, float]]]:
    """Place of a stay -> the index labels of the most similar stays, with cosines."""
    if own.vectors is None or others.vectors is None:
        return {}
    # So many more that k are left when a patient's own stays are taken out.
    own_stays = Counter(patient for patient in others.patients if patient is not None)
    most = min(len(others.ok), k + max(own_stays.values(), default=0) + 1)
    found: dict[int, list[tuple[Any, float]]] = {}
    for start in range(0, len(own.ok), _QUERIES):
        hits = top_k(own.vectors[start : start + _QUERIES], [others.vectors], k=most)
        places = own.ok[start : start + _QUERIES].tolist()
        for place, rows, scores in zip(places, hits.rows, hits.scores, strict=True):
            pairs = zip(rows.tolist(), scores.tolist(), strict=True)
            kept = [
                (others.index[row], score)
                for row, score in pairs
                if others.is_other(row, own.stays[place], own.patients[place])
            ]
            found[place] = kept[:k]
    return found
