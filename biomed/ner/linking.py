"""Linking: the name of an entity -> the concept of a dictionary, by name and then by vector."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from biomed.ner.dictionaries import Dictionary, DictionaryFile, Link
from biomed.ner.differences import differ
from biomed.notes.assertion import DRUGS
from biomed.terms.names import is_abbreviation, meanings, normalised
from domainbert.errors import UserError
from domainbert.files import atomic_path, folder_beside, replace_folder
from domainbert.models.pooling import unit
from domainbert.progress import progress
from domainbert.search import top_k
from domainbert.search.vectors import VectorIndex
from domainbert.statistics.calibration import sigmoid

if TYPE_CHECKING:
    from biomed.terms.similarity import TermEmbedder
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
        self._links: dict[tuple[str, str | None], Link | None] = {}

    @classmethod
    def from_table(
        cls,
        path: str | Path,
        *,
        model: str | Path | None = "terms",
    ) -> EntityLinker:
        """A linker with the dictionary of a table or file (see `Dictionary.read`).

        `model` is a `TermEmbedder`'s name or folder, or None to link by name only. The vectors of
        a table's names are computed when they are first needed, and kept beside it. A file links
        by vectors only if it was built with them (see `write_vectors`).
        """
        from biomed.terms.similarity import TermEmbedder

        dictionary = Dictionary.read(path)
        is_file = isinstance(dictionary, DictionaryFile)
        has_vectors = not is_file or vectors_of(Path(path)).is_dir()
        if model is None or not has_vectors:
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
        only, and a file of names is asked for concepts of this type. Without them a drug is known
        by its name.
        """
        if len(self._links) > _REMEMBERED:
            self._links = {}
        # Another thread may replace `_links` meanwhile; this dictionary only grows.
        remembered = self._links
        types: Sequence[str | None] = labels or [None] * len(names)
        keys = list(zip(names, types, strict=True))
        links = {
            key: self._by_name(*key) for key in keys if key not in remembered
        }
        unlinked = [
            (name, label)
            for (name, label), link in links.items()
            if link is None and not (_is_drug(label) or is_abbreviation(name))
        ]
        if unlinked and self.embedder:
            nearest = self.nearest(*zip(*unlinked, strict=True))
            links |= {
                key: link
                for key, link in zip(unlinked, nearest, strict=True)
                if link and link.score >= self.min_score
            }
        remembered |= links
        return [remembered[key] for key in keys]

    def _by_name(self, name: str, label: str | None) -> Link | None:
        """The concept by name; an abbreviation needs a single meaning, or its exact spelling."""
        listed = self.dictionary.find_listed(name, label)
        if listed or not is_abbreviation(name):
            return listed or self.dictionary.find(name, label)
        expansions = meanings(name)
        if len(expansions) == 1:
            return self.dictionary.find(expansions[0], label)
        link = self.dictionary.find(name, label)
        is_long = len(name) >= _SHORTEST and not expansions
        # Several concepts share the score of a name.
        is_only = link is not None and link.score == 1
        return link if is_long and is_only else None

    def nearest(
        self,
        names: Sequence[str],
        labels: Sequence[str | None] | None = None,
    ) -> list[Link | None]:
        """The concept with the nearest vector that does not `differ`, whatever its score."""
        queries = self._embedded(names)
        if self._index is not None:
            hits = self._index.search(queries, k=_CANDIDATES)
            forms = [list(self._index.rows(row)["text"]) for row in hits.rows]
        else:
            count = min(_CANDIDATES, len(self._forms))
            hits = top_k(queries, [self._vectors], k=count)
            forms = [
                list(map(self._forms.__getitem__, rows)) for rows in hits.rows
            ]
        labels = labels or [None] * len(names)
        scores = hits.scores.tolist()
        return list(map(self._nearest, names, labels, forms, scores))

    def _nearest(
        self,
        name: str,
        label: str | None,
        forms: Iterable[str],
        cosines: Iterable[float],
    ) -> Link | None:
        """The concept of the first of these names, which are in order of their cosines."""
        matches = []
        for form, cosine in zip(forms, cosines, strict=False):
            link = self.dictionary.find(form, label)
            if link and not differ(name, form):
                matches.append((link, cosine))
        if not matches:
            return None
        link, first = matches[0]
        second = next(
            (cosine for other, cosine in matches[1:] if other.id == link.id),
            _FAR,
        )
        rival = next(
            (cosine for other, cosine in matches if other.id != link.id), _FAR
        )
        evidence = np.dot(_WEIGHTS, [first, first - rival, second, 1.0])
        return replace(link, score=float(sigmoid(evidence)))

    @cached_property
    def _index(self) -> VectorIndex | None:
        """The vectors beside a file of names; None for a table."""
        if not isinstance(self.dictionary, DictionaryFile):
            return None
        path = self.dictionary.path
        index = VectorIndex.open(vectors_of(path), embedder=self.embedder)
        if index.about != _about(self.dictionary):
            raise UserError(
                f"{vectors_of(path)} is of other names than {path.name}; build both again with "
                "`biomed ner dictionary --vectors N`"
            )
        return index

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


def _is_drug(label: str | None) -> bool:
    return label is not None and label.casefold() in DRUGS


def vectors_of(path: Path) -> Path:
    """The folder of the vectors of a file of names."""
    return path.with_name(f"{path.name}.vectors")


def _about(dictionary: Dictionary) -> dict[str, int]:
    """What an index of vectors notes of the names that it is of."""
    return {"dictionary": int(dictionary.digest[:12], 16)}


def write_vectors(
    path: Path, *, limit: int, model: str | Path = "terms"
) -> int:
    """Write the vectors of a file's names beside it, to be read through a memory map.

    Args:
        path: a file that `biomed.ner.name_files.build_file` wrote.
        limit: the number of names; preferred names come first.
        model: of the vectors, see `TermEmbedder`.

    Returns:
        The number of names that have vectors.
    """
    from biomed.terms.similarity import TermEmbedder

    dictionary = DictionaryFile(path)
    embedder = TermEmbedder.from_pretrained(model)
    names = dictionary.names_for_vectors(limit)
    with folder_beside(vectors_of(path)) as folder:
        index = VectorIndex.create(
            folder,
            fingerprint=embedder.fingerprint(),
            dimension=embedder.dimension,
            about=_about(dictionary),
        )
        with progress("vectors of names", total=len(names)) as advance:
            index.add(_pieces(names, embedder, advance))
        count = len(index)
        replace_folder(folder, vectors_of(path))
    return count


def _pieces(
    names: Sequence[str],
    embedder: TermEmbedder,
    advance: Callable[[int], None],
) -> Iterator[tuple[np.ndarray, pd.DataFrame]]:
    """The vectors of names, and the names as rows of an index."""
    first = 0
    for batch in embedder.embed_many(names):
        advance(len(batch.vectors))
        texts = names[first : first + len(batch.vectors)]
        first += len(batch.vectors)
        has_vector = np.isfinite(batch.vectors).all(axis=1)
        rows = pd.DataFrame({"id": "", "start": 0, "end": 0, "text": texts})
        yield batch.vectors[has_vector], rows[has_vector]
