"""Tables of sentences: the scoring tasks that encode, search and compare each row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from biomed.terms.tables import EmbedTask
from domainbert.embedding import NO_TEXT
from domainbert.errors import UserError
from domainbert.inference import chunked
from domainbert.scoring import Fault, Task
from domainbert.tables import (
    Column,
    TableError,
    id_text,
    iter_rows,
    match_columns,
    table_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from biomed.sentences.search import Passage, SentenceIndex
    from domainbert.pairs import PairModel, PairResult, PairWindow
    from domainbert.tables import Row
    from domainbert.words import Words

SENTENCE = Column("text", "text", ("sentence", "sentences", "passage"), required=True)
QUERY = Column("query", "text", ("question", "text"), required=True)
FIRST = Column("first", "text", ("query", "question", "sentence1"), required=True)
SECOND = Column("second", "text", ("text", "passage", "sentence2"), required=True)
_QUERIES = 64  # looked up at a time


class EncodeTask(EmbedTask):
    """The vector of each text: `text, n_tokens, n_windows`, and the vector as `v0, v1, …`."""

    name, column = "sentence vectors", "text"
    columns = (SENTENCE,)


class SearchTask(Task):
    """The best passages of each query, a row each: `query, rank, id, start, end, score, text`.

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
        words: Words | None = None,
    ) -> None:
        self._index, self._k, self._rerank, self._words = index, k, rerank, words

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        text, number = pa.string(), pa.int64()
        names = {"query": text, "rank": number, "found_id": text, "start": number, "end": number}
        return pa.schema([*names.items(), ("score", pa.float64()), ("passage", text)])

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The query of a row."""
        return _text(rows[0].cells.get("query"))

    def run(self, items: Iterable[str]) -> Iterator[list[Passage] | Fault]:
        """The passages of each query."""
        for queries in chunked(items, size=lambda _: 1, limit=_QUERIES):
            parts = self._index.encoder.embed_many(queries)
            faults = [fault for part in parts for fault in part.faults]
            if self._rerank:
                check = self._rerank.windower.fault_of_first
                long = [f"to be reranked, it {why}" if (why := check(q)) else "" for q in queries]
                faults = [fault or why for fault, why in zip(faults, long, strict=True)]
            good = [query for query, fault in zip(queries, faults, strict=True) if not fault]
            found = iter(self._found(good) if good else [])
            for fault in faults:
                yield Fault(fault) if fault else next(found)

    def search(self, query: str) -> list[Passage]:
        """The passages of one query."""
        (found,) = self._found([query])
        return found

    def _found(self, queries: list[str]) -> list[list[Passage]]:
        return self._index.search(queries, k=self._k, rerank=self._rerank, words=self._words)

    def rows(self, item: str, result: list[Passage]) -> list[dict[str, Any]]:
        """A row per passage."""
        return [
            {
                "query": item,
                "rank": p.rank,
                "found_id": p.id,
                "start": p.start,
                "end": p.end,
                "score": p.score,
                "passage": p.text,
            }
            for p in result
        ] or [{"query": item, "reason": "nothing was found"}]

    def facts(self) -> dict[str, Any]:
        """The index and how it is asked."""
        index = self._index.vectors
        return {
            "index": [index.fingerprint, len(index), str(index.folder.resolve())],
            "k": self._k,
            "rerank": self._rerank.fingerprint() if self._rerank else None,
            "words": self._words is not None,
        }


class PairTask(Task):
    """The score or the class of each pair of texts: `score`, or `label` and `p_<label>`.

    Args:
        model: gives them.
    """

    name, columns = "pairs", (FIRST, SECOND)

    def __init__(self, model: PairModel) -> None:
        self._model = model

    @property
    def output(self) -> pa.Schema:
        """The output columns."""
        if len(self._model.labels) == 1:
            return pa.schema([("score", pa.float64())])
        shares = [(f"p_{label}", pa.float64()) for label in self._model.labels]
        return pa.schema([("label", pa.string()), *shares])

    def read(self, rows: Sequence[Row]) -> list[PairWindow] | Fault:
        """The windows of a pair."""
        for name in ("first", "second"):
            if isinstance(fault := _text(rows[0].cells.get(name)), Fault):
                return Fault(f"{name}: {fault.reason}", fault.status)
        try:
            pair = rows[0].cells["first"], rows[0].cells["second"]
            return self._model.windower.split(*pair, number=rows[0].number)
        except UserError as error:
            return Fault(str(error))

    def run(self, items: Iterable[list[PairWindow]]) -> Iterator[PairResult]:
        """What the model says of each pair."""
        return self._model.predict_windows(items)

    def rows(self, item: list[PairWindow], result: PairResult) -> list[dict[str, Any]]:
        """One row."""
        remark = {"reason": f"read in {len(item)} windows"} if len(item) > 1 else {}
        if len(self._model.labels) == 1:
            return [{"score": result.score, **remark}]
        shares = {f"p_{label}": share for label, share in result.probabilities.items()}
        return [{"label": result.label, **shares, **remark}]

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
        TableError: no such source or column, or a line that is no row.
    """
    named = {"text": text or "", "id": identifier or ""}
    columns = (SENTENCE, Column("id", "value", ("note_id", "doc_id", "row_id")))
    found = match_columns(table_columns(source), columns, named=named, source=Path(source).name)

    def cells(name: str) -> Iterator[Any]:
        for row in iter_rows(source):
            if row.fault:
                msg = f"{row.place}: {row.fault}"
                raise TableError(msg)
            yield row.cells.get(found[name])

    ids = (id_text(value) or "" for value in cells("id")) if "id" in found else None
    return cells("text"), ids


def _text(value: object) -> Any:
    """A text, or why it is none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return Fault(NO_TEXT, "empty")
    if not isinstance(value, str):
        return Fault(f"it is {type(value).__name__}, not a string")
    return value
