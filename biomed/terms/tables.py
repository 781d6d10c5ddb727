"""Tables of terms: the scoring tasks that add vectors or nearest neighbours to each row."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
    from biomed.terms.similarity import Neighbour, TermIndex
    from domainbert.embedding import Embedder
    from domainbert.tables import Row

TERM = Column("term", "text", ("text", "terms", "concept"), required=True)
CATEGORY = Column("category", "value")


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

    A term longer than a window has a reason that says so; its vector pools all windows.

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
        return [row]


class NearestTask(_TermTask):
    """The nearest terms of a vocabulary, a row each: `term, rank, neighbour, similarity`.

    Args:
        index: the vocabulary.
        k: neighbours of each term.
    """

    name = "nearest terms"

    def __init__(self, index: TermIndex, *, k: int = 10) -> None:
        super().__init__(index.embedder)
        self._index, self._k = index, k

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        names = [("term", pa.string()), ("rank", pa.int64()), ("neighbour", pa.string())]
        return pa.schema([*names, ("similarity", pa.float64())])

    def run(self, items: Iterable[str]) -> Iterator[list[Neighbour] | Fault]:
        """The neighbours of each term."""
        own, copies = itertools.tee(items)
        for part in self.embedder.embed_many(copies):
            terms = list(itertools.islice(own, len(part.faults)))
            good = [i for i, fault in enumerate(part.faults) if not fault]
            chosen = [terms[i] for i in good]
            found = iter(self._index.neighbours(chosen, part.vectors[good], k=self._k))
            for fault in part.faults:
                yield Fault(fault) if fault else next(found)

    def rows(self, item: str, result: list[Neighbour]) -> list[dict[str, Any]]:
        """A row per neighbour."""
        names = ("rank", "neighbour", "similarity")
        found = [{"term": item, **dict(zip(names, row, strict=True))} for row in result]
        return found or [{"term": item, "reason": "the vocabulary has no other term"}]

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


def read_terms(source: str | Path, *, column: str | None = None) -> list[str]:
    """All terms of a table or text file, without empty rows.

    Raises:
        TableError: a source that cannot be read, or has no such column.
    """
    return [term for term, _ in _terms(source, column)]


def read_categories(source: str | Path) -> tuple[list[str], list[str] | None]:
    """Terms and their categories; None where the table has no column `category`.

    Raises:
        TableError: see `read_terms`; or a row without a term or a category.
    """
    rows = list(_terms(source, None))
    categories = [category for _, category in rows if category is not None]
    if not categories:
        return [term for term, _ in rows], None
    if len(categories) < len(rows):
        missing = len(rows) - len(categories)
        msg = f"{Path(source).name}: {missing} rows with a term have no category"
        raise TableError(msg)
    return [term for term, _ in rows], categories


def _terms(source: str | Path, column: str | None) -> Iterator[tuple[str, str | None]]:
    options = read_options(source)
    available = table_columns(source, options)
    named = {"term": column} if column else None
    found = match_columns(available, (TERM, CATEGORY), named=named, source=Path(source).name)
    for row in iter_rows(source, options):
        if row.fault:
            msg = f"{row.place}: {row.fault}"
            raise TableError(msg)
        term = row.cells.get(found["term"])
        category = row.cells.get(found["category"]) if "category" in found else None
        if isinstance(term, str) and term.strip():
            yield term, category
