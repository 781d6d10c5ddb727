"""The notes corpus: 200 short texts in the style of clinical notes, tagged by hand.

`hand-tagged-notes/README.md` says how it was made and tagged. "dev" is for choosing models and
rules, "test" for measuring.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from biomed.corpora import Document, Span, gold_of

if TYPE_CHECKING:
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
    """One side of the corpus, with the types Disease and Chemical; `labels` as in `read_gold`."""
    path = _FOLDER / "hand-tagged-notes" / f"{side}.jsonl"
    documents = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        spans = (
            Span(e["start"], e["end"], e["label"], assertion=e["assertion"])
            for e in row["entities"]
        )
        documents.append(Document(row["id"], row["text"], tuple(spans)))
    return gold_of(documents, name=path.name, labels=labels)


def note_names() -> list[NoteName]:
    """56 abbreviations of diseases and 54 brand names of drugs."""
    with (_FOLDER / "note_names.csv").open(encoding="utf-8", newline="") as file:
        return [NoteName(**row) for row in csv.DictReader(file)]
