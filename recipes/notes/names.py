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
from recipes.relations import medquad_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pandas as pd

DISEASE = "Disease"
CHEMICAL = "Chemical"
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
    (
        "and",
        "or",
        "of",
        "in",
        "for",
        "with",
        "living",
        "preventing",
        "prevention",
        "test",
        "guide",
    )
)


@dataclass(frozen=True)
class Names:
    """Names of each entity type from each source, and abbreviations that are no entity."""

    pools: dict[str, dict[str, tuple[str, ...]]]
    no_entities: tuple[str, ...] = ()

    def draw(self, label: str, random: np.random.Generator) -> str:
        """A name of this type: a source by its weight, then any of its names."""
        pools = {
            source: names
            for source, names in self.pools[label].items()
            if names
        }
        weigh = OPEN_WEIGHTS if self.no_entities else WEIGHTS
        weights = np.array([weigh[source] for source in pools])
        names = list(pools.values())[
            random.choice(len(pools), p=weights / weights.sum())
        ]
        return names[int(random.integers(len(names)))]

    def of_side(self, *, held_out: bool) -> Names:
        """The names that are kept for devel, or the others; see `is_devel`."""
        return Names(
            {
                label: {
                    source: tuple(
                        name for name in names if is_devel(name) == held_out
                    )
                    for source, names in pools.items()
                }
                for label, pools in self.pools.items()
            },
            tuple(
                name for name in self.no_entities if is_devel(name) == held_out
            ),
        )


def is_devel(name: str) -> bool:
    """Whether a name is kept for devel: a tenth of all, by a hash of its letters."""
    return percent(f"note {name.casefold()}") < DEVEL


def brands() -> pd.DataFrame:
    """The shipped brand names that the vocabulary lacks: `brand, generic`."""
    return read_table(DATA / "notes" / "brands.csv")


def read_names(data: Path | None = None) -> Names:
    """The names of the shipped tables and, with `data`, of MedQuAD and ICD-9 (`write_notes`)."""
    terms = medical_terms()
    short = abbreviations()
    sold = brands()
    is_drug = terms["category"] == "medication"
    drugs = terms[is_drug]
    diseases = terms[~is_drug]
    common = short["abbreviation"].str.casefold().isin(COMMON_WORDS)
    of = {
        kind: rows["abbreviation"]
        for kind, rows in short[~common].groupby("label")
    }
    generics = [part for name in sold["generic"] for part in name.split("-")]
    pools: dict[str, dict[str, Iterable[str]]] = {
        DISEASE: {
            "abbreviations": of[DISEASE],
            "vocabulary": [
                *diseases["term"],
                *diseases["synonyms"].explode().dropna(),
            ],
        },
        CHEMICAL: {
            "abbreviations": of[CHEMICAL],
            "vocabulary": [*drugs["term"], *generics],
            "brands": [*sold["brand"], *drugs["synonyms"].explode().dropna()],
        },
    }
    if data is not None:
        medquad_names = list(_medquad(data / "text" / "medquad.jsonl.gz"))
        for label in (DISEASE, CHEMICAL):
            pools[label]["medquad"] = [
                name for kind, name in medquad_names if kind == label
            ]
        titles = data / "readmission" / "icd9_diagnosis_long_titles.txt"
        pools[DISEASE]["icd9"] = _icd9(titles)
    return Names(
        {
            label: {
                source: tuple(dict.fromkeys(names))
                for source, names in sources.items()
            }
            for label, sources in pools.items()
        }
    )


def with_open_names(names: Names, data: Path) -> Names:
    """The names, and those of `names/` in the public data; see `recipes.notes.open_names`."""
    by_type, no_entities = open_names.abbreviations(data)
    seen = open_names.in_real_notes(data)
    drawn = np.random.default_rng(0)
    pools = {}
    for label, sources in names.pools.items():
        candidates = sorted(
            {name for kind, name in open_names.names_of(data) if kind == label}
        )
        count = min(LISTED, len(candidates))
        pools[label] = {
            **sources,
            "inventories": tuple(by_type[label]),
            # A name that is four times as frequent is drawn twice as often.
            "notes": tuple(
                name
                for name, count in seen[label].items()
                for _ in range(round(count**0.5))
            ),
            "lists": tuple(
                drawn.choice(candidates, count, replace=False).tolist()
            ),
        }
    return Names(pools, tuple(no_entities))


def _medquad(path: Path) -> Iterator[tuple[str, str]]:
    """Entity type and name of the documents' subjects and their synonyms."""
    for page in medquad_documents(path):
        names = [
            name
            for name in (page["focus"], *page["synonyms"])
            if _is_name(name)
        ]
        if page["semantic_group"] == "Disorders" and _DISEASES & set(
            page["semantic_types"]
        ):
            yield from ((DISEASE, name) for name in names)
        elif page["category"] == "Drug":
            yield from ((CHEMICAL, name) for name in names if " " not in name)


def _icd9(path: Path) -> list[str]:
    """Short titles of diseases, without those of external causes and factors."""
    names = []
    for row in path.read_text("latin-1").splitlines():
        code, _, title = row.partition(" ")
        if not code[:1].isdigit() or int(code[:3]) >= SYMPTOMS:
            continue
        name = title.strip().removeprefix("Unspecified ")
        name = name.removeprefix("Other ")
        if _is_name(name):
            names.append(name[0].lower() + name[1:])
    return names


def _is_name(name: str) -> bool:
    words = name.casefold().split()
    return (
        bool(_PLAIN.fullmatch(name))
        and not _NO_NAME & set(words)
        and " - " not in name
    )
