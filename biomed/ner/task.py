"""`TagTask`: entities as a scoring task, from tables of texts to one row for each entity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from biomed.ner.sections import SECTIONS
from domainbert.scoring import Fault, Task, text_of
from domainbert.tables import NOTE, PATIENT, STAY, TEXT

if TYPE_CHECKING:
    from biomed.ner.entities import Entity
    from biomed.ner.tagger import Tagger
    from domainbert.tables import Column, Row


class TagTask(Task):
    """Finds the entities of each text; a text without entities has one row with empty fields.

    A table without the column `needed`, such as "note_id", is refused.
    """

    name = "entities"
    columns: tuple[Column, ...] = (PATIENT, STAY, NOTE, TEXT)

    def __init__(self, tagger: Tagger, *, needed: str | None = None) -> None:
        self._tagger = tagger
        self.columns = tuple(
            replace(c, required=True) if c.name == needed else c for c in self.columns
        )

    @property
    def output(self) -> pa.Schema:
        """The fields of `Entity`, its text as `entity`, with the kind of its score."""
        text, number = pa.string(), pa.float64()
        fields = {"start": pa.int64(), "end": pa.int64(), "entity": text, "label": text}
        fields |= {"score": number, "score_kind": text, "assertion": text}
        fields |= {"section": text, "section_code": text}
        links = {
            "entity_id": text,
            "entity_name": text,
            "entity_codes": text,
            "link_score": number,
        }
        return pa.schema(fields | links)

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The text of a row."""
        return text_of(rows[0], "text")

    def run(self, items: Iterable[str]) -> Iterator[list[Entity]]:
        """The entities of each text."""
        return self._tagger.tag_many(items)

    def rows(self, item: str, result: list[Entity]) -> list[dict[str, Any]]:
        """One row for each entity."""
        names = {field: f"entity_{field}" for field in ("id", "name", "codes")} | {
            "text": "entity"
        }
        kind = self._tagger.score_kind
        return [
            {names.get(field, field): value for field, value in vars(entity).items()}
            | {"entity_codes": "|".join(entity.codes) or None, "score_kind": kind}
            | {"section_code": _section_code(entity)}
            for entity in result
        ] or [{}]

    def about(self) -> dict[str, Any]:
        """The model's name."""
        return {"model_name": self._tagger.network.name}

    def facts(self) -> dict[str, Any]:
        """Weights, tokenizer and settings of the model."""
        model, linker = self._tagger.network.fingerprint(), self._tagger.linker
        links = {"linker": linker.facts()} if linker else {}
        context = self._tagger.context_facts
        min_score = self._tagger.min_score
        return {"model": model, "min_score": min_score, **links, **context}


def _section_code(entity: Entity) -> str | None:
    return SECTIONS[entity.section].code if entity.section else None
