"""Dictionaries from MedQuAD, ICD-9-CM and the shipped vocabulary, and how well one links."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from biomed.ner.linking import Dictionary, EntityLinker
from domainbert.errors import UserError
from domainbert.tables import TableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from domainbert.embedding import Embedder

Pairs = list[tuple[str, str]]


def medquad_names(path: Path) -> Pairs:
    """The names of MedQuAD's topics (.jsonl.gz) and their UMLS concept numbers, as "UMLS:C…".

    Topics with several numbers are narrower than each of them, and are left out. The preferred
    name of a concept is the most frequent one.
    """
    from biomed.terms.relations import medquad_documents

    names: dict[str, Counter[str]] = defaultdict(Counter)
    for document in medquad_documents(path):
        if len(document["cuis"]) == 1:
            known = names[f"UMLS:{document['cuis'][0]}"]
            known[document["focus"].strip()] += 2
            known.update({name.strip() for name in document["synonyms"]} - {""})
    return [(name, id_) for id_, known in names.items() for name, _ in known.most_common()]


def icd9_names(path: Path) -> Pairs:
    """The titles of ICD-9-CM codes, of the file of long titles of CMS, as "ICD9:" and the code."""
    pairs = []
    for number, line in enumerate(path.read_text("latin-1").splitlines(), start=1):
        code, _, title = line.partition(" ")
        if line.strip() and not (code.isalnum() and title.strip()):
            msg = f"{path.name}, line {number}: expected a code and its title"
            raise TableError(msg)
        if line.strip():
            dotted = code if len(code) < 4 else f"{code[:3]}.{code[3:]}"
            pairs.append((title.strip(), f"ICD9:{dotted}"))
    return pairs


def vocabulary_names() -> Pairs:
    """The shipped vocabulary with its synonyms; the id of a concept is its term."""
    from biomed.terms.vocabulary import medical_terms

    rows = list(medical_terms().itertuples())
    terms = [(row.term, f"TERM:{row.term}") for row in rows]
    return terms + [(name, f"TERM:{row.term}") for row in rows for name in row.synonyms]


@dataclass(frozen=True)
class LinkScore:
    """How many held-out names were linked in one way, and how many of these rightly."""

    way: str
    names: int
    linked: int
    correct: int

    @property
    def accuracy(self) -> float:
        """Right links over all names."""
        return self.correct / max(self.names, 1)

    @property
    def precision(self) -> float:
        """Right links over all links."""
        return self.correct / max(self.linked, 1)


def hold_out(dictionary: Dictionary, *, most: int = 2000) -> tuple[Dictionary, Pairs]:
    """A dictionary without one name of each concept, and these names; chosen by a hash.

    Only concepts with two names or more lose one, and never the preferred one. At most `most`.
    Of UMLS concepts only those that the shipped `terms` model was not trained on.
    """
    pool: dict[str, list[str]] = defaultdict(list)
    for name, id_ in dictionary.pairs:
        if name != dictionary.preferred[id_] and not _was_trained(id_):
            pool[id_].append(name)
    held = [(min(names, key=_hash), id_) for id_, names in pool.items()]
    held = sorted(held, key=lambda pair: _hash(pair[0]))[:most]
    if not held:
        raise UserError("no concept of this dictionary has two names; there is nothing to hold out")
    left = set(held)
    return Dictionary(pair for pair in dictionary.pairs if pair not in left), held


def _was_trained(id_: str) -> bool:
    """Whether `terms` may have seen the concept's names: MedQuAD's, but for its validation part."""
    from biomed.terms.relations import Concept

    prefix, _, key = id_.partition(":")
    return prefix == "UMLS" and not Concept(key, (), ()).is_validation


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()


def score_links(
    dictionary: Dictionary, held: Iterable[tuple[str, str]], *, embedder: Embedder | None = None
) -> list[LinkScore]:
    """Accuracy on held-out names (see `hold_out`): by name, by vectors alone, and by both.

    By vectors each name is linked whatever its cosine; both together are counted at the linker's
    least similarity and at others.
    """
    held = list(held)
    by_name = EntityLinker(dictionary).link([name for name, _ in held])
    scores = [_counted("names", held, [link.id if link else None for link in by_name])]
    if embedder is None:
        return scores
    linker = EntityLinker(dictionary, embedder, min_similarity=0)
    nearest = linker.nearest([name for name, _ in held])
    scores.append(_counted("vectors", held, [link.id for link in nearest]))
    both = linker.link([name for name, _ in held])
    for least in (0.0, 0.6, 0.7, 0.75, 0.8, 0.9):
        ids = [link.id if link and link.score >= least else None for link in both]
        scores.append(_counted(f"both, score ≥ {least}", held, ids))
    return scores


def _counted(way: str, held: Pairs, ids: list[str | None]) -> LinkScore:
    correct = sum(found == right for found, (_, right) in zip(ids, held, strict=True))
    return LinkScore(way, len(held), sum(found is not None for found in ids), correct)
