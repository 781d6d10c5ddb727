"""Dictionaries for linking: names and ids of concepts, such as those of MONDO, DrugBank and RxNorm.

A dictionary is a table of names: `name`, `id`, and `codes`, the concept's codes in other systems.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from biomed.terms.names import NameTable, split_names
from domainbert.errors import UserError
from domainbert.tables import read_table, require_cells
from domainbert.training.objective import fingerprint

NORMALISED = 0.95  # the score of a name that differs in form only
# Systems of codes, as tables of mappings spell them, and their names in dictionaries.
SYSTEMS = {
    "MESH": "MESH",
    "UMLS": "UMLS",
    "SCTID": "SNOMED",
    "ICD10CM": "ICD10CM",
    "OMIM": "OMIM",
}
_RXNORM = {
    "rxcui": "id",
    "ingredient": "name",
    "brands": "synonyms",
}


@dataclass(frozen=True)
class Link:
    """The concept of a name.

    Attributes:
        id: the id of the concept.
        name: its preferred name, the first that the dictionary gives it.
        score: how sure the link is, in (0, 1]: 1 for a name of the dictionary (case ignored), 0.95
            for one that differs in form only (see `biomed.terms.names.normalised`), both divided by
            the number of concepts that have the name; otherwise the probability that the concept
            with the nearest vectors is right.
        codes: the codes of the concept in other systems, such as "MESH:D006333".
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
        codes: Mapping[str, Sequence[str]] | None = None,
        path: Path | None = None,
    ) -> None:
        self.pairs = list(dict.fromkeys(pairs))
        self.codes = codes or {}
        self.path = path
        if not self.pairs:
            raise UserError(
                "the dictionary is empty; expected at least one name and id"
            )
        self.preferred = {id_: name for name, id_ in reversed(self.pairs)}
        self._names = NameTable(self.pairs)
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
        pairs = zip(table["name"].str.strip(), table["id"], strict=True)
        listed = table.reindex(columns=["id", "codes"]).dropna()
        codes = {
            id_: cell.split("|")
            for id_, cell in listed.itertuples(index=False)
        }
        return cls(pairs, codes=codes, path=path)

    @cached_property
    def digest(self) -> str:
        """A hash of all names and ids."""
        return fingerprint(self.pairs)

    def link(self, id_: str, score: float) -> Link:
        """A link to a concept."""
        codes = self.codes.get(id_, ())
        return Link(id_, self.preferred[id_], score, tuple(codes))

    def find(self, name: str) -> Link | None:
        """The concept with this name, or with one that differs in form only.

        If there are several, the one whose preferred name it is, else the one with the most names.
        """
        ids, is_exact = self._names.find(name)
        if not ids:
            return None
        key = " ".join(name.split()).casefold()

        def rank(id_: str) -> tuple[bool, int]:
            return self.preferred[id_].casefold() == key, self._sizes[id_]

        score = 1.0 if is_exact else NORMALISED
        return self.link(max(ids, key=rank), score / len(ids))


def build_dictionary(
    tables: Sequence[Path],
    *,
    mappings: Path | None = None,
    system: str | None = None,
) -> pd.DataFrame:
    """The names of the concepts of several tables.

    Args:
        tables: each with `id`, `name` and perhaps `synonyms` (separated by "|"), or RxNorm's
            columns (`rxcui, ingredient, brands`). An id without a prefix gets the file's name
            ("drugbank:DB01050").
        mappings: a table of ids and codes, in two columns, such as "MONDO:0005252, mesh:D006333".
        system: one of `SYSTEMS`: keep the concepts that have a code in it, which is then their id.

    Returns:
        `name`, `id` and `codes` (separated by "|"); the first name of an id is its preferred one.

    Raises:
        UserError: no concept, or none with a code in the system.
    """
    codes = _read_codes(mappings)
    prefix = f"{system}:" if system else ""
    pairs = []  # name and id
    codes_of: dict[str, dict[str, None]] = defaultdict(dict)
    for path in tables:
        table = read_table(path).rename(columns=_RXNORM)
        require_cells(table, ["id", "name"], source=path.name)
        columns = table.reindex(columns=["id", "name", "synonyms"])
        for concept, name, synonyms in columns.itertuples(index=False):
            if ":" not in concept:
                concept = f"{path.name.split('.')[0]}:{concept}"
            concept_codes = [concept, *codes[concept]]
            id_ = next(
                (c for c in concept_codes if c.startswith(prefix)), None
            )
            if id_:
                codes_of[id_] |= dict.fromkeys(concept_codes)
                pairs += [
                    (form, id_) for form in (name, *split_names(synonyms))
                ]
    if not pairs:
        raise UserError(
            f"no concept with a code in {system or 'these tables'}; name its codes with "
            "`mappings='FILE'`"
        )
    frame = pd.DataFrame(pairs, columns=["name", "id"]).drop_duplicates()
    cells = {
        id_: "|".join(filter(id_.__ne__, id_codes))
        for id_, id_codes in codes_of.items()
    }
    return frame.assign(codes=frame["id"].map(cells)).reset_index(drop=True)


def _read_codes(path: Path | None) -> dict[str, list[str]]:
    """The codes of each concept in the systems of `SYSTEMS`."""
    codes: dict[str, list[str]] = defaultdict(list)
    if path is None:
        return codes
    for concept, code in read_table(path).iloc[:, :2].itertuples(index=False):
        system, _, number = code.partition(":")
        if system.upper() in SYSTEMS:
            codes[concept].append(f"{SYSTEMS[system.upper()]}:{number}")
    return codes
