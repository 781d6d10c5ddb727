"""SentenceIndex: passages in a folder, searched by meaning, by words, and reranked."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.models.embedder import check_many
from domainbert.search.vectors import VectorIndex
from domainbert.search.words import Words, fuse

if TYPE_CHECKING:
    from domainbert.models.embedder import Embedder
    from domainbert.models.pairs import PairModel
    from domainbert.search import Hits

PASSAGE = 256  # tokens of a passage
CANDIDATES = 100  # passages that a cross-encoder reranks


@dataclass(frozen=True)
class Passage:
    """A passage that was found.

    Attributes:
        rank: from 1; 0 before ranking.
        id: of its text.
        start: first character of the passage in its text.
        end: one past its last character.
        score: cosine, or the cross-encoder's score in (0, 1) after reranking.
        text: the passage.
    """

    rank: int
    id: str
    start: int
    end: int
    score: float
    text: str = field(repr=False)


class SentenceIndex:
    """Passages of texts, searched by meaning.

    Make one with `build`, or open a folder with `open`.

    Attributes:
        encoder: gives the vectors of passages and queries.
        vectors: the index of passages.
        faults: id of each text added here that has no passage -> why.
    """

    def __init__(self, encoder: Embedder, vectors: VectorIndex) -> None:
        self.encoder, self.vectors = encoder, vectors
        self.faults: dict[str, str] = {}
        self._keep: Any = None

    @classmethod
    def build(
        cls,
        texts: Iterable[Any],
        encoder: Embedder,
        *,
        ids: Iterable[str] | None = None,
        folder: str | Path | None = None,
        window: int | None = None,
    ) -> SentenceIndex:
        """Index texts.

        Args:
            texts: any number of them; each is cut into passages and read to its end.
            encoder: gives the vectors.
            ids: one for each text; by default its number.
            folder: a new folder that keeps the index; by default a temporary one.
            window: tokens of a passage at most; by default 256, or the encoder's window.

        Raises:
            UserError: the folder is there, or ids do not match the texts.
        """
        temporary = None
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="sentence-index-")
            folder = Path(temporary.name) / "index"
        window = min(PASSAGE, encoder.windower.window) if window is None else window
        vectors = VectorIndex.create(
            folder,
            fingerprint=encoder.fingerprint(),
            dimension=encoder.dimension,
            about={"window": window},
        )
        index = cls(encoder, vectors)
        index._keep = temporary
        try:
            index.add(texts, ids=ids)
        except BaseException:
            shutil.rmtree(folder)
            raise
        return index

    @classmethod
    def open(cls, folder: str | Path, encoder: Embedder) -> SentenceIndex:
        """Open an index folder.

        Raises:
            UserError: no index, a damaged one, or one of another encoder.
        """
        return cls(encoder, VectorIndex.open(folder, embedder=encoder))

    def __len__(self) -> int:
        """Passages."""
        return len(self.vectors)

    def __repr__(self) -> str:
        """Number of passages, and the encoder."""
        return f"SentenceIndex({len(self)} passages, {self.encoder.name!r})"

    def add(self, texts: Iterable[Any], *, ids: Iterable[str] | None = None) -> dict[str, str]:
        """Append texts, piece by piece, in flat memory: all of them, or none if one fails.

        Returns:
            The new `faults`: id of each text that has no passage -> why.

        Raises:
            UserError: ids do not match the texts, or one string instead of a list.
        """
        check_many(texts)
        faults: dict[str, str] = {}
        own, copies = tee(texts)
        first = 0
        with self.vectors.adding() as index:
            total = int(self.vectors.about.get("texts", 0))
            names = iter(ids) if ids is not None else map(str, count(total))
            for part in self.encoder.embed_passages(copies, window=self.vectors.about["window"]):
                held = list(islice(own, part.count))
                here = [str(name) for name in islice(names, part.count)]
                if len(here) < len(held):
                    msg = f"there are more texts than ids ({first + len(here)})"
                    raise UserError(f"{msg}; give one for each text")
                faults |= {here[number - first]: why for number, why in part.faults.items()}
                rows = (part.texts - first).tolist()
                places = list(zip(rows, part.starts, part.ends, strict=True))
                index.add(
                    part.vectors,
                    ids=[here[row] for row in rows],
                    starts=part.starts,
                    ends=part.ends,
                    texts=[held[row][start:end] for row, start, end in places],
                )
                first += part.count
                given = (int(name) + 1 for name in here if name.isdecimal())
                total = max([total + part.count, *given])
            if ids is not None and next(names, None) is not None:
                raise UserError(f"there are more ids than texts ({first}); give one for each text")
            self.vectors.about["texts"] = total
        self.faults |= faults
        return faults

    def search(
        self,
        queries: str | Sequence[str],
        *,
        k: int = 10,
        rerank: PairModel | None = None,
        words: Words | None = None,
        candidates: int = CANDIDATES,
        approximate: bool = False,
    ) -> list[list[Passage]]:
        """The best passages of each query.

        Args:
            queries: one, or several.
            k: passages of each.
            rerank: a cross-encoder that reorders the candidates.
            words: BM25 over this index, joined with the search by meaning by reciprocal ranks.
            candidates: passages that are reranked, the others follow; as many, or k, are joined.
            approximate: search by the graph of `vectors`, see `VectorIndex.build_graph`.

        Returns:
            A list for each query, best first.

        Raises:
            UserError: k < 1, or a query that has no vector or is too long to be reranked.
        """
        queries = [queries] if isinstance(queries, str) else list(queries)
        most = max(k, candidates) if rerank or words else k
        vectors = self.encoder.embed(queries)
        for number, fault in enumerate(_too_long(queries, rerank)):
            if fault:
                raise UserError(f"query number {number} {fault}; shorten it, or do not rerank")
        hits = self.vectors.search(vectors, k=most, approximate=approximate)
        if words is not None:
            hits = fuse([hits, words.search(queries, k=most)], k=most)
        passages = self.passages(hits)
        if rerank is not None:
            passages = [
                _reranked(rerank, query, rows[:candidates]) + rows[candidates:]
                for query, rows in zip(queries, passages, strict=True)
            ]
        return [
            [replace(row, rank=rank) for rank, row in enumerate(rows[:k], start=1)]
            for rows in passages
        ]

    def query_faults(self, queries: Sequence[str], *, rerank: PairModel | None = None) -> list[str]:
        """Why each query cannot be searched (and reranked); "" where it can."""
        faults = [fault for part in self.encoder.embed_many(queries) for fault in part.faults]
        long = [f"to be reranked, it {why}" if why else "" for why in _too_long(queries, rerank)]
        return [fault or why for fault, why in zip(faults, long, strict=True)]

    def words(self) -> Words:
        """BM25 over the passages of this index."""
        return Words(self.vectors.rows(np.arange(len(self)))["text"].tolist())

    def passages(self, hits: Hits) -> list[list[Passage]]:
        """The passages of each query's rows, best first."""
        table = self.vectors.rows(hits.rows[hits.rows >= 0]).itertuples()
        return [
            [
                Passage(0, r.id, r.start, r.end, score, r.text)
                for score, r in zip(scores[rows >= 0].tolist(), table, strict=False)
            ]
            for rows, scores in zip(hits.rows, hits.scores, strict=True)
        ]


def _too_long(queries: Sequence[str], rerank: PairModel | None) -> list[str]:
    """Why each query is too long for the cross-encoder, else ""."""
    return [rerank.windower.fault_of_first(query) if rerank else "" for query in queries]


def _reranked(model: PairModel, query: str, passages: list[Passage]) -> list[Passage]:
    results = model.predict_many((query, passage.text) for passage in passages)
    scored = [replace(p, score=result.score) for p, result in zip(passages, results, strict=True)]
    return sorted(scored, key=lambda passage: -passage.score)
