"""Names of concepts in the public vocabularies of `names/`, for training vectors of terms.

Held out are the MeSH diseases whose name has a SHA-256 that leaves 0 (to measure on) or 1 (to
choose the weights by) when divided by 10, and in every vocabulary each entry that shares a name
with one of them.
"""

from __future__ import annotations

import gzip
import random
import re
from collections import defaultdict
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from domainbert.models.pooling import unit
from recipes.notes.sections import read_rows
from recipes.relations import spaced, unnamed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from domainbert.models.embedder import Embedder

MESH, MONDO, HPO = "mesh_diseases", "mondo", "hpo"
MEASURED, CHOOSING = 0, 1
LONGEST = 60  # characters of a name that is trained on
NEAREST = 12  # of them the first three of other concepts are the look-alikes
BLOCK = 1024
LONGEST_DEFINITION = 400
SHORTEST_DEFINITION = 30
SHORTEST_REPLACED = 4  # characters of a name that is replaced in a definition
MOST_DRUG_NAMES, MOST_BRANDS = 2, 4  # of one drug
LONGEST_DRUG = 40
Row = tuple[str, str, str]  # two texts, and the key of what both are about
_WORD = re.compile(r"\w+")
_DEFINITION = re.compile(r'^def: "(.+?)" \[', re.MULTILINE)
_REFERENCE = re.compile(r" ?\([A-Z]+:\d+\)|`")


class Entry(NamedTuple):
    """A concept of a vocabulary.

    Attributes:
        source: the vocabulary.
        names: its names, the preferred one first.
        codes: tree numbers, or names of HPO.
        parents: the codes of its parents.
        definition: a sentence or a few, or "".
    """

    source: str
    names: tuple[str, ...]
    codes: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    definition: str = ""


def name_key(name: str) -> str:
    """What spellings of a name share: case, the order of words and a plural s do not count."""
    words = _WORD.findall(name.casefold())
    return " ".join(
        sorted(w[:-1] if len(w) > 3 and w.endswith("s") else w for w in words)
    )


def read_vocabularies(data: Path) -> list[Entry]:
    """The concepts of MeSH diseases, MONDO and HPO."""
    entries = []
    for source in (MESH, MONDO):
        for row in read_rows(data / "names" / f"{source}.csv.gz"):
            codes = tuple(filter(None, (row.get("tree") or "").split("|")))
            parents = tuple(
                code.rpartition(".")[0] for code in codes if "." in code
            )
            names = _names([row["name"], *row["synonyms"].split("|")])
            definition = row.get("definition") or ""
            entries.append(Entry(source, names, codes, parents, definition))
    entries += _phenotypes(data / "names" / "hp_2013-11-30.obo.gz")
    return [entry for entry in entries if entry.names]


def _phenotypes(path: Path) -> Iterator[Entry]:
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        for term in handle.read().split("\n[Term]\n")[1:]:
            found = {
                field: re.findall(
                    rf"^{field}: (.+)$", term, flags=re.MULTILINE
                )
                for field in ("name", "synonym", "is_a")
            }
            others = [
                text.split('"')[1].rstrip(".")
                for text in found["synonym"]
                if "EXACT" in text
            ]
            parents = tuple(
                f"HPO {text.partition('! ')[2]}" for text in found["is_a"]
            )
            codes = tuple(f"HPO {name}" for name in found["name"])
            names = _names([*found["name"], *others])
            definition = _DEFINITION.search(term)
            text = definition[1] if definition else ""
            text = _REFERENCE.sub("", text)
            yield Entry(HPO, names, codes, parents, text)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    """Different names; of several spellings of one the first."""
    return tuple(
        {
            name_key(name): name for name in [*names][::-1] if len(name) > 2
        }.values()
    )[::-1]


def held_out(entries: Iterable[Entry], side: int) -> list[Entry]:
    """The MeSH diseases of a held-out side, `MEASURED` or `CHOOSING`."""
    return [
        entry
        for entry in entries
        if entry.source == MESH and _side(entry.names[0]) == side
    ]


def _side(name: str) -> int:
    return int(sha256(name.encode()).hexdigest(), 16) % 10


def without(entries: Iterable[Entry], keys: Collection[str]) -> list[Entry]:
    """The entries none of whose names has one of these `name_key`s."""
    return [
        entry
        for entry in entries
        if not any(name_key(name) in keys for name in entry.names)
    ]


def concept_keys(entries: Sequence[Entry]) -> list[str]:
    """A key for each entry; entries that share a name have the same one."""
    leaders = list(range(len(entries)))

    def leader(number: int) -> int:
        while leaders[number] != number:
            leaders[number] = number = leaders[leaders[number]]
        return number

    first: dict[str, int] = {}
    for number, entry in enumerate(entries):
        for name in entry.names:
            leaders[leader(number)] = leader(
                first.setdefault(name_key(name), number)
            )
    return [f"concept {leader(number)}" for number in range(len(entries))]


def synonym_rows(
    entries: Sequence[Entry], *, most: dict[str, int], seed: int
) -> list[Row]:
    """A synonym, the preferred name and the key; `most` synonyms of an entry, by its source."""
    chooser, rows = random.Random(seed), []  # noqa: S311  (no secret)
    for entry, key in zip(entries, concept_keys(entries), strict=True):
        first, *others = (
            name
            for name in entry.names
            if len(name) <= LONGEST or name == entry.names[0]
        )
        chosen = chooser.sample(others, min(len(others), most[entry.source]))
        rows += [
            (name, first, key) for name in chosen if len(first) <= LONGEST
        ]
    chooser.shuffle(rows)
    return rows


def definition_rows(entries: Sequence[Entry], *, seed: int) -> list[Row]:
    """The preferred name and another name of each entry with its definition, and the key.

    Its names in the definition are replaced by "it". The idea is that of BioLORD (arXiv
    2210.11892).
    """
    chooser, rows = random.Random(seed), []  # noqa: S311  (no secret)
    for entry, key in zip(entries, concept_keys(entries), strict=True):
        replaced = [n for n in entry.names if len(n) >= SHORTEST_REPLACED]
        text = unnamed(spaced(entry.definition), replaced)
        text = text[:LONGEST_DEFINITION]
        if len(text) <= SHORTEST_DEFINITION:
            continue
        names = {entry.names[0], chooser.choice(entry.names)}
        rows += [
            (name, text, key) for name in sorted(names) if len(name) <= LONGEST
        ]
    return rows


def drug_rows(data: Path, *, seed: int) -> list[Row]:
    """Other names of a drug in DrugBank, and its US brands in RxNorm, with its name; the name."""
    chooser, rows = random.Random(seed), []  # noqa: S311  (no secret)
    sources = (
        ("drugbank", "name", "synonyms", MOST_DRUG_NAMES),
        ("rxnorm_brands", "ingredient", "brands", MOST_BRANDS),
    )
    for source, name, others, most in sources:
        for row in read_rows(data / "names" / f"{source}.csv.gz"):
            drug = row[name]
            listed = [
                other
                for other in (row[others] or "").split("|")
                if SHORTEST_REPLACED <= len(other) < LONGEST_DRUG
                and other.casefold() != drug.casefold()
            ]
            if len(drug) < LONGEST_DRUG:
                chosen = chooser.sample(listed, min(len(listed), most))
                rows += [(other, drug, drug.casefold()) for other in chosen]
    return rows


def family_rows(entries: Iterable[Entry], *, seed: int) -> list[Row]:
    """Preferred names of a concept and its parent, and of two children of one parent; its code."""
    own: dict[str, str] = {}
    children: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        own |= dict.fromkeys(entry.codes, entry.names[0])
        for parent in entry.parents:
            children[parent].append(entry.names[0])
    chooser, rows = random.Random(seed), []  # noqa: S311  (no secret)
    for code, names in children.items():
        chooser.shuffle(names)
        rows += [(name, own[code], code) for name in names if code in own]
        rows += [(a, b, code) for a, b in pairwise(names)]
    return [(a, b, code) for a, b, code in rows if a != b]


def look_alikes(
    rows: Sequence[Row],
    entries: Sequence[Entry],
    embedder: Embedder,
    *,
    seed: int,
) -> list[str]:
    """For each row a preferred name of another concept that is near its first text.

    It is drawn from the three nearest ones, by the cosine of the vectors of `embedder`.
    """
    listed = [entry.names[0] for entry in entries]
    keys = np.array(concept_keys(entries))
    vectors = unit(embedder.embed(listed)).T
    chooser, found = random.Random(seed), []  # noqa: S311  (no secret)
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        cosines = unit(embedder.embed([first for first, *_ in part])) @ vectors
        nearest = np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST]
        for (*_, key), places, row in zip(part, nearest, cosines, strict=True):
            others = [
                place
                for place in places[np.argsort(-row[places])]
                if keys[place] != key
            ]
            found.append(
                listed[
                    chooser.choice(others[:3] or np.flatnonzero(keys != key))
                ]
            )
    return found
