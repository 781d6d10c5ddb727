"""The scoring task of diagnosis models: tables of notes, or of stays, -> a long table of groups."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import pyarrow as pa

from clinical.risk.diagnoses import DiagnosisModel, StayDiagnoses
from clinical.risk.task import Notes, Record, StayNotes, StayTask
from domainbert.errors import UserError


class DiagnosisTask(StayTask[StayDiagnoses]):
    """One row for each stay and group, the most probable group first; see `StayTask`.

    Output: `patient_id` and `stay_id`, `group, name, rank, probability, score, calibrated`,
    `proposed` if groups have thresholds, `n_windows, n_tokens`, `status` and `reason`. A stay
    without numbers has one row.

    Args:
        model: the model that scores the stays.
        notes: see `StayTask`.
        top: only so many of the most probable groups of a stay; all by default.
        proposed: only the groups whose probability reaches their threshold. A stay without any
            keeps its most probable group, so that it has a row.
    """

    name: ClassVar[str] = "diagnoses"

    def __init__(
        self,
        model: DiagnosisModel,
        *,
        notes: Notes = "chosen",
        top: int | None = None,
        proposed: bool = False,
    ) -> None:
        super().__init__(model, notes=notes)  # type: ignore[arg-type]
        if top is not None and top < 1:
            raise UserError(f"top is {top}; expected at least 1")
        if proposed and not model.settings.thresholds:
            raise UserError(
                "this model has no thresholds, so nothing is proposed: use top=5"
            )
        self._diagnoses = model
        self._top = top
        self._proposed = proposed

    @property
    def output(self) -> pa.Schema:
        """The columns of the long table."""
        columns = {
            "group": "string",
            "name": "string",
            "rank": "int64",
            "probability": "double",
            "score": "double",
            "calibrated": "bool",
        }
        if self._diagnoses.settings.thresholds:
            columns["proposed"] = "bool"
        return pa.schema(columns | {"n_windows": "int64", "n_tokens": "int64"})

    def run(self, items: Iterable[StayNotes]) -> Iterator[StayDiagnoses]:
        """The groups of each stay."""
        return self._diagnoses.predict_many(stay.notes for stay in items)

    def rows(self, item: StayNotes, result: StayDiagnoses) -> list[Record]:
        """A row for each group that is asked for, and one for a stay without a group."""
        shared: Record = {
            "n_windows": result.coverage.windows,
            "n_tokens": result.coverage.tokens,
            "status": result.status,
            "reason": "; ".join(filter(None, [result.reason, *item.remarks])),
        }
        groups = result.groups
        if self._proposed:
            # Every stay has a row.
            groups = result.proposed or groups[:1]
        rows = [shared | vars(group) for group in groups[: self._top]]
        return rows or [shared]

    def facts(self) -> Record:
        """The model, and which groups are written."""
        chosen = {"top": self._top, "proposed": self._proposed}
        return {**super().facts(), **chosen}
