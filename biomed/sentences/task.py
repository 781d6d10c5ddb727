"""The scoring tasks that encode, search and compare each row of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from domainbert.errors import UserError
from domainbert.scoring import Fault, Task, text_of
from domainbert.streams import chunked
from domainbert.tables import (
    TEXT,
    Column,
    TableError,
    id_text,
    iter_rows,
    match_columns,
    table_columns,
)

if TYPE_CHECKING:
    from biomed.sentences.search import Passage, SentenceIndex
    from domainbert.models.embedder import Embedder
    from domainbert.models.pairs import PairModel, PairResult, PairWindow
    from domainbert.search import WordIndex
    from domainbert.tables import Row

SENTENCE = replace(TEXT, also=("sentence", "sentences", "passage"))
QUERY = Column("query", "text", ("question", "text"), required=True)
FIRST = Column("first", "text", ("query", "question", "sentence1"), required=True)
SECOND = Column("second", "text", ("text", "passage", "sentence2"), required=True)
_QUERIES = 64  # looked up at a time


class EncodeTask(Task):
    """The vector of each text: the text, `n_tokens, n_windows`, and the vector as `v0, v1, …`.

    A text longer than a window has a reason that says so; its vector pools all windows.
    """

    name = "sentence vectors"
    columns: tuple[Column, ...] = (SENTENCE,)

    def __init__(self, encoder: Embedder) -> None:
        self.encoder = encoder
        self._column = self.columns[0].name

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        numbers = [(f"v{i}", pa.float32()) for i in range(self.encoder.dimension)]
        counts = [("n_tokens", pa.int64()), ("n_windows", pa.int64())]
        return pa.schema([(self._column, pa.string()), *counts, *numbers])

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The text of a row."""
        return text_of(rows[0], self._column)

    def run(self, items: Iterable[str]) -> Iterator[Any]:
        """Tokens, windows and vector of each text."""
        for part in self.encoder.embed_many(items):
            columns = (
                part.tokens.tolist(),
                part.windows.tolist(),
                part.vectors,
                part.faults,
            )
            for tokens, windows, vector, fault in zip(*columns, strict=True):
                yield Fault(fault) if fault else (tokens, windows, vector)

    def rows(self, item: str, result: Any) -> list[dict[str, Any]]:
        """One row."""
        tokens, windows, vector = result
        row = {self._column: item, "n_tokens": tokens, "n_windows": windows}
        row |= {f"v{i}": value for i, value in enumerate(vector.tolist())}
        if windows > 1:
            row["reason"] = f"read in {windows} windows; the vector pools them all"
        return [row]

    def facts(self) -> dict[str, Any]:
        """The model."""
        return {"model": self.encoder.fingerprint()}


class SearchTask(Task):
    """The best passages of each query, a row each: `query, rank, found_id, start, end, score`.

    Args:
        index: where to look.
        k: passages of each query.
        rerank: a cross-encoder that reorders the candidates.
        words: BM25, joined with the search by meaning.
    """

    name, columns = "search", (QUERY,)

    def __init__(
        self,
        index: SentenceIndex,
        *,
        k: int = 10,
        rerank: PairModel | None = None,
        words: WordIndex | None = None,
    ) -> None:
        self.index = index
        self.options: dict[str, Any] = {"k": k, "rerank": rerank, "words": words}

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        text, number = pa.string(), pa.int64()
        names = {
            "query": text,
            "rank": number,
            "found_id": text,
            "start": number,
            "end": number,
        }
        return pa.schema([*names.items(), ("score", pa.float64()), ("passage", text)])

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The query of a row."""
        return text_of(rows[0], "query")

    def run(self, items: Iterable[str]) -> Iterator[list[Passage] | Fault]:
        """The passages of each query."""
        for queries in chunked(items, size=lambda _: 1, limit=_QUERIES):
            faults: dict[int, str] = {}
            results = self.index.search(queries, faults=faults, **self.options)
            for number, result in enumerate(results):
                yield Fault(faults[number]) if number in faults else result

    def rows(self, item: str, result: list[Passage]) -> list[dict[str, Any]]:
        """A row per passage."""
        rows = [asdict(passage) for passage in result]
        return [
            {
                "query": item,
                "found_id": row.pop("id"),
                "passage": row.pop("text"),
                **row,
            }
            for row in rows
        ] or [{"query": item, "reason": "nothing was found"}]

    def facts(self) -> dict[str, Any]:
        """The index and how it is asked."""
        index, rerank = self.index.vectors, self.options["rerank"]
        return {
            "index": [index.head.fingerprint, len(index), str(index.folder.resolve())],
            "k": self.options["k"],
            "rerank": rerank and rerank.fingerprint(),
            "words": self.options["words"] is not None,
        }


class PairTask(Task):
    """The score of each pair of texts."""

    name, columns = "pairs", (FIRST, SECOND)

    def __init__(self, model: PairModel) -> None:
        self._model = model

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        return pa.schema([("score", pa.float64())])

    def read(self, rows: Sequence[Row]) -> list[PairWindow] | Fault:
        """The windows of a pair."""
        pair = [text_of(rows[0], name) for name in ("first", "second")]
        for name, text in zip(("first", "second"), pair, strict=True):
            if isinstance(text, Fault):
                return Fault(f"{name}: {text.reason}", text.status)
        try:
            return self._model.windower.split(*pair, number=rows[0].number)
        except UserError as error:
            return Fault(str(error))

    def run(self, items: Iterable[list[PairWindow]]) -> Iterator[PairResult]:
        """The score of each pair."""
        return self._model.predict_windows(items)

    def rows(self, item: list[PairWindow], result: PairResult) -> list[dict[str, Any]]:
        """One row."""
        remark = {"reason": f"read in {len(item)} windows"} if len(item) > 1 else {}
        return [{"score": result.score, **remark}]

    def facts(self) -> dict[str, Any]:
        """The model."""
        return {"model": self._model.fingerprint()}


def read_texts(
    source: str | Path, *, text: str | None = None, identifier: str | None = None
) -> tuple[Iterator[Any], Iterator[str] | None]:
    """The texts of a table, streamed, and their ids where it has some.

    Args:
        source: see `domainbert.tables.iter_rows`.
        text: the column with the texts.
        identifier: the column with their ids.

    Raises:
        TableError: no such source or column, or a line that is not a row.
    """
    named = {"text": text or "", "id": identifier or ""}
    columns = (SENTENCE, Column("id", "value", ("note_id", "doc_id", "row_id")))
    names = match_columns(
        table_columns(source), columns, named=named, source=Path(source).name
    )

    def cells(name: str) -> Iterator[Any]:
        for row in iter_rows(source):
            if row.fault:
                raise TableError(f"{row.place}: {row.fault}")
            yield row.cells.get(names[name])

    ids = (id_text(value) or "" for value in cells("id")) if "id" in names else None
    return cells("text"), ids
