"""Names of concepts in the public vocabularies of `names/`, for training vectors of terms.

A fifth of the MeSH diseases is held out, by a hash of their names: one tenth is measured on, the
other chooses the weights. So is each entry of any vocabulary that shares a name with one of them.
"""

from __future__ import annotations

import gzip
import random
import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from domainbert.models.pooling import unit
from recipes.public_data import read_rows, side_number
from recipes.relations import spaced, unnamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from domainbert.models.embedder import Embedder

MESH = "mesh_diseases"
MONDO = "mondo"
HPO = "hpo"
# The sides that are held out, see `held_out`.
MEASURED = 0
CHOOSING = 1
LONGEST = 60  # characters of a name that is trained on
NEAREST = 12  # names among which look-alikes are sought
LOOK_ALIKES = 3  # nearest names of other concepts, of which one is drawn
BLOCK = 1024
LONGEST_DEFINITION = 400
SHORTEST_DEFINITION = 30
SHORTEST_REPLACED = 4  # characters of a name that is replaced in a definition
MOST_DRUG_NAMES = 2  # of one drug
MOST_BRANDS = 4
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
    return " ".join(sorted(map(_singular, words)))


def _singular(word: str) -> str:
    if len(word) > 3:
        return word.removesuffix("s")
    return word


def read_vocabularies(data: Path) -> list[Entry]:
    """The concepts of MeSH diseases, MONDO and HPO."""
    entries = []
    for source in (MESH, MONDO):
        for row in read_rows(data / "names" / f"{source}.csv.gz"):
            tree = row.get("tree") or ""
            codes = tuple(filter(None, tree.split("|")))
            parents = tuple(
                code.rpartition(".")[0] for code in codes if "." in code
            )
            names = _names([row["name"], *row["synonyms"].split("|")])
            definition = row.get("definition") or ""
            entries.append(Entry(source, names, codes, parents, definition))
    entries += _phenotypes(data / "names" / "hp_2013-11-30.obo.gz")
    return [entry for entry in entries if entry.names]


def _phenotypes(path: Path) -> Iterator[Entry]:
    """The terms of HPO, whose codes are their names."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        _, *terms = file.read().split("\n[Term]\n")
    for term in terms:
        fields: dict[str, list[str]] = defaultdict(list)
        for line in term.split("\n"):
            field, _, content = line.partition(": ")
            fields[field].append(content)
        synonyms = [
            content.split('"')[1].rstrip(".")
            for content in fields["synonym"]
            if "EXACT" in content
        ]
        parent_names = [
            content.partition("! ")[2] for content in fields["is_a"]
        ]
        definition = ""
        match = _DEFINITION.search(term)
        if match:
            definition = _REFERENCE.sub("", match[1])
        yield Entry(
            HPO,
            _names([*fields["name"], *synonyms]),
            tuple(f"HPO {name}" for name in fields["name"]),
            tuple(f"HPO {name}" for name in parent_names),
            definition,
        )


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """Different names; of several spellings of one the first."""
    by_key = {
        name_key(name): name for name in reversed(names) if len(name) > 2
    }
    return tuple(reversed(by_key.values()))


def held_out(entries: Iterable[Entry], side: int) -> list[Entry]:
    """The MeSH diseases of a held-out side, `MEASURED` or `CHOOSING`."""
    return [
        entry
        for entry in entries
        if entry.source == MESH and side_number(entry.names[0], 10) == side
    ]


def without(entries: Iterable[Entry], keys: AbstractSet[str]) -> list[Entry]:
    """The entries none of whose names has one of these `name_key`s."""
    return [
        entry
        for entry in entries
        if keys.isdisjoint(map(name_key, entry.names))
    ]


def concept_keys(entries: Sequence[Entry]) -> list[str]:
    """A key for each entry; entries that share a name have the same one."""
    leaders = list(range(len(entries)))  # a forest, as in union-find

    def leader_of(number: int) -> int:
        while leaders[number] != number:
            leaders[number] = leaders[leaders[number]]
            number = leaders[number]
        return number

    first_with: dict[str, int] = {}
    for number, entry in enumerate(entries):
        for name in entry.names:
            first = first_with.setdefault(name_key(name), number)
            leaders[leader_of(number)] = leader_of(first)
    return [f"concept {leader_of(number)}" for number in range(len(entries))]


def synonym_rows(
    entries: Sequence[Entry], *, most: dict[str, int], seed: int
) -> list[Row]:
    """A synonym, the preferred name and the key, in random order.

    Args:
        entries: the concepts.
        most: how many synonyms of an entry at most, by its source.
        seed: of the choice and the order.
    """
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    rows: list[Row] = []
    for entry, key in zip(entries, concept_keys(entries), strict=True):
        preferred, *synonyms = entry.names
        short_synonyms = [name for name in synonyms if len(name) <= LONGEST]
        drawn = _sample(chooser, short_synonyms, most[entry.source])
        if len(preferred) <= LONGEST:
            rows += [(name, preferred, key) for name in drawn]
    chooser.shuffle(rows)
    return rows


def _sample(
    chooser: random.Random, names: Sequence[str], most: int
) -> list[str]:
    """At most so many of the names, drawn at random."""
    return chooser.sample(names, min(len(names), most))


def definition_rows(entries: Sequence[Entry], *, seed: int) -> list[Row]:
    """The preferred name and another name of each entry with its definition, and the key.

    Its names in the definition are replaced by "it". The idea is that of BioLORD (arXiv
    2210.11892).
    """
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    rows: list[Row] = []
    for entry, key in zip(entries, concept_keys(entries), strict=True):
        replaced_names = [
            name for name in entry.names if len(name) >= SHORTEST_REPLACED
        ]
        text = unnamed(spaced(entry.definition), replaced_names)
        text = text[:LONGEST_DEFINITION]
        if len(text) <= SHORTEST_DEFINITION:
            continue
        names = {entry.names[0], chooser.choice(entry.names)}
        rows += [
            (name, text, key) for name in sorted(names) if len(name) <= LONGEST
        ]
    return rows


def drug_rows(data: Path, *, seed: int) -> list[Row]:
    """Another name of a drug (DrugBank) or its US brand (RxNorm), the drug's name, and a key."""
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    rows: list[Row] = []
    sources = (
        ("drugbank", "name", "synonyms", MOST_DRUG_NAMES),
        ("rxnorm_brands", "ingredient", "brands", MOST_BRANDS),
    )
    for source, name_column, names_column, limit in sources:
        for row in read_rows(data / "names" / f"{source}.csv.gz"):
            drug = row[name_column]
            key = drug.casefold()
            if len(drug) >= LONGEST_DRUG:
                continue
            names = [
                name
                for name in (row[names_column] or "").split("|")
                if SHORTEST_REPLACED <= len(name) < LONGEST_DRUG
                and name.casefold() != key
            ]
            drawn = _sample(chooser, names, limit)
            rows += [(name, drug, key) for name in drawn]
    return rows


def family_rows(entries: Iterable[Entry], *, seed: int) -> list[Row]:
    """Preferred names of a concept and its parent, or of two children of one parent.

    The key of a row is the code of the parent.
    """
    preferred: dict[str, str] = {}
    children: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        preferred |= dict.fromkeys(entry.codes, entry.names[0])
        for parent in entry.parents:
            children[parent].append(entry.names[0])
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    rows: list[Row] = []
    for code, names in children.items():
        chooser.shuffle(names)
        if code in preferred:
            rows += [(name, preferred[code], code) for name in names]
        rows += [(first, second, code) for first, second in pairwise(names)]
    return [row for row in rows if row[0] != row[1]]


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
    names = [entry.names[0] for entry in entries]
    keys = np.array(concept_keys(entries))
    vectors = unit(embedder.embed(names))
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    drawn = []
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        texts = [first for first, *_ in block]
        cosines = unit(embedder.embed(texts)) @ vectors.T
        nearest = np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST]
        for row, (*_, key) in enumerate(block):
            order = np.argsort(-cosines[row, nearest[row]])
            candidates = nearest[row, order]
            is_other = keys[candidates] != key
            look_alike_numbers = candidates[is_other][:LOOK_ALIKES]
            if not len(look_alike_numbers):
                look_alike_numbers = np.flatnonzero(keys != key)
            drawn.append(names[chooser.choice(look_alike_numbers)])
    return drawn
