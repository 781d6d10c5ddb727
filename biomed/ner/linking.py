"""Linking: the name of an entity -> the concept of a dictionary, by name and then by vector."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import expit

from biomed.ner.dictionaries import Dictionary
from biomed.terms.names import is_abbreviation, meanings, normalised
from domainbert.errors import UserError
from domainbert.files import atomic_path
from domainbert.models.pooling import unit
from domainbert.search import top_k

if TYPE_CHECKING:
    from biomed.ner.dictionaries import Link
    from domainbert.models.embedder import Embedder

MIN_SCORE = 0.6  # of a link; docs/lab/entities.md has what other values give
_CANDIDATES = 30  # nearest names that are looked at
# Logistic regression of whether the nearest concept is right, fitted on half of the abstracts of
# BC5CDR's train side: on the cosine of its nearest name, how much nearer that is than another
# concept, and the cosine of its second nearest name; and the intercept.
_WEIGHTS = (3.345, 5.649, 5.132, -6.487)
_FAR = 0.5  # the cosine of what is not among the candidates
_REMEMBERED = 100_000  # names
_SHORTEST = 4  # letters of an abbreviation that is linked as it is
_WORD = re.compile(r"[^\W_]+")
_NOT = re.compile(r"\bnon(?=-| ?[a-z])|\b(?:without|no|not)\b")
_CODE = re.compile(r"\d+[a-z]?|[a-z]{1,4}\d+[a-z]?")
_START = re.compile(r"\b(?:hyper|hypo)")
_DATA = tomllib.loads((Path(__file__).parent / "differences.toml").read_text("utf-8"))
_ONE_EACH = [[False, True], [True, False]]
_ENDING = re.compile(r"\b\w+(?:itis|oma)(?=s?\b)")


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
            raise UserError(
                f"min_score: expected a number from 0 to 1, got {min_score!r}"
            )
        self.dictionary, self.embedder, self.min_score = dictionary, embedder, min_score
        self._known: dict[str, Link | None] = {}

    @classmethod
    def from_table(
        cls, path: str | Path, *, model: str | Path | None = "terms"
    ) -> EntityLinker:
        """A linker with the dictionary of a table (see `Dictionary.read`).

        `model` is a `TermEmbedder`'s name or folder, or None to link by name only. The vectors of
        the names are computed when they are first needed, and kept beside the table.
        """
        from biomed.terms.similarity import TermEmbedder

        embedder = None if model is None else TermEmbedder.from_pretrained(model)
        return cls(Dictionary.read(path), embedder)

    def facts(self) -> dict[str, object]:
        """What decides the links, as JSON."""
        model = self.embedder.fingerprint() if self.embedder else None
        return {
            "dictionary": self.dictionary.digest,
            "model": model,
            "min_score": self.min_score,
        }

    def link(self, names: Sequence[str]) -> list[Link | None]:
        """The concept of each name; None where no concept is sure enough."""
        if len(self._known) > _REMEMBERED:
            self._known = {}
        known = self._known  # it only grows, also where another thread starts a new one
        new = [name for name in dict.fromkeys(names) if name not in known]
        links = dict(zip(new, map(self._by_name, new), strict=True))
        left = [
            name for name in new if links[name] is None and not is_abbreviation(name)
        ]
        if left and self.embedder:
            near = zip(left, self.nearest(left), strict=True)
            links |= {
                n: link for n, link in near if link and link.score >= self.min_score
            }
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
        hits = top_k(
            self._embedded(names), [self._vectors], k=min(_CANDIDATES, len(self._forms))
        )
        found: list[Link | None] = []
        for name, rows, cosines in zip(
            names, hits.rows, hits.scores.tolist(), strict=True
        ):
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
        from domainbert.progress import counted

        path = self.dictionary.path
        beside = path.with_name(f"{path.name}.vectors.npz") if path else None
        key = f"{self.dictionary.digest} {self.facts()['model']}"
        if beside and beside.is_file():
            with np.load(beside, allow_pickle=False) as kept:
                if str(kept["key"]) == key:
                    return kept["vectors"].astype(np.float32)
        names = counted(
            self._forms, what="names of the dictionary", total=len(self._forms)
        )
        vectors = self._embedded(names).astype(np.float16)
        if beside and os.access(beside.parent, os.W_OK):
            with atomic_path(beside) as temporary, temporary.open("wb") as file:
                np.savez(file, key=np.array(key), vectors=vectors)
        return vectors.astype(np.float32)

    def _embedded(self, names: Iterable[str]) -> np.ndarray:
        """Unit vectors, shape (names, dimension); zero for a name that has none."""
        embedder = cast("Embedder", self.embedder)  # nothing is embedded without one
        parts = [part.vectors for part in embedder.embed_many(names)]
        return np.nan_to_num(unit(np.concatenate(parts)))


def differ(name: str, other: str) -> bool:
    """Whether two names differ in number, type, side, negation, inflammation or kind of tumour.

    Numbers, types and "non-" must be the same. The other name may lack a side, but not add one.
    Opposites are apart, and so are words in "-itis" or "-oma" of which none ends with another
    ("adenocarcinoma" ends with "carcinoma").
    """
    name, other = name.casefold(), other.casefold()
    if _types(name) != _types(other) or bool(_NOT.search(name)) != bool(
        _NOT.search(other)
    ):
        return True
    ours, theirs = (
        {*_WORD.findall(each), *_START.findall(each)} for each in (name, other)
    )
    if (theirs - ours).intersection(_DATA["sides"]):
        return True
    for pair in _DATA["opposites"]:
        if (
            sorted([mark in words for mark in pair] for words in (ours, theirs))
            == _ONE_EACH
        ):
            return True
    one, two = _ENDING.findall(name), _ENDING.findall(other)
    return bool(one and two) and not any(
        a.endswith(b) or b.endswith(a) for a in one for b in two
    )


def _types(name: str) -> set[str]:
    """Numbers and the letters of types."""
    found, words = set(), _WORD.findall(name)
    for before, word in zip(["", *words], words, strict=False):
        if _CODE.fullmatch(word):
            found.add(word)
        elif word in _DATA["roman"]:
            found.add(_DATA["roman"][word])
        elif len(word) == 1 and before in _DATA["typed"]:
            found.add(_DATA["letters"].get(word, word))
    return found
