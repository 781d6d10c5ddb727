"""Explanations as a scoring task: a table of notes, or of stays, -> a table of passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from clinical.evidence.explain import TOP, explain
from clinical.risk.task import ReadmissionTask

if TYPE_CHECKING:
    import pyarrow as pa

    from clinical.risk.model import RiskModel
    from clinical.risk.task import Notes

_TOGETHER = ("without_raising", "raising_alone")


class ExplainTask(ReadmissionTask):
    """One row a passage, and one without a passage for a stay that has none.

    Args:
        model: that scores the stays.
        top: passages a stay, of each direction.
        text: add the column `text` with the passages themselves.
        sources: add the column `notes_read` with the ids of all notes that were read, in order:
            a list, which CSV cannot hold.
        notes: see `ReadmissionTask`.
    """

    name: ClassVar[str] = "explain"

    def __init__(
        self,
        model: RiskModel,
        *,
        top: int = TOP,
        text: bool = False,
        sources: bool = False,
        notes: Notes = "chosen",
    ) -> None:
        super().__init__(model, notes=notes)
        self._top, self._text, self._sources = top, text, sources

    @property
    def output(self) -> pa.Schema:
        """The columns of the table of passages."""
        import pyarrow as pa

        kinds = {"probability": pa.float64()}
        kinds |= dict.fromkeys(("passage", "note", "start", "end"), pa.int64())
        kinds |= {"direction": pa.string(), "value": pa.float64()}
        effects = ("score_contribution", "probability_contribution", *_TOGETHER)
        kinds |= dict.fromkeys(effects, pa.float64())
        kinds |= {"text": pa.string()} if self._text else {}
        kinds |= {"notes_read": pa.list_(pa.string())} if self._sources else {}
        return pa.schema(list(kinds.items()))

    def run(self, items: Iterable[Any]) -> Iterator[Any]:
        """The explanation of each stay."""
        return (explain(self._model, item.notes, top=self._top) for item in items)

    def rows(self, item: Any, result: Any) -> list[dict[str, Any]]:
        """A row for each passage."""
        whole = super().rows(item, result.risk)[0]
        same = {name: whole[name] for name in ("status", "reason")}
        same["notes_read"] = [note for note, _ in item.labels]
        if result.risk.status != "ok":
            return [same]
        same["probability"] = result.risk.probability
        if result.raising:
            same |= {name: getattr(result, name) for name in _TOGETHER}
        columns = set(self.output.names)
        rows = [
            {
                **same,
                **{
                    name: value
                    for name, value in vars(passage).items()
                    if name in columns
                },
                "passage": number,
                "direction": "raises" if passage.raises else "lowers",
            }
            for number, passage in enumerate(result.passages, start=1)
        ]
        return rows or [same]

    def facts(self) -> dict[str, Any]:
        """The model, and what is asked of it."""
        return {**super().facts(), "top": self._top, "text": self._text}
