"""The scoring task of explanations: the passages behind each stay's risk."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import pyarrow as pa

from clinical.evidence.explain import TOP, explain
from clinical.evidence.view import Explanation
from clinical.risk.diagnoses import DiagnosisModel
from clinical.risk.model import ReadmissionModel
from clinical.risk.task import Notes, StayNotes, StayTask


class ExplainTask(StayTask[Explanation]):
    """One row per passage; a stay without passages has one row. See `Passage` for the columns.

    Args:
        model: the model that scores the stays.
        top: maximum number of passages per stay and direction.
        text: add the column `text` with the passages.
        sources: add the column `notes_read` with a list of the ids of all notes that were read,
            in order; CSV cannot hold lists.
        notes: see `StayTask`.
    """

    name: ClassVar[str] = "explain"

    def __init__(
        self,
        model: ReadmissionModel,
        *,
        top: int = TOP,
        text: bool = False,
        sources: bool = False,
        notes: Notes = "chosen",
    ) -> None:
        super().__init__(model, notes=notes)
        self._top = top
        self._text = text
        self._sources = sources

    @property
    def output(self) -> pa.Schema:
        """The columns of the table of passages."""
        columns = {
            "probability": "double",
            "passage": "int64",
            "note": "int64",
            "start": "int64",
            "end": "int64",
            "direction": "string",
            "value": "double",
            "score_contribution": "double",
            "probability_contribution": "double",
            "without_raising": "double",
            "raising_alone": "double",
        }
        if self._text:
            columns["text"] = "string"
        if self._sources:
            columns["notes_read"] = pa.list_(pa.string())
        return pa.schema(columns)

    def run(self, items: Iterable[StayNotes]) -> Iterator[Explanation]:
        """The explanation of each stay."""
        return (
            explain(self._model, item.notes, top=self._top) for item in items
        )

    def rows(
        self, item: StayNotes, result: Explanation
    ) -> list[dict[str, object]]:
        """A row for each passage."""
        # Of these values, only those of the columns are written.
        shared = self.risk_row(item, result.risk) | vars(result)
        shared["notes_read"] = [note for note, _ in item.labels]
        rows = []
        for number, passage in enumerate(result.passages, start=1):
            row = shared | vars(passage)
            row["passage"] = number
            row["direction"] = "raises" if passage.raises else "lowers"
            rows.append(row)
        return rows or [shared]

    def facts(self) -> dict[str, object]:
        """The model and the options."""
        return {**super().facts(), "top": self._top, "text": self._text}


class DiagnosisExplainTask(ExplainTask):
    """The passages behind one group of a `DiagnosisModel`; see `ExplainTask`.

    Args:
        model: the model that scores the stays.
        outcome: the group, such as "I50"; the column `group` repeats it.
        top: see `ExplainTask`, as the other arguments.
        text: see there.
        sources: see there.
        notes: see there.
    """

    def __init__(
        self,
        model: DiagnosisModel,
        *,
        outcome: str,
        top: int = TOP,
        text: bool = False,
        sources: bool = False,
        notes: Notes = "chosen",
    ) -> None:
        super().__init__(
            model.single(outcome),
            top=top,
            text=text,
            sources=sources,
            notes=notes,
        )
        self._outcome = outcome

    @property
    def output(self) -> pa.Schema:
        """The columns of the table of passages, after the group."""
        return pa.schema([("group", pa.string()), *super().output])

    def rows(
        self, item: StayNotes, result: Explanation
    ) -> list[dict[str, object]]:
        """A row for each passage."""
        rows = super().rows(item, result)
        return [{**row, "group": self._outcome} for row in rows]

    def facts(self) -> dict[str, object]:
        """The model, the group and the options."""
        return {**super().facts(), "outcome": self._outcome}
