"""Tables of terms: the scoring tasks that add vectors or nearest neighbours to each row."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from biomed.terms.names import meanings
from biomed.terms.similarity import COLUMNS
from domainbert.embedding import NO_TEXT
from domainbert.scoring import Fault, Task, score_frame
from domainbert.tables import (
    Column,
    ReadOptions,
    TableError,
    iter_rows,
    match_columns,
    table_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder
    from biomed.terms.similarity import Neighbours, TermIndex
    from domainbert.embedding import Embedder
    from domainbert.tables import Row

TERM = Column("term", "text", ("text", "terms", "concept"), required=True)
CATEGORY = Column("category", "value")
SYNONYMS = Column("synonyms", "value", ("synonym",))


class _TermTask(Task):
    """What reads one text a row."""

    columns: tuple[Column, ...] = (TERM,)
    column = "term"

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The term of a row."""
        term = rows[0].cells.get(self.column)
        if term is None or (isinstance(term, str) and not term.strip()):
            return Fault(NO_TEXT, "empty")
        if not isinstance(term, str):
            return Fault(f"it is {type(term).__name__}, not a string")
        return term

    def facts(self) -> dict[str, Any]:
        """The model."""
        return {"model": self.embedder.fingerprint()}


class EmbedTask(_TermTask):
    """The vector of each term: `term, n_tokens, n_windows`, and the vector as `v0, v1, …`.

    A term longer than a window has a reason that says so; its vector pools all windows. Of an
    abbreviation the reason says what it may stand for; its vector is that of its letters.

    Args:
        embedder: gives the vectors.
    """

    name = "term vectors"

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        numbers = [(f"v{i}", pa.float32()) for i in range(self.embedder.dimension)]
        counts = [("n_tokens", pa.int64()), ("n_windows", pa.int64())]
        return pa.schema([(self.column, pa.string()), *counts, *numbers])

    def run(self, items: Iterable[str]) -> Iterator[Any]:
        """Tokens, windows and vector of each term."""
        for part in self.embedder.embed_many(items):
            columns = (part.tokens.tolist(), part.windows.tolist(), part.vectors, part.faults)
            for tokens, windows, vector, fault in zip(*columns, strict=True):
                yield Fault(fault) if fault else (tokens, windows, vector)

    def rows(self, item: str, result: Any) -> list[dict[str, Any]]:
        """One row."""
        tokens, windows, vector = result
        row = {self.column: item, "n_tokens": tokens, "n_windows": windows}
        row |= {f"v{i}": value for i, value in enumerate(vector.tolist())}
        if windows > 1:
            row["reason"] = f"read in {windows} windows; the vector pools them all"
        elif known := meanings(item):
            row["reason"] = f"read as written; it may stand for {' or '.join(known)}"
        return [row]


class NearestTask(_TermTask):
    """The nearest terms of a vocabulary, a row each: `term` and the columns of `Neighbour`.

    A column `context` with a sentence decides among the meanings of an abbreviation; `reason` says
    how one was read.

    Args:
        index: the vocabulary.
        k: neighbours of each term, or of each meaning of an ambiguous abbreviation.
    """

    name = "nearest terms"
    columns = (TERM, Column("context", "value", ("sentence",)))

    def __init__(self, index: TermIndex, *, k: int = 10) -> None:
        super().__init__(index.embedder)
        self._index, self._k = index, k

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        types = (pa.int64(), pa.string(), pa.float64(), pa.string(), pa.string())
        return pa.schema([("term", pa.string()), *zip(COLUMNS, types, strict=True)])

    def read(self, rows: Sequence[Row]) -> tuple[str, str] | Fault:  # type: ignore[override]
        """The term of a row, and its context."""
        term = super().read(rows)
        return term if isinstance(term, Fault) else (term, str(rows[0].cells.get("context") or ""))

    def run(self, items: Iterable[tuple[str, str]]) -> Iterator[Neighbours | Fault]:
        """The neighbours of each term."""
        for result in self._index.look_up(items, k=self._k):
            yield Fault(result.fault) if result.fault else result

    def rows(self, item: tuple[str, str], result: Neighbours) -> list[dict[str, Any]]:
        """A row per neighbour."""
        own = {"term": item[0], "reason": result.reason}
        found = [own | asdict(neighbour) for neighbour in result.found]
        return found or [{"term": item[0], "reason": "the vocabulary has no other term"}]

    def facts(self) -> dict[str, Any]:
        """The model, the vocabulary and k."""
        return {**super().facts(), "vocabulary": self._index.digest, "k": self._k}


def embed_frame(
    embedder: TermEmbedder,
    frame: pd.DataFrame,
    *,
    column: str | None = None,
    keep: Iterable[str] = (),
) -> pd.DataFrame:
    """The vectors of a table of terms; see `EmbedTask` for the columns.

    Args:
        embedder: gives the vectors.
        frame: the terms, and anything else; ids are carried along.
        column: the one with the terms, where it is not called `term`.
        keep: further columns to carry along.

    Raises:
        TableError: no such column.
    """
    named = {"term": column} if column else None
    return score_frame(EmbedTask(embedder), frame, named=named, keep=keep)


def read_options(source: str | Path, **options: Any) -> ReadOptions:
    """How to read terms: a .txt file has one on each line."""
    is_text = Path(source).name.lower().removesuffix(".gz").endswith(".txt")
    return ReadOptions(lines=is_text, **options)


def read_terms(source: str | Path, *, with_categories: bool = False) -> pd.DataFrame:
    """The rows with a term of a table or text file, with all columns.

    The columns of terms, categories and synonyms are named `term`, `category` and `synonyms`.

    Raises:
        TableError: a source that cannot be read, or has no column of terms; with
            `with_categories`, rows without a category where others have one.
    """
    import pandas as pd

    options = read_options(source)
    file = Path(source).name
    available = table_columns(source, options)
    found = match_columns(available, (TERM, CATEGORY, SYNONYMS), source=file)
    rows = []
    for row in iter_rows(source, options):
        if row.fault:
            msg = f"{row.place}: {row.fault}"
            raise TableError(msg)
        term = row.cells.get(found["term"])
        if isinstance(term, str) and term.strip():
            rows.append(dict(row.cells))
    table = pd.DataFrame(rows, columns=available).rename(columns={v: k for k, v in found.items()})
    missing = int(table["category"].isna().sum()) if "category" in table.columns else 0
    if missing == len(table):
        table = table.drop(columns="category", errors="ignore")
    elif missing and with_categories:
        msg = f"{file}: {missing} rows with a term have no category"
        raise TableError(msg)
    return table
