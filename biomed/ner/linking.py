"""Linking: the name of an entity -> the concept of a dictionary, by name and then by vector."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from biomed.ner.differences import differ
from biomed.terms.names import Names, is_abbreviation, meanings, normalised
from domainbert.errors import UserError
from domainbert.files import atomic_path
from domainbert.models.pooling import unit
from domainbert.search import top_k
from domainbert.tables import read_table, require_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from domainbert.models.embedder import Embedder

MIN_SCORE = 0.6  # of a link; docs/lab/entities.md has what other values give
NORMALISED = 0.95  # the score of a name that differs in form only
_CANDIDATES = 30  # nearest names that are looked at
# Logistic regression of whether the nearest concept is right, fitted on half of the abstracts of
# BC5CDR's train side: on the cosine of its nearest name, how much nearer that is than another
# concept, and the cosine of its second nearest name; and the intercept.
_WEIGHTS = (3.345, 5.649, 5.132, -6.487)
_FAR = 0.5  # the cosine of what is not among the candidates
_REMEMBERED = 100_000  # names
_SHORTEST = 4  # letters of an abbreviation that is linked as it is


@dataclass(frozen=True)
class Link:
    """The concept of a name.

    Attributes:
        id: of the concept.
        name: its preferred name, the first that the dictionary gives it.
        score: how sure the link is, in (0, 1]: 1 for a name of the dictionary (case ignored), 0.95
            for one that differs in form only (see `biomed.terms.names.normalised`), both divided by
            the number of concepts that have the name; otherwise the probability that the concept
            with the nearest vectors is right.
        codes: of the concept in other systems, such as "MESH:D006333".
    """

    id: str
    name: str
    score: float
    codes: tuple[str, ...] = ()


class Dictionary:
    """Names and the ids of their concepts.

    Args:
        pairs: (name, id) of each name; the first name of an id is its preferred one.
        codes: the codes of concepts in other systems.
        path: the table; vectors are kept beside it.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        codes: Mapping[str, tuple[str, ...]] | None = None,
        path: Path | None = None,
    ) -> None:
        self.pairs, self.codes, self.path = list(dict.fromkeys(pairs)), codes or {}, path
        if not self.pairs:
            raise UserError("the dictionary is empty; expected at least one name and id")
        self.preferred: dict[str, str] = {}
        self._names = Names(self.pairs)
        for name, id_ in self.pairs:
            self.preferred.setdefault(id_, name)
        self._sizes = Counter(id_ for _, id_ in self.pairs)

    @classmethod
    def read(cls, path: str | Path) -> Dictionary:
        """Read a table with the columns `name` and `id`, and perhaps `codes` (split by "|").

        Raises:
            TableError: a column is missing, or a row lacks its name or id.
        """
        path = Path(path)
        table = read_table(path)
        require_cells(table, ["name", "id"], source=path.name)
        pairs = zip(table["name"].str.strip(), table["id"].astype(str), strict=True)
        listed = table["codes"].fillna("") if "codes" in table else [""] * len(table)
        codes = {
            str(id_): tuple(each.split("|"))
            for id_, each in zip(table["id"], listed, strict=True)
            if each
        }
        return cls(pairs, codes=codes, path=path)

    @cached_property
    def digest(self) -> str:
        """A hash of all names and ids."""
        joined = "\0".join(f"{name}\1{id_}" for name, id_ in self.pairs)
        return hashlib.sha256(joined.encode(errors="replace")).hexdigest()

    def link(self, id_: str, score: float) -> Link:
        """A link to a concept."""
        return Link(id_, self.preferred[id_], score, self.codes.get(id_, ()))

    def find(self, name: str) -> Link | None:
        """The concept with this name, or with one that differs in form only.

        Of several, the one whose preferred name it is, else the one with the most names.
        """
        ids, is_exact = self._names.find(name)
        if not ids:
            return None
        key = " ".join(name.split()).casefold()
        best = max(ids, key=lambda i: (self.preferred[i].casefold() == key, self._sizes[i]))
        return self.link(best, (1.0 if is_exact else NORMALISED) / len(ids))


class EntityLinker:
    """Links names to the concepts of a dictionary: by name first, then by vectors.

    Of an abbreviation that the text does not define, only the common meaning (see
    `biomed.terms.names.meanings`) or, from four letters on, the very name is linked. A link by
    vectors never crosses what `differ` tells apart. Threads may share a linker.

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
            msg = f"min_score: expected a number from 0 to 1, got {min_score!r}"
            raise UserError(msg)
        self.dictionary, self.embedder, self.min_score = dictionary, embedder, min_score
        self._known: dict[str, Link | None] = {}

    @classmethod
    def from_table(cls, path: str | Path, *, model: str | Path | None = "terms") -> EntityLinker:
        """A linker with the dictionary of a table (see `Dictionary.read`).

        `model` is a `TermEmbedder`'s name or folder, or None to link by name only. The vectors of
        the names are computed when they are first needed, and kept beside the table.
        """
        from biomed.terms.similarity import TermModel

        embedder = None if model is None else TermModel.from_pretrained(model)
        return cls(Dictionary.read(path), embedder)

    def facts(self) -> dict[str, object]:
        """What decides the links, as JSON."""
        model = self.embedder.fingerprint() if self.embedder else None
        return {"dictionary": self.dictionary.digest, "model": model, "min_score": self.min_score}

    def link(self, names: Sequence[str]) -> list[Link | None]:
        """The concept of each name; None where no concept is sure enough."""
        if len(self._known) > _REMEMBERED:
            self._known = {}
        known = self._known  # it only grows, also where another thread starts a new one
        new = [name for name in dict.fromkeys(names) if name not in known]
        links = dict(zip(new, map(self._by_name, new), strict=True))
        left = [name for name in new if links[name] is None and not is_abbreviation(name)]
        if left and self.embedder:
            near = zip(left, self.nearest(left), strict=True)
            links |= {n: link for n, link in near if link and link.score >= self.min_score}
        known |= links
        return [known[name] for name in names]

    def _by_name(self, name: str) -> Link | None:
        if not is_abbreviation(name):
            return self.dictionary.find(name)
        if known := meanings(name):
            return self.dictionary.find(known[0]) if len(known) == 1 else None
        link = self.dictionary.find(name)
        return link if link and link.score == 1 and len(name) >= _SHORTEST else None

    def nearest(self, names: Sequence[str]) -> list[Link | None]:
        """The concept of the name with the nearest vector that does not `differ`, however sure."""
        hits = top_k(self._embedded(names), [self._vectors], k=min(_CANDIDATES, len(self._forms)))
        found: list[Link | None] = []
        for name, rows, cosines in zip(names, hits.rows, hits.scores.tolist(), strict=True):
            near: dict[str, list[float]] = {}
            for row, cosine in zip(rows, cosines, strict=True):
                if not differ(name, self._forms[row]) and (
                    link := self.dictionary.find(self._forms[row])
                ):
                    near.setdefault(link.id, []).append(cosine)
            if not near:
                found.append(None)
                continue
            (best, own), *others = near.items()
            rival = others[0][1][0] if others else _FAR
            second = own[1] if len(own) > 1 else _FAR
            evidence = np.dot(_WEIGHTS, [own[0], own[0] - rival, second, 1.0])
            found.append(self.dictionary.link(best, float(expit(evidence))))
        return found

    @cached_property
    def _forms(self) -> list[str]:
        """One name of each normal form."""
        forms: dict[str, str] = {}
        for name, _ in self.dictionary.pairs:
            forms.setdefault(normalised(name), name)
        return list(forms.values())

    @cached_property
    def _vectors(self) -> np.ndarray:
        """The vectors of the names, from the file beside the dictionary if it is of these names."""
        from domainbert.cli.console import counted

        if self.embedder is None:
            raise AssertionError
        path = self.dictionary.path
        beside = path.with_name(f"{path.name}.vectors.npz") if path else None
        key = f"{self.dictionary.digest} {self.embedder.fingerprint()}"
        if beside and beside.is_file():
            with np.load(beside, allow_pickle=False) as kept:
                if str(kept["key"]) == key:
                    return kept["vectors"].astype(np.float32)
        names = counted(self._forms, what="names of the dictionary", total=len(self._forms))
        vectors = self._embedded(names).astype(np.float16)
        if beside and os.access(beside.parent, os.W_OK):
            with atomic_path(beside) as temporary, temporary.open("wb") as file:
                np.savez(file, key=np.array(key), vectors=vectors)
        return vectors.astype(np.float32)

    def _embedded(self, names: Iterable[str]) -> np.ndarray:
        """Unit vectors, shape (names, dimension); zero for a name that has none."""
        if self.embedder is None:
            raise AssertionError
        parts = [part.vectors for part in self.embedder.embed_many(names)]
        return np.nan_to_num(unit(np.concatenate(parts)))
