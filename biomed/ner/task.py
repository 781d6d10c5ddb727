"""`TagTask`: entities as a scoring task, from tables of texts to one row for each entity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from biomed.ner.medications import KINDS
from biomed.ner.sections import SECTIONS
from domainbert.scoring import Fault, Task, text_of
from domainbert.tables import NOTE, PATIENT, STAY, TEXT, TIME

if TYPE_CHECKING:
    from biomed.ner.entities import Entity
    from biomed.ner.tagger import Tagger
    from domainbert.tables import Column, Row


OUTPUT = ["start", "end", "entity", "label", "score", "score_kind", "assertion"]
OUTPUT += ["section", "section_code"]
OUTPUT += ["entity_id", "entity_name", "entity_codes", "link_score", "drug_status"]
OUTPUT += [*(f"drug_{kind}" for kind in KINDS), "drug_attributes"]


class TagTask(Task):
    """Finds the entities of each text; a text without entities has one row with empty fields.

    A table without the column `needed`, such as "note_id", is refused.
    """

    name = "entities"
    # The time is repeated as the ids are, because OMOP's tables need a date.
    columns: tuple[Column, ...] = (PATIENT, STAY, NOTE, replace(TIME, kind="id"), TEXT)

    def __init__(self, tagger: Tagger, *, needed: str | None = None) -> None:
        self._tagger = tagger
        self.columns = tuple(
            replace(c, required=True) if c.name == needed else c for c in self.columns
        )

    @property
    def output(self) -> pa.Schema:
        """The fields of `Entity`, its text as `entity`, with the kind of its score."""
        numbers = {"start": pa.int64(), "end": pa.int64()}
        numbers |= {"score": pa.float64(), "link_score": pa.float64()}
        return pa.schema([(name, numbers.get(name, pa.string())) for name in OUTPUT])

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The text of a row."""
        return text_of(rows[0], "text")

    def run(self, items: Iterable[str]) -> Iterator[list[Entity]]:
        """The entities of each text."""
        return self._tagger.tag_many(items)

    def rows(self, item: str, result: list[Entity]) -> list[dict[str, Any]]:
        """One row for each entity."""
        kind = self._tagger.score_kind
        return [{**_row(entity), "score_kind": kind} for entity in result] or [{}]

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


def _row(entity: Entity) -> dict[str, Any]:
    """The columns of an entity."""
    row = {name: getattr(entity, name, None) for name in OUTPUT}
    row["entity"] = entity.text
    row["section_code"] = SECTIONS[entity.section].code if entity.section else None
    row["entity_id"] = entity.id
    row["entity_name"] = entity.name
    row["entity_codes"] = "|".join(entity.codes) or None
    drug = entity.medication
    if drug is not None:
        row |= {f"drug_{kind}": drug[kind] for kind in KINDS}
        row["drug_status"] = drug.status
        if drug.attributes:
            parts = [asdict(part) for part in drug.attributes]
            row["drug_attributes"] = json.dumps(parts)
    return row
