"""Trajectories as a scoring task: a table of notes -> one row for each note."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from clinical.risk.stays import listed
from clinical.risk.task import ReadmissionTask
from clinical.risk.trajectory import follow
from domainbert.tables import NOTE, PATIENT, STAY, TEXT, TIME, is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from clinical.risk.task import ReadNotes
    from clinical.risk.trajectory import Trajectory

_NUMBERS = ("probability", "score", "p_max", "p_mean", "n_windows")


class TrajectoryTask(ReadmissionTask):
    """The risk of each stay after each of its notes, in time order."""

    name: ClassVar[str] = "trajectory"
    columns = (PATIENT, replace(STAY, required=True), NOTE, TIME, TEXT)

    @property
    def output(self) -> pa.Schema:
        """The note, and the numbers of `TrajectoryPoint`; `alert` where there is a threshold."""
        import pyarrow as pa

        texts = [(name, pa.string()) for name in ("note_id", "chart_time")]
        floats = [(name, pa.float64()) for name in _NUMBERS[:-1]]
        fields = [*texts, ("n_notes", pa.int64()), *floats, ("n_windows", pa.int64())]
        fields.append(("calibrated", pa.bool_()))
        return pa.schema([*fields, ("alert", pa.bool_())] if self._alerts else fields)

    def run(self, items: Iterable[ReadNotes]) -> Iterator[Trajectory]:  # type: ignore[override]
        """The trajectory of each stay."""
        return follow(self._model, (stay.notes for stay in items))

    def rows(self, item: ReadNotes, result: Trajectory) -> list[dict[str, Any]]:  # type: ignore[override]
        """One row for each note; one for a stay without a trajectory."""
        calibrated = {"calibrated": result.calibrated}
        if result.status != "ok":
            reason = "; ".join([result.reason, *item.remarks])
            return [{**calibrated, "status": result.status, "reason": reason}]
        notes, labels, rows = listed(item.notes), item.labels, []
        if len(labels) != len(notes):  # the notes of a list have none
            labels = [(None, None)] * len(notes)
        for note, (note_id, time), point in zip(notes, labels, result.points, strict=True):
            remarks = ["this note has no text", *item.remarks]
            row = {
                **calibrated,
                "note_id": note_id,
                "chart_time": time,
                "n_notes": point.n_notes,
                "n_windows": point.n_windows,
                "reason": "; ".join(remarks if is_missing(note) else remarks[1:]),
                "status": "ok" if point.n_windows else "empty",
            }
            if point.n_windows:
                row |= {name: getattr(point, name) for name in _NUMBERS}
            rows.append(row | ({"alert": point.alert} if self._alerts else {}))
        return rows
