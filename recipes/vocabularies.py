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

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from domainbert.models.embedder import Embedder

MESH, MONDO, HPO = "mesh_diseases", "mondo", "hpo"
MEASURED, CHOOSING = 0, 1
LONGEST = 60  # characters of a name that is trained on
NEAREST = 12  # of them the first three of other concepts are the look-alikes
BLOCK = 1024
_WORD = re.compile(r"\w+")


class Entry(NamedTuple):
    """A concept of a vocabulary: its names, the preferred one first, its codes and its parents'."""

    source: str
    names: tuple[str, ...]
    codes: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()


def name_key(name: str) -> str:
    """What spellings of a name share: case, the order of words and a plural s do not count."""
    words = _WORD.findall(name.casefold())
    return " ".join(
        sorted(w[:-1] if len(w) > 3 and w.endswith("s") else w for w in words)
    )


def read_vocabularies(data: Path) -> list[Entry]:
    """The concepts of MeSH diseases, MONDO and HPO; codes are tree numbers, or names of HPO."""
    entries = []
    for source in (MESH, MONDO):
        for row in read_rows(data / "names" / f"{source}.csv.gz"):
            codes = tuple(filter(None, (row.get("tree") or "").split("|")))
            parents = tuple(
                code.rpartition(".")[0] for code in codes if "." in code
            )
            names = _names([row["name"], *row["synonyms"].split("|")])
            entries.append(Entry(source, names, codes, parents))
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
            yield Entry(HPO, _names([*found["name"], *others]), codes, parents)


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
) -> list[tuple[str, str, str]]:
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


def family_rows(
    entries: Iterable[Entry], *, seed: int
) -> list[tuple[str, str, str]]:
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
    rows: Sequence[tuple[str, str, str]],
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
