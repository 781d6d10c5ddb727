"""Names of diseases and drugs for generated notes: shipped tables, and MedQuAD and ICD-9 titles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from biomed.terms.names import (
    COMMON_WORDS,
    DATA,
    abbreviations,
    medical_terms,
    percent,
)
from domainbert.tables import read_table
from recipes.notes import open_names
from recipes.notes.open_names import CHEMICAL, DISEASE
from recipes.public_data import icd9_titles, medquad_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

# With the open lists, see `open_names`: names that real notes have count most.
OPEN_WEIGHTS = {
    "abbreviations": 0.35,
    "inventories": 0.25,
    "vocabulary": 0.3,
    "notes": 0.45,
    "brands": 0.25,
    "lists": 0.1,
    "medquad": 0.1,
    "icd9": 0.04,
}
LISTED = 4000  # names of each type that are drawn from the lists
DEVEL = 10  # percent of the names
SYMPTOMS = 780  # the first ICD-9 category of symptoms, which injuries follow
# Weight of each source of names.
WEIGHTS = {
    "abbreviations": 0.35,
    "vocabulary": 0.4,
    "brands": 0.35,
    "medquad": 0.17,
    "icd9": 0.06,
}
# UMLS semantic types of diseases, injuries and neoplasms, as opposed to findings.
_DISEASES = frozenset(
    ("T019", "T020", "T037", "T046", "T047", "T048", "T190", "T191")
)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9'-]*(?: [A-Za-z0-9'-]+){0,4}")
_NO_NAME = frozenset(
    "and or of in for with living preventing prevention test guide".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Names:
    """Names of each entity type from each source, and abbreviations that are no entity."""

    pools: dict[str, dict[str, tuple[str, ...]]]
    no_entities: tuple[str, ...] = ()

    def draw(self, label: str, random: np.random.Generator) -> str:
        """A name of this type: a source by its weight, then any of its names."""
        sources = [
            source for source, names in self.pools[label].items() if names
        ]
        weight_of = OPEN_WEIGHTS if self.no_entities else WEIGHTS
        weights = np.array([weight_of[source] for source in sources])
        shares = weights / weights.sum()
        source = sources[random.choice(len(sources), p=shares)]
        names = self.pools[label][source]
        return names[int(random.integers(len(names)))]

    def of_side(self, *, held_out: bool) -> Names:
        """The names that are kept for devel, or the others; see `is_devel`."""
        pools: dict[str, dict[str, tuple[str, ...]]] = {}
        for label, sources in self.pools.items():
            pools[label] = {
                source: _of_side(names, held_out=held_out)
                for source, names in sources.items()
            }
        no_entities = _of_side(self.no_entities, held_out=held_out)
        return Names(pools, no_entities)


def _of_side(names: Sequence[str], *, held_out: bool) -> tuple[str, ...]:
    return tuple(name for name in names if is_devel(name) == held_out)


def is_devel(name: str) -> bool:
    """Whether a name is kept for devel: a tenth of all, by a hash of its letters."""
    return percent(f"note {name.casefold()}") < DEVEL


def brands() -> pd.DataFrame:
    """The shipped brand names that the vocabulary lacks: `brand, generic`."""
    return read_table(DATA / "notes" / "brands.csv")


def read_names(data: Path | None = None) -> Names:
    """The names of the shipped tables and, with `data`, of MedQuAD and ICD-9 (`write_notes`)."""
    pools = _shipped_names()
    if data is not None:
        for label, name in _medquad(data / "text" / "medquad.jsonl.gz"):
            pools[label].setdefault("medquad", []).append(name)
        titles = data / "readmission" / "icd9_diagnosis_long_titles.txt"
        pools[DISEASE]["icd9"] = _icd9(titles)
    return _distinct(pools)


def _distinct(pools: Mapping[str, Mapping[str, Iterable[str]]]) -> Names:
    """Each name once in its source."""
    distinct_pools = {}
    for label, sources in pools.items():
        distinct_pools[label] = {
            source: tuple(dict.fromkeys(names))
            for source, names in sources.items()
        }
    return Names(distinct_pools)


def _shipped_names() -> dict[str, dict[str, list[str]]]:
    """The names of the shipped tables, by entity type and source."""
    terms = medical_terms()
    is_drug = terms["category"] == "medication"
    drugs = terms[is_drug]
    diseases = terms[~is_drug]
    sold = brands()
    generics = [part for name in sold["generic"] for part in name.split("-")]
    short = abbreviations()
    is_word = short["abbreviation"].str.casefold().isin(COMMON_WORDS)
    abbreviations_of = {
        label: list(rows["abbreviation"])
        for label, rows in short[~is_word].groupby("label")
    }
    return {
        DISEASE: {
            "abbreviations": abbreviations_of[DISEASE],
            "vocabulary": [*diseases["term"], *_synonyms(diseases)],
        },
        CHEMICAL: {
            "abbreviations": abbreviations_of[CHEMICAL],
            "vocabulary": [*drugs["term"], *generics],
            "brands": [*sold["brand"], *_synonyms(drugs)],
        },
    }


def _synonyms(terms: pd.DataFrame) -> pd.Series:
    return terms["synonyms"].explode().dropna()


def with_open_names(names: Names, data: Path) -> Names:
    """The names, and those of `names/` in the public data; see `recipes.notes.open_names`."""
    by_type, no_entities = open_names.abbreviations(data)
    counts = open_names.in_real_notes(data)
    chooser = np.random.default_rng(0)
    pools = {}
    for label, sources in names.pools.items():
        candidates = sorted(
            {
                name
                for name_label, name in open_names.names_of(data)
                if name_label == label
            }
        )
        n_drawn = min(LISTED, len(candidates))
        drawn = chooser.choice(candidates, n_drawn, replace=False)
        # A name that is four times as frequent is drawn twice as often.
        repeated = [
            name
            for name, count in counts[label].items()
            for _ in range(round(count**0.5))
        ]
        pools[label] = {
            **sources,
            "inventories": tuple(by_type[label]),
            "notes": tuple(repeated),
            "lists": tuple(drawn.tolist()),
        }
    return Names(pools, tuple(no_entities))


def _medquad(path: Path) -> Iterator[tuple[str, str]]:
    """Entity type and name of the documents' subjects and their synonyms."""
    for page in medquad_documents(path):
        names = filter(_is_name, (page["focus"], *page["synonyms"]))
        is_disorder = page["semantic_group"] == "Disorders"
        if is_disorder and not _DISEASES.isdisjoint(page["semantic_types"]):
            yield from ((DISEASE, name) for name in names)
        elif page["category"] == "Drug":
            yield from ((CHEMICAL, name) for name in names if " " not in name)


def _icd9(path: Path) -> list[str]:
    """Short titles of diseases, without those of symptoms and injuries."""
    names = []
    for code, title in icd9_titles(path):
        if int(code[:3]) >= SYMPTOMS:
            continue
        name = title.removeprefix("Unspecified ").removeprefix("Other ")
        if _is_name(name):
            names.append(name[0].lower() + name[1:])
    return names


def _is_name(name: str) -> bool:
    words = name.casefold().split()
    return (
        bool(_PLAIN.fullmatch(name))
        and _NO_NAME.isdisjoint(words)
        and " - " not in name
    )
