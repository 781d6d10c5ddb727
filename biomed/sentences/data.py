"""Pairs and triplets of sentences from tables, STS and XNLI files, and PubMedQA."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.tables import (
    Column,
    ReadOptions,
    TableError,
    iter_rows,
    match_columns,
    table_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

COLUMNS = (
    Column("first", "text", ("sentence1", "query", "question", "anchor", "text1"), required=True),
    Column(
        "second", "text", ("sentence2", "passage", "answer", "positive", "text2"), required=True
    ),
    Column("third", "text", ("negative",)),
    Column("label", "value", ("score", "rating", "similarity", "gold_label", "class")),
)
_STS_CELLS = 7  # genre, file, year, id, score, sentence, sentence; some rows have licence cells
_XNLI = ["sentence1", "sentence2", "gold_label"]


@dataclass(frozen=True)
class Examples:
    """Rows to train on or to measure.

    Attributes:
        first: a text of each row.
        second: the other text; for triplets the positive.
        third: the negative of each triplet; empty for pairs.
        labels: score (as text) or class of each row; empty where the source has none.
    """

    first: list[str] = field(repr=False)
    second: list[str] = field(repr=False)
    third: list[str] = field(repr=False)
    labels: list[str] = field(repr=False)

    def __len__(self) -> int:
        """Rows."""
        return len(self.first)

    def scores(self, scale: float) -> list[float]:
        """The labels as scores in [0, 1].

        Args:
            scale: the largest score of the source, such as 5 for the STS benchmark.

        Raises:
            TableError: a label that is not a number from 0 to `scale`.
        """
        values = [_number(label) / scale for label in self.labels]
        if wrong := [n for n, value in enumerate(values) if not 0 <= value <= 1]:
            msg = (
                f"{len(wrong)} of {len(values)} scores are not numbers from 0 to {scale:g}; the "
                f"first is that of row number {wrong[0]}; say the largest score with --scale"
            )
            raise TableError(msg)
        if not values:
            raise TableError("the pairs have no scores; expected a column `score`")
        return values

    def take(self, rows: Sequence[int]) -> Examples:
        """Some rows, by number, in the order given."""
        columns = (self.first, self.second, self.third, self.labels)
        return Examples(*([column[row] for row in rows] if column else [] for column in columns))

    def to_frame(self) -> pd.DataFrame:
        """The rows as a table that `read_examples` reads."""
        import pandas as pd

        columns = {"first": self.first, "second": self.second, "negative": self.third}
        columns["score"] = self.labels
        return pd.DataFrame({name: values for name, values in columns.items() if values})

    def labelled(self) -> Examples:
        """Triplets as pairs: the positive is right (1), the negative wrong (0); pairs stay."""
        if not self.third or self.labels:
            return self
        labels = ["1"] * len(self) + ["0"] * len(self)
        return Examples(self.first * 2, self.second + self.third, [], labels)

    def joined(self, other: Examples) -> Examples:
        """These rows, then those of `other`."""
        return Examples(
            self.first + other.first,
            self.second + other.second,
            self.third + other.third,
            self.labels + other.labels,
        )

    def without(self, other: Examples) -> Examples:
        """The rows whose two texts, in either order, are no row of `other`."""
        known = set(other.pairs())
        return self.take([row for row, pair in enumerate(self.pairs()) if pair not in known])

    def pairs(self) -> list[frozenset[str]]:
        """The two texts of each row, whichever comes first."""
        return list(map(frozenset, zip(self.first, self.second, strict=True)))


def read_examples(source: str | Path) -> Examples:
    """Read pairs or triplets.

    Args:
        source: a table with the columns `first, second` (or `sentence1, sentence2`; `query,
            passage`; `anchor, positive`) and, where there are, `negative` and `score` or `label`;
            a file of the STS benchmark or XNLI (.tsv without quoting); or PubMedQA (.json).

    Raises:
        TableError: no such source or column, a malformed line, or a row without a text.
    """
    rows = list(_rows(source))
    name = Path(source).name
    if not rows:
        msg = f"{name}: no rows"
        raise TableError(msg)
    columns = list(zip(*rows, strict=True))
    for column, values in zip(("first", "second", "negative", "label"), columns, strict=True):
        missing = [n for n, v in enumerate(values) if not isinstance(v, str) or not v.strip()]
        # A column that no row has is not there; one that some rows lack is wrong.
        if missing and (column in ("first", "second") or len(missing) < len(values)):
            msg = (
                f"{name}: {len(missing)} rows have no {column}, the first is row number "
                f"{missing[0]}"
            )
            raise TableError(msg)
    first, second, third, labels = ([v for v in values if v] for values in columns)
    return Examples(first, second, third, labels)


def read_groups(source: str | Path) -> Examples:
    """Read texts (`text`, as `first`) and their groups (`label`); see `read_examples`.

    Raises:
        TableError: no such source or column, or a row without a text or a group.
    """
    columns = (
        Column("text", "text", ("sentence",), required=True),
        Column("label", "value", ("group", "category", "class"), required=True),
    )
    name = Path(source).name
    found = match_columns(table_columns(source), columns, source=name)
    texts, groups = [], []
    for row in iter_rows(source, ReadOptions()):
        cells = [row.cells.get(found[column.name]) for column in columns]
        if row.fault or not all(cells):
            msg = f"{row.place}: {row.fault or 'the text or its group is empty'}"
            raise TableError(msg)
        texts.append(str(cells[0]))
        groups.append(str(cells[1]))
    return Examples(texts, [], [], groups)


def _rows(source: str | Path) -> Iterator[tuple[str | None, ...]]:
    path = Path(source)
    if path.suffix.lower() == ".json":
        return _pubmedqa(path)
    if path.suffix.lower() == ".tsv" and path.is_file() and (rows := list(_unquoted(path))):
        return iter(rows)
    return _table(source)


def _table(source: str | Path) -> Iterator[tuple[str | None, ...]]:
    found = match_columns(table_columns(source), COLUMNS, source=Path(source).name)
    for row in iter_rows(source, ReadOptions()):
        if row.fault:
            msg = f"{row.place}: {row.fault}"
            raise TableError(msg)
        yield tuple(row.cells.get(found.get(column.name, "")) for column in COLUMNS)


def _unquoted(path: Path) -> Iterator[tuple[str | None, ...]]:
    """The rows of a file of the STS benchmark or XNLI; none where it is another table."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise TableError(f"{path.name} is not in UTF-8: save it as UTF-8") from None
    cells = [line.split("\t") for line in lines if line]
    if cells and cells[0] == _XNLI and all(len(row) == len(_XNLI) for row in cells):
        yield from ((first, second, None, label) for first, second, label in cells[1:])
        return
    if cells and cells[0][4:_STS_CELLS] == ["score", "sentence1", "sentence2"]:
        cells = cells[1:]
    if all(len(row) >= _STS_CELLS and _number(row[4]) == _number(row[4]) for row in cells):
        for row in cells:
            yield row[5], row[6], None, row[4]


def _pubmedqa(path: Path) -> Iterator[tuple[str | None, ...]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        for entry in document.values():
            yield entry["QUESTION"], " ".join(entry["CONTEXTS"]), None, entry.get("final_decision")
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        msg = f"{path.name} is not PubMedQA ({type(error).__name__})"
        raise TableError(msg) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
