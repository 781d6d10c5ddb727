"""The scoring tasks of sentences: encode, search, or score pairs, for each row of a table."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from biomed.sentences.search import PassageHit, SentenceIndex
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.pairs import PairModel, PairResult, PairWindow
from domainbert.scoring import Fault, OutputRow, Task, TextTask, text_of
from domainbert.search import WordIndex
from domainbert.streams import chunked
from domainbert.tables import (
    TEXT,
    Column,
    Row,
    TableError,
    id_text,
    iter_rows,
    match_columns,
    table_columns,
)
from domainbert.tables.columns import KEYWORD

SENTENCE = replace(TEXT, also=("sentence", "sentences", "passage"))
QUERY = Column("query", "text", ("question", "text"), required=True)
FIRST = Column(
    "first", "text", ("query", "question", "sentence1"), required=True
)
SECOND = Column(
    "second", "text", ("text", "passage", "sentence2"), required=True
)
_QUERIES = 64  # looked up at a time

# Tokens, windows and vector of a text.
EncodedText: TypeAlias = tuple[int, int, np.ndarray]


class EncodeTask(TextTask[EncodedText]):
    """The vector of each text: the text, `n_tokens, n_windows`, and the vector as `v0, v1, …`.

    `reason` says when a text is longer than a window; its vector then pools all windows.
    """

    name = "sentence vectors"
    columns: tuple[Column, ...] = (SENTENCE,)

    def __init__(self, encoder: Embedder) -> None:
        self.encoder = encoder
        self._column = self.columns[0].name

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        columns = {
            self._column: "string",
            "n_tokens": "int64",
            "n_windows": "int64",
        }
        numbers = (f"v{number}" for number in range(self.encoder.dimension))
        return pa.schema(columns | dict.fromkeys(numbers, "float"))

    def run(self, items: Iterable[str]) -> Iterator[EncodedText | Fault]:
        """Tokens, windows and vector of each text."""
        for part in self.encoder.embed_many(items):
            texts = zip(part.texts, part.vectors, part.faults, strict=True)
            for text, vector, fault in texts:
                if fault:
                    yield Fault(fault)
                else:
                    yield text.tokens, len(text.windows), vector

    def rows(self, item: str, result: EncodedText) -> list[OutputRow]:
        """One row."""
        tokens, windows, vector = result
        row: OutputRow = {
            self._column: item,
            "n_tokens": tokens,
            "n_windows": windows,
        }
        row |= {f"v{i}": value for i, value in enumerate(vector.tolist())}
        if windows > 1:
            row["reason"] = (
                f"read in {windows} windows; the vector pools them all"
            )
        return [row]

    def facts(self) -> dict[str, object]:
        """The model."""
        return {"model": self.encoder.fingerprint()}


class SearchTask(TextTask[list[PassageHit]]):
    """The best passages of each query, one per row: `query, rank, found_id, start, end, score`.

    Args:
        index: the index to search.
        k: number of passages per query.
        rerank: a cross-encoder that reorders the candidates.
        words: BM25, fused with the search by meaning.
    """

    name = "search"
    columns = (QUERY,)
    output = pa.schema(
        {
            "query": "string",
            "rank": "int64",
            "found_id": "string",
            "start": "int64",
            "end": "int64",
            "score": "double",
            "passage": "string",
        }
    )

    def __init__(
        self,
        index: SentenceIndex,
        *,
        k: int = 10,
        rerank: PairModel | None = None,
        words: WordIndex | None = None,
    ) -> None:
        self.index = index
        self.options: dict[str, Any] = {
            "k": k,
            "rerank": rerank,
            "words": words,
        }

    def run(self, items: Iterable[str]) -> Iterator[list[PassageHit] | Fault]:
        """The passages of each query."""
        for queries in chunked(items, size=lambda _: 1, limit=_QUERIES):
            faults: dict[int, str] = {}
            results = self.index.search(queries, faults=faults, **self.options)
            for number, passages in enumerate(results):
                if number in faults:
                    yield Fault(faults[number])
                else:
                    yield passages

    def rows(self, item: str, result: list[PassageHit]) -> list[OutputRow]:
        """A row per passage."""
        rows = []
        for passage in result:
            row = {"query": item, **asdict(passage)}
            row["found_id"] = row.pop("id")
            row["passage"] = row.pop("text")
            rows.append(row)
        return rows or [{"query": item, "reason": "nothing was found"}]

    def facts(self) -> dict[str, object]:
        """The index and the options of the search."""
        index = self.index.vectors
        folder = str(index.folder.resolve())
        rerank = self.options["rerank"]
        return {
            "index": [index.head.fingerprint, len(index), folder],
            "k": self.options["k"],
            "rerank": rerank and rerank.fingerprint(),
            "words": self.options["words"] is not None,
        }


class PairTask(Task[list[PairWindow], PairResult]):
    """The `score` of each pair of texts, in the columns `first` and `second`."""

    name = "pairs"
    columns = (FIRST, SECOND)
    output = pa.schema({"score": "double"})

    def __init__(self, model: PairModel) -> None:
        self._model = model

    def read(self, rows: Sequence[Row]) -> list[PairWindow] | Fault:
        """The windows of a pair."""
        pair = {name: text_of(rows[0], name) for name in ("first", "second")}
        for name, text in pair.items():
            if isinstance(text, Fault):
                return Fault(f"{name}: {text.reason}", text.status)
        try:
            return self._model.windower.split(**pair, number=rows[0].number)
        except UserError as error:
            return Fault(str(error))

    def run(self, items: Iterable[list[PairWindow]]) -> Iterator[PairResult]:
        """The score of each pair."""
        return self._model.predict_windows(items)

    def rows(
        self, item: list[PairWindow], result: PairResult
    ) -> list[OutputRow]:
        """One row."""
        row: dict[str, Any] = {"score": result.score}
        if len(item) > 1:
            row["reason"] = f"read in {len(item)} windows"
        return [row]

    def facts(self) -> dict[str, object]:
        """The model."""
        return {"model": self._model.fingerprint()}


def read_texts(
    source: str | Path,
    *,
    text: str | None = None,
    identifier: str | None = None,
) -> tuple[Iterator[Any], Iterator[str] | None]:
    """The texts of a table, streamed, and their ids where it has some.

    Args:
        source: see `domainbert.tables.iter_rows`.
        text: the column with the texts.
        identifier: the column with their ids.

    Raises:
        TableError: no such source or column, or a line that is not a row.
    """
    names = match_columns(
        table_columns(source),
        (SENTENCE, Column("id", also=("note_id", "doc_id", "row_id"))),
        named={"text": text, "id": identifier},
        argument=KEYWORD,
        source=Path(source).name,
    )

    def cells(name: str) -> Iterator[object]:
        for row in iter_rows(source):
            if row.fault:
                raise TableError(f"{row.place}: {row.fault}")
            yield row.cells.get(names[name])

    ids = None
    if "id" in names:
        ids = (id_text(value) or "" for value in cells("id"))
    return cells("text"), ids
