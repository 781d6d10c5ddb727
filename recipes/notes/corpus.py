"""Tagged notes: 300 real sections and 200 invented texts to measure on, and others to train on.

The README of `real-sections`, `hand-tagged-notes` and `written-notes` says how each was made and
tagged. "dev" is for choosing models and rules, "test" for measuring.
"""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from biomed.corpora import Document, Span, gold_of
from domainbert.errors import UserError
from recipes.notes.sections import drawn, trainable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from biomed.corpora import Gold
    from recipes.notes.sections import Section

Side = Literal["dev", "test"]
SIDES: tuple[Side, ...] = ("dev", "test")
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class NoteName:
    """An abbreviation or brand, and the words before it in the text in which it is looked for."""

    name_type: str
    label: str
    context: str
    name: str


def notes_gold(side: Side, *, labels: dict[str, str] | None = None) -> Gold:
    """A side of the invented texts, with the types Disease and Chemical.

    `labels` renames types, as in `read_gold`.
    """
    rows = tagged_rows("hand-tagged-notes", side)
    documents = [_document(row, row["text"]) for row in rows]
    return gold_of(documents, name=f"hand-tagged-notes {side}", labels=labels)


def sections_gold(
    side: Side, data: Path, *, labels: dict[str, str] | None = None
) -> Gold:
    """A side of the real sections, whose texts are read from the folder of public data.

    Raises:
        UserError: a text differs from the one that was tagged.
    """
    documents = _sections(side, drawn(data), data)
    return gold_of(documents, name=f"real-sections {side}", labels=labels)


def section_headings(side: Side) -> dict[str, str]:
    """The heading of each real section by its id: the text does not have it."""
    rows = tagged_rows("real-sections", side)
    return {row["id"]: row["section"] for row in rows}


def training_documents(data: Path) -> list[Document]:
    """Tagged sections of real notes and written notes, none of which is measured on.

    Raises:
        UserError: see `sections_gold`.
    """
    rows = tagged_rows("written-notes", "train")
    written_notes = [_document(row, row["text"]) for row in rows]
    return [*_sections("train", trainable(data), data), *written_notes]


def _sections(
    side: str, sections: list[Section], data: Path
) -> list[Document]:
    rows = tagged_rows("real-sections", side)
    texts = tagged_texts(rows, sections, data)
    return list(map(_document, rows, texts))


def tagged_texts(
    rows: Iterable[Mapping[str, Any]], sections: Iterable[Section], data: Path
) -> Iterator[str]:
    """The text of the section that each row tags.

    Raises:
        UserError: a text differs from the one that was tagged.
    """
    texts = {section.id: section.text for section in sections}
    for row in rows:
        text = texts.get(row["id"], "")
        digest = hashlib.sha256(text.encode()).hexdigest()
        if not digest.startswith(row["sha256"]):
            msg = f"{data / 'notes'}: section {row['id']} is not the text that was tagged"
            raise UserError(msg)
        yield text


def tagged_rows(folder: str, side: str) -> list[dict[str, Any]]:
    """The rows of a side in a folder of tags."""
    path = _FOLDER / folder / f"{side}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(map(json.loads, lines))


def _document(row: Mapping[str, Any], text: str) -> Document:
    spans = [
        Span(
            entity["start"],
            entity["end"],
            entity["label"],
            assertion=entity.get("assertion", ""),
        )
        for entity in row["entities"]
    ]
    return Document(row["id"], text, tuple(spans))


def note_names() -> list[NoteName]:
    """56 abbreviations of diseases and 54 brand names of drugs."""
    path = _FOLDER / "note_names.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [NoteName(**row) for row in csv.DictReader(file)]
