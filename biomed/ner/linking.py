"""Linking: the name of an entity -> the concept of a dictionary, by name and then by vector."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import expit

from biomed.ner.dictionaries import Dictionary, Link
from biomed.ner.differences import differ
from biomed.notes.assertion import DRUGS
from biomed.terms.names import is_abbreviation, meanings, normalised
from domainbert.errors import UserError
from domainbert.files import atomic_path
from domainbert.models.pooling import unit
from domainbert.search import top_k

if TYPE_CHECKING:
    from domainbert.models.embedder import Embedder

MIN_SCORE = 0.6  # of a link; docs/lab/entities.md has what other values give
_CANDIDATES = 30  # nearest names that are looked at
# Logistic regression of whether the nearest concept is right, fitted on half of the abstracts of
# BC5CDR's train side: the weights of the cosine of its nearest name, of its distance to the next
# concept's, and of the cosine of its second nearest name; and the intercept.
_WEIGHTS = (3.345, 5.649, 5.132, -6.487)
_FAR = 0.5  # the cosine of a name that is not among the candidates
_REMEMBERED = 100_000  # names
_SHORTEST = 4  # letters of an abbreviation that is linked as it is


class EntityLinker:
    """Links names to the concepts of a dictionary: by name first, then by vectors.

    An abbreviation that the text does not define is linked only if it has one common meaning (see
    `biomed.terms.names.meanings`) or, from four letters on, if it is a name of the dictionary.
    Names that `differ`, and drugs, are never linked by vectors. Threads may share a linker.

    Args:
        dictionary: names and ids.
        embedder: gives the vectors; None links by name only.
        min_score: the least score of a link by vectors.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embedder: Embedder | None = None,
        *,
        min_score: float = MIN_SCORE,
    ) -> None:
        if not 0 <= min_score <= 1:
            raise UserError(
                f"min_score: expected a number from 0 to 1, got {min_score!r}"
            )
        self.dictionary = dictionary
        self.embedder = embedder
        self.min_score = min_score
        self._links: dict[tuple[str, bool], Link | None] = {}

    @classmethod
    def from_table(
        cls,
        path: str | Path,
        *,
        model: str | Path | None = "terms",
    ) -> EntityLinker:
        """A linker with the dictionary of a table (see `Dictionary.read`).

        `model` is a `TermEmbedder`'s name or folder, or None to link by name only. The vectors of
        the names are computed when they are first needed, and kept beside the table.
        """
        from biomed.terms.similarity import TermEmbedder

        dictionary = Dictionary.read(path)
        if model is None:
            return cls(dictionary)
        return cls(dictionary, TermEmbedder.from_pretrained(model))

    def facts(self) -> dict[str, object]:
        """What the links depend on, as JSON."""
        model = self.embedder and self.embedder.fingerprint()
        return {
            "dictionary": self.dictionary.digest,
            "model": model,
            "min_score": self.min_score,
        }

    def link(
        self,
        names: Sequence[str],
        *,
        labels: Sequence[str] | None = None,
    ) -> list[Link | None]:
        """The concept of each name; None where no concept is similar enough.

        `labels` are the entity types of the names, if they are known: drugs are linked by name
        only. Without them a drug is known by its name.
        """
        if len(self._links) > _REMEMBERED:
            self._links = {}
        # Another thread may replace `_links` meanwhile; this dictionary only grows.
        remembered = self._links
        is_drug = [label.casefold() in DRUGS for label in labels or ()]
        keys = list(zip(names, is_drug or [False] * len(names), strict=True))
        links = {
            key: self._by_name(key[0]) for key in keys if key not in remembered
        }
        unlinked = [
            name
            for (name, named_as_drug), link in links.items()
            if link is None and not (named_as_drug or is_abbreviation(name))
        ]
        if unlinked and self.embedder:
            nearest = zip(unlinked, self.nearest(unlinked), strict=True)
            links |= {
                (name, False): link
                for name, link in nearest
                if link and link.score >= self.min_score
            }
        remembered |= links
        return [remembered[key] for key in keys]

    def _by_name(self, name: str) -> Link | None:
        """The concept by name; an abbreviation needs a single meaning, or its exact spelling."""
        if not is_abbreviation(name):
            return self.dictionary.find(name)
        expansions = meanings(name)
        if len(expansions) == 1:
            return self.dictionary.find(expansions[0])
        link = self.dictionary.find(name)
        is_long = len(name) >= _SHORTEST and not expansions
        return link if is_long and link and link.score == 1 else None

    def nearest(self, names: Sequence[str]) -> list[Link | None]:
        """The concept with the nearest vector that does not `differ`, whatever its score."""
        hits = top_k(
            self._embedded(names),
            [self._vectors],
            k=min(_CANDIDATES, len(self._forms)),
        )
        return list(map(self._nearest, names, hits.rows, hits.scores.tolist()))

    def _nearest(
        self,
        name: str,
        rows: Iterable[int],
        cosines: Iterable[float],
    ) -> Link | None:
        """The concept of the first of these rows, which are in order of their cosines."""
        matches = []
        for row, cosine in zip(rows, cosines, strict=True):
            form = self._forms[row]
            link = self.dictionary.find(form)
            if link and not differ(name, form):
                matches.append((link.id, cosine))
        if not matches:
            return None
        nearest, first = matches[0]
        second = next(
            (cosine for id_, cosine in matches[1:] if id_ == nearest), _FAR
        )
        rival = next(
            (cosine for id_, cosine in matches if id_ != nearest), _FAR
        )
        evidence = np.dot(_WEIGHTS, [first, first - rival, second, 1.0])
        return self.dictionary.link(nearest, float(expit(evidence)))

    @cached_property
    def _forms(self) -> list[str]:
        """One name of each normal form."""
        forms: dict[str, str] = {}
        for name, _ in self.dictionary.pairs:
            forms.setdefault(normalised(name), name)
        return list(forms.values())

    @cached_property
    def _vectors(self) -> np.ndarray:
        """The vectors of the forms, from the file beside the table if it is of these names."""
        from domainbert.progress import progress

        key = f"{self.dictionary.digest} {self.facts()['model']}"
        path = self.dictionary.path
        file = path and path.with_name(f"{path.name}.vectors.npz")
        if file and file.is_file():
            with np.load(file, allow_pickle=False) as saved:
                if str(saved["key"]) == key:
                    return saved["vectors"].astype(np.float32)
        total = len(self._forms)
        with progress("names of the dictionary", total=total) as advance:
            vectors = self._embedded(self._forms, advance).astype(np.float16)
        if file and os.access(file.parent, os.W_OK):
            with (
                atomic_path(file) as temporary,
                temporary.open("wb") as output,
            ):
                np.savez(
                    output,
                    key=np.array(key),
                    vectors=vectors,
                )
        return vectors.astype(np.float32)

    def _embedded(
        self,
        names: Iterable[str],
        advance: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Unit vectors, shape (names, dimension); zeros for a name without a vector.

        `advance` is called with the number of vectors that were computed.
        """
        # Names are embedded only if there is an embedder.
        embedder = cast("Embedder", self.embedder)
        batches = []
        for batch in embedder.embed_many(names):
            batches.append(batch.vectors)
            advance(len(batch.vectors))
        return np.nan_to_num(unit(np.concatenate(batches)))
