"""Explanations as a scoring task: a table of notes, or of stays, -> a table of passages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from clinical.evidence.explain import explain
from clinical.risk.task import ReadmissionTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from clinical.risk.model import ReadmissionModel

LONGEST_NAME = 150  # characters of a file name made from an id


class ExplainTask(ReadmissionTask):
    """One row a passage, and one without a passage for a stay that has none.

    Args:
        model: that scores the stays.
        method: see `clinical.explain`.
        top: likewise.
        text: add the column `text` with the passages themselves.
        pages: folder for one HTML page a stay, with its notes; none by default.
    """

    name: ClassVar[str] = "explain"

    def __init__(
        self,
        model: ReadmissionModel,
        *,
        method: str = "occlusion",
        top: int = 5,
        text: bool = False,
        pages: Path | None = None,
    ) -> None:
        super().__init__(model)
        self._method, self._top, self._text, self._pages = method, top, text, pages

    @property
    def output(self) -> pa.Schema:
        """The columns of the table of passages."""
        import pyarrow as pa

        whole, number = pa.int64(), pa.float64()
        kinds = {
            "probability": number,
            "passage": whole,
            "note": whole,
            "start": whole,
            "end": whole,
            "direction": pa.string(),
            "value": number,
            "score_contribution": number,
            "probability_contribution": number,
            "without_raising": number,
            "raising_alone": number,
            **({"text": pa.string()} if self._text else {}),
        }
        return pa.schema(list(kinds.items()))

    def run(self, items: Iterable[Any]) -> Iterator[Any]:
        """The explanation of each stay."""
        asked: dict[str, Any] = {"method": self._method, "top": self._top}
        return (explain(self._model, i.notes, stay_id=i.name, **asked) for i in items)

    def rows(self, item: Any, result: Any) -> list[dict[str, Any]]:
        """A row for each passage."""
        whole = super().rows(item, result.risk)[0]
        same = {name: whole[name] for name in ("status", "reason")}
        if result.risk.status != "ok":
            return [same]
        same["probability"] = result.risk.probability
        if result.raising:
            same |= {name: getattr(result, name) for name in ("without_raising", "raising_alone")}
        if self._pages:
            result.save_html(self._pages / f"{quote(item.name, safe='')[:LONGEST_NAME]}.html")
        columns = set(self.output.names)
        found = [
            {
                **same,
                **{name: value for name, value in vars(passage).items() if name in columns},
                "passage": number,
                "direction": "raises" if passage.value > 0 else "lowers",
            }
            for number, passage in enumerate(result.passages, start=1)
        ]
        return found or [same]

    def facts(self) -> dict[str, Any]:
        """The model, and what is asked of it."""
        asked = {"method": self._method, "top": self._top, "text": self._text}
        return {**super().facts(), **asked, "pages": str(self._pages or "")}
