"""A vocabulary: terms, their clinical categories and their synonyms."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from domainbert.tables import TableError, read_table, require_cells

if TYPE_CHECKING:
    import pandas as pd

SHIPPED = Path(__file__).parents[1] / "data" / "medical_terms.csv"
HELD_OUT = 20  # percent of the terms


def medical_terms() -> pd.DataFrame:
    """The shipped vocabulary: some 1,170 terms in 14 clinical categories.

    Each term is in one category, that of the specialty that mostly treats it; drugs have their own
    category. A group is a finer part of a category, such as "arrhythmia" or "beta blocker".

    Returns:
        `term`, `category`, `synonyms` (a list of one or two, abbreviations among them), `group`,
        `held_out` (never trained on, see `is_held_out`).
    """
    return read_vocabulary(SHIPPED)


def read_vocabulary(path: str | Path) -> pd.DataFrame:
    """Read a vocabulary from a table.

    Args:
        path: .csv, .parquet or .jsonl with the columns `term` and `category`; where there are,
            `synonyms` (separated by "|") and `group`.

    Returns:
        As `medical_terms`; without `group` each category is one group.

    Raises:
        TableError: a column is missing, a term or category is empty, or a term occurs twice.
    """
    path = Path(path)
    table = read_table(path)
    require_cells(table, ["term", "category"], source=path.name)
    twice = table["term"].str.casefold().duplicated()
    if twice.any():
        msg = f"{path.name}: {int(twice.sum())} terms occur twice, first in row {twice.argmax()}"
        raise TableError(msg)
    synonyms = table["synonyms"] if "synonyms" in table.columns else table["term"].map(lambda _: "")
    group = table["group"] if "group" in table.columns else table["category"]
    return table[["term", "category"]].assign(
        synonyms=[split_names(value) for value in synonyms],
        group=table["category"] + "/" + group,
        held_out=table["term"].map(is_held_out),
    )


def is_held_out(term: str) -> bool:
    """Whether a term is kept out of training: a fifth of all, by a hash of its letters."""
    return percent(term.casefold()) < HELD_OUT


def percent(key: str) -> int:
    """A number from 0 to 99 by a hash of the key; it decides what is held out from training."""
    return int(hashlib.sha256(key.encode(errors="replace")).hexdigest(), 16) % 100


def split_names(synonyms: object) -> list[str]:
    """The names of a cell: a list of them, or text with "|" between them."""
    listed = synonyms.split("|") if isinstance(synonyms, str) else synonyms
    if not isinstance(listed, list | tuple | np.ndarray):
        return []
    return [name.strip() for name in listed if isinstance(name, str) and name.strip()]
