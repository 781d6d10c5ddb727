"""SentenceIndex: an index of passages, searched by meaning or words, and reranked."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice, tee
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from domainbert.errors import UserError
from domainbert.files import folder_beside
from domainbert.models.embedder import Embedder, check_many
from domainbert.models.pairs import PairModel
from domainbert.search import Hits, WordIndex, check_k, fuse
from domainbert.search.vectors import (
    COLUMNS,
    Piece,
    VectorIndex,
    check_new,
)

PASSAGE = 256  # tokens of a passage
CANDIDATES = 100  # passages that a cross-encoder reranks


@dataclass(frozen=True)
class PassageHit:
    """A search result.

    Attributes:
        rank: position in the ranking, from 1; 0 before it.
        id: the id of its text.
        start: first character of the passage in its text.
        end: one past its last character.
        score: cosine; or, after reranking, the cross-encoder's score in (0, 1), or the cosine plus
            its logit times the `weight` of its settings.
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
        self.encoder = encoder
        self.vectors = vectors
        self.faults: dict[str, str] = {}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def build(
        cls,
        texts: Iterable[Any],
        encoder: Embedder,
        *,
        ids: Iterable[str] | None = None,
        folder: str | Path | None = None,
        window: int | None = None,
    ) -> Self:
        """Index texts.

        Args:
            texts: any number of them; each is cut into passages and read to its end.
            encoder: gives the vectors.
            ids: one for each text; by default its number.
            folder: a new folder that keeps the index; by default a temporary one.
            window: tokens of a passage at most; by default 256, or the encoder's window.

        Raises:
            UserError: the folder exists, or ids do not match the texts.
        """
        temporary = None
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="sentence-index-")
            folder = Path(temporary.name) / "index"
        folder = Path(folder)
        if window is None:
            window = min(PASSAGE, encoder.windower.window)
        check_new(folder)
        # The name appears with all passages: an index with a few of them looks complete.
        with folder_beside(folder) as work:
            vectors = VectorIndex.create(
                work,
                fingerprint=encoder.fingerprint(),
                dimension=encoder.dimension,
                about={"window": window},
            )
            index = cls(encoder, vectors)
            index._temporary = temporary
            index.add(texts, ids=ids)
            vectors.move(folder)
        return index

    @classmethod
    def open(cls, folder: str | Path, encoder: Embedder) -> Self:
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

    def add(
        self, texts: Iterable[Any], *, ids: Iterable[str] | None = None
    ) -> None:
        """Append texts, piece by piece, in flat memory: all of them, or none if one fails.

        Raises:
            UserError: ids do not match the texts, one string instead of a list, or texts that
                the index has already: one with such an id or, without ids, all of a piece.
        """
        check_many(texts)
        column = "text" if ids is None else "id"
        indexed = set(map(hash, self.vectors.stored(column)))
        faults: dict[str, str] = {}
        pieces = self._pieces(texts, ids, faults)
        self.vectors.add(_all_new(pieces, indexed, column=column))
        self.faults |= faults

    def _pieces(
        self,
        texts: Iterable[Any],
        ids: Iterable[str] | None,
        faults: dict[str, str],
    ) -> Iterator[Piece]:
        """The vectors and rows of passages; texts without one are added to `faults`."""
        texts, texts_to_embed = tee(texts)
        about = self.vectors.about
        next_id = about.get("texts", 0)
        names: Iterator[str] = map(str, count(next_id))
        if ids is not None:
            names = iter(ids)
        n_texts = 0
        for part in self.encoder.embed_passages(
            texts_to_embed, window=about["window"]
        ):
            part_texts = list(islice(texts, len(part.faults)))
            part_ids = list(map(str, islice(names, len(part_texts))))
            n_texts += len(part_ids)
            if len(part_ids) < len(part_texts):
                raise UserError(
                    f"there are more texts than ids ({n_texts}); give one for each text"
                )
            rows = []
            for name, text, windowed, fault in zip(
                part_ids, part_texts, part.texts, part.faults, strict=True
            ):
                if fault:
                    faults[name] = fault
                for passage in windowed.windows:
                    passage_text = text[passage.start : passage.end]
                    rows.append(
                        (name, passage.start, passage.end, passage_text)
                    )
            yield part.vectors, pd.DataFrame(rows, columns=COLUMNS)
            # A later text without an id is named by its number, which must be new.
            numbers = [int(name) + 1 for name in part_ids if name.isdecimal()]
            next_id = max([next_id + len(part_ids), *numbers])
        if ids is not None and next(names, None) is not None:
            raise UserError(
                f"there are more ids than texts ({n_texts}); give one for each text"
            )
        about["texts"] = next_id

    def search(
        self,
        queries: str | Sequence[str],
        *,
        k: int = 10,
        rerank: PairModel | None = None,
        words: WordIndex | None = None,
        candidates: int = CANDIDATES,
        faults: dict[int, str] | None = None,
    ) -> list[list[PassageHit]]:
        """The best passages of each query.

        Args:
            queries: one, or several.
            k: passages of each.
            rerank: a cross-encoder that reorders the candidates.
            words: BM25 over this index, joined with the search by meaning by reciprocal ranks.
            candidates: passages that are reranked, the others follow; as many, or k, are joined.
            faults: gets the number of each query that has no vector or is too long to be
                reranked, and why; it finds nothing. By default such a query is an error.

        Returns:
            A list for each query, best first.

        Raises:
            UserError: k < 1, `words` that are no index, or see `faults`.
        """
        check_k(k)
        _check_words(words)
        if isinstance(queries, str):
            queries = [queries]
        queries = list(queries)
        vectors, query_faults = self._embed_queries(queries, rerank)
        if faults is not None:
            faults.update(query_faults)
        elif query_faults:
            number, reason = next(iter(query_faults.items()))
            raise UserError(
                f"query number {number} cannot be searched: {reason}"
            )
        results: list[list[PassageHit]] = [[] for _ in queries]
        numbers = [n for n in range(len(queries)) if n not in query_faults]
        if not numbers:
            return results
        depth = k
        if rerank or words:
            depth = max(k, candidates)
        hits = self.vectors.search(vectors[numbers], k=depth)
        if words is not None:
            word_hits = words.search(
                [queries[number] for number in numbers], k=depth
            )
            hits = fuse([hits, word_hits], k=depth)
        for number, passages in zip(numbers, self.passages(hits), strict=True):
            if rerank is not None:
                first = _reranked(
                    rerank, queries[number], passages[:candidates]
                )
                passages = first + passages[candidates:]
            ranked = enumerate(passages[:k], start=1)
            results[number] = [replace(row, rank=rank) for rank, row in ranked]
        return results

    def _embed_queries(
        self,
        queries: Sequence[str],
        rerank: PairModel | None,
    ) -> tuple[np.ndarray, dict[int, str]]:
        """The vectors of queries, and by number why a query cannot be searched."""
        vectors, vector_faults = self.encoder.embed_all(queries)
        faults = {}
        for number, fault in enumerate(vector_faults):
            if fault:
                faults[number] = fault
            elif rerank is not None:
                too_long = rerank.windower.fault_of_first(queries[number])
                if too_long:
                    faults[number] = f"to be reranked, it {too_long}"
        return vectors, faults

    def words(self) -> WordIndex:
        """BM25 over the passages of this index."""
        passages = self.vectors.rows(np.arange(len(self)))
        return WordIndex(passages["text"].tolist())

    def passages(self, hits: Hits) -> list[list[PassageHit]]:
        """The passages of each query's rows, best first."""
        rows = self.vectors.rows(hits.rows[hits.rows >= 0]).itertuples()
        results = []
        for row_numbers, scores in zip(hits.rows, hits.scores, strict=True):
            passages = [
                PassageHit(0, row.id, row.start, row.end, score, row.text)
                for score, row in zip(scores[row_numbers >= 0].tolist(), rows)  # noqa: B905
            ]
            results.append(passages)
        return results


def _all_new(
    chunks: Iterable[Piece],
    indexed: set[int],
    *,
    column: str,
) -> Iterator[Piece]:
    """The chunks of passages as they come; raises `UserError` if the index has them already.

    A known id is refused. Without ids a text may repeat ("No change."), so a chunk is refused
    only if the index has all of its texts.
    """
    for vectors, rows in chunks:
        is_known = rows[column].map(hash).isin(indexed)
        n_known = int(is_known.sum())
        if n_known and (column == "id" or n_known == len(rows)):
            raise UserError(
                f"{n_known} passages are in the index already, the first with id "
                f"{rows['id'][is_known].iloc[0]}; leave these texts out, or index all texts "
                "into a new folder"
            )
        yield vectors, rows


def _check_words(words: object) -> None:
    """Check an index of words, also one from code that is not checked for its types."""
    if words is not None and not isinstance(words, WordIndex):
        raise UserError(
            f"words: expected a WordIndex, such as index.words(), got {words!r}"
        )


def _reranked(
    model: PairModel,
    query: str,
    passages: list[PassageHit],
) -> list[PassageHit]:
    """The passages in the order of a cross-encoder's scores, joined with theirs by its weight."""
    results = model.predict_many((query, passage.text) for passage in passages)
    weight = model.settings.weight
    scored = []
    for passage, result in zip(passages, results, strict=True):
        score = result.score
        if weight is not None:
            score = passage.score + weight * result.logit
        scored.append(replace(passage, score=score))
    return sorted(scored, key=lambda passage: -passage.score)
