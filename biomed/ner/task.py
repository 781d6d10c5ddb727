"""`TagTask`: entities as a scoring task, from tables of texts to one row for each entity."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from biomed.notes.attributes import KINDS
from biomed.notes.sections import SECTIONS
from domainbert.scoring import Fault, OutputRow, Task, text_of
from domainbert.tables import NOTE, PATIENT, STAY, TEXT, TIME, Column, Row

if TYPE_CHECKING:
    from biomed.ner.entities import Entity
    from biomed.ner.tagger import EntityTagger

_BETWEEN = "\n\n"  # texts of a row
_ABSTRACT = ("title", "abstract")


@dataclass(frozen=True)
class JoinedText:
    """The texts of a row, such as title and abstract, joined by blank lines.

    `starts` are the positions of the texts in `text`.
    """

    text: str
    starts: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, texts: Iterable[str]) -> JoinedText:
        """Join texts; an entity does not reach from one into the next."""
        parts = list(texts)
        lengths = (len(text) + len(_BETWEEN) for text in parts[:-1])
        return cls(_BETWEEN.join(parts), tuple(accumulate(lengths, initial=0)))

    def place(self, position: int) -> tuple[int, int]:
        """The number of the text that has this character, and where that text starts."""
        number = bisect_right(self.starts, position) - 1
        return number, self.starts[number]


def columns_of(
    fields: Sequence[str] = (), *, needed: str | None = None
) -> tuple[Column, ...]:
    """The ids of a text, one of which may be needed, and its column or several columns."""
    texts = [Column(field, "text", required=True) for field in fields]
    # The time is repeated as the ids are, because OMOP's tables need a date.
    ids = (PATIENT, STAY, NOTE, replace(TIME, role="id"))
    columns = (*ids, *(texts or [replace(TEXT, joined=_ABSTRACT)]))
    return tuple(
        replace(column, required=True) if column.name == needed else column
        for column in columns
    )


def joined_text(row: Row, fields: Sequence[str] = ()) -> JoinedText | Fault:
    """The text of a row, or its texts joined; some of several may be empty."""
    results = [text_of(row, field) for field in fields or ("text",)]
    faults = [result for result in results if isinstance(result, Fault)]
    errors = [fault for fault in faults if fault.status == "error"]
    if errors or len(faults) == len(results):
        return (errors or faults)[0]
    texts = [result if isinstance(result, str) else "" for result in results]
    return JoinedText.of(texts)


OUTPUT = [
    "start",
    "end",
    "entity",
    "label",
    "score",
    "score_kind",
    "assertion",
    "cue",
    "cue_start",
    "cue_end",
    "cue_rule",
]
OUTPUT += ["section", "section_code"]
OUTPUT += [
    "entity_id",
    "entity_name",
    "entity_codes",
    "link_score",
    "drug_status",
]
OUTPUT += [*(f"drug_{attribute}" for attribute in KINDS)]
OUTPUT += ["drug_attributes", "drug_same_as"]


# The columns that are not text.
_NUMBERS = {
    "start": "int64",
    "cue_start": "int64",
    "cue_end": "int64",
    "end": "int64",
    "score": "double",
    "link_score": "double",
    "drug_same_as": "int64",
}


class TagTask(Task["JoinedText", "list[Entity]"]):
    """Finds the entities of each text: one row for each entity.

    Args:
        tagger: finds them.
        needed: a column, such as "note_id", without which a table is refused.
        text: the column of texts, if it is not recognised; or several, such as `["title",
            "abstract"]`, and then the output names the `field` of each entity, in which its
            positions count.

    Output: ids (`id`, `*_id` and common names), `row` (the text's position in the table, from 0),
    `start, end, entity, label, score, score_kind, assertion, cue, cue_start, cue_end,
    cue_rule, section, section_code, entity_id, entity_name, entity_codes, link_score`; of drugs
    `drug_status, drug_dose, drug_unit, drug_route,
    drug_frequency, drug_duration, drug_form, drug_as_needed, drug_reason, drug_reaction` and
    `drug_attributes` (JSON, with offsets), `drug_same_as` (where the drug starts that it is another
    name of); and `status, reason`. A text without entities has one
    row with empty fields; its status is "empty" if there is no text, and "error" if it cannot be
    read.
    """

    name = "entities"

    def __init__(
        self,
        tagger: EntityTagger,
        *,
        needed: str | None = None,
        text: str | Sequence[str] | None = None,
    ) -> None:
        self._tagger = tagger
        self._fields: tuple[str, ...] = ()
        self._is_joined = False
        if isinstance(text, str):
            self._fields = (text,)
        elif text:
            self._fields = tuple(dict.fromkeys(text))
            self._is_joined = True
        self.columns = columns_of(self._fields, needed=needed)

    @property
    def output(self) -> pa.Schema:
        """The fields of `Entity`, its text as `entity`, with the kind of its score."""
        names = OUTPUT
        if self._is_joined:
            names = ["field", *OUTPUT]
        return pa.schema(
            {name: _NUMBERS.get(name, "string") for name in names}
        )

    def read(self, rows: Sequence[Row]) -> JoinedText | Fault:
        """The text of a row, or its texts joined."""
        return joined_text(rows[0], self._fields)

    def run(self, items: Iterable[JoinedText]) -> Iterator[list[Entity]]:
        """The entities of each text."""
        return self._tagger.tag_many(item.text for item in items)

    def rows(self, item: JoinedText, result: list[Entity]) -> list[OutputRow]:
        """One row for each entity."""
        score_kind = self._tagger.score_kind
        rows = []
        for entity in result:
            number, start = item.place(entity.start)
            row = {**_row(entity, start=start), "score_kind": score_kind}
            if self._is_joined:
                row["field"] = self._fields[number]
            rows.append(row)
        return rows or [{}]

    def about(self) -> dict[str, object]:
        """The model's name."""
        return {"model_name": self._tagger.name}

    def facts(self) -> dict[str, object]:
        """Weights, tokenizer and settings of the model, and what else the tagger depends on."""
        tagger = self._tagger
        facts = {
            "model": tagger.fingerprint(),
            "min_score": tagger.min_score,
            **tagger.context_facts,
        }
        if tagger.linker:
            facts["linker"] = tagger.linker.facts()
        return facts


def _row(entity: Entity, *, start: int) -> dict[str, object]:
    """The columns of an entity; its positions count from `start`."""
    row = {name: getattr(entity, name, None) for name in OUTPUT}
    row["start"] = entity.start - start
    row["end"] = entity.end - start
    row["entity"] = entity.text
    if entity.cue_start is not None and entity.cue_end is not None:
        row["cue_start"] = entity.cue_start - start
        row["cue_end"] = entity.cue_end - start
    if entity.section:
        row["section_code"] = SECTIONS[entity.section].code
    row["entity_id"] = entity.id
    row["entity_name"] = entity.name
    row["entity_codes"] = "|".join(entity.codes) or None
    drug = entity.medication
    if drug is not None:
        row |= {f"drug_{attribute}": drug[attribute] for attribute in KINDS}
        row["drug_status"] = drug.status
        if drug.same_as is not None:
            row["drug_same_as"] = drug.same_as - start
        if drug.attributes:
            parts = [asdict(part) for part in drug.attributes]
            for part in parts:
                part["start"] -= start
                part["end"] -= start
            row["drug_attributes"] = json.dumps(parts)
    return row
