"""Readers of sentence pairs, triplets and translations, from tables, STS and XNLI files."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.tables import (
    Column,
    ReadOptions,
    TableError,
    is_text_file,
    iter_rows,
    match_columns,
    read_table,
)

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
# Genre, file, year, id, score, sentence, sentence; some rows have licence cells too.
_STS_CELLS = 7
_NAMES = ["first", "second", "label"]
_XNLI = ["sentence1", "sentence2", "gold_label"]


def read_pairs(source: str | Path) -> pd.DataFrame:
    """Read pairs or triplets.

    Args:
        source: a table with the columns `first, second` (or `sentence1, sentence2`; `query,
            passage`; `anchor, positive`; `Term1, Term2`) and optionally `negative` and
            `label` (or `score`, `rating`, `Mean`); or a file of the STS benchmark or XNLI (.tsv
            without quoting).

    Returns:
        `first, second`, and `negative` and `label` (a score or a class, as text) if the source
        has them.

    Raises:
        TableError: no such source or column, a malformed line, or a row without a text.
    """
    path = Path(source)
    pairs = None
    if path.suffix.lower() == ".tsv" and path.is_file():
        pairs = _read_unquoted(path)
    if pairs is None:
        table = read_table(source)
        names = match_columns(list(table.columns), COLUMNS, source=path.name)
        pairs = table[list(names.values())].set_axis(
            list(names), axis="columns"
        )
    if pairs.empty:
        raise TableError(f"{path.name}: no rows")
    for name in list(pairs):
        is_blank = pairs[name].astype(str).str.strip() == ""
        missing = np.flatnonzero(pairs[name].isna() | is_blank)
        if len(missing) == len(pairs) and name in ("negative", "label"):
            pairs = pairs.drop(columns=name)
        elif len(missing):
            raise TableError(
                f"{path.name}: {len(missing)} rows have no {name}, the first is row number "
                f"{missing[0]}"
            )
    return pairs.astype(str)


def _read_unquoted(path: Path) -> pd.DataFrame | None:
    """The pairs of a file of the STS benchmark or XNLI; None for another table."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError:
        raise TableError(
            f"{path.name} is not in UTF-8: save it as UTF-8"
        ) from None
    cells = [line.split("\t") for line in lines if line]
    if cells[:1] == [_XNLI] and all(len(row) == len(_XNLI) for row in cells):
        return pd.DataFrame(cells[1:], columns=_NAMES)
    if cells and cells[0][4:_STS_CELLS] == ["score", "sentence1", "sentence2"]:
        cells = cells[1:]
    if not all(
        len(row) >= _STS_CELLS and _NUMBER.fullmatch(row[4]) for row in cells
    ):
        return None
    return pd.DataFrame(
        [(row[5], row[6], row[4]) for row in cells], columns=_NAMES
    )


def scores(pairs: pd.DataFrame, scale: float = 1.0) -> np.ndarray:
    """The labels of pairs as scores in [0, 1], shape (pairs,).

    Args:
        pairs: the pairs, from `read_pairs`.
        scale: the largest score of the source, such as 5 for the STS benchmark.

    Raises:
        TableError: no labels, or one that is not a number from 0 to `scale`.
    """
    if "label" not in pairs.columns:
        raise TableError("the pairs have no scores; expected a column `score`")
    labels = pd.to_numeric(pairs["label"], errors="coerce").to_numpy(
        dtype=float
    )
    values = labels / scale
    is_score = (values >= 0) & (values <= 1)  # false for NaN too
    faults = np.flatnonzero(~is_score)
    if len(faults):
        raise TableError(
            f"{len(faults)} of {len(values)} scores are not numbers from 0 to {scale:g}; the "
            f"first is that of row number {faults[0]}; give the largest score with `scale=5`"
        )
    return values


def keys(pairs: pd.DataFrame) -> list[frozenset[str]]:
    """The two texts of each pair, in no order."""
    texts = zip(pairs["first"], pairs["second"], strict=True)
    return [frozenset(pair) for pair in texts]


def without(pairs: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The pairs that are not in `other`, in either order of their texts."""
    other_keys = set(keys(other))
    is_new = [key not in other_keys for key in keys(pairs)]
    return pairs[is_new].reset_index(drop=True)


def labelled(pairs: pd.DataFrame) -> pd.DataFrame:
    """Triplets as pairs with labels 1 (positive) and 0 (negative); pairs are unchanged."""
    if "negative" not in pairs.columns or "label" in pairs.columns:
        return pairs
    positive = pairs[["first", "second"]].assign(label="1")
    negative = pairs[["first"]].assign(second=pairs["negative"], label="0")
    return pd.concat([positive, negative], ignore_index=True)


def read_sentences(source: str | Path) -> list[str]:
    """Read sentences: the lines of a `.txt` or `.txt.gz`, or both texts of a table's pairs.

    Empty lines are kept as "", so that translations stay aligned. For tables see `read_pairs`;
    the first texts of all pairs come before the second texts.

    Raises:
        TableError: no such file.
    """
    if not is_text_file(source):
        pairs = read_pairs(source)
        return [*pairs["first"], *pairs["second"]]
    rows = iter_rows(source, ReadOptions(lines=True))
    return [(row.cells["text"] or "").strip() for row in rows]


def read_translations(
    source: str | Path,
    translation: str | Path,
) -> list[tuple[str, str]]:
    """Read sentences and their translations, without repeated and empty pairs.

    Raises:
        TableError: files of unequal length, or a line that is empty in one of the files only.
    """
    sentences = read_sentences(source)
    translations = read_sentences(translation)
    if len(sentences) != len(translations):
        raise TableError(
            f"{Path(source).name} has {len(sentences)} sentences and {Path(translation).name} has "
            f"{len(translations)}; a translation has one line for each line of its source"
        )
    pairs = list(zip(sentences, translations, strict=True))
    for number, pair in enumerate(pairs, start=1):
        if any(pair) != all(pair):
            name = Path(translation if pair[0] else source).name
            raise TableError(
                f"{name}: sentence number {number} is empty, and in the other file it is not"
            )
    if not any(sentences):
        raise TableError(f"{Path(source).name} has no sentence")
    return [pair for pair in dict.fromkeys(pairs) if all(pair)]


def check_ratings(expected: np.ndarray) -> None:
    """Refuse ratings without a rank correlation, which chooses the weights."""
    if len(np.unique(expected)) < 2:
        raise UserError(
            f"validation: all {len(expected)} ratings are the same, so their rank correlation "
            "is undefined and cannot choose the weights; expected different ratings"
        )


def class_names(
    sets: Collection[pd.DataFrame], validation: pd.DataFrame
) -> list[str]:
    """The class names, sorted."""
    names = sorted(
        {label for pairs in sets for label in pairs.get("label", ())}
    )
    if len(names) < 2 or "label" not in validation:
        raise UserError(
            f"classification needs a column `label`, in validation too; got {len(names)} classes"
        )
    new = sorted(set(validation["label"]).difference(names))
    if new:
        raise UserError(
            f"validation has the class {new[0]!r}, which the training pairs do not have"
        )
    return names


def check_texts(
    embedder: Embedder, texts: Sequence[str], *, what: str
) -> None:
    """Raise a `UserError` that begins with `what` if a text has no token."""
    unread = list(embedder.windower.without_tokens(texts))
    if unread:
        raise UserError(
            f"{what}: {len(unread)} texts have no character that the model reads, the first is "
            f"number {unread[0]}; leave them out"
        )
