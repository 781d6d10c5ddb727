"""TermEmbedder, and TermIndex: the terms of a vocabulary nearest to a term, by name and vector."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from biomed.terms.names import (
    Names,
    is_abbreviation,
    is_common,
    meanings,
    medical_terms,
    split_names,
)
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder, check_faults, check_many
from domainbert.models.pooling import unit
from domainbert.search import top_k
from domainbert.text.runner import chunked

if TYPE_CHECKING:
    import pandas as pd


NAME, SYNONYM, ABBREVIATION, VECTOR = "name", "synonym", "abbreviation", "vector"
_BLOCK = 1024  # terms looked up at a time


class TermEmbedder(Embedder):
    """Medical terms as vectors; see `Embedder` for arguments and its other methods."""

    package, task, default = "biomed", "terms", "terms"
    train_command = "biomed terms train NAMES --out MODEL"
    _index: tuple[bytes, TermIndex] | None = (
        None  # of the vocabulary that `nearest` searched last
    )

    def similarity_matrix(
        self, terms: Sequence[str], others: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Cosines of all terms with all others (or with each other), named on both sides."""
        import pandas as pd

        both = terms, terms if others is None else others
        for names in both:
            check_many(names)
        rows, columns = (unit(self.embed(list(names))) for names in both)
        return pd.DataFrame(np.clip(rows @ columns.T, -1, 1), *map(list, both))

    def nearest(
        self,
        term: str,
        vocabulary: Sequence[str] | pd.DataFrame | None = None,
        *,
        k: int = 10,
    ) -> pd.DataFrame:
        """The k terms of a vocabulary nearest to a term, by name, synonym and then by vector.

        The vectors of the vocabulary (see `TermIndex`) are kept until another one is searched. For
        details see `TermIndex.nearest`.
        """
        key = hashlib.sha256(pickle.dumps(vocabulary)).digest()
        if self._index is None or self._index[0] != key:
            self._index = key, TermIndex(self, vocabulary)
        return self._index[1].nearest(term, k=k)


@dataclass(frozen=True)
class Neighbour:
    """A term of the vocabulary that is near a term.

    Attributes:
        rank: from 1, for each meaning.
        neighbour: the term of the vocabulary.
        similarity: cosine of its vector with that of the term, or of its meaning.
        match: how it was found: "name" (it differs from the term in form only), "synonym" (the
            vocabulary gives both names to one thing), "abbreviation" (it is what the term stands
            for), "vector".
        meaning: what an abbreviation was read as, else "".
    """

    rank: int
    neighbour: str
    similarity: float
    match: str
    meaning: str = field(repr=False)


COLUMNS = ("rank", "neighbour", "similarity", "match", "meaning")


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of a term, how it was read, and why it has none (`fault`, else "")."""

    found: tuple[Neighbour, ...] = field(repr=False)
    reason: str = field(repr=False)
    fault: str = ""


class TermIndex:
    """A vocabulary embedded once, for many look-ups: by name first, then by vector.

    Args:
        embedder: gives the vectors.
        vocabulary: its terms; or a table with the columns `term` and, where there are, `synonyms`
            (lists, or separated by "|"). A term that repeats counts once. Without `synonyms`
            those of the shipped vocabulary are used, which is also the default.

    Raises:
        UserError: no term, one string instead of a list, or a term that has no vector.
    """

    def __init__(
        self, embedder: Embedder, vocabulary: Iterable[str] | pd.DataFrame | None = None
    ) -> None:
        import pandas as pd

        check_many(vocabulary)
        listed = (
            vocabulary["term"] if isinstance(vocabulary, pd.DataFrame) else vocabulary
        )
        shipped = medical_terms()
        self._is_own = (
            isinstance(vocabulary, pd.DataFrame) and "synonyms" in vocabulary.columns
        )
        known = (
            vocabulary
            if isinstance(vocabulary, pd.DataFrame) and self._is_own
            else shipped
        )
        self.terms = list(dict.fromkeys(shipped["term"] if listed is None else listed))
        if not self.terms:
            raise UserError("the vocabulary is empty; expected at least one term")
        self.embedder = embedder
        self._spellings = Counter(term.casefold() for term in self.terms)
        named: dict[str, list[str]] = {}
        for term, synonyms in zip(known["term"], known["synonyms"], strict=True):
            named.setdefault(term, []).extend(split_names(synonyms))
        self._concepts = [(term, *names) for term, names in named.items()]
        self._named = Names(
            (name, c) for c, names in enumerate(self._concepts) for name in names
        )
        self._rows = Names((term, row) for row, term in enumerate(self.terms))

    @cached_property
    def _vectors(self) -> np.ndarray:
        return unit(self.embedder.embed(self.terms))

    @property
    def digest(self) -> str:
        """A hash of the vocabulary."""
        listed = [*self.terms, *("\1".join(names) for names in self._concepts)]
        return hashlib.sha256("\0".join(listed).encode(errors="replace")).hexdigest()

    def nearest(self, term: str, *, k: int = 10) -> pd.DataFrame:
        """The k nearest terms of the vocabulary, the term itself (in any case) left out.

        Terms with the same name come first, then its synonyms, then others by cosine. Of an
        abbreviation with several meanings, each has k neighbours.

        Args:
            term: the term.
            k: neighbours.

        Returns:
            The columns of `Neighbour`; fewer rows where the vocabulary is smaller.

        Raises:
            UserError: k < 1, or a term that has no vector.
        """
        import pandas as pd

        (result,) = self.look_up([term], k=k)
        check_faults([result.fault], first=0)
        return pd.DataFrame(
            [asdict(near) for near in result.found], columns=list(COLUMNS)
        )

    def look_up(self, terms: Iterable[str], *, k: int) -> Iterator[Neighbours]:
        """The neighbours of each term, in order; `k` of each meaning."""
        if k < 1:
            raise UserError(f"k must be at least 1, got {k}")
        for part in chunked(terms, size=lambda _: 1, limit=_BLOCK):
            yield from self._look_up(part, k)

    def _look_up(self, terms: Sequence[str], k: int) -> Iterator[Neighbours]:
        readings = [self.read(term) for term in terms]
        texts = [text for read_as, _ in readings for text in read_as]
        parts = list(self.embedder.embed_many(texts))
        faults = iter([fault for part in parts for fault in part.faults])
        vectors = np.nan_to_num(unit(np.concatenate([part.vectors for part in parts])))
        by_name = [self._by_name(text) for text in texts]
        left_out = max(self._spellings[term.casefold()] for term in terms)
        hits = top_k(vectors, [self._vectors], k=k + left_out + max(map(len, by_name)))
        near = zip(vectors, hits.rows.tolist(), by_name, strict=True)
        for term, (read_as, reason) in zip(terms, readings, strict=True):
            found = [
                neighbour
                for text, (vector, rows, named) in zip(read_as, near, strict=False)
                for neighbour in self._ranked(
                    term, text, vector, rows=rows, named=named
                )[:k]
            ]
            fault = "".join(dict.fromkeys(next(faults) for _ in read_as))
            yield Neighbours(tuple(found), reason, fault)

    def _ranked(
        self,
        term: str,
        text: str,
        vector: np.ndarray,
        *,
        rows: list[int],
        named: dict[int, str],
    ) -> list[Neighbour]:
        """The rows found by name, by kind and cosine, then those by vector alone."""
        matches = dict.fromkeys((row for row in rows if row >= 0), VECTOR) | named
        order = [
            row for row in matches if self.terms[row].casefold() != term.casefold()
        ]
        cosines = np.clip(self._vectors[order] @ vector, -1, 1).tolist()
        kinds = [(NAME, SYNONYM, VECTOR).index(matches[row]) for row in order]
        ranked = sorted(
            zip(kinds, cosines, order, strict=True), key=lambda r: (r[0], -r[1], r[2])
        )
        meaning = text if text != term else ""
        return [
            Neighbour(
                rank,
                self.terms[row],
                cosine,
                ABBREVIATION if meaning and row in named else matches[row],
                meaning,
            )
            for rank, (_, cosine, row) in enumerate(ranked, start=1)
        ]

    def read(self, term: str) -> tuple[tuple[str, ...], str]:
        """What a term is read as: itself, or what an abbreviation stands for; and why, or "".

        Synonyms in the user's own table decide; else the shipped tables.
        """
        listed: list[str] = []
        if is_abbreviation(term):
            concepts, is_exact = self._named.find(term)
            listed = [self._concepts[c][0] for c in concepts if is_exact]
        known = meanings(term)
        texts = tuple(listed) if listed and (self._is_own or len(known) < 2) else known
        if texts in ((), (term,)):
            return (term,), ""
        if len(texts) == 1:
            return texts, f"{term} is read as {texts[0]}"
        return texts, f"{term} is ambiguous: {' or '.join(texts)}"

    def _by_name(self, text: str) -> dict[int, str]:
        """Row -> match of the vocabulary's terms with this name, or with another of its thing."""
        if is_common(text):
            return {}
        concepts = self._named.find(text)[0]
        names = dict.fromkeys(name for c in concepts for name in self._concepts[c])
        found = {row: SYNONYM for name in names for row in self._rows.find(name)[0]}
        return found | dict.fromkeys(self._rows.find(text)[0], NAME)
