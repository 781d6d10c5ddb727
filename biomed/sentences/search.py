"""SentenceIndex: passages in a folder, searched by meaning, by words, and reranked."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from itertools import count, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.embedding import check_many
from domainbert.errors import UserError
from domainbert.index import VectorIndex
from domainbert.ranking import Hits, fuse
from domainbert.words import Words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from biomed.sentences.encoder import SentenceEncoder
    from domainbert.graph import Graph
    from domainbert.pairs import PairModel
    from domainbert.parts import Storage

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

    def __init__(self, encoder: SentenceEncoder, vectors: VectorIndex) -> None:
        self.encoder, self.vectors = encoder, vectors
        self.faults: dict[str, str] = {}
        self._keep: Any = None

    @classmethod
    def build(
        cls,
        texts: Iterable[Any],
        encoder: SentenceEncoder,
        *,
        ids: Iterable[str] | None = None,
        folder: str | Path | None = None,
        window: int | None = None,
        storage: Storage = "float32",
    ) -> SentenceIndex:
        """Index texts.

        Args:
            texts: any number of them; each is cut into passages and read to its end.
            encoder: gives the vectors.
            ids: one for each text; by default its number.
            folder: a new folder that keeps the index; by default a temporary one.
            window: tokens of a passage at most; by default 256, or the encoder's window.
            storage: see `VectorIndex`.

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
            storage=storage,
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
    def open(
        cls,
        folder: str | Path,
        encoder: SentenceEncoder,
        *,
        window: int | None = None,
        storage: str | None = None,
    ) -> SentenceIndex:
        """Open an index folder.

        Raises:
            UserError: no index, a damaged one, or one of another encoder, window or storage.
        """
        index = cls(encoder, VectorIndex.open(folder, embedder=encoder))
        own = {"window": index.vectors.about["window"], "storage": index.vectors.storage}
        for name, asked in (("window", window), ("storage", storage)):
            if asked not in (None, own[name]):
                msg = f"{folder} has {name} {own[name]}, got {asked}; leave it out, or build anew"
                raise UserError(msg)
        return index

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
            total = self._texts()
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
                msg = f"there are more ids than texts ({first}); give one for each text"
                raise UserError(msg)
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
        graph: Graph | None = None,
    ) -> list[list[Passage]]:
        """The best passages of each query.

        Args:
            queries: one, or several.
            k: passages of each.
            rerank: a cross-encoder that reorders the candidates.
            words: BM25 over this index, joined with the search by meaning by reciprocal ranks.
            candidates: passages that are reranked, the others follow; as many, or k, are joined.
            graph: of this index's vectors; then the search is approximate.

        Returns:
            A list for each query, best first.

        Raises:
            UserError: k < 1, or a query that has no vector or is too long to be reranked.
        """
        queries = [queries] if isinstance(queries, str) else list(queries)
        most = max(k, candidates) if rerank or words else k
        vectors = self.encoder.embed(queries)
        for number, query in enumerate(queries):
            if rerank is not None and (fault := rerank.windower.fault_of_first(query)):
                raise UserError(f"query number {number} {fault}; shorten it, or do not rerank")
        hits = (graph or self.vectors).search(vectors, k=most)
        if words is not None:
            hits = fuse([hits, words.search(queries, k=most)], k=most)
        found = self.passages(hits)
        if rerank is not None:
            found = [
                _reranked(rerank, query, rows[:candidates]) + rows[candidates:]
                for query, rows in zip(queries, found, strict=True)
            ]
        return [_ranked(rows[:k]) for rows in found]

    def words(self) -> Words:
        """BM25 over the passages of this index (needs the extra `search`)."""
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

    def _texts(self) -> int:
        """Number of the next text without an id of its own."""
        if "texts" in self.vectors.about:
            return int(self.vectors.about["texts"])
        names = set(self.vectors.rows(np.arange(len(self)))["id"])  # built before they were counted
        return 1 + max((int(name) for name in names if name.isdecimal()), default=-1)


def _reranked(model: PairModel, query: str, rows: list[Passage]) -> list[Passage]:
    scores = [result.score for result in model.predict_many((query, row.text) for row in rows)]
    order = sorted(range(len(rows)), key=lambda i: (-scores[i], i))
    return [replace(rows[i], score=scores[i]) for i in order]


def _ranked(rows: list[Passage]) -> list[Passage]:
    return [replace(row, rank=rank) for rank, row in enumerate(rows, start=1)]
