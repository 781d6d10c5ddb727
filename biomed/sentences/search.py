"""SentenceIndex: passages in a folder, searched by meaning, by words, and reranked."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.models.embedder import check_many
from domainbert.search import Words, fuse
from domainbert.search.vectors import VectorIndex

if TYPE_CHECKING:
    import pandas as pd

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

    def add(self, texts: Iterable[Any], *, ids: Iterable[str] | None = None) -> None:
        """Append texts, piece by piece, in flat memory: all of them, or none if one fails.

        Raises:
            UserError: ids do not match the texts, or one string instead of a list.
        """
        check_many(texts)
        faults: dict[str, str] = {}
        self.vectors.add(self._pieces(texts, ids, faults))
        self.faults |= faults

    def _pieces(
        self, texts: Iterable[Any], ids: Iterable[str] | None, faults: dict[str, str]
    ) -> Iterator[tuple[np.ndarray, pd.DataFrame]]:
        """The vectors and rows of passages; `faults` gets the texts that have none."""
        import pandas as pd

        own, copies = tee(texts)
        about, first = self.vectors.about, 0
        total = about.get("texts", 0)
        names = iter(ids) if ids is not None else map(str, count(total))
        for part in self.encoder.embed_passages(copies, window=about["window"]):
            held = list(islice(own, part.count))
            here = [str(name) for name in islice(names, part.count)]
            if len(here) < len(held):
                msg = f"there are more texts than ids ({first + len(here)})"
                raise UserError(f"{msg}; give one for each text")
            faults |= {here[number - first]: why for number, why in part.faults.items()}
            rows = (part.texts - first).tolist()
            places = zip(rows, part.starts, part.ends, strict=True)
            columns = {
                "id": [here[row] for row in rows],
                "start": part.starts,
                "end": part.ends,
                "text": [held[row][start:end] for row, start, end in places],
            }
            yield part.vectors, pd.DataFrame(columns)
            first += part.count
            given = (int(name) + 1 for name in here if name.isdecimal())
            total = max([total + part.count, *given])
        if ids is not None and next(names, None) is not None:
            raise UserError(
                f"there are more ids than texts ({first}); give one for each text"
            )
        about["texts"] = total

    def search(
        self,
        queries: str | Sequence[str],
        *,
        k: int = 10,
        rerank: PairModel | None = None,
        words: Words | None = None,
        candidates: int = CANDIDATES,
        approximate: bool = False,
        faults: dict[int, str] | None = None,
    ) -> list[list[Passage]]:
        """The best passages of each query.

        Args:
            queries: one, or several.
            k: passages of each.
            rerank: a cross-encoder that reorders the candidates.
            words: BM25 over this index, joined with the search by meaning by reciprocal ranks.
            candidates: passages that are reranked, the others follow; as many, or k, are joined.
            approximate: search by the graph of `vectors`, see `VectorIndex.build_graph`.
            faults: gets the number of each query that has no vector or is too long to be
                reranked, and why; it finds nothing. By default such a query is an error.

        Returns:
            A list for each query, best first.

        Raises:
            UserError: k < 1, or see `faults`.
        """
        queries = [queries] if isinstance(queries, str) else list(queries)
        vectors, wrong = self._embedded(queries, rerank)
        if faults is not None:
            faults.update(wrong)
        elif wrong:
            number, why = next(iter(wrong.items()))
            raise UserError(f"query number {number} cannot be searched: {why}")
        found: list[list[Passage]] = [[] for _ in queries]
        good = [number for number in range(len(queries)) if number not in wrong]
        if not good:
            return found
        most = max(k, candidates) if rerank or words else k
        hits = self.vectors.search(vectors[good], k=most, approximate=approximate)
        if words is not None:
            by_words = words.search([queries[number] for number in good], k=most)
            hits = fuse([hits, by_words], k=most)
        for number, rows in zip(good, self.passages(hits), strict=True):
            if rerank is not None:
                rows[:candidates] = _reranked(
                    rerank, queries[number], rows[:candidates]
                )
            found[number] = [
                replace(row, rank=rank) for rank, row in enumerate(rows[:k], start=1)
            ]
        return found

    def _embedded(
        self, queries: list[str], rerank: PairModel | None
    ) -> tuple[np.ndarray, dict[int, str]]:
        """The vectors of queries, and why some cannot be searched, by number."""
        parts = list(self.encoder.embed_many(queries))
        faults = [fault for part in parts for fault in part.faults]
        if rerank is not None:
            for number, query in enumerate(queries):
                if not faults[number] and (
                    long := rerank.windower.fault_of_first(query)
                ):
                    faults[number] = f"to be reranked, it {long}"
        none = np.empty((0, self.encoder.dimension), dtype=np.float32)
        vectors = np.concatenate([none, *(part.vectors for part in parts)])
        return vectors, {number: why for number, why in enumerate(faults) if why}

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


def _reranked(model: PairModel, query: str, passages: list[Passage]) -> list[Passage]:
    results = model.predict_many((query, passage.text) for passage in passages)
    scored = [
        replace(p, score=result.score)
        for p, result in zip(passages, results, strict=True)
    ]
    return sorted(scored, key=lambda passage: -passage.score)
