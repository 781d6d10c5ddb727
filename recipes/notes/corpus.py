"""Two corpora of notes with entities and assertions: 300 real sections, 200 invented texts.

The README of `real-sections` and of `hand-tagged-notes` says how each was made and tagged. "dev" is
for choosing models and rules, "test" for measuring.
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
from recipes.notes.sections import drawn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from biomed.corpora import Gold

Side = Literal["dev", "test"]
SIDES: tuple[Side, ...] = ("dev", "test")
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class NoteName:
    """An abbreviation or brand, and the words before it in the text in which it is looked for."""

    kind: str
    label: str
    context: str
    name: str


def notes_gold(side: Side, *, labels: dict[str, str] | None = None) -> Gold:
    """A side of the invented texts, with the types Disease and Chemical.

    `labels` renames types, as in `read_gold`.
    """
    rows = _rows("hand-tagged-notes", side)
    documents = [_document(row, row["text"]) for row in rows]
    return gold_of(documents, name=f"hand-tagged-notes {side}", labels=labels)


def sections_gold(side: Side, data: Path, *, labels: dict[str, str] | None = None) -> Gold:
    """A side of the real sections, whose texts are read from the folder of public data.

    Raises:
        UserError: a text differs from the one that was tagged.
    """
    texts = {section.id: section.text for section in drawn(data)}
    documents = []
    for row in _rows("real-sections", side):
        text = texts.get(row["id"], "")
        if not hashlib.sha256(text.encode()).hexdigest().startswith(row["sha256"]):
            msg = f"{data / 'notes'}: section {row['id']} is not the text that was tagged"
            raise UserError(msg)
        documents.append(_document(row, text))
    return gold_of(documents, name=f"real-sections {side}", labels=labels)


def _rows(folder: str, side: Side) -> list[dict[str, Any]]:
    path = _FOLDER / folder / f"{side}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _document(row: Mapping[str, Any], text: str) -> Document:
    spans = (
        Span(e["start"], e["end"], e["label"], assertion=e["assertion"]) for e in row["entities"]
    )
    return Document(row["id"], text, tuple(spans))


def note_names() -> list[NoteName]:
    """56 abbreviations of diseases and 54 brand names of drugs."""
    with (_FOLDER / "note_names.csv").open(encoding="utf-8", newline="") as file:
        return [NoteName(**row) for row in csv.DictReader(file)]
