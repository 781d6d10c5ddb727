"""Linking: the name of an entity -> the id of a concept, from a table of names and ids."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biomed.terms.names import Names
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.search import top_k
from domainbert.tables import read_table, require_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from domainbert.models.embedder import Embedder

MIN_SIMILARITY = 0.75  # docs/lab/entities.md has what other values give
NORMALISED = 0.95  # the score of a name that differs in form only
_LONGEST_ABBREVIATION = 5
_REMEMBERED = 100_000  # names


@dataclass(frozen=True)
class Link:
    """The concept of a name.

    Attributes:
        id: of the concept.
        name: its preferred name, the first that the dictionary gives it.
        score: 1 for a name of the dictionary (case ignored), 0.95 for one that differs in form
            only (see `biomed.terms.names.normalised`), both divided by the number of concepts that
            have the name; otherwise the cosine of the vectors of the name and of the nearest one.
    """

    id: str
    name: str
    score: float


class Dictionary:
    """Names and the ids of their concepts.

    Args:
        pairs: (name, id) of each name; the first name of an id is its preferred one.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = list(dict.fromkeys(pairs))
        if not self.pairs:
            raise UserError("the dictionary is empty; expected at least one name and id")
        self.preferred: dict[str, str] = {}
        self._names = Names(self.pairs)
        for name, id_ in self.pairs:
            self.preferred.setdefault(id_, name)
        self._sizes = Counter(id_ for _, id_ in self.pairs)

    @classmethod
    def read(cls, path: str | Path) -> Dictionary:
        """Read a table (.csv, .parquet or .jsonl) with the columns `name` and `id`.

        Raises:
            TableError: a column is missing, or a row lacks its name or id.
        """
        path = Path(path)
        table = read_table(path)
        require_cells(table, ["name", "id"], source=path.name)
        return cls(zip(table["name"].str.strip(), table["id"].astype(str), strict=True))

    def __len__(self) -> int:
        """Number of names."""
        return len(self.pairs)

    def __repr__(self) -> str:
        """Names and concepts."""
        return f"Dictionary({len(self.pairs):,} names of {len(self.preferred):,} concepts)"

    @cached_property
    def digest(self) -> str:
        """A hash of all names and ids."""
        joined = "\0".join(f"{name}\1{id_}" for name, id_ in self.pairs)
        return hashlib.sha256(joined.encode(errors="replace")).hexdigest()

    def find(self, name: str) -> Link | None:
        """The concept with this name, or with one that differs in form only.

        Of several, the one whose preferred name it is, else the one with the most names.
        """
        ids, is_exact = self._names.find(name)
        if not ids:
            return None
        key = " ".join(name.split()).casefold()
        best = max(ids, key=lambda i: (self.preferred[i].casefold() == key, self._sizes[i]))
        return Link(best, self.preferred[best], (1.0 if is_exact else NORMALISED) / len(ids))


class EntityLinker:
    """Links names to the concepts of a dictionary: by name first, then by vectors.

    An abbreviation (at most five capitals) is linked by name only, because vectors say nothing
    about it. Threads may share a linker.

    Args:
        dictionary: names and ids.
        embedder: gives the vectors; None links by name only.
        min_similarity: the least cosine of a link by vectors.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embedder: Embedder | None = None,
        *,
        min_similarity: float = MIN_SIMILARITY,
    ) -> None:
        if not 0 <= min_similarity <= 1:
            msg = f"min_similarity: expected a number from 0 to 1, got {min_similarity!r}"
            raise UserError(msg)
        self.dictionary, self.embedder = dictionary, embedder
        self.min_similarity = min_similarity
        self._known: dict[str, Link | None] = {}

    @classmethod
    def from_table(cls, path: str | Path, *, model: str | Path | None = "terms") -> EntityLinker:
        """A linker with the dictionary of a table (see `Dictionary.read`).

        `model` is a `TermEmbedder`'s name or folder, or None to link by name only.
        """
        from biomed.terms.similarity import TermModel

        embedder = None if model is None else TermModel.from_pretrained(model)
        return cls(Dictionary.read(path), embedder)

    def facts(self) -> dict[str, object]:
        """What decides the links, as JSON."""
        model = self.embedder.fingerprint() if self.embedder else None
        least = self.min_similarity
        return {"dictionary": self.dictionary.digest, "model": model, "min_similarity": least}

    def link(self, names: Sequence[str]) -> list[Link | None]:
        """The concept of each name; None where there is none that is near enough."""
        if len(self._known) > _REMEMBERED:
            self._known = {}
        known = self._known  # it only grows, also where another thread starts a new one
        new = [name for name in dict.fromkeys(names) if name not in known]
        links = dict(zip(new, map(self.dictionary.find, new), strict=True))
        left = [name for name in new if links[name] is None and _has_meaning(name)]
        if left and self.embedder:
            near = zip(left, self.nearest(left), strict=True)
            links |= {name: link for name, link in near if link.score >= self.min_similarity}
        known |= links
        return [known[name] for name in names]

    def nearest(self, names: Sequence[str]) -> list[Link]:
        """The concept of the name with the nearest vector, however far it is."""
        hits = top_k(self._embedded(names), [self._vectors], k=1)
        cosines = np.clip(hits.scores[:, 0], -1, 1).tolist()
        ids = (self.dictionary.pairs[row][1] for row in hits.rows[:, 0].tolist())
        pairs = zip(ids, cosines, strict=True)
        return [Link(id_, self.dictionary.preferred[id_], cosine) for id_, cosine in pairs]

    @cached_property
    def _vectors(self) -> np.ndarray:
        """The vectors of all names of the dictionary."""
        from domainbert.cli.console import counted

        names = [name for name, _ in self.dictionary.pairs]
        return self._embedded(counted(names, what="names of the dictionary", total=len(names)))

    def _embedded(self, names: Iterable[str]) -> np.ndarray:
        """Unit vectors, shape (names, dimension); zero for a name that has none."""
        if self.embedder is None:
            raise AssertionError
        parts = [part.vectors for part in self.embedder.embed_many(names)]
        return np.nan_to_num(unit(np.concatenate(parts)))


def _has_meaning(name: str) -> bool:
    letters = [char for char in name if char.isalpha()]
    return len(letters) > _LONGEST_ABBREVIATION or not all(map(str.isupper, letters))
