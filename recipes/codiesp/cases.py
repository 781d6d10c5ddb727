"""The cases of CodiEsp as a cohort: groups of codes, and where the English text says them."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from domainbert.tables import TableError
from recipes.codiesp.alignment import (
    align,
    english_lines,
    english_place,
    spanish_sentences,
)

if TYPE_CHECKING:
    from pathlib import Path

_CATEGORY: Final = 3  # characters of a category of ICD-10
_DIAGNOSIS: Final = "DIAGNOSTICO"


def category(code: str) -> str:
    """The category of a code, with or without a dot."""
    return code.replace(".", "").upper()[:_CATEGORY]


def read_cases(folder: Path, side: str) -> list[dict[str, Any]]:
    """The cases of a side: "train", "dev" or "background".

    Raises:
        TableError: no such file.
    """
    path = folder / f"{side}.jsonl.gz"
    if not path.is_file():
        raise TableError(f"{path}: no such file; expected CodiEsp's {side}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(map(json.loads, lines))


def build_cohort(folder: Path) -> pd.DataFrame:
    """Train and dev as one cohort, with dev as the side "val".

    `diagnoses` are the categories of a case, `evidence` about where its English text says each of
    the coders' mentions, which they marked in the Spanish text.
    """
    rows = [cohort_row(case, "train") for case in read_cases(folder, "train")]
    rows += [cohort_row(case, "val") for case in read_cases(folder, "dev")]
    return pd.DataFrame(rows)


def cohort_row(case: dict[str, Any], side: str) -> dict[str, Any]:
    """A case as a row of a cohort."""
    return {
        "patient_id": case["id"],
        "stay_id": case["id"],
        "split": side,
        "text": [case["text_en"]],
        "diagnoses": sorted(set(map(category, case["diagnoses"]))),
        "evidence": evidence(case),
    }


def evidence(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the English text of a case says the diagnoses that were marked in the Spanish one."""
    english, spanish = case["text_en"], case["text_es"]
    links = align(
        [english[start:end] for start, end in english_lines(english)],
        [spanish[start:end] for start, end in spanish_sentences(spanish)],
    )
    places = []
    for label, code, words, positions in case["mentions_es"]:
        if label != _DIAGNOSIS:
            continue
        middle = int(positions.split()[0]) + len(words) // 2
        place = english_place(english, spanish, links, middle)
        if place is not None:
            start, end = place
            places.append(
                {
                    "group": category(code),
                    "note": 0,
                    "start": start,
                    "end": end,
                }
            )
    return places
