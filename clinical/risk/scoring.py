"""Score tables: one row a note, or one row a stay, in a DataFrame or streamed from a file."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from domainbert.tables import TableWriter, iter_table, require_columns, table_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pandas as pd

    from clinical.risk.model import ReadmissionModel
    from clinical.risk.results import StayRisk

ID_COLUMNS = ("patient_id", "stay_id", "note_id")
OUTPUT_ROWS = 1024


@dataclass(frozen=True)
class _Row:
    """One stay of a table: its ids, its notes, and what is wrong with it, if anything."""

    ids: dict[str, object]
    notes: Any = field(repr=False)
    fault: str = ""
    remark: str = ""


def score_frame(model: ReadmissionModel, frame: pd.DataFrame) -> pd.DataFrame:
    """Score a table of notes or of stays.

    Args:
        model: the model.
        frame: `text`, one note a row, where rows with one `stay_id` are one stay (in `chart_time`
            order where there is one) and without `stay_id` each row is its own; or one row a
            stay, `text` being a list.

    Returns:
        One row a stay, in order of first appearance: the id columns, then `probability, p_max,
        p_mean, n_windows, n_tokens, calibrated` (where fitted), `status`, `reason`.

    Raises:
        TableError: there is no column `text`.
    """
    import pandas as pd

    require_columns(frame.columns, ["text"], source="the table")
    if "stay_id" in frame.columns and not _is_contiguous(frame["stay_id"]):
        frame = _gathered(frame)
    parts = list(_scored(model, [frame], list(frame.columns)))
    if parts:
        return pd.concat(parts, ignore_index=True)
    return pd.DataFrame(columns=[*_ids_in(list(frame.columns)), *_score_columns(model)])


def score_table(
    model: ReadmissionModel, source: str | Path, out: str | Path
) -> Iterator[pd.DataFrame]:
    """Score a file into a file; yields each piece as it is written.

    The notes are streamed. Only where the rows of one stay lie apart in the file is the table
    read whole, to bring them together. The output has its name when it is complete.

    Args:
        model: the model.
        source: .csv, .parquet or .jsonl; see `score_frame` for the columns.
        out: .csv, .parquet or .jsonl.

    Raises:
        TableError: a file that cannot be read or written, or has no column `text`.
    """
    import pandas as pd

    columns = table_columns(source)
    require_columns(columns, ["text"], source=str(source))
    pieces: Iterable[pd.DataFrame] = iter_table(source)
    if "stay_id" in columns:
        ids = [frame["stay_id"] for frame in iter_table(source, columns=["stay_id"])]
        if ids and not _is_contiguous(pd.concat(ids, ignore_index=True)):
            pieces = [_gathered(pd.concat(list(pieces), ignore_index=True))]
    with TableWriter(out) as writer:
        wrote = False
        for part in _scored(model, pieces, columns):
            writer.write(part)
            wrote = True
            yield part
        if not wrote:
            writer.write(pd.DataFrame(columns=[*_ids_in(columns), *_score_columns(model)]))


def _scored(
    model: ReadmissionModel, pieces: Iterable[pd.DataFrame], columns: list[str]
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    waiting: deque[_Row] = deque()

    def notes() -> Iterator[Any]:
        for row in _rows(pieces, columns):
            waiting.append(row)
            yield [] if row.fault else row.notes

    results = (_record(waiting.popleft(), risk) for risk in model.predict_many(notes()))
    while part := list(itertools.islice(results, OUTPUT_ROWS)):
        yield pd.DataFrame(part, columns=[*_ids_in(columns), *_score_columns(model)])


def _record(row: _Row, risk: StayRisk) -> dict[str, object]:
    status, reason = ("error", row.fault) if row.fault else (risk.status, risk.reason)
    remarks = [reason, row.remark, _unread(risk) if status == "ok" else ""]
    return {
        **row.ids,
        "probability": risk.probability,
        "p_max": risk.p_max,
        "p_mean": risk.p_mean,
        "n_windows": risk.coverage.windows,
        "n_tokens": risk.coverage.tokens,
        "calibrated": risk.calibrated,
        "status": status,
        "reason": "; ".join(remark for remark in remarks if remark),
    }


def _unread(risk: StayRisk) -> str:
    number = len(risk.coverage.unread)
    return f"{number} passage{'s' if number > 1 else ''} unread" if number else ""


def _score_columns(model: ReadmissionModel) -> list[str]:
    calibrated = ["calibrated"] if model.settings.calibration else []
    return [
        *("probability", "p_max", "p_mean", "n_windows", "n_tokens"),
        *calibrated,
        *("status", "reason"),
    ]


def _ids_in(columns: list[str]) -> list[str]:
    """The id columns of the output: a note's own id says nothing where rows make up stays."""
    found = [name for name in ID_COLUMNS if name in columns]
    return [name for name in found if name != "note_id"] if "stay_id" in found else found


def _is_contiguous(ids: pd.Series) -> bool:
    """Whether the rows of each stay stand together."""
    starts = ids.ne(ids.shift()) & ~(ids.isna() & ids.shift().isna())
    return not ids[starts].duplicated().any()


def _gathered(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of one stay brought together, stays in order of first appearance."""
    order = frame.groupby("stay_id", sort=False, dropna=False).ngroup()
    return frame.iloc[order.argsort(kind="stable")]


def _rows(pieces: Iterable[pd.DataFrame], columns: list[str]) -> Iterator[_Row]:
    """The stays of a table, one at a time."""
    ids, seen = _ids_in(columns), set()
    by_stay = itertools.groupby(_records(pieces), key=_StayKey)
    for _, group in by_stay:
        rows = list(group)
        first = {name: rows[0][name] for name in ids}
        stay = first.get("stay_id")
        if stay is not None and stay in seen:
            yield _Row(first, [], fault="this stay_id has come before")
            continue
        seen.add(stay)
        if len({str(row.get("patient_id")) for row in rows}) > 1:
            yield _Row(first, [], fault="this stay_id belongs to more than one patient_id")
        elif len(rows) == 1:
            yield _Row(first, rows[0]["text"])
        else:
            kept = _in_time_order(_first_of_each_note(rows))
            dropped = len(rows) - len(kept)
            remark = f"{dropped} rows with a repeated note_id left out" if dropped else ""
            yield _Row(first, [row["text"] for row in kept], remark=remark)


def _records(pieces: Iterable[pd.DataFrame]) -> Iterator[dict[str, Any]]:
    numbers = itertools.count()
    for frame in pieces:
        for record in frame.to_dict("records"):
            record["_row"] = next(numbers)
            yield {str(name): value for name, value in record.items()}


class _StayKey:
    """Equal for neighbouring rows of one stay; a row with a list of notes, or none, is its own."""

    def __init__(self, row: dict[str, Any]) -> None:
        stay = row.get("stay_id")
        alone = stay is None or stay != stay or not isinstance(row["text"], str | float | None)
        self._key = ("row", row["_row"]) if alone else ("stay", str(stay))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StayKey) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _first_of_each_note(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: set[str] = set()
    kept = []
    for row in rows:
        note = row.get("note_id")
        if note is None or note != note or str(note) not in seen:
            kept.append(row)
            seen.add(str(note))
    return kept


def _in_time_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By `chart_time` where every note has a readable one, else as they came."""
    import pandas as pd

    times = pd.to_datetime(
        pd.Series([row.get("chart_time") for row in rows], dtype=object),
        errors="coerce",
        format="mixed",
    )
    if times.isna().any():
        return rows
    return [rows[i] for i in times.argsort(kind="stable")]
