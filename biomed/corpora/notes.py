"""The notes corpus: 200 short texts in the style of clinical notes, tagged by hand.

How it was made and tagged is told in `biomed/data/notes.md`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from biomed.corpora.corpus import Gold, gold_of
from biomed.corpora.formats import read_json

Side = Literal["dev", "test"]
SIDES: tuple[Side, ...] = ("dev", "test")
_DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class NoteName:
    """An abbreviation or brand, and the words before it in the text in which it is looked for."""

    kind: str
    label: str
    context: str
    name: str


def notes_gold(side: Side, *, labels: dict[str, str] | None = None) -> Gold:
    """One side of the corpus: "dev" for choosing, "test" for measuring.

    Its types are Disease and Chemical; `labels` renames them, see `read_gold`.
    """
    documents = read_json(_DATA / "notes.jsonl", side=side)
    return gold_of(documents, name=f"notes {side}", labels=labels)


def note_names() -> list[NoteName]:
    """56 abbreviations of diseases and 54 brand names of drugs."""
    with (_DATA / "note_names.csv").open(encoding="utf-8", newline="") as file:
        return [NoteName(**row) for row in csv.DictReader(file)]
