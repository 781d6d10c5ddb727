"""TermEmbedder (vectors of terms), TermIndex (nearest terms by name, then by vector), and tasks."""

import hashlib
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from biomed.sentences.task import EncodedText, EncodeTask
from biomed.terms.names import (
    TERM,
    NameTable,
    is_abbreviation,
    is_common,
    meanings,
    medical_terms,
    split_names,
)
from domainbert.errors import UserError
from domainbert.files import JsonObject
from domainbert.models.embedder import Embedder, check_faults, check_many
from domainbert.models.pooling import unit
from domainbert.scoring import Fault, OutputRow, TextTask
from domainbert.search import check_k, top_k
from domainbert.streams import chunked

NAME = "name"
SYNONYM = "synonym"
ABBREVIATION = "abbreviation"
VECTOR = "vector"
_RANKS = (NAME, SYNONYM, VECTOR)  # the best kind of match first
_BLOCK = 1024  # terms looked up at a time


class TermEmbedder(Embedder):
    """Medical terms as vectors; see `Embedder` for arguments and its other methods.

    `score_frame` gives the vectors of a table of terms; see `EmbedTask`.
    """

    package = "biomed"
    task = "terms"
    default = "terms"
    trainer = "biomed.terms.training:fit"
    tasks: ClassVar = {"term vectors": "biomed.terms.similarity:EmbedTask"}
    train_command = "biomed terms train NAMES --out MODEL"
    # The vocabulary that `nearest` searched last, by its hash.
    _index: "tuple[bytes, TermIndex] | None" = None

    def similarity_matrix(
        self,
        terms: Sequence[str],
        others: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Cosines of all terms with all others (or with each other), named on both sides."""
        column_terms = terms if others is None else others
        check_many(terms)
        check_many(column_terms)
        rows = unit(self.embed(list(terms)))
        columns = unit(self.embed(list(column_terms)))
        cosines = np.clip(rows @ columns.T, -1, 1)
        return pd.DataFrame(
            cosines, index=list(terms), columns=list(column_terms)
        )

    def nearest(
        self,
        term: str,
        vocabulary: Sequence[str] | pd.DataFrame | None = None,
        *,
        k: int = 10,
    ) -> pd.DataFrame:
        """The k terms of a vocabulary nearest to a term, by name, synonym and then by vector.

        The vectors of the vocabulary are kept until another vocabulary is searched. See `TermIndex`
        for vocabularies and `TermIndex.nearest` for the result.
        """
        key = hashlib.sha256(pickle.dumps(vocabulary)).digest()
        if self._index is None or self._index[0] != key:
            self._index = (key, TermIndex(self, vocabulary))
        return self._index[1].nearest(term, k=k)


@dataclass(frozen=True)
class Neighbour:
    """A term of the vocabulary and its similarity to the term that was looked up.

    Attributes:
        rank: position, from 1, for each meaning of the term.
        neighbour: the term of the vocabulary.
        similarity: cosine of its vector and that of the term, or of the term's meaning.
        match: how it was matched: "name" (only the spelling differs), "synonym" (the vocabulary
            has both as names of one concept), "abbreviation" (the term stands for it), or
            "vector".
        meaning: how an abbreviation was read, else "".
    """

    rank: int
    neighbour: str
    similarity: float
    match: str
    meaning: str = field(repr=False)


COLUMNS = ("rank", "neighbour", "similarity", "match", "meaning")


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of a term.

    Attributes:
        nearest: the best first, for each meaning of the term.
        reason: how an abbreviation was read, else "".
        fault: why the term has no neighbours, else "".
    """

    nearest: tuple[Neighbour, ...] = field(repr=False)
    reason: str = field(repr=False)
    fault: str = ""


class TermIndex:
    """A vocabulary that is embedded once and searched by name first, then by vector.

    Args:
        embedder: gives the vectors.
        vocabulary: a list of terms, or a table with the column `term` and optionally `synonyms`
            (lists, or separated by "|"). Repeated terms count once. Without `synonyms`, those of
            the shipped vocabulary are used. The default is the shipped vocabulary.

    Raises:
        UserError: no term, one string instead of a list, or a term that has no vector.
    """

    def __init__(
        self,
        embedder: Embedder,
        vocabulary: Iterable[str] | pd.DataFrame | None = None,
    ) -> None:

        check_many(vocabulary)
        synonym_table = medical_terms()
        terms = synonym_table["term"]
        self._has_synonyms = False
        if isinstance(vocabulary, pd.DataFrame):
            terms = vocabulary["term"]
            self._has_synonyms = "synonyms" in vocabulary.columns
            if self._has_synonyms:
                synonym_table = vocabulary
        elif vocabulary is not None:
            terms = vocabulary
        self.terms = list(dict.fromkeys(terms))
        if not self.terms:
            raise UserError(
                "the vocabulary is empty; expected at least one term"
            )
        self.embedder = embedder
        self._spellings = Counter(term.casefold() for term in self.terms)
        self._concepts = _concepts(synonym_table)
        self._concepts_by_name = NameTable(
            (name, number)
            for number, names in enumerate(self._concepts)
            for name in names
        )
        self._rows_by_name = NameTable(
            (term, row) for row, term in enumerate(self.terms)
        )

    @cached_property
    def _vectors(self) -> np.ndarray:
        return unit(self.embedder.embed(self.terms))

    @property
    def digest(self) -> str:
        """A hash of the vocabulary."""
        concepts = ["\1".join(names) for names in self._concepts]
        text = "\0".join(self.terms + concepts)
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()

    def nearest(self, term: str, *, k: int = 10) -> pd.DataFrame:
        """The k nearest terms of the vocabulary; the term itself, in any case, is left out.

        Other spellings of the term come first, then its synonyms, then other terms by cosine. Each
        meaning of an ambiguous abbreviation has k neighbours.

        Args:
            term: the term.
            k: number of neighbours.

        Returns:
            The columns of `Neighbour`; fewer than k rows if the vocabulary is smaller.

        Raises:
            UserError: k < 1, or a term that has no vector.
        """
        (result,) = self.look_up([term], k=k)
        check_faults([result.fault])
        return pd.DataFrame(list(result.nearest), columns=list(COLUMNS))

    def look_up(self, terms: Iterable[str], *, k: int) -> Iterator[Neighbours]:
        """The k nearest neighbours of each term, in order; k for each meaning of a term."""
        check_k(k)
        for part in chunked(terms, size=lambda _: 1, limit=_BLOCK):
            yield from self._look_up_batch(part, k)

    def _look_up_batch(
        self, terms: Sequence[str], k: int
    ) -> Iterator[Neighbours]:
        """The neighbours of each term of a batch."""
        readings = [self.read(term) for term in terms]
        texts = [
            text
            for meanings_of_term, _ in readings
            for text in meanings_of_term
        ]
        vectors, faults = self.embedder.embed_all(texts)
        vectors = np.nan_to_num(unit(vectors))
        name_matches = [self._match_by_name(text) for text in texts]
        # Spellings of the term itself are left out, and matches by name come first: so many
        # more rows are needed for k neighbours.
        n_spellings = max(self._spellings[term.casefold()] for term in terms)
        n_by_name = max(map(len, name_matches))
        hits = top_k(vectors, [self._vectors], k=k + n_spellings + n_by_name)
        rows = hits.rows.tolist()
        first = 0
        for term, (texts_of_term, reason) in zip(terms, readings, strict=True):
            neighbours = []
            for number, text in enumerate(texts_of_term, start=first):
                matches = dict.fromkeys(
                    (r for r in rows[number] if r >= 0), VECTOR
                )
                matches |= name_matches[number]
                neighbours += self._ranked(
                    term, text, vectors[number], matches
                )[:k]
            end = first + len(texts_of_term)
            fault = "".join(dict.fromkeys(faults[first:end]))
            yield Neighbours(tuple(neighbours), reason, fault)
            first = end

    def _ranked(
        self,
        term: str,
        text: str,
        vector: np.ndarray,
        matches: Mapping[int, str],
    ) -> list[Neighbour]:
        """The neighbours of one meaning of a term, by kind of match and then by cosine.

        Args:
            term: the term; its own spellings are left out.
            text: the meaning.
            vector: the meaning's vector, shape (dimension,).
            matches: row of the vocabulary -> kind of match.
        """
        spelling = term.casefold()
        rows = [
            row for row in matches if self.terms[row].casefold() != spelling
        ]
        cosines = np.clip(self._vectors[rows] @ vector, -1, 1).tolist()
        ranks = [_RANKS.index(matches[row]) for row in rows]
        ordered = sorted(
            zip(ranks, cosines, rows, strict=True),
            key=lambda match: (match[0], -match[1], match[2]),
        )
        meaning = "" if text == term else text
        neighbours = []
        for rank, (_, cosine, row) in enumerate(ordered, start=1):
            match_by = matches[row]
            if meaning and match_by != VECTOR:
                match_by = ABBREVIATION
            neighbours.append(
                Neighbour(rank, self.terms[row], cosine, match_by, meaning)
            )
        return neighbours

    def read(self, term: str) -> tuple[tuple[str, ...], str]:
        """How a term is read.

        Synonyms in the user's own table decide, else the shipped table of abbreviations.

        Returns:
            The term itself, or what an abbreviation stands for; and the reason, or "".
        """
        shipped = meanings(term)
        texts = shipped
        if is_abbreviation(term) and (self._has_synonyms or len(shipped) < 2):
            concepts, is_exact = self._concepts_by_name.find(term)
            if is_exact:
                texts = tuple(
                    self._concepts[concept][0] for concept in concepts
                )
        if texts in ((), (term,)):
            return (term,), ""
        if len(texts) == 1:
            return texts, f"{term} is read as {texts[0]}"
        return texts, f"{term} is ambiguous: {' or '.join(texts)}"

    def _match_by_name(self, text: str) -> dict[int, str]:
        """Row -> kind of match, for the terms that have this name or are synonyms of it."""
        if is_common(text):
            return {}
        matches: dict[int, str] = {}
        concepts, _ = self._concepts_by_name.find(text)
        for concept in concepts:
            for name in self._concepts[concept]:
                rows, _ = self._rows_by_name.find(name)
                matches |= dict.fromkeys(rows, SYNONYM)
        rows, _ = self._rows_by_name.find(text)
        return matches | dict.fromkeys(rows, NAME)


def _concepts(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """The names of each concept, its term first; rows with the same term are one concept."""
    names_by_term: dict[str, list[str]] = {}
    for term, synonyms in zip(table["term"], table["synonyms"], strict=True):
        names_by_term.setdefault(term, [term]).extend(split_names(synonyms))
    return [tuple(names) for names in names_by_term.values()]


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
