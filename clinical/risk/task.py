"""Readmission as a scoring task: a table of notes, or of stays, -> a table of risks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from domainbert.scoring import Fault, Task
from domainbert.tables import NOTE, PATIENT, STAY, TEXT, TIME, id_key, id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from clinical.risk.model import ReadmissionModel
    from clinical.risk.stays import StayRisk
    from domainbert.tables import Row

_NUMBERS = ("probability", "score", "p_max", "p_mean")


@dataclass(frozen=True)
class StayNotes:
    """The notes of a stay in time order, their ids, and what was noticed while reading them.

    Attributes:
        notes: texts; or, of a stay in one row, the cell with a text or a list of them.
        ids: of each row's note; None where the table has none.
        remarks: for the reason column.
    """

    notes: Any = field(repr=False)
    ids: list[str | None]
    remarks: list[str]


class ReadmissionTask(Task):
    """Scores stays: the rows with one `stay_id`, or each row where there is none."""

    name: ClassVar[str] = "readmission"
    columns = (PATIENT, STAY, NOTE, TIME, TEXT)
    group = STAY.name

    def __init__(self, model: ReadmissionModel) -> None:
        self._model = model
        self._alerts = model.settings.alert_threshold is not None

    @property
    def output(self) -> pa.Schema:
        """Columns of the score table; `alert` where the model has a threshold."""
        import pyarrow as pa

        fields = [(name, pa.float64()) for name in _NUMBERS]
        fields += [("n_windows", pa.int64()), ("n_tokens", pa.int64()), ("calibrated", pa.bool_())]
        return pa.schema([*fields, ("alert", pa.bool_())] if self._alerts else fields)

    def read(self, rows: Sequence[Row]) -> StayNotes | Fault:
        """The notes of one stay."""
        return read_notes(rows)

    def run(self, items: Iterable[StayNotes]) -> Iterator[StayRisk]:
        """The risk of each stay."""
        return self._model.predict_many(stay.notes for stay in items)

    def rows(self, item: StayNotes, result: StayRisk) -> list[dict[str, Any]]:
        """The one row of a stay."""
        unread = len(result.coverage.unread)
        remarks = [result.reason, *item.remarks]
        if unread and result.status == "ok":
            remarks.append(f"{unread} passage{'s' if unread > 1 else ''} unread")
        row: dict[str, Any] = {
            "n_windows": result.coverage.windows,
            "n_tokens": result.coverage.tokens,
            "calibrated": self._model.settings.calibration is not None,
            "status": result.status,
            "reason": "; ".join(filter(None, remarks)),
        }
        if self._alerts:
            row["alert"] = result.alert
        if result.status == "ok":
            row |= {name: getattr(result, name) for name in _NUMBERS}
        return [row]

    def facts(self) -> dict[str, Any]:
        """The model."""
        return {"model": self._model.fingerprint()}


def read_notes(rows: Sequence[Row]) -> StayNotes | Fault:
    """The notes of one stay, for every task that reads stays.

    Args:
        rows: of one stay, with the cells `patient_id, note_id, chart_time, text`.

    Returns:
        The notes in time order, each `note_id` once; or why the rows are no stay.
    """
    patients = {id_key(row.cells.get("patient_id")) for row in rows} - {None}
    if len(patients) > 1:
        return Fault("this stay_id belongs to more than one patient_id")
    remarks = list(dict.fromkeys(row.remark for row in rows if row.remark))
    texts = [row.cells.get("text") for row in rows]
    if len(rows) == 1:
        return StayNotes(texts[0], _ids(rows), remarks)
    if any(text is not None and not isinstance(text, str) for text in texts):
        return Fault(f"{len(rows)} rows of this stay have a list of notes; expected one row")
    notes: dict[str | int, Row] = {}  # the first row of each note_id
    for row in rows:
        notes.setdefault(id_key(row.cells.get("note_id")) or row.number, row)
    kept = list(notes.values())
    if dropped := len(rows) - len(kept):
        remarks.append(f"{dropped} rows with a repeated note_id left out")
    kept, unreadable = _in_time_order(kept)
    if unreadable:
        remarks.append(
            f"{unreadable} notes have a chart_time that is not an ISO date: notes in the "
            "order of the table"
        )
    texts = [row.cells.get("text") for row in kept]
    if copies := len(texts) - len(set(texts)) - max(0, texts.count(None) - 1):
        remarks.append(f"{copies} notes repeat another note's text and are counted again")
    return StayNotes(texts, _ids(kept), remarks)


def _ids(rows: Sequence[Row]) -> list[str | None]:
    return [id_text(row.cells.get("note_id")) for row in rows]


def _in_time_order(rows: list[Row]) -> tuple[list[Row], int]:
    """By `chart_time` where every note has one, else as they came; unreadable times are counted."""
    import pandas as pd

    given = pd.Series([row.cells.get("chart_time") for row in rows], dtype=object)
    times = pd.to_datetime(given, errors="coerce", format="ISO8601", utc=True)
    if times.isna().any():
        return rows, int((times.isna() & given.notna()).sum())
    return [rows[i] for i in times.argsort(kind="stable")], 0
