"""The scoring tasks of terms: a vector, or the nearest terms, for each row of a table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from biomed.sentences.task import EncodedText, EncodeTask
from biomed.terms.names import TERM, meanings
from biomed.terms.similarity import Neighbours, TermIndex
from domainbert.files import JsonObject
from domainbert.scoring import Fault, OutputRow, TextTask


class EmbedTask(EncodeTask):
    """The vector of each term: `term, n_tokens, n_windows`, and the vector as `v0, v1, …`.

    `reason` says when a term is longer than a window (its vector then pools all windows), and
    what an abbreviation may stand for (its vector is that of its letters).
    """

    name = "term vectors"
    columns = (TERM,)

    def rows(self, item: str, result: EncodedText) -> list[OutputRow]:
        """One row."""
        (row,) = super().rows(item, result)
        possible = " or ".join(meanings(item))
        if possible and "reason" not in row:
            row["reason"] = f"read as written; it may stand for {possible}"
        return [row]


class NearestTask(TextTask[Neighbours]):
    """The nearest terms of a vocabulary, one per row: `term` and the columns of `Neighbour`.

    `reason` says how an abbreviation was read.

    Args:
        index: the vocabulary.
        k: number of neighbours of a term, or of each meaning of an ambiguous abbreviation.
    """

    name = "nearest terms"
    columns = (TERM,)
    output = pa.schema(
        {
            "term": "string",
            "rank": "int64",
            "neighbour": "string",
            "similarity": "double",
            "match": "string",
            "meaning": "string",
        }
    )

    def __init__(self, index: TermIndex, *, k: int = 10) -> None:
        self._index = index
        self._k = k

    def run(self, items: Iterable[str]) -> Iterator[Neighbours | Fault]:
        """The neighbours of each term."""
        for neighbours in self._index.look_up(items, k=self._k):
            if neighbours.fault:
                yield Fault(neighbours.fault)
            else:
                yield neighbours

    def rows(
        self, item: str, result: Neighbours
    ) -> Sequence[Mapping[str, object]]:
        """A row per neighbour."""
        shared = {"term": item, "reason": result.reason}
        rows = [shared | asdict(neighbour) for neighbour in result.nearest]
        return rows or [
            {"term": item, "reason": "the vocabulary has no other term"}
        ]

    def facts(self) -> JsonObject:
        """The model, the vocabulary and k."""
        model = self._index.embedder.fingerprint()
        return {"model": model, "vocabulary": self._index.digest, "k": self._k}
