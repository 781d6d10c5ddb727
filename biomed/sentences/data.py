"""Pairs and triplets of sentences from tables, STS and XNLI files; translations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from domainbert.tables import (
    Column,
    ReadOptions,
    TableError,
    is_text_file,
    iter_rows,
    match_columns,
    read_table,
)

if TYPE_CHECKING:
    import pandas as pd

_FIRST = ("sentence1", "query", "question", "anchor", "text1", "term1")
_SECOND = ("sentence2", "passage", "answer", "positive", "text2", "term2")
_LABEL = ("score", "rating", "similarity", "mean", "gold_label", "class")
COLUMNS = (
    Column("first", "text", _FIRST, required=True),
    Column("second", "text", _SECOND, required=True),
    Column("negative", "text", ("third",)),
    Column("label", "value", _LABEL),
)
_NUMBER = re.compile(r"\d+(\.\d+)?")
_STS_CELLS = (
    7  # genre, file, year, id, score, sentence, sentence; some rows have licence cells
)
_NAMES = ["first", "second", "label"]
_XNLI = ["sentence1", "sentence2", "gold_label"]


def read_pairs(source: str | Path) -> pd.DataFrame:
    """Read pairs or triplets.

    Args:
        source: a table with the columns `first, second` (or `sentence1, sentence2`; `query,
            passage`; `anchor, positive`; `Term1, Term2`) and, where there are, `negative` and
            `label` (or `score`, `rating`, `Mean`); or a file of the STS benchmark or XNLI (.tsv
            without quoting).

    Returns:
        `first, second` and, where the source has them, `negative` and `label` (a score or a
        class, as text).

    Raises:
        TableError: no such source or column, a malformed line, or a row without a text.
    """
    path = Path(source)
    pairs = (
        _unquoted(path) if path.suffix.lower() == ".tsv" and path.is_file() else None
    )
    if pairs is None:
        table = read_table(source)
        names = match_columns(list(table.columns), COLUMNS, source=path.name)
        pairs = table[list(names.values())].set_axis(list(names), axis="columns")
    if pairs.empty:
        raise TableError(f"{path.name}: no rows")
    for name in list(pairs):
        missing = np.flatnonzero(
            pairs[name].isna() | (pairs[name].astype(str).str.strip() == "")
        )
        if len(missing) == len(pairs) and name in ("negative", "label"):
            pairs = pairs.drop(columns=name)
        elif len(missing):
            raise TableError(
                f"{path.name}: {len(missing)} rows have no {name}, the first is row number "
                f"{missing[0]}"
            )
    return pairs.astype(str)


def _unquoted(path: Path) -> pd.DataFrame | None:
    """The pairs of a file of the STS benchmark or XNLI; None for another table."""
    import pandas as pd

    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise TableError(f"{path.name} is not in UTF-8: save it as UTF-8") from None
    cells = [line.split("\t") for line in lines if line]
    if cells[:1] == [_XNLI] and all(len(row) == len(_XNLI) for row in cells):
        return pd.DataFrame(cells[1:], columns=_NAMES)
    if cells and cells[0][4:_STS_CELLS] == ["score", "sentence1", "sentence2"]:
        cells = cells[1:]
    if not all(len(row) >= _STS_CELLS and _NUMBER.fullmatch(row[4]) for row in cells):
        return None
    return pd.DataFrame([(row[5], row[6], row[4]) for row in cells], columns=_NAMES)


def scores(pairs: pd.DataFrame, scale: float = 1.0) -> np.ndarray:
    """The labels of pairs as scores in [0, 1], shape (pairs,).

    Args:
        pairs: from `read_pairs`.
        scale: the largest score of the source, such as 5 for the STS benchmark.

    Raises:
        TableError: no labels, or one that is not a number from 0 to `scale`.
    """
    import pandas as pd

    if "label" not in pairs.columns:
        raise TableError("the pairs have no scores; expected a column `score`")
    values = (
        pd.to_numeric(pairs["label"], errors="coerce").to_numpy(dtype=float) / scale
    )
    if len(wrong := np.flatnonzero(~((values >= 0) & (values <= 1)))):
        raise TableError(
            f"{len(wrong)} of {len(values)} scores are not numbers from 0 to {scale:g}; the first "
            f"is that of row number {wrong[0]}; say the largest score with --scale"
        )
    return values


def keys(pairs: pd.DataFrame) -> list[frozenset[str]]:
    """The two texts of each pair, whichever comes first."""
    return list(map(frozenset, zip(pairs["first"], pairs["second"], strict=True)))


def without(pairs: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The pairs whose two texts, in either order, are no pair of `other`."""
    known = set(keys(other))
    return pairs[[key not in known for key in keys(pairs)]].reset_index(drop=True)


def labelled(pairs: pd.DataFrame) -> pd.DataFrame:
    """Triplets as pairs: the positive is right (1), the negative wrong (0); pairs stay."""
    import pandas as pd

    if "negative" not in pairs.columns or "label" in pairs.columns:
        return pairs
    right = pairs[["first", "second"]].assign(label="1")
    wrong = pairs[["first"]].assign(second=pairs["negative"], label="0")
    return pd.concat([right, wrong], ignore_index=True)


def read_sentences(source: str | Path) -> list[str]:
    """Sentences: the lines of a `.txt` or `.txt.gz`, else both texts of the pairs of a table.

    Empty lines are kept, as "", so that translations stay aligned. For tables see `read_pairs`;
    their first texts come first.

    Raises:
        TableError: no such file.
    """
    if not is_text_file(source):
        pairs = read_pairs(source)
        return [*pairs["first"], *pairs["second"]]
    rows = iter_rows(source, ReadOptions(lines=True))
    return [(row.cells["text"] or "").strip() for row in rows]


def read_translations(
    source: str | Path, translation: str | Path
) -> list[tuple[str, str]]:
    """Sentences and their translations, line by line, without repeated and empty pairs.

    Raises:
        TableError: files of unequal length, or a line that is empty in one of them only.
    """
    first, second = read_sentences(source), read_sentences(translation)
    if len(first) != len(second):
        raise TableError(
            f"{Path(source).name} has {len(first)} sentences and {Path(translation).name} has "
            f"{len(second)}; a translation has one line for each line of its source"
        )
    for number, pair in enumerate(zip(first, second, strict=True), start=1):
        if any(pair) != all(pair):
            name = Path(translation if pair[0] else source).name
            msg = f"{name}: sentence number {number} is empty, and in the other file it is not"
            raise TableError(msg)
    if not any(first):
        raise TableError(f"{Path(source).name} has no sentence")
    return [
        pair for pair in dict.fromkeys(zip(first, second, strict=True)) if all(pair)
    ]
